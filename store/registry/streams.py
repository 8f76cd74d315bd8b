"""Streams: their names, IRIs and settings."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from ..errors import ConflictError, NotFoundError
from .models import StreamRow
from .records import StreamRecord
from .session import Database


class Streams:
    """The part of the registry that keeps streams."""

    _database: Database

    def add_stream(self, record: StreamRecord) -> StreamRecord:
        """Keep a new stream.

        Raises: ConflictError when the name or the IRI is taken.
        """
        with self._database.write() as session:
            _refuse_taken(session, record, own=None)
            session.add(StreamRow(**asdict(record)))
            return record

    def get_stream(self, name_or_iri: str) -> StreamRecord | None:
        """The stream of that name or IRI, None when there is none. A name has no colon, an IRI has one."""
        with self._database.read() as session:
            row = _find(session, name_or_iri)
            return None if row is None else _record(row)

    def list_streams(self) -> list[StreamRecord]:
        """All streams in the order in which they came to be."""
        with self._database.read() as session:
            return [_record(row) for row in session.scalars(select(StreamRow).order_by(StreamRow.position))]

    def update_stream(self, name_or_iri: str, **fields: Any) -> StreamRecord:
        """Change some fields of a stream; gives the new record.

        Raises:
            NotFoundError: no such stream.
            ConflictError: the new name or IRI is another stream's.
            TypeError: a field that a record does not have.
        """
        with self._database.write() as session:
            row = _find(session, name_or_iri)
            if row is None:
                raise _unknown(name_or_iri)
            changed = replace(_record(row), **fields)
            _refuse_taken(session, changed, own=row.position)
            for field, value in asdict(changed).items():
                setattr(row, field, value)
            return changed

    def remove_stream(self, name_or_iri: str) -> None:
        """Forget a stream.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = _find(session, name_or_iri)
            if row is None:
                raise _unknown(name_or_iri)
            session.delete(row)


def _find(session: Session, name_or_iri: str) -> StreamRow | None:
    column = StreamRow.iri if ":" in name_or_iri else StreamRow.name
    return session.scalars(select(StreamRow).where(column == name_or_iri)).one_or_none()


def _refuse_taken(session: Session, record: StreamRecord, own: int | None) -> None:
    clash = or_(StreamRow.name == record.name, StreamRow.iri == record.iri)
    for row in session.scalars(select(StreamRow).where(clash)):
        if row.position == own:
            continue
        if row.name == record.name:
            raise ConflictError(f"the stream name {row.name} is taken by <{row.iri}>", code="stream-exists")
        raise ConflictError(f"the stream <{row.iri}> exists already, named {row.name}", code="stream-exists")


def _record(row: StreamRow) -> StreamRecord:
    return StreamRecord(
        name=row.name,
        iri=row.iri,
        lateness_ms=row.lateness_ms,
        late=row.late,  # type: ignore[arg-type]  # only add and update write it, from a LatePolicy
        idle_timeout_ms=row.idle_timeout_ms,
        retention_ms=row.retention_ms,
        timestamp_property=row.timestamp_property,
        stamping=row.stamping,  # type: ignore[arg-type]  # likewise, from a Stamping
        quoted_asserted=row.quoted_asserted,
        mapping=row.mapping,
        clock=row.clock,  # type: ignore[arg-type]  # likewise, from a StreamClock
        declared=row.declared,
        created_ms=row.created_ms,
    )


def _unknown(name_or_iri: str) -> NotFoundError:
    return NotFoundError(f"there is no stream {name_or_iri}", code="unknown-stream")
