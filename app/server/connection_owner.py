"""The interface of the connection loop, which owns connections between requests."""

from __future__ import annotations

from typing import Protocol

from .connection import Connection
from .refused import RefusedError


class ConnectionOwner(Protocol):
    """The owner (the connection loop) to which a thread returns a connection after an answer."""

    def put(self, connection: Connection, since: float = 0.0) -> None: ...  # noqa: D102

    def refuse(self, connection: Connection, error: RefusedError) -> None: ...  # noqa: D102

    def drain(self, connection: Connection, last_words: bytes = b"") -> None: ...  # noqa: D102

    def close(self, connection: Connection) -> None: ...  # noqa: D102
