"""Registry: everything the server must remember besides quads, behind one object."""

from __future__ import annotations

from typing import Self

from .connectors import Connectors
from .jobs import Jobs
from .migrate import current_revision, migrate
from .prefixes import Prefixes
from .queries import Queries
from .session import Database
from .soundness import require_rows, require_sound
from .stored import StoredQueries
from .streams import Streams
from .tokens import Tokens


class Registry(Queries, Streams, Connectors, StoredQueries, Prefixes, Tokens, Jobs):
    """What is registered, in one database. Every method is one transaction.

    Methods may be called from any thread. They raise RegistryError when the database fails.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

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
                require_sound(database.path, database.mark)
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
