"""Prefixes that answers are written with."""

from __future__ import annotations

from sqlalchemy import select

from ..errors import NotFoundError
from .models import PrefixRow
from .session import Database


class Prefixes:
    """The part of the registry that keeps prefixes."""

    _database: Database

    def put_prefix(self, prefix: str, iri: str) -> None:
        """Keep a prefix, in place of an older one of that name."""
        with self._database.write() as session:
            session.merge(PrefixRow(prefix=prefix, iri=iri))

    def list_prefixes(self) -> dict[str, str]:
        """All prefixes with their IRIs, by name."""
        with self._database.read() as session:
            by_name = select(PrefixRow).order_by(PrefixRow.prefix)
            return {row.prefix: row.iri for row in session.scalars(by_name)}

    def remove_prefix(self, prefix: str) -> None:
        """Forget a prefix.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = session.get(PrefixRow, prefix)
            if row is None:
                raise NotFoundError(f"there is no prefix {prefix!r}", code="unknown-prefix")
            session.delete(row)
