"""Sources of event streams, their frames, and a generator of them for servers without hand-over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from .broadcast import Greeting


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


def frame(*, kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One Server-Sent Event; ``data`` must be one line."""
    lines = []
    if event_id is not None:
        lines.append(f"id: {event_id}\n")
    if kind is not None:
        lines.append(f"event: {kind}\n")
    lines.append(f"data: {data}\n\n")
    return "".join(lines).encode("utf-8")


def line_of(event: bytes) -> bytes:
    """The frame of an event as a line of JSON, ``{"id", "event", "data"}``; its data is JSON."""
    fields = dict(part.split(b": ", 1) for part in event.rstrip(b"\n").split(b"\n"))
    number, kind = fields.get(b"id", b"null"), fields.get(b"event", b"message")
    return b'{"id": %b, "event": "%b", "data": %b}\n' % (number, kind, fields[b"data"])


def message_of(event: bytes) -> bytes:
    """The frame of an event as a text message of a WebSocket (RFC 6455, 5.2), the same as `line_of` says."""
    text = line_of(event)[:-1]
    size = len(text)
    if size < 126:
        return bytes((0x81, size)) + text
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + text
    return b"\x81\x7f" + size.to_bytes(8, "big") + text


class Lines:
    """A source whose frames are lines of JSON."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self.listen = source.listen
        self.close = source.close

    @property
    def finished(self) -> bool:
        """True when nothing follows."""
        return self._source.finished

    @property
    def more(self) -> bool:
        """True when there is more than was taken."""
        return self._source.more

    def take(self) -> list[bytes]:
        """The lines that are ready."""
        return [line_of(each) for each in self._source.take()]


def blocking_stream(source: EventSource, greeting: Greeting, heartbeat: float) -> Iterator[bytes]:
    """The frames of a source as a generator that waits, for servers that cannot hand a socket over."""
    first = greeting.first
    event = threading.Event()
    source.listen(event.set)
    try:
        while True:
            event.clear()
            frames = source.take()
            if frames:
                yield first + b"".join(frames)
                first = b""
            elif source.finished:
                return
            elif not event.wait(heartbeat) and greeting.heartbeat:
                yield greeting.heartbeat
    finally:
        source.close()
