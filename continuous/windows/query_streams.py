"""The streams of one query, with their windows, and the order in which the query processes elements.

order      (event_time, order of the streams in the query text, seq), once the query's watermark reaches them
watermark  the least watermark of the streams that are not idle and have had an input
late       older than the watermark of the element's own stream at its arrival: dropped, or admitted;
           an admitted element also waits for the query's watermark, if its event time is still ahead
behind     in order on its own stream, but older than the instant that the query has reached
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

from ..algebra.query import WindowDeclaration, elements_of, ends_of
from ..algebra.reports import Interval
from ..inputs import NEVER, Advance, Arrival, Element, Idle, StreamInput, StreamTime
from ..rows import Delta
from .content_parts import ContentParts
from .counting import BatchState, ElementsState, TripleRange, TriplesState
from .encoded import EncodedContent
from .grid import GridState, GridWindow
from .keyed import KeyedState, SessionState
from .kinds import kind_of
from .live import ContentSnapshot, LiveQuads, TimesSnapshot
from .operator import EVENT_TIME, ORDER, LiveContent, PastState, RangeState, WindowOperator, WindowState
from .sequence import SequenceState, SequenceWindow, StepInput
from .window_delta import WindowKey

ContentOf = Callable[[NamedNode], LiveQuads | EncodedContent]
"""A function that returns a new empty content for the window of the given name."""
StreamsOf = Callable[[str], Sequence[str] | None]
"""A function that returns the streams to which static data bind a window's stream variable; None for all."""


@dataclass(slots=True)
class StreamView:
    """A query's view of one of its streams: the stream's time and activity, and the windows on it."""

    lateness: int
    time: StreamTime = StreamTime()
    active: bool = False
    idle: bool = False
    operators: list[WindowOperator] = field(default_factory=list, init=False, compare=False)

    def watermark(self) -> int | None:
        """Return the stream's watermark under the query's lateness for the stream."""
        return self.time.watermark(self.lateness)


Transaction: TypeAlias = tuple[int, StreamView, Sequence[Element]]
"""A stream's elements of one push with one event time.

A transaction without elements says that the instants up to its time may be processed.
"""


class FirstElements(NamedTuple):
    """The point in the input at which a query's timeline received its first elements.

    ``newest`` is the greatest event time that the stream had accepted before the timeline's first elements.
    ``place`` is equal for timelines of queries that have received the same inputs from the beginning; None if
    the place is unknown.
    """

    newest: int
    place: tuple[int, int | None] | None


class TimelineSnapshot(NamedTuple):
    """The state of a query's timeline in a checkpoint.

    ``streams`` maps IRIs to stream views in text order; ``windows`` has (window, stream) with each operator's
    snapshot. ``orders`` and ``pushes`` give, for each element ``waiting`` for the watermark, the index of its
    stream and the number of its push. ``quiet_until`` is the instant until which the query's AFTER clause
    suppresses events.
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
"""The classes of objects in a timeline's snapshot, by their names in checkpoints."""


