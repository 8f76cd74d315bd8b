"""Sources of event streams, their frames, and a generator of them for servers without hand-over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from .broadcast import HEARTBEAT_FRAME


class EventSource(Protocol):
    """A subscriber's place in a feed, drained without waiting.

    ``take`` gives the frames that are ready, in order; then ``more`` is True when others are ready as well,
    which are taken when the client has got these, and ``finished`` when none will follow. ``listen``
    registers the function to call, from any thread, when there may be something to take.
    """

    finished: bool
    more: bool

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


def blocking_stream(source: EventSource, *, head: bytes, heartbeat: float) -> Iterator[bytes]:
    """The frames of a source as a generator that waits, for servers that cannot hand a socket over."""
    event = threading.Event()
    source.listen(event.set)
    try:
        if head:
            yield head
        while True:
            event.clear()
            frames = source.take()
            if frames:
                yield b"".join(frames)
            elif source.finished:
                return
            elif not event.wait(heartbeat):
                yield HEARTBEAT_FRAME
    finally:
        source.close()
