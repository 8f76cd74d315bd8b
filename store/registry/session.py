"""The registry's database: the SQLAlchemy engine with its settings, and one transaction per call.

The registry's database is SQLite by default, or PostgreSQL by URL. The SQLite driver's own transaction
handling is switched off, because it leaves DDL outside of transactions; this module sends BEGIN, so that a
migration is all or nothing (https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#pysqlite-serializable).
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from ..errors import StoreUnwritableError
from ..folder import keep_private
from ..logs.input_log import SPACE
from ..logs.marks import LogMark
from .errors import RegistryError

BUSY_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_S = 10
_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)
_DISK_FULL = "53100"
"""PostgreSQL's error code for a full disk (https://www.postgresql.org/docs/current/errcodes-appendix.html)."""
SQLITE_BEGIN = "sqlite_begin"
REGISTRY = "registry.sqlite"
"""The name of the registry's SQLite file in a data folder."""


def default_url(folder: Path) -> str:
    """Return the URL of the SQLite registry in a data folder."""
    url = URL.create("sqlite", database=str(folder / REGISTRY))
    return url.render_as_string(hide_password=False)


def digest_of(table: Table, values: Mapping[str, Any]) -> int:
    """Return the check sum of a registry row, over all columns except ``position`` and ``digest``."""
    kept = [values[column.key] for column in table.columns if column.key not in ("position", "digest")]
    return zlib.crc32(json.dumps([table.name, kept], sort_keys=True).encode())


def with_digest(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a registry row with their check sum added."""
    return values | {"digest": digest_of(table, values)}


class Database:
    """The registry's database: gives connections for one transaction each.

    Raises: RegistryError if the URL is wrong, its driver is missing, or the database refuses a statement.

    Attributes:
        path: the file of a SQLite database; None for any other database.
        mark: the mark file with the durable number of changes of a SQLite file (`integrity`); else None.
    """

    def __init__(self, url: str) -> None:
        parsed = _checked_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        in_memory = parsed.database in (None, "", ":memory:")
        self.path = Path(parsed.database or "") if self.is_sqlite and not in_memory else None
        self.mark = None if self.path is None else LogMark(LogMark.mark_path(self.path))
        self.shown_url = parsed.render_as_string(hide_password=True)
        try:
            self.engine = _sqlite_engine(parsed) if self.is_sqlite else _postgresql_engine(parsed)
        except ImportError as error:
            raise RegistryError(
                f"the driver for the registry {self.shown_url} is not installed: {error}",
                hint="pip install 'quadrill[postgres]'",
            ) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection to the registry inside a read transaction."""
        with self.translated_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection to the registry inside a write transaction, which an error rolls back."""
        with self.translated_errors(), self.engine.connect() as connection:
            with connection.execution_options(**{SQLITE_BEGIN: "BEGIN IMMEDIATE"}).begin():
                yield connection
                changes = self._count(connection)
        if self.mark is not None:
            self.mark.note(changes)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection inside a write transaction for migrations, without SQLite's foreign keys.

        With SQLite's foreign keys on, the rebuild of a table would delete the rows that refer to the table.
        """
        with self.translated_errors(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            if isinstance(raw, sqlite3.Connection):
                raw.execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.execution_options(**{SQLITE_BEGIN: "BEGIN IMMEDIATE"}).begin():
                    yield connection
            finally:
                if isinstance(raw, sqlite3.Connection):
                    raw.execute("PRAGMA foreign_keys=ON")

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate errors of the registry's database inside the block.

        Raises:
            StoreUnwritableError: the database's disk is full or cannot be written.
            RegistryError: the registry's database failed in another way.
        """
        try:
            yield
        except (SQLAlchemyError, UnicodeEncodeError) as error:
            if _is_full(error):
                message = f"the registry {self.shown_url} cannot be written: {_first_line(error)}"
                raise StoreUnwritableError(message, hint=SPACE) from error
            raise RegistryError(
                f"the registry {self.shown_url} failed: {_first_line(error)}",
                hint="check that the database runs, that its folder can be written, and the registry's URL",
            ) from error

    def close(self) -> None:
        """Close all connections to the database."""
        self.engine.dispose()
        if self.mark is not None:
            self.mark.close()

    def _count(self, connection: Connection) -> int:
        """Increment a SQLite file's count of changes within the transaction; return it, or 0 without file."""
        if self.mark is None:
            return 0
        changes = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one()) + 1
        connection.exec_driver_sql(f"PRAGMA user_version = {changes}")
        return changes


def _checked_url(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise RegistryError(
            "the registry's URL is not a database URL",
            hint="write sqlite:///<file> or postgresql://<user>:<password>@<host>/<database>",
        ) from error
    if backend not in ("sqlite", "postgresql"):
        raise RegistryError(
            f"the registry's URL names the database {backend!r}; supported are sqlite and postgresql",
            hint="write sqlite:///<file> or postgresql://<user>:<password>@<host>/<database>",
        )
    return parsed


def _sqlite_engine(url: URL) -> Engine:
    in_memory = url.database in (None, "", ":memory:")
    options: dict[str, Any] = {"connect_args": {"check_same_thread": False}, "poolclass": QueuePool}
    if in_memory:
        # An in-memory SQLite database exists only in its connection, so all threads share one connection.
        options |= {"pool_size": 1, "max_overflow": 0}
    engine = create_engine(url, **options)

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys=ON")
        if not in_memory:
            keep_private(Path(url.database or ""))
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(SQLITE_BEGIN, "BEGIN"))

    return engine


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch SQLite to its write-ahead log; retry while locked, because the switch ignores busy_timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _postgresql_engine(url: URL) -> Engine:
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_S})


def _is_full(error: Exception) -> bool:
    """Return True if the error says that the database's disk is full or cannot be written."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) in _UNWRITABLE
    return getattr(cause, "sqlstate", None) == _DISK_FULL


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]
