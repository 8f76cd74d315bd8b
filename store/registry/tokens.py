"""Bearer tokens, by their hashes: who may do what."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select

from ..errors import ConflictError, NotFoundError
from .models import TokenRow
from .records import TokenRecord
from .session import Database


class Tokens:
    """The part of the registry that keeps tokens; the tokens themselves are never stored."""

    _database: Database

    def add_token(self, record: TokenRecord) -> TokenRecord:
        """Keep a token's hash.

        Raises: ConflictError when it is there already.
        """
        with self._database.write() as session:
            if session.get(TokenRow, record.hash) is not None:
                raise ConflictError("this token is known already", code="token-exists")
            session.add(TokenRow(**asdict(record)))
            return record

    def get_token(self, token_hash: str) -> TokenRecord | None:
        """The token with that hash, None when there is none."""
        with self._database.read() as session:
            row = session.get(TokenRow, token_hash)
            return None if row is None else _record(row)

    def list_tokens(self) -> list[TokenRecord]:
        """All tokens, oldest first."""
        with self._database.read() as session:
            by_age = select(TokenRow).order_by(TokenRow.created_ms, TokenRow.hash)
            return [_record(row) for row in session.scalars(by_age)]

    def remove_token(self, token_hash: str) -> None:
        """Forget a token: it opens nothing any more.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = session.get(TokenRow, token_hash)
            if row is None:
                raise NotFoundError("no such token", code="unknown-token")
            session.delete(row)


def _record(row: TokenRow) -> TokenRecord:
    return TokenRecord(row.hash, row.role, row.label, row.created_ms)
