"""The registry: the SQL database of queries, streams, connectors, tokens, prefixes and jobs."""

from .errors import RegistryError, RegistryFormatError, RegistryMigrationError
from .records import (
    ConnectorRecord,
    ConnectorRole,
    JobRecord,
    PrefixRecord,
    QueryRecord,
    QueryState,
    ReflectedOwnerRecord,
    RuleSetRecord,
    RuleSetState,
    ShapesRecord,
    ShapesState,
    StoredQueryRecord,
    StreamRecord,
    TokenRecord,
)
from .registry import Registry
from .session import REGISTRY, default_url
from .tables import TokenRecords

__all__ = [
    "REGISTRY",
    "ConnectorRecord",
    "ConnectorRole",
    "JobRecord",
    "PrefixRecord",
    "QueryRecord",
    "QueryState",
    "ReflectedOwnerRecord",
    "Registry",
    "RegistryError",
    "RegistryFormatError",
    "RegistryMigrationError",
    "RuleSetRecord",
    "RuleSetState",
    "ShapesRecord",
    "ShapesState",
    "StoredQueryRecord",
    "StreamRecord",
    "TokenRecord",
    "TokenRecords",
    "default_url",
]
