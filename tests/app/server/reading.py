"""Bytes into a connection, and the requests that come out of it."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from quadrill.app.http.request import Request
from quadrill.app.server.connection import Connection, Timeouts
from quadrill.app.server.refused import RefusedError


@dataclass
class Read:
    """What a connection made of bytes: requests as (method, target, body), then maybe a refusal."""

    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    whole: list[Request] = field(default_factory=list)
    refused: RefusedError | None = None
    unfinished: bool = False

    @property
    def status(self) -> int:
        """Of the refusal; 0 when there was none."""
        return self.refused.status if self.refused else 0


def read(pieces: Iterable[bytes], timeouts: Timeouts | None = None) -> Read:
    """Send the pieces to a connection, one after the other; read bodies to their ends."""
    theirs, ours = socket.socketpair()
    connection = Connection(ours, "127.0.0.1", 1, timeouts or Timeouts(request=0.05))
    found = Read()
    with theirs, ours:
        try:
            for piece in pieces:
                for start in range(0, len(piece), 8192):
                    theirs.sendall(piece[start : start + 8192])
                    connection.receive()
                    if _take(connection, found):
                        return found
        except RefusedError as error:
            found.refused = error
        found.unfinished = found.refused is None and (connection.in_head or connection.in_body)
    return found


def _take(connection: Connection, found: Read) -> bool:
    """True when the last request ends the connection."""
    while (request := connection.next_request()) is not None:
        assert request.stream is None
        found.whole.append(request)
        found.requests.append((request.method, request.target, request.body))
        if request.fields.close:
            return True
    return False
