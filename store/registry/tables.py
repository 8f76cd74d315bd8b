"""The tables of the registry: what can be done with the records of each kind."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from ..errors import ConflictError, NotFoundError
from .models import Base, ConnectorRow, JobRow, PrefixRow, StoredQueryRow, StreamRow, TokenRow
from .records import (
    ConnectorRecord,
    JobRecord,
    PrefixRecord,
    QueryRecord,
    StoredQueryRecord,
    StreamRecord,
    TokenRecord,
)
from .session import Database

Kept = TypeVar(
    "Kept",
    ConnectorRecord, JobRecord, PrefixRecord, QueryRecord, StoredQueryRecord, StreamRecord, TokenRecord,
)  # fmt: skip


class KeyFault(NamedTuple):
    """Message, with a place for each value of the key, and code of an error about a key."""

    text: str
    code: str


class RecordTable(Generic[Kept]):
    """Records of one kind. Every method is one transaction and may be called from any thread.

    A key is the values of the columns ``keys``. Methods raise RegistryError when the database fails.

    Attributes:
        row: the mapping of the table, which has a column for each field of a record.
        record: the class of a record.
        keys: the columns that name a record.
        order: the columns by which `all` sorts.
        unknown: the error for a key that no record has.
        taken: the error for a key that another record has, of a kind that has `add`.
    """

    row: ClassVar[type[Base]]
    record: ClassVar[type[Any]]
    keys: ClassVar[tuple[str, ...]] = ("name",)
    order: ClassVar[tuple[str, ...]] = ("position",)
    unknown: ClassVar[KeyFault]
    taken: ClassVar[KeyFault]

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: Kept) -> Kept:
        """Keep a new record.

        Raises: ConflictError when its key is taken.
        """
        with self._database.write() as session:
            self._refuse_taken(session, record, None)
            session.add(self.row(**asdict(record)))
            return record

    def put(self, record: Kept) -> Kept:
        """Keep a record, in place of an older one with its key."""
        with self._database.write() as session:
            row = self._find(session, self._key_of(record))
            if row is None:
                session.add(self.row(**asdict(record)))
            else:
                _write(row, record)
            return record

    def get(self, *key: str) -> Kept | None:
        """The record with that key, None when there is none."""
        with self._database.read() as session:
            row = self._find(session, key)
            return None if row is None else self._record_of(row)

    def all(self) -> list[Kept]:
        """All records, in order."""
        columns = [getattr(self.row, each) for each in self.order]
        with self._database.read() as session:
            return [self._record_of(row) for row in session.scalars(select(self.row).order_by(*columns))]

    def update(self, *key: str, **changes: Any) -> Kept:
        """Change some fields of a record; return the new record.

        Raises:
            NotFoundError: no record has the key.
            ConflictError: the changed record has the key of another one.
            TypeError: a field that a record does not have.
        """
        with self._database.write() as session:
            row = self._found(session, key)
            changed = replace(self._record_of(row), **changes)
            self._refuse_taken(session, changed, row)
            _write(row, changed)
            return changed

    def remove(self, *key: str) -> None:
        """Forget a record.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            session.delete(self._found(session, key))

    def _key_of(self, record: Kept) -> tuple[str, ...]:
        return tuple(getattr(record, each) for each in self.keys)

    def _find(self, session: Session, key: tuple[str, ...]) -> Base | None:
        matching = [getattr(self.row, name) == value for name, value in zip(self.keys, key, strict=True)]
        return session.scalars(select(self.row).where(*matching)).one_or_none()

    def _found(self, session: Session, key: tuple[str, ...]) -> Base:
        row = self._find(session, key)
        if row is None:
            raise NotFoundError(self.unknown.text.format(*key), code=self.unknown.code)
        return row

    def _refuse_taken(self, session: Session, record: Kept, own: Base | None) -> None:
        """Raise ConflictError where another row than ``own`` has the key of a record."""
        key = self._key_of(record)
        if self._find(session, key) not in (None, own):
            raise ConflictError(self.taken.text.format(*key), code=self.taken.code)

    def _record_of(self, row: Base) -> Kept:
        kept: Kept = self.record(**{each.name: getattr(row, each.name) for each in fields(self.record)})
        return kept


def _write(row: Base, record: Any) -> None:
    for field, value in asdict(record).items():
        setattr(row, field, value)


class JobRecords(RecordTable[JobRecord]):
    """Long-running pieces of work: what was asked and how far each is; in the order of the requests."""

    row, record, keys = JobRow, JobRecord, ("id",)
    unknown = KeyFault("there is no job {}", code="unknown-job")
    taken = KeyFault("there is a job {} already", code="job-exists")


class PrefixRecords(RecordTable[PrefixRecord]):
    """Prefixes that answers are written with, by name."""

    row, record, keys, order = PrefixRow, PrefixRecord, ("prefix",), ("prefix",)
    unknown = KeyFault("there is no prefix {!r}", code="unknown-prefix")


class StoredQueryRecords(RecordTable[StoredQueryRecord]):
    """SPARQL texts that users keep under a name, by name."""

    row, record, order = StoredQueryRow, StoredQueryRecord, ("name",)
    unknown = KeyFault("no query is saved as {}", code="unknown-stored-query")


class TokenRecords(RecordTable[TokenRecord]):
    """Bearer tokens by their hashes, oldest first; the tokens themselves are never stored."""

    row, record, keys, order = TokenRow, TokenRecord, ("hash",), ("created_ms", "hash")
    unknown = KeyFault("no such token", code="unknown-token")
    taken = KeyFault("this token is known already", code="token-exists")


class ConnectorRecords(RecordTable[ConnectorRecord]):
    """Sources and sinks in the order of their declarations; a key is a role and a name."""

    row, record, keys = ConnectorRow, ConnectorRecord, ("role", "name")
    unknown = KeyFault("there is no {} {}", code="unknown-connector")


class StreamRecords(RecordTable[StreamRecord]):
    """Streams in the order of their declarations; a key is a name, which has no colon, or an IRI."""

    row, record = StreamRow, StreamRecord
    unknown = KeyFault("there is no stream {}", code="unknown-stream")

    def _find(self, session: Session, key: tuple[str, ...]) -> Base | None:
        column = StreamRow.iri if ":" in key[0] else StreamRow.name
        return session.scalars(select(StreamRow).where(column == key[0])).one_or_none()

    def _refuse_taken(self, session: Session, record: StreamRecord, own: Base | None) -> None:
        clash = or_(StreamRow.name == record.name, StreamRow.iri == record.iri)
        for row in session.scalars(select(StreamRow).where(clash)):
            if row is own:
                continue
            problem = f"the stream <{row.iri}> exists already, named {row.name}"
            if row.name == record.name:
                problem = f"the stream name {row.name} is taken by <{row.iri}>"
            raise ConflictError(problem, code="stream-exists")
