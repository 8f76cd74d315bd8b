"""The tables of the registry: reads and writes of the records of each kind."""

from __future__ import annotations

import time
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, and_, bindparam, delete, insert, or_, select, update

from ..errors import ConflictError, NotFoundError
from .models import (
    CONNECTORS,
    DROPPED_QUERIES,
    JOBS,
    PREFIXES,
    QUERIES,
    REFLECTED_OWNERS,
    RULE_SETS,
    SHAPES,
    STORED_QUERIES,
    STREAMS,
    TOKENS,
)
from .records import (
    ConnectorRecord,
    JobRecord,
    PrefixRecord,
    QueryRecord,
    ReflectedOwnerRecord,
    RuleSetRecord,
    ShapesRecord,
    StoredQueryRecord,
    StreamRecord,
    TokenRecord,
)
from .session import Database, with_digest

RecordType = TypeVar(
    "RecordType",
    ConnectorRecord, JobRecord, PrefixRecord, QueryRecord, ReflectedOwnerRecord, RuleSetRecord,
    ShapesRecord, StoredQueryRecord, StreamRecord, TokenRecord,
)  # fmt: skip


class KeyFault(NamedTuple):
    """The message (a format string for a record's key) and the code of an error about a key."""

    text: str
    code: str


class RecordTable(Generic[RecordType]):
    """The registry's table of one kind of record; thread-safe.

    Every method is one transaction on the registry. The key of a registry record consists of its values in
    the columns ``keys``. Methods of a registry table raise RegistryError if the database fails.

    Attributes:
        table: the table, with a column for each field of a record.
        record: the class of the records.
        keys: the names of the key columns.
        order: the names of the columns by which `all` sorts.
        unknown: the error for a key that no record has.
        taken: the error for a key that another record has; only for kinds with `add`.
    """

    table: ClassVar[Table]
    record: ClassVar[type[Any]]
    keys: ClassVar[tuple[str, ...]] = ("name",)
    order: ClassVar[tuple[str, ...]] = ("position",)
    unknown: ClassVar[KeyFault]
    taken: ClassVar[KeyFault]

    def __init__(self, database: Database) -> None:
        self._database = database
        columns = self.table.c
        named = and_(*(columns[column] == bindparam(f"of_{column}") for column in self.keys))
        every = select(*(columns[column.name] for column in fields(self.record)))
        self._all = every.order_by(*(columns[column] for column in self.order))
        self._one = every.where(named)
        self._insert = insert(self.table)
        self._change = update(self.table).where(named)
        self._delete = delete(self.table).where(named)

    def add(self, record: RecordType) -> RecordType:
        """Insert a new record into the registry's table.

        Raises: ConflictError if another record has the key.
        """
        with self._database.write() as connection:
            self._refuse_taken(connection, record, None)
            self._write_new(connection, record)
        return record

    def put(self, record: RecordType) -> RecordType:
        """Insert a record into the registry's table, or replace the record with the same key."""
        with self._database.write() as connection:
            if not self._write(connection, record, self._key_of(record)):
                self._write_new(connection, record)
        return record

    def get(self, *key: str) -> RecordType | None:
        """Return the registry record with the key; None if no record has the key."""
        with self._database.read() as connection:
            return self._find(connection, key)

    def all(self) -> list[RecordType]:
        """Return all records of the registry's table, sorted by the columns ``order``."""
        with self._database.read() as connection:
            return [self.record(*row) for row in connection.execute(self._all)]

    def update(self, *key: str, **changes: Any) -> RecordType:
        """Change some fields of a registry record; return the new record.

        Raises:
            NotFoundError: no record has the key.
            ConflictError: another record has the key of the changed record.
            TypeError: the kind of record has no such field.
        """
        with self._database.write() as connection:
            old = self._find(connection, key)
            if old is None:
                raise self._not_found(key)
            changed = replace(old, **changes)
            self._refuse_taken(connection, changed, old)
            self._write(connection, changed, key)
        return changed

    def remove(self, *key: str) -> None:
        """Delete the record with the key from the registry's table.

        Raises: NotFoundError if no record has the key.
        """
        with self._database.write() as connection:
            self._remove(connection, key)

    def _key_of(self, record: RecordType) -> tuple[str, ...]:
        return tuple(getattr(record, column) for column in self.keys)

    def _named(self, key: tuple[str, ...]) -> dict[str, Any]:
        """Return the bind parameters of an SQL statement for the key of one record."""
        return {f"of_{name}": value for name, value in zip(self.keys, key, strict=True)}

    def _find(self, connection: Connection, key: tuple[str, ...]) -> RecordType | None:
        row = connection.execute(self._one, self._named(key)).first()
        return None if row is None else self.record(*row)

    def _remove(self, connection: Connection, key: tuple[str, ...]) -> None:
        if not connection.execute(self._delete, self._named(key)).rowcount:
            raise self._not_found(key)

    def _write(self, connection: Connection, record: RecordType, key: tuple[str, ...]) -> bool:
        """Overwrite the registry record that has ``key``; return False if there is none."""
        return bool(connection.execute(self._change, self._values(record) | self._named(key)).rowcount)

    def _write_new(self, connection: Connection, record: RecordType) -> None:
        connection.execute(self._insert, self._values(record))

    def _values(self, record: RecordType) -> dict[str, Any]:
        return with_digest(self.table, asdict(record))

    def _not_found(self, key: tuple[str, ...]) -> NotFoundError:
        return NotFoundError(self.unknown.text.format(*key), code=self.unknown.code)

    def _refuse_taken(self, connection: Connection, record: RecordType, old: RecordType | None) -> None:
        """Raise ConflictError if a record other than ``old`` has the key of ``record``."""
        key = self._key_of(record)
        if (old is None or self._key_of(old) != key) and self._find(connection, key) is not None:
            raise ConflictError(self.taken.text.format(*key), code=self.taken.code)


