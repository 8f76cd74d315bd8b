"""The client that waits for the present work: once it has left, the work ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import ReportedError

_HAS_LEFT: ContextVar[Callable[[], bool] | None] = ContextVar("quadrill_client_has_left", default=None)


class ClientLeftError(ReportedError):
    """The client has closed its connection before it was answered."""

    code = "cancelled"


@contextmanager
def waiting_client(has_left: Callable[[], bool]) -> Iterator[None]:
    """Within the block ``has_left`` tells whether the client of this thread's work has left."""
    token = _HAS_LEFT.set(has_left)
    try:
        yield
    finally:
        _HAS_LEFT.reset(token)


def require_client() -> None:
    """Raise ClientLeftError when the client of this thread's work has left."""
    has_left = _HAS_LEFT.get()
    if has_left is not None and has_left():
        raise ClientLeftError("The client has closed the connection")
