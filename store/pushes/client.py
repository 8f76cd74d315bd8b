"""The client that waits for the work of the current thread: the work ends if the client disconnects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import ReportedError

_HAS_LEFT: ContextVar[Callable[[], bool] | None] = ContextVar("quadrill_client_has_left", default=None)


class ClientLeftError(ReportedError):
    """The client closed its connection before the response."""

    code = "cancelled"


@contextmanager
def waiting_client(has_left: Callable[[], bool]) -> Iterator[None]:
    """Set the function that says whether this thread's client has disconnected, inside the block."""
    token = _HAS_LEFT.set(has_left)
    try:
        yield
    finally:
        _HAS_LEFT.reset(token)


def require_client() -> None:
    """Raise ClientLeftError if the client of this thread's work has disconnected."""
    has_left = _HAS_LEFT.get()
    if has_left is not None and has_left():
        raise ClientLeftError("The client has closed the connection")