_HAS_NAME = DROPPED_QUERIES.c.name == bindparam("of_name")
_TOMBSTONE, _INSERT_TOMBSTONE = select(DROPPED_QUERIES.c.name).where(_HAS_NAME), insert(DROPPED_QUERIES)
_DELETE_TOMBSTONE = delete(DROPPED_QUERIES).where(_HAS_NAME)


class QueryRecords(RecordTable[QueryRecord]):
    """Continuous queries in the order of registration, and the tombstones of dropped ones.

    Writing a query to the registry deletes the tombstone of its name.
    """

    table, record = QUERIES, QueryRecord
    unknown = KeyFault("no query named {} is registered", code="unknown-query")
    taken = KeyFault("a query named {} is registered already", code="query-exists")

    def put(self, record: QueryRecord) -> QueryRecord:
        """Insert a query at the end of the order of registration, and delete an older query of its name."""
        with self._database.write() as connection:
            connection.execute(self._delete, self._named((record.name,)))
            self._write_new(connection, record)
        return record

    def retract(self, name: str, *, dropped: bool) -> None:
        """Delete a query from the registry if it exists; write a tombstone only if ``dropped``.

        Undoes `add`.
        """
        with self._database.write() as connection:
            connection.execute(self._delete, self._named((name,)))
            if dropped:
                _write_tombstone(connection, name)

    def was_dropped(self, name: str) -> bool:
        """Return True if a query of the name was dropped and no newer query has the name."""
        with self._database.read() as connection:
            return connection.execute(_TOMBSTONE, {"of_name": name}).first() is not None

    def _remove(self, connection: Connection, key: tuple[str, ...]) -> None:
        super()._remove(connection, key)
        _write_tombstone(connection, *key)

    def _write_new(self, connection: Connection, record: QueryRecord) -> None:
        connection.execute(_DELETE_TOMBSTONE, {"of_name": record.name})
        super()._write_new(connection, record)


def _write_tombstone(connection: Connection, name: str) -> None:
    """Write the tombstone (name and time) of a dropped query, and replace an older one."""
    connection.execute(_DELETE_TOMBSTONE, {"of_name": name})
    values = {"name": name, "dropped_ms": time.time_ns() // 1_000_000}
    connection.execute(_INSERT_TOMBSTONE, with_digest(DROPPED_QUERIES, values))


class JobRecords(RecordTable[JobRecord]):
    """Long-running jobs with their requests and progress, in the order of the requests."""

    table, record, keys = JOBS, JobRecord, ("id",)
    unknown = KeyFault("there is no job {}", code="unknown-job")
    taken = KeyFault("there is a job {} already", code="job-exists")


class PrefixRecords(RecordTable[PrefixRecord]):
    """Prefix declarations for the serialisation of answers, sorted by prefix."""

    table, record, keys, order = PREFIXES, PrefixRecord, ("prefix",), ("prefix",)
    unknown = KeyFault("there is no prefix {!r}", code="unknown-prefix")


class StoredQueryRecords(RecordTable[StoredQueryRecord]):
    """SPARQL texts that users saved, sorted by name."""

    table, record, order = STORED_QUERIES, StoredQueryRecord, ("name",)
    unknown = KeyFault("no query is saved as {}", code="unknown-stored-query")


class RuleSetRecords(RecordTable[RuleSetRecord]):
    """Rule sets in the order of their first PUT."""

    table, record = RULE_SETS, RuleSetRecord
    unknown = KeyFault("there is no rule set {}", code="unknown-rules")


class ShapesRecords(RecordTable[ShapesRecord]):
    """Shapes in the order of their first PUT."""

    table, record = SHAPES, ShapesRecord
    unknown = KeyFault("there are no shapes {}", code="unknown-shapes")


class ReflectedOwnerRecords(RecordTable[ReflectedOwnerRecord]):
    """The owned graphs that the graphs of rule sets with the default input reflect."""

    table, record, keys = REFLECTED_OWNERS, ReflectedOwnerRecord, ("graph",)
    unknown = KeyFault("no owner of the graph {} is recorded", code="unknown-rules")


class TokenRecords(RecordTable[TokenRecord]):
    """Bearer tokens by their hashes, oldest first; the tokens themselves are never stored."""

    table, record, keys, order = TOKENS, TokenRecord, ("hash",), ("created_ms", "hash")
    unknown = KeyFault("no such token", code="unknown-token")
    taken = KeyFault("this token is known already", code="token-exists")


class ConnectorRecords(RecordTable[ConnectorRecord]):
    """Sources and sinks in the order of their declarations; a key is a role and a name."""

    table, record, keys = CONNECTORS, ConnectorRecord, ("role", "name")
    unknown = KeyFault("there is no {} {}", code="unknown-connector")


class StreamRecords(RecordTable[StreamRecord]):
    """Streams in the order of their declarations; no two have the same name or IRI."""

    table, record = STREAMS, StreamRecord
    unknown = KeyFault("there is no stream {}", code="unknown-stream")

    def _refuse_taken(self, connection: Connection, record: StreamRecord, old: StreamRecord | None) -> None:
        names = select(STREAMS.c.name, STREAMS.c.iri)
        for name, iri in connection.execute(
            names.where(or_(STREAMS.c.name == record.name, STREAMS.c.iri == record.iri))
        ):
            if old is not None and name == old.name:
                continue
            problem = f"the stream <{iri}> exists already, named {name}"
            if name == record.name:
                problem = f"the stream name {name} is taken by <{iri}>"
            raise ConflictError(problem, code="stream-exists")
