"""Reading of Server-Sent Events, by the rules of the HTML standard, section 9.2.6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the end of what is there ends no line yet: a LF may belong to it."""
_LONGEST = 64 << 20


class ServerEvent(NamedTuple):
    """One event; ``id`` is the last one that was told, ``retry`` what the server asks for, in ms."""

    kind: str
    data: str
    id: str | None
    retry: int | None = None


class EventTooLongError(Exception):
    """A block is longer than anybody can have meant."""


def events_of(chunks: Iterable[bytes], longest: int = _LONGEST) -> Iterator[list[ServerEvent]]:
    """The events that each chunk of a body completes, as a list.

    Lines end with CR, LF or both, and with nothing else: data may hold any other character.

    Raises:
        EventTooLongError: an event is longer than ``longest`` bytes.
    """
    rest, last_id, retry = b"", None, None
    kind, size = "", 0
    data: list[str] = []
    first = True
    for chunk in chunks:
        rest += chunk
        if first and len(rest) >= 3:
            rest, first = rest.removeprefix(b"\xef\xbb\xbf"), False
        *lines, rest = _LINE_END.split(rest)
        found = []
        for line in lines:
            if not line:
                if data:
                    found.append(ServerEvent(kind or "message", "\n".join(data), last_id, retry))
                kind, data, size = "", [], 0
                continue
            name, _, raw = line.partition(b":")
            value = raw.removeprefix(b" ").decode("utf-8", "replace")
            if name == b"data":
                data.append(value)
                size += len(raw) + 1
            elif name == b"event":
                kind = value
            elif name == b"id" and "\0" not in value:
                last_id = value
            elif name == b"retry" and value.isascii() and value.isdigit():
                retry = int(value[:9])
        if size + len(rest) > longest:
            raise EventTooLongError(f"an event is longer than {longest:,} bytes")
        if found:
            yield found
