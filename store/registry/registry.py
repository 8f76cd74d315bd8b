"""Registry: everything the server must remember besides quads, behind one object."""

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
    StoredQueryRecords,
    StreamRecords,
    TokenRecords,
)


class Registry:
    """What is registered, in one database, with a table for each kind of record."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = QueryRecords(database)
        self.streams = StreamRecords(database)
        self.connectors = ConnectorRecords(database)
        self.stored_queries = StoredQueryRecords(database)
        self.prefixes = PrefixRecords(database)
        self.tokens = TokenRecords(database)
        self.jobs = JobRecords(database)

    @classmethod
    def open(cls, url: str = "sqlite://") -> Self:
        """Connect, and bring the schema to the newest revision.

        Args:
            url: ``sqlite:///<file>``, ``sqlite://`` (in memory) or ``postgresql://user:password@host/database``.

        Raises:
            RegistryError: the URL is wrong or the database cannot be reached.
            RegistryMigrationError: a migration failed; the old schema is still there.
            RegistryFormatError: a newer program wrote the schema.
            StoreFormatError: the SQLite file is damaged, or lacks changes that were durable.
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
        """The database's URL with its password hidden."""
        return self._database.shown_url

    def revision(self) -> str | None:
        """The revision of the schema as the database tells it now: also a test that it answers."""
        with self._database.connection() as connection:
            return current_revision(connection)

    def close(self) -> None:
        """Give back every connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
