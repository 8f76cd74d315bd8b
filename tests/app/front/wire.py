"""A client made of one socket: sends recorded bytes and reads whole answers, without any HTTP library."""

from __future__ import annotations

import gzip
import socket
import time
import zlib
from dataclasses import dataclass, field

PATIENCE = 20.0
"""Seconds after which a missing answer counts as no answer."""
BETWEEN_PIECES = 0.003
"""Seconds between two pieces of one request, so that the server receives them one by one."""


class NoAnswerError(Exception):
    """The connection ended, or stayed silent, before the answer was whole."""


@dataclass
class Answer:
    """One answer as it was received."""

    version: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    closed: bool = False
    """The server closed the connection after this answer."""
    endless: bool = False
    """The head of an event stream, and as much of the body as was asked for."""
    notes: list[str] = field(default_factory=list)

    def header(self, name: str) -> str:
        """The first value of a header, empty without one."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class Connection:
    """One connection to the server; opened with the first request."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self._deadline = 0.0

    def send(self, pieces: list[bytes]) -> None:
        """Send the pieces one after the other; a server that has stopped reading is no error here."""
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(BETWEEN_PIECES)
            try:
                self._socket.sendall(piece)
            except OSError:
                return

    def answer(self, method: str, until: bytes | None = None) -> Answer:
        """Read the next answer.

        Args:
            method: of the request; an answer to HEAD has no body.
            until: end of the part of an endless body that is read, empty for nothing of it; the connection
                is of no use afterwards.

        Raises:
            NoAnswerError: the connection ended, or stayed silent, before the answer was whole.
        """
        self._deadline = time.monotonic() + PATIENCE
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *_reason = first.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        found = Answer(version, int(status), headers)
        if until is not None and found.status in (101, 200) and method != "HEAD":
            found.endless = True
            found.body = self._read_until(until, found) if until else b""
        elif method != "HEAD" and found.header("content-type").startswith("text/event-stream"):
            found.endless = True
        elif method != "HEAD" and found.status not in (204, 304) and found.status >= 200:
            self._read_body(found)
        return found

    def ended(self) -> bool:
        """True when the server closes the connection and sends nothing more."""
        try:
            return not self._data and not self._socket.recv(1)
        except ConnectionError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read_until(self, mark: bytes, found: Answer) -> bytes:
        """Read an endless body as far as the mark; how the body is cut into chunks makes no difference."""
        if found.header("transfer-encoding").lower() != "chunked":
            return self._until(mark) + mark
        body = b""
        while mark not in body:
            body += self._exactly(int(self._until(b"\r\n"), 16) + 2)[:-2]
        return body[: body.index(mark) + len(mark)]

    def _read_body(self, found: Answer) -> None:
        if found.header("transfer-encoding").lower() == "chunked":
            blocks = []
            while size := int(self._until(b"\r\n"), 16):
                blocks.append(self._exactly(size + 2)[:-2])
            self._until(b"\r\n")
            found.body = b"".join(blocks)
        elif length := found.header("content-length"):
            found.body = self._exactly(int(length))
        else:
            found.body = self._rest()
            found.notes.append("the body ends with the connection")
        coding = found.header("content-encoding")
        if coding == "gzip" and found.body:
            found.body = gzip.decompress(found.body)
        elif coding == "deflate" and found.body:
            found.body = zlib.decompress(found.body)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _rest(self) -> bytes:
        try:
            while True:
                self._more()
        except NoAnswerError:
            found, self._data = self._data, b""
            return found

    def _more(self) -> None:
        if time.monotonic() > self._deadline:
            raise NoAnswerError("too late")
        try:
            piece = self._socket.recv(1 << 16)
        except OSError as error:
            raise NoAnswerError(type(error).__name__) from error
        if not piece:
            raise NoAnswerError("the connection was closed")
        self._data += piece
