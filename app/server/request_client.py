"""The client that waits for an answer, and how the server finds out that it has left.

TCP tells the server that a client sends no more (FIN), not whether the client still reads. A client may shut
down its sending side after its request and wait for the answer; a client that has closed its socket looks the
same. They differ as soon as something is sent: the system of a closed client replies with a reset. The server
sends an interim answer (``100 Continue``, RFC 9110 section 15.2) to see that: every HTTP/1.1 client skips it.
HTTP/1.0 has no interim answers, so a client of that version that sends no more counts as gone.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_POLLS = hasattr(select, "poll")
_SENDS_NO_MORE = getattr(select, "POLLRDHUP", 0)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL if _POLLS else 0


class HasSocket(Protocol):
    """A connection."""

    socket: socket.socket


@dataclass(slots=True, eq=False)
class RequestClient:
    """The client of one request.

    Attributes:
        connection: the client's.
        minor_version: the request's version of HTTP/1.
        begun: True once its answer has begun; then only a reset means that the client has left.
        checks: how often the client was seen to send no more.
    """

    connection: HasSocket
    minor_version: int
    begun: bool = False
    checks: int = 0


class _Current(threading.local):
    connection: HasSocket | None = None
    minor_version: int = 1


CURRENT = _Current()
"""The connection that this thread answers; the server sets it for each request."""


def current_recipient() -> RequestClient | None:
    """The client whose request this thread answers; None in a thread that answers none."""
    connection = CURRENT.connection
    return None if connection is None else RequestClient(connection, CURRENT.minor_version)


def departure_check() -> Callable[[], bool]:
    """Return a function that tells whether the client whose request this thread answers has left.

    Call it before the answer begins: the interim answer would get into it.
    """
    recipient = current_recipient()
    return lambda: recipient is not None and bool(departed([recipient]))


def departed(recipients: Sequence[RequestClient]) -> list[RequestClient]:
    """The recipients that have left, as far as the system knows now.

    No thread may begin to answer one of them meanwhile: the interim answer would get into its answer.
    """
    if not _POLLS:
        return []
    poll = select.poll()
    of_file: dict[int, RequestClient] = {}
    for each in recipients:
        file = each.connection.socket.fileno()
        if file >= 0:
            of_file[file] = each
            poll.register(file, 0 if each.begun else _SENDS_NO_MORE)
    return [of_file[file] for file, events in poll.poll(0) if _has_left(of_file[file], events)]


def _has_left(recipient: RequestClient, events: int) -> bool:
    if events & _GONE or not recipient.minor_version:
        return True
    recipient.checks += 1
    # The first interim answer may end at a proxy that has passed the end of sending on; a later one is
    # answered by the reset. The pauses double.
    if recipient.checks & (recipient.checks - 1) == 0:
        with contextlib.suppress(OSError):
            recipient.connection.socket.send(INTERIM)
    return False