@dataclass(eq=False)
class QueryWindows:
    """The window operators of one query's windows.

    Attributes:
        operators: the window operators by (window, stream) in text order; a window on a stream variable has
            one operator per stream.
        contents: the contents to evaluate, by window, and by stream for a window on a stream variable.
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
        """True if the query's windows have no closes, and elements enter them at their event time."""
        kinds = [kind_of(window.spec) for window in self.declarations]
        return not any(kind.closes or kind.waits for kind in kinds)

    def __iter__(self) -> Iterator[WindowOperator]:
        return iter(self.operators.values())

    def streams_of(self, declaration: WindowDeclaration) -> Sequence[str] | None:
        """Return the streams that a window reads now; None if it reads every stream."""
        if isinstance(declaration.stream, NamedNode):
            return (declaration.stream.value,)
        return None if self._streams_of is None else self._streams_of(declaration.name.value)

    @property
    def reads_every_stream(self) -> bool:
        """True if a window is on a stream variable that static data do not bind."""
        return any(self.streams_of(window) is None for window in self.declarations)

    def add(
        self, declaration: WindowDeclaration, iri: str, view: StreamView, instant: int | None
    ) -> WindowOperator:
        """Create the operator of a window on a stream, without elements."""
        kind = kind_of(declaration.spec)
        operator = kind.operator(declaration.spec, self._t0_ms, self._open_closed)
        operator.on_close = self._on_close
        # A session's content changes with each element, unless the query reports closes of sessions.
        operator.closes = kind.closes and (self._on_close or not kind.waits)
        if isinstance(operator, StepInput):
            operator.sequence = next(
                each
                for each in self
                if isinstance(each, SequenceWindow) and each.name == declaration.spec.feeds
            )
        elif isinstance(operator, SequenceWindow):
            operator.name = declaration.name
        operator.live = self._new_content(declaration)
        if instant is not None:
            operator.start(instant)
        view.operators.append(operator)
        self.operators[(declaration.name.value, iri)] = operator
        # The list of contents is replaced by a new list, because a suspended evaluation continues with the
        # old one.
        self.contents = [*self.contents, *self._named(declaration.name.value, iri, operator)]
        return operator

    def _new_content(self, declaration: WindowDeclaration) -> LiveContent:
        """Return an empty content of a window, in the forms in which blocks read the window."""
        if not declaration.by_element and declaration.bounds is None:
            return self._empty(declaration.name)
        forms = {each.name: self._empty(each.name) for each in declaration.contents}
        elements, ends = (forms.get(name(declaration.name)) for name in (elements_of, ends_of))
        return ContentParts(forms[declaration.name], elements, ends)

    def _empty(self, name: NamedNode) -> LiveQuads | EncodedContent:
        return LiveQuads() if self._content_of is None else self._content_of(name)

    def _named(self, window: str, iri: str, operator: WindowOperator) -> list[tuple[WindowKey, Any]]:
        """Return the contents of an operator with their keys, as `contents` lists them."""
        declared = next(each for each in self.declarations if each.name.value == window)
        stream = None if isinstance(declared.stream, NamedNode) else NamedNode(iri)
        live = operator.live
        forms = live.named(declared.name) if isinstance(live, ContentParts) else [(declared.name, live)]
        return [((name, stream), each) for name, each in forms]

    def move_ends(self, at: int) -> None:
        """Set the ends of the windows with BOUNDS for an evaluation at instant ``at``."""
        if self.has_ends:
            for operator in self:
                if isinstance(operator.live, ContentParts):
                    operator.live.move_ends(operator.ends(at))

    @property
    def has_ends(self) -> bool:
        """True if a window has BOUNDS."""
        return any(each.bounds is not None for each in self.declarations)

    @property
    def ends_follow_time(self) -> bool:
        """True if the ends of a window with BOUNDS change at every instant, because it has no closes."""
        return any(each.bounds and not kind_of(each.spec).closes for each in self.declarations)

    @property
    def shape(self) -> Hashable | None:
        """A key that is equal for queries' windows which have equal contents under equal inputs.

        The key None means that windows are not known to have equal contents.
        """
        if not all(
            isinstance(each.stream, NamedNode) and each.spec.sequence is None for each in self.declarations
        ):
            return None
        contents = [content for _, content in self.contents]
        shapes = tuple(each.shape for each in contents if type(each) is EncodedContent)
        if len(shapes) < len(contents) or self.ends_follow_time:
            return None
        ends = tuple(each.bounds is not None for each in self.declarations)
        return (self.declarations, ends, self._t0_ms, self._open_closed, shapes)

    @property
    def standing(self) -> list[tuple[int | None, Interval | None, list[Delta]]]:
        """The facts in which two queries' windows of equal `shape` and content may still differ.

        For each window of the query: the instant of its next change, the bounds of its last close, and the
        delta that no evaluation has read.
        """
        found = []
        for operator in self:
            forms = operator.live.forms if isinstance(operator.live, ContentParts) else [operator.live]
            changes = [each.changes for each in forms if isinstance(each, EncodedContent)]
            found.append((operator.next_due(), operator.closed, changes))
        return found

    @property
    def stay(self) -> int | None:
        """The longest time in milliseconds that an element stays in a window; None if it stays forever."""
        stays = [operator.stay for operator in self if operator.stay is not None]
        return max(stays) if len(stays) == len(self.operators) else None

    @property
    def empty(self) -> bool:
        """True if no window of the query contains a visible quad."""
        return not any(operator.live.occurrences for operator in self)

    @property
    def closes_after(self) -> bool:
        """True if closes and periodic reports are due only once the query's watermark has passed them."""
        return self._open_closed or any(operator.closes_after for operator in self)

    @property
    def grids(self) -> list[GridWindow]:
        """The query's windows that close on a grid of event time."""
        return [operator for operator in self if isinstance(operator, GridWindow)]

    def empty_until(self, until: int) -> int:
        """Return until when, at most ``until``, empty windows stay empty without new elements."""
        busy = [
            due - 1
            for each in self
            if (due := each.first_busy_close() if isinstance(each, GridWindow) else each.next_due())
            is not None
        ]
        # A window (open, close] includes the elements at its end, and closes only after that end.
        return min([until - 1 if self.closes_after else until, *busy])

    def unchanged_until(self, until: int) -> int:
        """Return until when, at most ``until``, no window's content changes without new elements."""
        changes = [
            due - 1
            for each in self
            if (due := each.next_change() if isinstance(each, GridWindow) else each.next_due()) is not None
        ]
        return min([until - 1 if self.closes_after else until, *changes])

    def closes_by(self, end: int) -> list[range]:
        """Return, for each grid window of the query, the instants of its closes up to ``end``."""
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
        """Release the query of these windows; only for windows with a `shape`, which never call the query."""
        self._content_of = self._streams_of = None

    def size(self) -> int:
        """Return the number of quads that the query's windows store."""
        return sum(operator.state_size() for operator in self)

    def restore(self, snapshot: TimelineSnapshot, views: Mapping[str, StreamView]) -> None:
        """Restore the query's windows from a snapshot; the streams ``views`` must not have windows yet."""
        declared = {each.name.value: each for each in self.declarations}
        self.operators, self.contents = {}, []
        for (window, stream), kept in snapshot.windows:
            instant = snapshot.instant if kept is None else None
            operator = self.add(declared[window], stream, views[stream], instant)
            if kept is not None:
                operator.restore(kept)

    def fork(self) -> QueryWindows:
        """Return independent copies of the query's windows."""
        other = copy(self)
        other.operators = {key: operator.fork() for key, operator in self.operators.items()}
        other.contents = [
            each for key, operator in other.operators.items() for each in other._named(*key, operator)
        ]
        return other


