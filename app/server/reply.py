"""Writers of answers: of known length in one piece, chunked, or up to the end of the connection.

Only HTTP/1.0 clients get answers that the end of the connection completes. While an answer to an HTTP/1.0
client is incomplete, its connection is set to end by a reset. Because of the reset, a client never takes a
part for the whole answer, even if the server is killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from ..http.errors import MEDIA_TYPE
from ..http.request import SERVER_NAME

_LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = "Connection: close\r\n"
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


class AnswerBrokenError(Exception):
    """An HTTP answer ended early after its first byte was sent: the connection must be cut."""


class ByteSender(Protocol):
    """The connection to which a `Reply` sends the bytes of an answer."""

    def send(self, data: bytes) -> None: ...  # noqa: D102

    def end_by_reset(self, wanted: bool) -> None: ...  # noqa: D102


class Reply:
    """One HTTP answer on a connection.

    Attributes:
        status: the HTTP status of the answer; 0 before the status is known.
        begun: True if the first bytes of the answer may have been sent.
        close: True if the connection ends after this answer, which then has the header ``Connection: close``.
    """

    __slots__ = ("_bodiless", "_chunked", "_head", "_sender", "_version", "begun", "close", "status")

    def __init__(
        self, sender: ByteSender, *, close: bool = False, bodiless: bool = False, minor_version: int = 1
    ) -> None:
        """Make an HTTP answer of which nothing is sent yet.

        Args:
            sender: the connection to which the answer is sent.
            close: True if the connection ends after this answer.
            bodiless: True for HEAD, whose answer has the headers of the body, but no body.
            minor_version: minor HTTP version of the request; an HTTP/1.0 client cannot read chunks.
        """
        self._sender = sender
        self._bodiless = bodiless
        self._version = minor_version
        self._head = b""
        self._chunked = False
        self.status = 0
        self.begun = False
        self.close = close

    def send(self, status: int, headers: Mapping[str, str], body: bytes | None) -> None:
        """Send a whole HTTP answer; ``headers`` contains Content-Length unless the answer has no body.

        Raises: OSError when the client has disconnected.
        """
        self.status = status
        head = _head(status, headers, _CLOSE if self.close else "")
        self._send(head if self._bodiless or not body else head + body)

    def start(self, headers: Mapping[str, str]) -> None:
        """Set the headers of an answer with status 200 and unknown length.

        The headers of an answer of unknown length are sent together with its first block.
        """
        self.status = 200
        self._chunked = self._version == 1 and not self._bodiless
        coding = "Transfer-Encoding: chunked\r\n" if self._chunked else ""
        self._head = _head(self.status, headers, coding + (_CLOSE if self.close else ""))

    def write(self, block: bytes) -> None:
        """Send a block of the answer's body.

        Raises: OSError when the client has disconnected.
        """
        if self._bodiless:
            return
        if self._chunked:
            data = b"%b%x\r\n%b\r\n" % (self._head, len(block), block)
        else:
            if not self.begun:
                self._sender.end_by_reset(True)
            data = self._head + block
        self._head = b""
        self._send(data)

    def end(self) -> None:
        """Send the end of an answer of unknown length.

        Raises: OSError when the client has disconnected.
        """
        if data := self._head + (_LAST_CHUNK if self._chunked else b""):
            self._send(data)
        self._head = b""
        if not (self._chunked or self._bodiless):
            self._sender.end_by_reset(False)

    def _send(self, data: bytes) -> None:
        self.begun = True
        self._sender.send(data)


def refusal(status: int, detail: str) -> bytes:
    """Return the bytes of the answer to a rejected request: a problem document with ``Connection: close``.

    If ``detail`` is empty, the answer has the title of the HTTP status instead.
    """
    title = HTTPStatus(status).phrase
    document = {
        "type": "urn:quadrill:problem:http",
        "title": title,
        "status": status,
        "detail": detail or title,
        "code": "http",
    }
    body = json.dumps(document).encode() + b"\n"
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body))}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return _head(status, headers, _CLOSE) + body


def head_of(status: int, headers: Mapping[str, str], ending: str = "") -> bytes:
    """Return the status line and the header of an answer; ``ending`` contains further header lines.

    A line break in a header's value becomes a space, because a line break could start another header or
    answer.
    """
    return _written_head(status, tuple(headers.items()), ending)


def _head(status: int, headers: Mapping[str, str], ending: str) -> bytes:
    return _written_head(status, tuple(headers.items()), ending + _written_at(int(time.time())))


# Consecutive answers to a client within a second usually have equal heads, so heads are cached.
@lru_cache(maxsize=128)
def _written_head(status: int, headers: tuple[tuple[str, str], ...], ending: str) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        lines = "".join([f"{name}: {' '.join(value.split())}\r\n" for name, value in headers])
    return f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}\r\n{lines}{ending}\r\n".encode("latin-1")


@lru_cache(maxsize=2)
def _written_at(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\nServer: {SERVER_NAME}\r\n"
