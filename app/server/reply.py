"""Answers on the wire: of known length in one piece, chunked, or up to the end of the connection.

HTTP/1.0 clients get answers of the last kind, which only the end of the connection completes. Until such an
answer is whole its connection ends by a reset, so that no client takes a part for the whole, even if this
process is killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from ..http.errors import MEDIA_TYPE
from ..http.request import SERVER_NAME

_LAST_CHUNK = b"0\r\n\r\n"
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


class AnswerBrokenError(Exception):
    """An answer ended early after its first byte was sent: the connection must be cut."""


class Sender(Protocol):
    """Where the bytes of an answer go: a connection."""

    def send(self, data: bytes) -> None: ...  # noqa: D102

    def end_by_reset(self, wanted: bool) -> None: ...  # noqa: D102


class Reply:
    """One answer on a connection.

    Attributes:
        status: of the answer; 0 before it is known.
        begun: True when its first bytes may have been sent.
        close: the connection ends with this answer, and the answer says so.
    """

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_head",
        "_left",
        "_sender",
        "_to_the_end",
        "_version",
        "begun",
        "close",
        "status",
    )

    def __init__(
        self, sender: Sender, *, close: bool = False, bodiless: bool = False, minor_version: int = 1
    ) -> None:
        """Begin an answer.

        Args:
            sender: the connection.
            close: the connection ends with this answer.
            bodiless: the request was HEAD: the head says what the body would be.
            minor_version: of the request; an HTTP/1.0 client knows no chunks.
        """
        self._sender = sender
        self._bodiless = bodiless
        self._version = minor_version
        self._head = b""
        self._left: int | None = None
        self._chunked = True
        self._to_the_end = False
        self.status = 0
        self.begun = False
        self.close = close

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers; they go out with the first block."""
        self.status = status
        if self.status < 200 or self.status in (204, 304):
            self._bodiless = True
        length = headers.get("Content-Length")
        self._left = None if length is None or self._bodiless else int(length)
        self._chunked = length is None and not self._bodiless and self._version == 1
        self._head = _head(status, headers, chunked=self._chunked, close=self.close)
        self._to_the_end = length is None and not self._bodiless and self._version == 0

    def write(self, block: bytes) -> None:
        """Send a block of the body.

        Raises:
            AnswerBrokenError: the block is more than the length that was announced.
            OSError: the client is gone.
        """
        if self._bodiless:
            return
        if self._chunked:
            data = b"%b%x\r\n%b\r\n" % (self._head, len(block), block)
        else:
            self._counted(len(block))
            data = self._head + block
        self._head = b""
        if self._to_the_end and not self.begun:
            self._sender.end_by_reset(True)
        self._send(data)

    def end(self, rest: Iterable[bytes] = ()) -> None:
        """Send what is left, and with it the end.

        Raises: as `write`.
        """
        if self._chunked:
            for block in rest:
                self.write(block)
            self._send(self._head + _LAST_CHUNK)
        else:
            body = b"" if self._bodiless else b"".join(rest)
            if self._left is not None and self._left != len(body):
                raise AnswerBrokenError(f"the answer lacks {self._left - len(body)} bytes of its length")
            if data := self._head + body:
                self._send(data)
            if self._to_the_end:
                self._sender.end_by_reset(False)
        self._head = b""

    def _counted(self, size: int) -> None:
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise AnswerBrokenError("the answer is longer than it says")

    def _send(self, data: bytes) -> None:
        self.begun = True
        self._sender.send(data)


def refusal(status: int, detail: str) -> bytes:
    """The whole answer to what is no request for the application: a problem document, and the end.

    ``detail`` may be empty; then the status says enough.
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
    return _head(status, headers, chunked=False, close=True) + body


def head_of(status: int, headers: Mapping[str, str], ending: str = "") -> str:
    """The first line and the header of an answer; ``ending`` is the lines behind these.

    A line break in a value would begin another answer: it becomes a space.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        lines = "".join([f"{name}: {' '.join(value.split())}\r\n" for name, value in headers.items()])
    return f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}\r\n{lines}{ending}\r\n"


def _head(status: int, headers: Mapping[str, str], *, chunked: bool, close: bool) -> bytes:
    coding = "Transfer-Encoding: chunked\r\n" if chunked else ""
    ending = "Connection: close\r\n" if close else ""
    written = f"Date: {_date(int(time.time()))}\r\nServer: {SERVER_NAME}\r\n"
    return head_of(status, headers, f"{coding}{ending}{written}").encode("latin-1")


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
