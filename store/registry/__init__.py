"""The registry: what the server must remember besides quads, in SQLite or PostgreSQL through SQLAlchemy."""

from .errors import RegistryError, RegistryFormatError, RegistryMigrationError
from .records import (
    ConnectorRecord,
    ConnectorRole,
    JobRecord,
    QueryRecord,
    QueryState,
    StoredQueryRecord,
    StreamRecord,
    TokenRecord,
)
from .registry import Registry
from .session import REGISTRY, default_url

__all__ = [
    "REGISTRY",
    "ConnectorRecord",
    "ConnectorRole",
    "JobRecord",
    "QueryRecord",
    "QueryState",
    "Registry",
    "RegistryError",
    "RegistryFormatError",
    "RegistryMigrationError",
    "StoredQueryRecord",
    "StreamRecord",
    "TokenRecord",
    "default_url",
]
