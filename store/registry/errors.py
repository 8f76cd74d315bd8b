"""The errors of the registry.

StoreError
└── RegistryError                the database cannot be reached, or refused a statement
    ├── RegistryMigrationError   a migration failed; the old schema is still there
    └── RegistryFormatError      the schema is newer than this program, or older than its first migration
"""

from __future__ import annotations

from ..errors import StoreError


class RegistryError(StoreError):
    """The registry's database cannot be reached or refused what was asked."""

    code = "registry"


class RegistryMigrationError(RegistryError):
    """A migration failed and was rolled back: the schema is the one of before."""

    code = "registry-migration"


class RegistryFormatError(RegistryError):
    """The schema has a revision that this program does not know: a newer program wrote it, or an old one."""

    code = "registry-format"
