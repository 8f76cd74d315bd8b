"""The client that waits for an answer, and the check whether that client has left.

TCP reports that a client sends no more (FIN), not whether the client still reads. A client may shut
down its sending side after its request and wait for the answer; a client that has closed its socket looks the
same. A client that has closed its socket differs from one that still reads as soon as the server sends bytes:
a closed socket replies with a reset. To find out whether a client still reads, the server sends an interim
answer (``100 Continue``, RFC 9110 section 15.2), which every HTTP/1.1 client skips. HTTP/1.0 has no interim
answers, so a client of that version that sends no more counts as gone.
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
    """Protocol of a connection that has the socket of a client."""

    socket: socket.socket


@dataclass(slots=True, eq=False)
class RequestClient:
    """The client that waits for the answer to one request.

    Attributes:
        connection: the connection of the client.
        minor_version: the minor HTTP version of the request.
        begun: True after the answer to the client has begun; then only a reset shows that the client has
            left.
        checks: number of checks that found the sending side of the client closed.
    """

    connection: HasSocket
    minor_version: int
    begun: bool = False
    checks: int = 0


class _Current(threading.local):
    connection: HasSocket | None = None
    minor_version: int = 1


CURRENT = _Current()
"""The connection whose request the current thread answers; the server sets it for each request."""


def current_recipient() -> RequestClient | None:
    """Return the client whose request the current thread answers; None in any other thread."""
    connection = CURRENT.connection
    return None if connection is None else RequestClient(connection, CURRENT.minor_version)


def departure_check() -> Callable[[], bool]:
    """Return a function that returns whether the client of the current thread's request has left.

    The returned function may be called only before the answer begins, because it may send an interim answer.
    """
    recipient = current_recipient()
    return lambda: recipient is not None and bool(departed([recipient]))


def departed(recipients: Sequence[RequestClient]) -> list[RequestClient]:
    """Return the clients that have left without their answer, as far as the operating system knows.

    No thread may begin an answer to one of the clients during the check: the interim answer that the check
    sends would get into the answer.
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
    # A client that has closed its socket replies with a TCP reset to an interim answer. A proxy may swallow
    # the first interim answer, so the check for a closed client is repeated, at intervals that double.
    if recipient.checks & (recipient.checks - 1) == 0:
        with contextlib.suppress(OSError):
            recipient.connection.socket.send(INTERIM)
    return False
