"""The errors of the registry.

StoreError
└── RegistryError                the database cannot be reached, or refused a statement
    ├── RegistryMigrationError   a migration failed; the old schema is still there
    └── RegistryFormatError      the schema is newer than this program, or older than its first migration
"""

from __future__ import annotations

from ..errors import StoreError


class RegistryError(StoreError):
    """The registry's database cannot be reached, or refused a statement."""

    code = "registry"


class RegistryMigrationError(RegistryError):
    """A migration of the registry's schema failed and was rolled back; the schema is unchanged."""

    code = "registry-migration"


class RegistryFormatError(RegistryError):
    """The registry's schema has an unknown revision, written by a newer or a much older program."""

    code = "registry-format"
