"""The streams of one query: the windows on them, and the order in which their elements are taken.

order      (event_time, order of the streams in the text, seq), once the query's watermark has reached them
watermark  the least of the streams that are not idle and have had an input
late       older than the watermark of its own stream was when it came: dropped, or admitted; admitted ones
           wait for their time, too, where the query is not there yet
behind     in order on its own stream, but the query went on without it
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import NamedNode

from ..algebra.query import WindowDeclaration
from ..algebra.reports import Interval
from ..inputs import NEVER, Advance, Arrival, Element, Idle, StreamInput, StreamTime
from ..rows import Delta
from .counting import BatchState, ElementsState, TripleRange, TriplesState
from .encoded import EncodedContent
from .grid import GridState, GridWindow
from .keyed import KeyedState, SessionState
from .kinds import kind_of
from .live import ContentSnapshot, LiveQuads, TimesSnapshot
from .operator import EVENT_TIME, ORDER, LiveContent, PastState, RangeState, WindowOperator, WindowState
from .sequence import SequenceState, SequenceWindow, StepInput
from .window_delta import WindowKey

ContentOf = Callable[[NamedNode], LiveContent]
"""Gives an empty content of the kind that a window is to hold."""
StreamsOf = Callable[[str], Sequence[str] | None]
"""For a window on a variable, by name: the streams that static data binds it to; None for every stream."""


@dataclass(slots=True)
class StreamView:
    """A query's view of one of its streams: its time, and the windows on it."""

    lateness: int
    time: StreamTime = StreamTime()
    active: bool = False
    idle: bool = False
    operators: list[WindowOperator] = field(default_factory=list, init=False, compare=False)

    def watermark(self) -> int | None:
        """The watermark of the stream as this query waits for it."""
        return self.time.watermark(self.lateness)


Transaction: TypeAlias = tuple[int, StreamView, Sequence[Element]]
"""Elements of one push and stream with one event time; without any, nothing more comes up to that time."""


