"""What goes into a query's timeline: elements and other inputs of streams, values of event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from pyoxigraph import Quad

from quadrill.store.documents.one_subject import Statements
from quadrill.store.documents.statements import quads_of, statements_of

NEVER = -(1 << 62)
"""An instant before all others, in milliseconds."""


@dataclass(slots=True, unsafe_hash=True)
class Element:
    """One RDF dataset that arrived atomically on a stream.

    ``statements`` are its quads as text, in the order of the serialisation; terms are in the store's own
    forms and blank nodes are renamed so that they never clash with another element's. ``event_time`` in
    milliseconds; ``seq`` is given at accept time and never repeats on its stream. Nothing but what is
    remembered of it is ever set again.
    """

    statements: Statements
    event_time: int
    seq: int
    encoded: tuple[object, Any, bool, int, Any] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """The quads as whoever encoded them last remembers them; before that a stamp that says how long it holds,
    behind it whether all are in the default graph, their one subject (0 for several and none), and which
    columns they are (`windows.taken`), None where they are none."""
    _quads: tuple[Quad, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, quads: Sequence[Quad], event_time: int, seq: int) -> Self:
        """An element of these quads."""
        return cls(statements_of(quads), event_time, seq)

    @property
    def quads(self) -> tuple[Quad, ...]:
        """Its quads, made when somebody asks for the first time."""
        if self._quads is None:
            self._quads = tuple(quads_of(self.statements))
        return self._quads


class StreamTime(NamedTuple):
    """What is known of a stream's time, in milliseconds.

    ``seen`` is the greatest event time, of a stream with partitions the least of theirs; ``ahead`` is then
    the greatest of all. ``floor`` is what heartbeats, ticks and idle marks guarantee.
    """

    seen: int | None = None
    floor: int | None = None
    lateness: int = 0
    ahead: int | None = None

    def watermark(self, lateness: int = 0) -> int | None:
        """The watermark for a reader that waits ``lateness`` at least; None before any time is known."""
        moved = None if self.seen is None else self.seen - max(self.lateness, lateness)
        if moved is None or self.floor is None:
            return self.floor if moved is None else moved
        return max(moved, self.floor)

    @property
    def newest(self) -> int:
        """The greatest event time accepted or guaranteed so far."""
        known = (self.seen, self.floor, self.ahead)
        return max((each for each in known if each is not None), default=NEVER)


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


class LogRecord(NamedTuple):
    """One input of a stream; ``order`` grows over all streams of the engine, ``weight`` of its elements."""

    order: int
    input: StreamInput
    weight: int = 0


WindowContent: TypeAlias = Mapping[Quad, int]
"""The content of one window at an instant: each live quad once, with the greatest event time among the
live occurrences (C-SPARQL's ``timestamp()`` reads it)."""
