"""What windows and timelines are in a checkpoint: values that their operators give and go on from.

Terms stand in them as they are: ids mean nothing after a restart. Each operator has a snapshot of its own
with what it has become; what it is (widths, bounds, counts) follows from the registration. A snapshot may be
given to several: whoever goes on from it leaves it as it is. Checkpoints know them by their names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyoxigraph import Quad

from ..durable.packing import QuadNumbers
from ..element import Element
from ..inputs import StreamTime
from .reports import Interval


class TimesSnapshot(NamedTuple):
    """Event times of the triples in a window, each as a quad of the default graph.

    ``counts`` are their live occurrences, ``latest`` the greatest event times of these, ``touched`` the times
    before of those whose change was not taken yet.
    """

    counts: QuadNumbers
    latest: QuadNumbers
    touched: Mapping[Quad, int | None]


class ContentSnapshot(NamedTuple):
    """The visible content of a window.

    ``counts`` are the occurrences of each quad, ``changes`` what was not taken yet,
    ``occurrences`` counts quads that nobody wants to know of, too. ``latest`` are the greatest
    event times where the content is one of quads, ``times`` those of triples where a query asks for them.
    """

    counts: QuadNumbers
    changes: QuadNumbers
    occurrences: int
    latest: QuadNumbers | None = None
    times: TimesSnapshot | None = None


class RangeSnapshot(NamedTuple):
    """``[RANGE w]`` and ``[NOW]``: the live elements in order."""

    content: ContentSnapshot
    elements: deque[Element]


class AllSnapshot(NamedTuple):
    """``[ALL]``."""

    content: ContentSnapshot


class GridSnapshot(NamedTuple):
    """``[RANGE w SLIDE s]``: elements of the window shown and those for later ones; the next close."""

    content: ContentSnapshot
    shown: deque[Element]
    waiting: deque[Element]
    next_close: int | None
    closed: Interval | None


class OccurrencesSnapshot(NamedTuple):
    """``number`` quads of consecutive elements, from the one at place ``first`` of the first element on."""

    elements: deque[Element]
    first: int
    number: int


class TriplesSnapshot(NamedTuple):
    """``[TRIPLES n]``: the newest occurrences."""

    content: ContentSnapshot
    occurrences: OccurrencesSnapshot


class BatchSnapshot(NamedTuple):
    """``[RANGE TRIPLES n]``: the batch being filled and the one shown."""

    content: ContentSnapshot
    filling: OccurrencesSnapshot
    shown: OccurrencesSnapshot


class ElementsSnapshot(NamedTuple):
    """``[ELEMENTS n STEP m]``: the newest elements, those shown, and how far the next close is."""

    content: ContentSnapshot
    newest: deque[Element]
    shown: deque[Element]
    since_close: int
    due: bool


class StreamViewSnapshot(NamedTuple):
    """What a query knows of the time of one of its streams."""

    lateness: int
    time: StreamTime
    active: bool
    idle: bool


class First(NamedTuple):
    """The first elements that a timeline was given.

    ``newest``: nothing that was accepted before them has a greater event time. ``place``: equal for
    timelines that have been given the same from the beginning; None where that is not known.
    """

    newest: int
    place: tuple[int, int | None] | None


class TimelineSnapshot(NamedTuple):
    """A query's time.

    ``streams`` by IRI in text order, ``windows`` by (window, stream), each as its operator gave it.
    Of the elements ``waiting`` for the watermark there are the places of their streams in ``orders`` and
    numbers of their pushes.
    """

    streams: dict[str, StreamViewSnapshot]
    windows: list[tuple[tuple[str, str], Any]]
    waiting: deque[Element]
    orders: list[int]
    pushes: list[int]
    next_report: int | None
    last_at: int | None
    last_window: Interval | None
    instant: int | None
    first: First | None
    late: int
    behind: int
    taken: int


RECORDS = (
    AllSnapshot, BatchSnapshot, ContentSnapshot, ElementsSnapshot, First, GridSnapshot, OccurrencesSnapshot,
    RangeSnapshot, StreamViewSnapshot, TimelineSnapshot, TimesSnapshot, TriplesSnapshot, Element, Interval,
    StreamTime,
)  # fmt: skip
"""All classes that a snapshot of a timeline is made of."""
