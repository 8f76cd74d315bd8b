"""The registry object: opens the registry's database and gives access to its tables."""

from __future__ import annotations

from typing import Self

from .integrity import require_intact, require_rows
from .migrate import current_revision, migrate
from .session import Database
from .tables import (
    ConnectorRecords,
    JobRecords,
    PrefixRecords,
    QueryRecords,
    ReflectedOwnerRecords,
    RuleSetRecords,
    ShapesRecords,
    StoredQueryRecords,
    StreamRecords,
    TokenRecords,
)


class Registry:
    """The registry's tables in one database, one for each kind of record."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = QueryRecords(database)
        self.streams = StreamRecords(database)
        self.connectors = ConnectorRecords(database)
        self.stored_queries = StoredQueryRecords(database)
        self.prefixes = PrefixRecords(database)
        self.tokens = TokenRecords(database)
        self.jobs = JobRecords(database)
        self.rule_sets = RuleSetRecords(database)
        self.shapes = ShapesRecords(database)
        self.reflected_owners = ReflectedOwnerRecords(database)

    @classmethod
    def open(cls, url: str = "sqlite://") -> Self:
        """Connect to the registry's database, check it, and migrate its schema to the newest revision.

        Args:
            url: ``sqlite:///<file>``, ``sqlite://`` (in memory) or ``postgresql://user:password@host/database``.

        Raises:
            RegistryError: the URL is wrong or the database cannot be reached.
            RegistryMigrationError: a migration failed; the registry's schema is unchanged.
            RegistryFormatError: a newer or much older program wrote the registry's schema.
            StoreFormatError: the SQLite file is damaged, or lacks durable changes.
        """
        database = Database(url)
        try:
            if database.path is not None and database.mark is not None:
                require_intact(database.path, database.mark)
            migrate(database)
            require_rows(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def url(self) -> str:
        """The URL of the registry's database with its password hidden."""
        return self._database.shown_url

    def revision(self) -> str | None:
        """Read the registry's schema revision from the database; None for a database without a schema."""
        with self._database.connection() as connection:
            return current_revision(connection)

    def close(self) -> None:
        """Close all connections to the registry's database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
