"""The inputs of a query's timeline: elements, heartbeats, ticks and idle marks of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from pyoxigraph import Quad

from quadrill.store.documents.statements import quads_of, statements_of
from quadrill.store.documents.subject_columns import Statements

NEVER = -(1 << 62)
"""An instant before all others, in milliseconds."""


@dataclass(slots=True, unsafe_hash=True)
class Element:
    """One RDF dataset with one event time, which arrived on a stream as a unit.

    ``statements`` are the quads of the element as text, in the order of the serialisation; terms are in the
    store's canonical forms, and blank nodes have unique labels. An element's ``event_time`` is in
    milliseconds since 1970. ``seq`` is the element's sequence number, assigned when the element is accepted
    and never reused on the stream. After an element's creation, only its caches ``encoded``, ``by_itself``
    and ``_quads`` change.
    """

    statements: Statements
    event_time: int
    seq: int
    encoded: tuple[object, Any, bool, int, Any] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """A cache of the element's encoding for `windows.encoded.EngineTerms`.

    The cache has a stamp, the keys of the quads, True if all quads are plain triples of the default graph,
    the id of the only subject (0 if there are several), and the columns or None.
    """
    by_itself: Element | None = field(default=None, init=False, repr=False, compare=False)
    """A cache of the element as `windows.content_parts.by_itself` returns it."""
    _quads: tuple[Quad, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, quads: Sequence[Quad], event_time: int, seq: int) -> Self:
        """Create an element from quads and an event time."""
        return cls(statements_of(quads), event_time, seq)

    @property
    def quads(self) -> tuple[Quad, ...]:
        """The quads of the element, parsed from the statements on first access."""
        if self._quads is None:
            self._quads = tuple(quads_of(self.statements))
        return self._quads


class StreamTime(NamedTuple):
    """The time figures of a stream from which its watermark follows, in milliseconds.

    ``seen`` is the stream's greatest event time; for a stream with partitions, ``seen`` is the least of the
    partitions' greatest event times, and ``ahead`` is the greatest of all. ``floor`` is the event time that
    heartbeats, ticks and idle marks of the stream guarantee.
    """

    seen: int | None = None
    floor: int | None = None
    lateness: int = 0
    ahead: int | None = None

    def watermark(self, lateness: int = 0) -> int | None:
        """Return the watermark for a reader that waits at least ``lateness``; None before any input."""
        moved = None if self.seen is None else self.seen - max(self.lateness, lateness)
        if moved is None or self.floor is None:
            return self.floor if moved is None else moved
        return max(moved, self.floor)

    @property
    def newest(self) -> int:
        """The greatest event time that the stream has accepted or that a heartbeat or tick has guaranteed."""
        known = (self.seen, self.floor, self.ahead)
        return max((each for each in known if each is not None), default=NEVER)


class Arrival(NamedTuple):
    """An input with the elements of one push.

    The fields ``before`` and ``after`` are the stream's time before and after the push.
    """

    stream: str
    elements: tuple[Element, ...]
    before: StreamTime
    after: StreamTime
    admit_late: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """An input without elements: a heartbeat, or a clock tick for a stream stamped at arrival."""

    stream: str
    after: StreamTime


@dataclass(frozen=True, slots=True)
class Idle:
    """An input that says that a stream was silent for its idle time-out.

    No reader waits for an idle stream until the stream has its next input.
    """

    stream: str
    after: StreamTime


StreamInput: TypeAlias = Arrival | Advance | Idle


class LogRecord(NamedTuple):
    """One retained input of a stream.

    ``order`` is the retained input's number in the engine's order of all streams; ``weight`` is the memory
    weight of its elements.
    """

    order: int
    input: StreamInput
    weight: int = 0


WindowContent: TypeAlias = Mapping[Quad, int]
"""The content of one window at an instant: each live quad once, mapped to the greatest event time of its
live occurrences, which C-SPARQL's ``timestamp()`` returns."""
