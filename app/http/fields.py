"""The header fields of a request, and the interface of a large body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The parsed header of a request; requests of a client with equal headers share this object.

    Attributes:
        values: header values by name, with names written like ``Content-Type``; repeated fields are joined.
        body_length: bytes of the request body; 0 for a chunked body, whose length is known only at its end.
        chunked: True if the request body has the chunked transfer coding.
        close: True if the connection ends after this request.
        expects: True if the client waits for ``100 Continue`` before it sends the body.
        minor_version: the minor version of HTTP/1.
        plain: True if the fast parser (server/wire.py) has parsed the header and the header is small.
        forwarded: True if a proxy has marked the request as forwarded.
    """

    values: dict[str, str]
    body_length: int
    chunked: bool = False
    close: bool = False
    expects: bool = False
    minor_version: int = 1
    plain: bool = True
    forwarded: bool = False


class LargeBody(Protocol):
    """The body of a large request, which is received from the client while it is read.

    Attributes:
        finished: True after the request body was read to its end.
        received: number of bytes of the request body received so far.
        lines: True if the lines of the body may be processed as they arrive.
    """

    finished: bool
    received: int
    lines: bool

    def read(self, size: int = -1, /) -> bytes | None: ...  # noqa: D102
