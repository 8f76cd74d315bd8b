"""Parser of Server-Sent Events, by the rules of the HTML standard, section 9.2.6."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""Pattern of a line end; a CR at the end of the buffer does not match, because its LF may follow."""
_LONGEST = 64 << 20


class ServerEvent(NamedTuple):
    """One Server-Sent Event; ``id`` is the latest id on the stream, ``retry`` the reconnection time in ms."""

    kind: str
    data: str
    id: str | None
    retry: int | None = None


class EventTooLongError(Exception):
    """Error that a Server-Sent Event exceeds the maximum length."""


class EventReader:
    """Incremental parser that produces Server-Sent Events from the chunks of a response body.

    Only CR, LF and CRLF end a line; the data of an event may contain any other character.
    """

    def __init__(self, longest: int = _LONGEST) -> None:
        """Create a parser; ``longest`` is the maximum length of one event in bytes."""
        self._longest = longest
        self._rest, self._begun = b"", False
        # Chunks without a line end after the buffered text; the parser joins them once, not after each chunk.
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._id: str | None = None
        self._retry: int | None = None
        self._kind, self._size = "", 0
        self._data: list[str] = []

    def take(self, chunk: bytes) -> list[ServerEvent]:
        """Return the Server-Sent Events that a chunk of the response body completes.

        Raises:
            EventTooLongError: a Server-Sent Event exceeds the maximum length.
        """
        if self._begun and self._rest[-1:] != b"\r" and b"\n" not in chunk and b"\r" not in chunk:
            self._pieces.append(chunk)
            self._waiting += len(chunk)
            self._check_size()
            return []
        rest = b"".join((self._rest, *self._pieces, chunk))
        self._pieces, self._waiting = [], 0
        if not self._begun and len(rest) >= 3:
            rest, self._begun = rest.removeprefix(b"\xef\xbb\xbf"), True
        *lines, self._rest = _LINE_END.split(rest)
        found = [event for line in lines if (event := self._line(line)) is not None]
        self._check_size()
        return found

    def _check_size(self) -> None:
        if self._size + len(self._rest) + self._waiting > self._longest:
            raise EventTooLongError(f"an event is longer than {self._longest:,} bytes")

    def _line(self, line: bytes) -> ServerEvent | None:
        """Process one line of an event stream and return the event that it completes, or None."""
        if not line:
            data, kind = self._data, self._kind or "message"
            self._kind, self._data, self._size = "", [], 0
            return ServerEvent(kind, "\n".join(data), self._id, self._retry) if data else None
        name, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(value)
            self._size += len(raw) + 1
        elif name == b"event":
            self._kind = value
        elif name == b"id" and "\0" not in value:
            self._id = value
        elif name == b"retry" and value.isascii() and value.isdigit():
            self._retry = int(value[:9])
        return None


def events_of(chunks: Iterable[bytes], longest: int = _LONGEST) -> Iterator[list[ServerEvent]]:
    """Yield, for each chunk of a response body, the list of Server-Sent Events that it completes."""
    reader = EventReader(longest)
    for chunk in chunks:
        if found := reader.take(chunk):
            yield found


async def events_of_async(chunks: AsyncIterable[bytes]) -> AsyncIterator[list[ServerEvent]]:
    """Yield, for each chunk of an asynchronous body, the list of Server-Sent Events that it completes."""
    reader = EventReader()
    async for chunk in chunks:
        if found := reader.take(chunk):
            yield found
