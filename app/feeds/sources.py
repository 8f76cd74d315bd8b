"""Sources of event streams, and how events are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class EventSource(Protocol):
    """A subscriber's place in a feed, drained without waiting.

    ``take`` gives the frames that are ready, in order; then ``more`` is True when others are ready as well,
    which are taken when the client has got these, and ``finished`` when none will follow. ``listen``
    registers the function to call, from any thread, when there may be something to take.
    """

    @property
    def finished(self) -> bool: ...  # noqa: D102

    @property
    def more(self) -> bool: ...  # noqa: D102

    def take(self) -> list[bytes]: ...  # noqa: D102

    def listen(self, wake: Callable[[], None]) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


Write: TypeAlias = Callable[[str | None, str, int | None], bytes]
"""What is sent of an event, of its kind, its data and its id."""


def frame(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One Server-Sent Event; ``data`` must be one line."""
    number = "" if event_id is None else f"id: {event_id}\n"
    named = "" if kind is None else f"event: {kind}\n"
    return f"{number}{named}data: {data}\n\n".encode()


def line(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One event as a line of JSON, ``{"id", "event", "data"}``; its data is JSON."""
    number = "null" if event_id is None else event_id
    return f'{{"id": {number}, "event": "{kind or "message"}", "data": {data}}}\n'.encode()


def message(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One event as a text message of a WebSocket (RFC 6455, 5.2), the same as `line` says."""
    text = line(kind, data, event_id)[:-1]
    size = len(text)
    if size < 126:
        return bytes((0x81, size)) + text
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + text
    return b"\x81\x7f" + size.to_bytes(8, "big") + text