@dataclass(slots=True, eq=False)
class InputOrder:
    """The streams of one query, in text order, and the elements that wait for the query's watermark.

    ``late`` counts dropped late elements, ``behind`` counts elements that arrived in order after the query
    had passed their event time. ``missed`` has admitted late elements that no window could add and the router
    has not counted yet. The ``heap`` has the elements that wait for the query's watermark as (event time,
    index of the stream, seq, push, element); a push is identified by the seq of its first element. With
    ``takes_whole_instants``, all waiting elements of one instant are one transaction; the caller then
    delivers an instant as a whole.
    """

    views: dict[str, StreamView] = field(default_factory=dict)
    late: int = 0
    behind: int = 0
    taken: int = 0
    first: FirstElements | None = None
    heap: list[tuple[int, int, int, int, Element]] = field(default_factory=list)
    missed: list[Element] = field(default_factory=list)
    takes_whole_instants: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the query's streams, in text order."""
        return tuple(self.views)

    @property
    def is_fresh(self) -> bool:
        """True before the query's first input."""
        untouched = all(view == StreamView(view.lateness) for view in self.views.values())
        return untouched and not self.taken and not self.heap

    @property
    def watermark(self) -> int | None:
        """The query's watermark: the least watermark of its non-idle streams that have had an input."""
        least = most = None
        for view in self.views.values():
            if view.active and (mark := view.time.watermark(view.lateness)) is not None:
                if not view.idle and (least is None or mark < least):
                    least = mark
                if most is None or mark > most:
                    most = mark
        # If all streams are idle, the query does not wait for any stream.
        return most if least is None else least

    def lag_of(self, stream: str) -> int | None:
        """Return a stream's watermark for this query; None without an input since registration."""
        view = self.views.get(stream)
        return view.watermark() if view is not None and view.active else None

    def __len__(self) -> int:
        """Return the number of elements that wait for the query's watermark."""
        return len(self.heap)

    @property
    def next_at(self) -> int | None:
        """The event time of the next element that waits for the query's watermark."""
        return self.heap[0][0] if self.heap else None

    def accept(self, view: StreamView, event: StreamInput, instant: int | None) -> list[Element]:
        """Queue an input's elements; return the elements older than ``instant``, in time order."""
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
                # An element that arrives in order on its stream may still be older than the instant that the
                # query has reached.
                self.behind += not is_late
                late.append(element)
            else:
                heapq.heappush(self.heap, (at, order, element.seq, push, element))
        return sorted(late, key=ORDER)

    def take(self) -> tuple[StreamView, list[Element]]:
        """Remove and return the waiting elements of the next push and event time, with their stream."""
        event_time, order, _, push, element = heapq.heappop(self.heap)
        elements = [element]
        while self.heap and self.heap[0][:2] == (event_time, order) and self.heap[0][3] == push:
            elements.append(heapq.heappop(self.heap)[4])
        return next(islice(self.views.values(), order, None)), elements

    def take_transaction(self) -> list[tuple[StreamView, list[Element]]]:
        """Remove and return the elements of the next transaction by stream, in the order of the streams."""
        at = self.heap[0][0]
        taken = [self.take()]
        while self.takes_whole_instants and self.heap and self.heap[0][0] == at:
            taken.append(self.take())
        return taken

    def in_order(self, event: Arrival, instant: int | None) -> bool:
        """Return True if the query's only stream is in order and no element must wait for the watermark."""
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
        """Return the transactions that the first inputs release, and their number after each input.

        The list of transactions ends before an input with elements older than ``instant`` or than an earlier
        transaction. A transaction without elements stands for the instants up to the query's watermark.
        """
        given: list[Transaction] = []
        ends: list[int] = []
        if self.takes_whole_instants and len(self.views) > 1:
            return given, ends
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
        """Restore the query's streams from a snapshot; the caller adds the windows to the streams."""
        self.views = {stream: replace(view) for stream, view in snapshot.streams.items()}
        self.first = snapshot.first
        self.late, self.behind, self.taken = snapshot.late, snapshot.behind, snapshot.taken
        self.heap = [
            (each.event_time, order, each.seq, push, each)
            for each, order, push in zip(snapshot.waiting, snapshot.orders, snapshot.pushes, strict=True)
        ]

    def fork(self) -> InputOrder:
        """Return an independent copy of the query's streams; the caller adds the windows to the streams."""
        other = copy(self)
        other.views, other.heap = {each: replace(view) for each, view in self.views.items()}, list(self.heap)
        other.missed = []
        return other
