"""Peers that answer slowly, without end, or packed a thousand times; all of their loops are bounded."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LONGEST_S = 30.0
"""Seconds after which a peer gives up by itself."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/turtle\r\n"

Answer = Callable[["Peer", socket.socket], None]


class Peer:
    """A server on the loopback interface that gives one kind of answer to every connection.

    Attributes:
        url: its address.
        asked: the heads of requests.
        sent: bytes that its clients have taken.
        left: how many connections its clients have closed within an answer.
    """

    def __init__(self, answer: Answer) -> None:
        self.asked: list[bytes] = []
        self.sent = self.left = 0
        self.closing = threading.Event()
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self._listener.close()

    def send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self.sent += len(data)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_LONGEST_S)
            try:
                asked = b""
                while b"\r\n\r\n" not in asked and (piece := connection.recv(1 << 16)):
                    asked += piece
                self.asked.append(asked)
                self._answer(self, connection)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1 << 16)
            except OSError:
                self.left += 1


@contextmanager
def peer(answer: Answer) -> Iterator[Peer]:
    one = Peer(answer)
    try:
        yield one
    finally:
        one.close()


def bytewise(data: bytes, pause: float = 0.2) -> Answer:
    """One byte at a time, for as long as the client listens; then spaces."""

    def answer(one: Peer, connection: socket.socket) -> None:
        until = time.monotonic() + _LONGEST_S
        for at in range(10_000):
            one.send(connection, data[at : at + 1] or b" ")
            if time.monotonic() > until or one.closing.wait(pause):
                return

    return answer


def slow_body(head: bytes = HEAD, pause: float = 0.2) -> Answer:
    """The head at once, and then one byte of the body at a time."""

    def answer(one: Peer, connection: socket.socket) -> None:
        one.send(connection, head + b"Content-Length: 1000000\r\n\r\n")
        bytewise(b"", pause)(one, connection)

    return answer


def silent(one: Peer, connection: socket.socket) -> None:
    """Nothing."""
    one.closing.wait(_LONGEST_S)


def endless(head: bytes = HEAD, block: bytes = b"<urn:a> <urn:b> <urn:c> .\n" * 2_000) -> Answer:
    """A body of 200 MB and more, without a length."""

    def answer(one: Peer, connection: socket.socket) -> None:
        one.send(connection, head + b"\r\n")
        while one.sent < 200 << 20 and not one.closing.is_set():
            one.send(connection, block)

    return answer


def bomb(head: bytes = HEAD, megabytes: int = 1_000) -> Answer:
    """A short body that unpacks to a thousand times its size."""
    member = gzip.compress(b" " * (1 << 20))

    def answer(one: Peer, connection: socket.socket) -> None:
        one.send(connection, head + b"Content-Encoding: gzip\r\n\r\n")
        for _ in range(megabytes):
            one.send(connection, member)

    return answer
