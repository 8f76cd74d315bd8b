"""Protocol of the sources of event streams, and encoders of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class EventSource(Protocol):
    """A subscriber's position in a sequence of events; reading never waits for an event.

    ``take`` returns the pending events of a subscriber, encoded as frames, in order. After ``take``, ``more``
    is True if further frames are pending for the time when the client has received the returned frames, and
    ``finished`` if no frames will follow. ``listen`` registers a function that the source calls, in any
    thread, when it may have new frames.
    """

    @property
    def finished(self) -> bool: ...  # noqa: D102

    @property
    def more(self) -> bool: ...  # noqa: D102

    def take(self) -> list[bytes]: ...  # noqa: D102

    def listen(self, wake: Callable[[], None]) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


Write: TypeAlias = Callable[[str | None, str, int | None], bytes]
"""Encoder of an event: returns the bytes to send for its kind, data and id."""


def frame(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """Encode one Server-Sent Event; ``data`` must be one line."""
    number = "" if event_id is None else f"id: {event_id}\n"
    named = "" if kind is None else f"event: {kind}\n"
    return f"{number}{named}data: {data}\n\n".encode()


def line(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """Encode one event as a line of JSON, ``{"id", "event", "data"}``; ``data`` is JSON."""
    number = "null" if event_id is None else event_id
    return f'{{"id": {number}, "event": "{kind or "message"}", "data": {data}}}\n'.encode()


def message(kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """Encode one event as a WebSocket text message (RFC 6455, 5.2) with the JSON of `line`."""
    text = line(kind, data, event_id)[:-1]
    size = len(text)
    if size < 126:
        return bytes((0x81, size)) + text
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + text
    return b"\x81\x7f" + size.to_bytes(8, "big") + text
