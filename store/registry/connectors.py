"""Sources and sinks: how they are declared, whether they are to run, where a sink is."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..errors import NotFoundError
from .models import ConnectorRow
from .records import ConnectorRecord, ConnectorRole
from .session import Database


class Connectors:
    """The part of the registry that keeps sources and sinks."""

    _database: Database

    def put_connector(self, record: ConnectorRecord) -> None:
        """Keep a source or a sink, in place of an older one of that name."""
        with self._database.write() as session:
            row = _find(session, record.role, record.name)
            if row is None:
                session.add(ConnectorRow(**asdict(record)))
                return
            for field, value in asdict(record).items():
                setattr(row, field, value)

    def list_connectors(self) -> list[ConnectorRecord]:
        """All sources and sinks in the order in which they were declared."""
        with self._database.read() as session:
            rows = session.scalars(select(ConnectorRow).order_by(ConnectorRow.position))
            return [_record(row) for row in rows]

    def move_connector(self, role: ConnectorRole, name: str, place: str) -> None:
        """A sink has come to a place; one that was dropped in the meantime has none."""
        with self._database.write() as session:
            row = _find(session, role, name)
            if row is not None:
                row.place = place

    def remove_connector(self, role: ConnectorRole, name: str) -> None:
        """Forget a source or a sink.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = _find(session, role, name)
            if row is None:
                raise NotFoundError(f"there is no {role} {name}", code="unknown-connector")
            session.delete(row)


def _find(session: Session, role: ConnectorRole, name: str) -> ConnectorRow | None:
    matching = select(ConnectorRow).where(ConnectorRow.role == role, ConnectorRow.name == name)
    return session.scalars(matching).one_or_none()


def _record(row: ConnectorRow) -> ConnectorRecord:
    return ConnectorRecord(
        role=row.role,  # type: ignore[arg-type]  # only put writes it, from a ConnectorRole
        name=row.name,
        members=row.members,
        wanted=row.wanted,
        place=row.place,
        created_ms=row.created_ms,
    )
