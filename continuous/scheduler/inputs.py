"""What goes into a query's timeline and what comes out: values of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from ..element import Element
from ..windows.operator import Interval

ReportKind = OneOf["on-content-change", "on-window-close", "periodic"]
Cause = OneOf["elements", "time", "tick", "late"]


@dataclass(frozen=True, slots=True)
class Report:
    """When a query is evaluated. ``every_ms`` and ``strict`` belong to periodic."""

    kind: ReportKind
    every_ms: int = 0
    t0_ms: int = 0
    strict: bool = False


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


class Evaluation(NamedTuple):
    """The query is to be evaluated now, at instant ``at``, over the timeline's contents.

    ``window`` holds the bounds of the (first, in text order) window that closed here. ``revises`` says
    that late elements corrected what the last evaluation saw, ``skipped`` that the report belongs to a run
    of empty ones whose `Skipped` follows: only what leaves the answer here is news.
    """

    at: int
    cause: Cause
    window: Interval | None = None
    revises: bool = False
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A run of ``skipped`` reports over empty windows, the first at ``start``, the last at ``end``."""

    start: int
    end: int
    skipped: int


Step: TypeAlias = Evaluation | Skipped
