"""What goes into a query's timeline: inputs of streams, values of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .element import Element

NEVER = -(1 << 62)
"""An instant before all others, in milliseconds."""


class StreamTime(NamedTuple):
    """What is known of a stream's time, in milliseconds.

    ``seen`` is the greatest event time, ``floor`` what heartbeats, ticks and idle marks guarantee.
    """

    seen: int | None = None
    floor: int | None = None
    lateness: int = 0

    def watermark(self, lateness: int = 0) -> int | None:
        """The watermark for a reader that waits ``lateness`` at least; None before any time is known."""
        moved = None if self.seen is None else self.seen - max(self.lateness, lateness)
        if moved is None or self.floor is None:
            return self.floor if moved is None else moved
        return max(moved, self.floor)

    @property
    def newest(self) -> int:
        """The greatest event time accepted or guaranteed so far."""
        return max(NEVER if self.seen is None else self.seen, NEVER if self.floor is None else self.floor)


class Arrival(NamedTuple):
    """The elements of one push. ``before`` and ``after`` are the stream's time around it."""

    stream: str
    elements: tuple[Element, ...]
    before: StreamTime
    after: StreamTime
    admit_late: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """A heartbeat, or a tick of the clock of an arrival-stamped stream."""

    stream: str
    after: StreamTime


@dataclass(frozen=True, slots=True)
class Idle:
    """A stream has been silent for its idle time-out: it holds nothing back until its next input."""

    stream: str
    after: StreamTime


StreamInput: TypeAlias = Arrival | Advance | Idle
