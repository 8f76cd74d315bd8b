"""What the head of a request says, and how a large body is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The header of a request. Requests of one client with the same header share this object.

    Attributes:
        values: values by name, each word of a name with one capital; repeated fields are joined.
        body_length: bytes of the body; 0 for a chunked one, whose length is known at its end.
        chunked: the body is chunked.
        close: the connection ends with this request.
        expects: the client waits for ``100 Continue`` before it sends the body.
        minor_version: of HTTP/1.
        plain: the fast reader of heads has read it, and it is small.
        forwarded: a proxy has marked the request.
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
    """A body that is received while it is read.

    Attributes:
        finished: it was read to its end.
        received: bytes received so far.
        lines: its lines may be processed as they arrive.
    """

    finished: bool
    received: int
    lines: bool

    def read(self, size: int = -1, /) -> bytes | None: ...  # noqa: D102