class FirstElements(NamedTuple):
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
    numbers of their pushes. ``quiet_until`` is that of AFTER.
    """

    streams: dict[str, StreamView]
    windows: list[tuple[tuple[str, str], Any]]
    waiting: deque[Element]
    orders: list[int]
    pushes: list[int]
    next_report: int | None
    last_at: int | None
    last_window: Interval | None
    instant: int | None
    first: FirstElements | None
    late: int
    behind: int
    taken: int
    quiet_until: int = NEVER


RECORDS = {
    "AllSnapshot": WindowState,
    "BatchSnapshot": BatchState,
    "ContentSnapshot": ContentSnapshot,
    "Element": Element,
    "ElementsSnapshot": ElementsState,
    "First": FirstElements,
    "GridSnapshot": GridState,
    "Interval": Interval,
    "OccurrencesSnapshot": TripleRange,
    "LatestSnapshot": KeyedState,
    "PastSnapshot": PastState,
    "RangeSnapshot": RangeState,
    "SessionSnapshot": SessionState,
    "SequenceSnapshot": SequenceState,
    "StreamTime": StreamTime,
    "StreamViewSnapshot": StreamView,
    "TimelineSnapshot": TimelineSnapshot,
    "TimesSnapshot": TimesSnapshot,
    "TriplesSnapshot": TriplesState,
}
"""What a snapshot of a timeline is made of, by its names in checkpoints."""


@dataclass(eq=False)
class QueryWindows:
    """The window operators of one query.

    Attributes:
        operators: by (window, stream) in text order; a window on a variable has one per stream.
        contents: what is evaluated, by window, and by stream where the window is on a variable.
    """

    declarations: tuple[WindowDeclaration, ...]
    _t0_ms: int | None
    _open_closed: bool
    _on_close: bool
    _content_of: ContentOf | None
    _streams_of: StreamsOf | None
    operators: dict[tuple[str, str], WindowOperator] = field(default_factory=dict)
    contents: list[tuple[WindowKey, Any]] = field(default_factory=list)

    @property
    def slide(self) -> bool:
        """True when no window has closes, and elements enter each when they are taken."""
        kinds = [kind_of(window.spec) for window in self.declarations]
        return not any(kind.closes or kind.waits for kind in kinds)

    def __iter__(self) -> Iterator[WindowOperator]:
        return iter(self.operators.values())

    def streams_of(self, declaration: WindowDeclaration) -> Sequence[str] | None:
        """The streams of a window now; None for every stream there is."""
        if isinstance(declaration.stream, NamedNode):
            return (declaration.stream.value,)
        return None if self._streams_of is None else self._streams_of(declaration.name.value)

    @property
    def reads_every_stream(self) -> bool:
        """True when a window is on a variable that static data does not bind."""
        return any(self.streams_of(window) is None for window in self.declarations)

    def add(
        self, declaration: WindowDeclaration, iri: str, view: StreamView, instant: int | None
    ) -> WindowOperator:
        """The operator of a window on a stream, without elements."""
        kind = kind_of(declaration.spec)
        operator = kind.operator(declaration.spec, self._t0_ms, self._open_closed)
        operator.on_close = self._on_close
        # What enters by itself slides, unless its closes are asked for.
        operator.closes = kind.closes and (self._on_close or not kind.waits)
        if isinstance(operator, StepInput):
            operator.sequence = next(
                each
                for each in self
                if isinstance(each, SequenceWindow) and each.name == declaration.spec.feeds
            )
        elif isinstance(operator, SequenceWindow):
            operator.name = declaration.name
        operator.live = LiveQuads() if self._content_of is None else self._content_of(declaration.name)
        if instant is not None:
            operator.start(instant)
        view.operators.append(operator)
        self.operators[(declaration.name.value, iri)] = operator
        key = (declaration.name, None if isinstance(declaration.stream, NamedNode) else NamedNode(iri))
        # Another list: an evaluation at work goes on with what there was.
        self.contents = [*self.contents, (key, operator.live)]
        return operator

    @property
    def shape(self) -> Hashable | None:
        """Equal for windows that hold the same when they are given the same; None where that is not known."""
        if not all(
            isinstance(each.stream, NamedNode) and each.spec.sequence is None for each in self.declarations
        ):
            return None
        contents = [operator.live for operator in self]
        shapes = tuple(each.shape for each in contents if type(each) is EncodedContent)
        whole = len(shapes) == len(contents)
        return (self.declarations, self._t0_ms, self._open_closed, shapes) if whole else None

    @property
    def standing(self) -> list[tuple[int | None, Interval | None, Delta]]:
        """What may differ between windows with a `shape` that hold the same.

        When the next change is due, which window closed last, and what the last evaluation has not seen.
        """
        found = []
        for operator in self:
            assert isinstance(operator.live, EncodedContent)
            found.append((operator.next_due(), operator.closed, operator.live.changes))
        return found

    @property
    def stay(self) -> int | None:
        """How long after its event time an element may be in a window; None for windows that never forget."""
        stays = [operator.stay for operator in self if operator.stay is not None]
        return max(stays) if len(stays) == len(self.operators) else None

    @property
    def empty(self) -> bool:
        """True when no quad is visible in any window."""
        return not any(operator.live.occurrences for operator in self)

    @property
    def closes_after(self) -> bool:
        """True when closes and periodic reports are known only once the watermark has passed them."""
        return self._open_closed or any(operator.closes_after for operator in self)

    @property
    def grids(self) -> list[GridWindow]:
        """The windows that close on a grid of time."""
        return [operator for operator in self if isinstance(operator, GridWindow)]

    def empty_until(self, until: int) -> int:
        """Until when empty windows stay so, at most until ``until``, before which no element is taken."""
        busy = [
            due - 1
            for each in self
            if (due := each.first_busy_close() if isinstance(each, GridWindow) else each.next_due())
            is not None
        ]
        # A close of (open, close] holds the elements at its end, and is known only after it.
        return min([until - 1 if self.closes_after else until, *busy])

    def unchanged_until(self, until: int) -> int:
        """Until when no content changes, at most until ``until``, before which no element is taken."""
        changes = [
            due - 1
            for each in self
            if (due := each.next_change() if isinstance(each, GridWindow) else each.next_due()) is not None
        ]
        return min([until - 1 if self.closes_after else until, *changes])

    def closes_by(self, end: int) -> list[range]:
        """The instants up to ``end`` at which each window of a grid closes."""
        return [grid.closes_by(end) for grid in self.grids]

    def close_next(self) -> list[WindowOperator]:
        """Apply one queued close: of each counting window, or of the first window that closes by time."""
        closing = []
        for operator in self:
            if operator.close_next():
                closing.append(operator)
                if operator.closed is not None:
                    break
        return closing

    def detach(self) -> None:
        """Let go of the query that they were made for; for those with a `shape`, which ask nothing of it."""
        self._content_of = self._streams_of = None

    def size(self) -> int:
        """Quads held."""
        return sum(operator.state_size() for operator in self)

    def restore(self, snapshot: TimelineSnapshot, views: Mapping[str, StreamView]) -> None:
        """Go on from a snapshot; ``views`` have no windows yet."""
        declared = {each.name.value: each for each in self.declarations}
        self.operators, self.contents = {}, []
        for (window, stream), kept in snapshot.windows:
            instant = snapshot.instant if kept is None else None
            operator = self.add(declared[window], stream, views[stream], instant)
            if kept is not None:
                operator.restore(kept)

    def fork(self) -> QueryWindows:
        """The same, to go on from here for themselves."""
        other = copy(self)
        other.operators = {key: operator.fork() for key, operator in self.operators.items()}
        other.contents = [
            (key, operator.live) for (key, _), operator in zip(self.contents, other, strict=True)
        ]
        return other


@dataclass(slots=True, eq=False)
class InputOrder:
    """The streams of one query, in text order, and the elements of them that wait for its watermark.

    ``late`` counts elements that came too late, ``behind`` those behind other streams, ``missed`` are those
    admitted late that no window could take, until the router has counted them as dropped. The ``heap`` has
    those that wait as (event time, place of the stream, seq, push, element); a push is known by the seq of
    one of its elements.
    """

    views: dict[str, StreamView] = field(default_factory=dict)
    late: int = 0
    behind: int = 0
    taken: int = 0
    first: FirstElements | None = None
    heap: list[tuple[int, int, int, int, Element]] = field(default_factory=list)
    missed: list[Element] = field(default_factory=list)

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the streams read, in text order."""
        return tuple(self.views)

    @property
    def is_fresh(self) -> bool:
        """True before the first input."""
        untouched = all(view == StreamView(view.lateness) for view in self.views.values())
        return untouched and not self.taken and not self.heap

    @property
    def watermark(self) -> int | None:
        """The query's watermark: the least of its non-idle streams that have had an input."""
        least = most = None
        for view in self.views.values():
            if view.active and (mark := view.time.watermark(view.lateness)) is not None:
                if not view.idle and (least is None or mark < least):
                    least = mark
                if most is None or mark > most:
                    most = mark
        # Where all are idle nothing is waited for.
        return most if least is None else least

    def lag_of(self, stream: str) -> int | None:
        """This query's view of the stream's watermark, None when it has had no input since registration."""
        view = self.views.get(stream)
        return view.watermark() if view is not None and view.active else None

    def __len__(self) -> int:
        """How many elements wait for the watermark."""
        return len(self.heap)

    @property
    def next_at(self) -> int | None:
        """The event time of the next element that waits."""
        return self.heap[0][0] if self.heap else None

    def accept(self, view: StreamView, event: StreamInput, instant: int | None) -> list[Element]:
        """Sort an input's elements, if it has any; those whose time the query has passed, in time order."""
        view.time = event.after
        if not isinstance(event, Arrival):
            view.active, view.idle = view.active or isinstance(event, Advance), isinstance(event, Idle)
            return []
        order, push = list(self.views).index(event.stream), event.elements[0].seq
        if self.first is None:
            place = None if self.taken or self.heap else (push, instant)
            self.first = FirstElements(event.before.newest, place)
        before = event.before.watermark(view.lateness)
        view.active, view.idle = True, False
        late = []
        for element in event.elements:
            at = element.event_time
            is_late = before is not None and at < before
            if is_late and not event.admit_late:
                self.late += 1
            elif instant is not None and at < instant:
                # Else in order on its own stream, but the query went on without it.
                self.behind += not is_late
                late.append(element)
            else:
                heapq.heappush(self.heap, (at, order, element.seq, push, element))
        return sorted(late, key=ORDER)

    def take(self) -> tuple[StreamView, list[Element]]:
        """All elements of the next push with one event time, and their stream."""
        event_time, order, _, push, element = heapq.heappop(self.heap)
        elements = [element]
        while self.heap and self.heap[0][:2] == (event_time, order) and self.heap[0][3] == push:
            elements.append(heapq.heappop(self.heap)[4])
        return next(islice(self.views.values(), order, None)), elements

    def in_order(self, event: Arrival, instant: int | None) -> bool:
        """True for elements of the one stream that are in order, of which none waits for the watermark."""
        if instant is None or self.heap or len(self.views) != 1:
            return False
        at = instant
        for element in event.elements:
            if element.event_time < at:
                return False
            at = element.event_time
        after, lateness = event.after, self.views[event.stream].lateness
        if after.seen == at and not after.lateness and not lateness:
            return after.floor is None or after.floor <= at
        return after.watermark(lateness) == at

    def gather(self, events: Sequence[StreamInput], instant: int) -> tuple[list[Transaction], list[int]]:
        """What the first of some inputs let through, in order, and how many transactions it is behind each.

        It ends before an input with elements before ``instant`` or before what is let through. One without
        elements stands for the instants up to the watermark.
        """
        given: list[Transaction] = []
        ends: list[int] = []
        for event in events:
            view = self.views.get(event.stream)
            if view is None:
                break
            if type(event) is Arrival:
                elements = event.elements
                if self.in_order(event, instant):
                    view.active, view.idle, view.time = True, False, event.after
                    instant = elements[-1].event_time
                    if elements[0].event_time == instant:
                        given.append((instant, view, elements))
                    else:
                        given += [(at, view, tuple(each)) for at, each in groupby(elements, EVENT_TIME)]
                    ends.append(len(given))
                    continue
                if any([element.event_time < instant for element in elements]):
                    break
            self.accept(view, event, instant)
            watermark = self.watermark
            if watermark is not None:
                while self.heap and self.heap[0][0] <= watermark:
                    given.append((self.heap[0][0], *self.take()))
                given.append((watermark, view, ()))
                instant = max(instant, watermark)
            ends.append(len(given))
        return given, ends

    def restore(self, snapshot: TimelineSnapshot) -> None:
        """Go on from a snapshot; windows are still to be put on the streams."""
        self.views = {stream: replace(view) for stream, view in snapshot.streams.items()}
        self.first = snapshot.first
        self.late, self.behind, self.taken = snapshot.late, snapshot.behind, snapshot.taken
        self.heap = [
            (each.event_time, order, each.seq, push, each)
            for each, order, push in zip(snapshot.waiting, snapshot.orders, snapshot.pushes, strict=True)
        ]

    def fork(self) -> InputOrder:
        """The same, to go on from here for itself; windows are still to be put on the streams."""
        other = copy(self)
        other.views, other.heap = {each: replace(view) for each, view in self.views.items()}, list(self.heap)
        other.missed = []
        return other
