"""A query's time: stream inputs in, evaluation instants out; window contents are read at each of them.

Pure and deterministic: no clock, no store, no output. Reference and native evaluation share it. What is
put in order here is semantics.md, sections 2 to 4:

    inputs       Arrival (the elements of one push), Advance (heartbeat or clock tick), Idle
    order        elements are taken in (event_time, order of the streams in the text, seq) once the query's
                 watermark, the least of its non-idle streams, has reached them
    instants     the event times of taken elements, expiries and closes, each worked off in order
    evaluations  one per transaction that can change the answer (on-content-change), per instant at which a
                 window closes (on-window-close), or at fixed instants (periodic)
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.query import WindowDeclaration
from ..element import Element
from ..inputs import Advance, Arrival, Idle, StreamInput, StreamTime
from .encoded import EncodedContent, WindowKey
from .grid import GridWindow
from .kinds import build_window, kind_of
from .live import LiveContent, LiveQuads
from .operator import Interval, WindowOperator
from .reports import Cause, Evaluation, Report, Skipped, Step
from .snapshots import First, StreamViewSnapshot, TimelineSnapshot


def _quads(window: NamedNode) -> LiveContent:
    return LiveQuads()


@dataclass(slots=True)
class _View:
    """This query's view of one of its streams."""

    order: int
    lateness: int
    time: StreamTime = StreamTime()
    active: bool = False
    idle: bool = False

    def watermark(self) -> int | None:
        return self.time.watermark(self.lateness)


class QueryTimeline:
    """Orders one query's inputs and says when to evaluate.

    The caller drains each generator and evaluates at every `Evaluation` before it goes on: the contents are
    those of that moment. `instant` is the query's current instant, None before its first.
    """

    def __init__(
        self,
        windows: Sequence[WindowDeclaration],
        report: Report,
        *,
        t0_ms: int | None = None,
        open_closed: bool = False,
        non_empty: bool = False,
        max_empty_windows: int = 1000,
        lateness_ms: int = 0,
        content_of: Callable[[NamedNode], LiveContent] = _quads,
        variable_streams: Callable[[str], Sequence[str] | None] | None = None,
    ) -> None:
        """Make the timeline of a query that has just been registered.

        Args:
            windows: the declarations in the order of the text.
            report: when to evaluate.
            t0_ms: origin of the grids that give none themselves.
            open_closed: ``bounds: open-closed``.
            non_empty: no report while every window is empty.
            max_empty_windows: a longer run of empty reports is one `Skipped`.
            lateness_ms: what the registration waits for disordered elements on every stream.
            content_of: gives an empty content of the kind that a window is to hold.
            variable_streams: for a window on a stream variable, the stream IRIs that static data binds it
                to, None for every stream; called by window name.
        """
        self.report = report
        self._windows = tuple(windows)
        self._t0_ms = t0_ms
        self._open_closed = open_closed
        self._non_empty = non_empty
        self._max_empty = max_empty_windows
        self._lateness_ms = lateness_ms
        self._variable_streams = variable_streams
        self._views: dict[str, _View] = {}
        # Operators by (window, stream) in text order; a window on a variable has one per stream.
        self._operators: dict[tuple[str, str], WindowOperator] = {}
        # What the evaluator reads: the contents by window, and stream where the window is on a variable.
        self.windows: list[tuple[WindowKey, Any]] = []
        self._by_order: list[list[WindowOperator]] = []
        self._content_of = content_of
        self._pending: list[tuple[int, int, int, int, Element]] = []
        self._pushes = count()
        self._slides = report.kind == "on-content-change" and not any(
            kind_of(window.spec).closes for window in self._windows
        )
        self._next_report: int | None = None
        self._last_at: int | None = None
        self._last_window: Interval | None = None
        self.instant: int | None = None
        # Where it was when its first elements came.
        self.first: First | None = None
        self.late = 0
        self.behind = 0
        self.taken = 0
        for declaration in self._windows:
            if isinstance(declaration.stream, NamedNode):
                self._add_operator(declaration, declaration.stream.value)
            else:
                for iri in sorted(self._bound_streams(declaration) or ()):
                    self._add_operator(declaration, iri)

    # --- what the evaluator reads ---------------------------------------------------------------

    @property
    def operators(self) -> Mapping[tuple[str, str], WindowOperator]:
        """The window operators by (window name, stream IRI)."""
        return self._operators

    def _list_windows(self) -> None:
        """An operator was added or replaced."""
        fixed = {each.name.value for each in self._windows if isinstance(each.stream, NamedNode)}
        self.windows = [
            ((NamedNode(name), None if name in fixed else NamedNode(stream)), operator.live)
            for (name, stream), operator in self._operators.items()
        ]

    def shape(self) -> Hashable | None:
        """Equal for timelines that can be one; None where windows close, are timed or on other streams.

        Timelines of one shape say the same and hold the same when they are given the same.
        """
        if not self._slides or len(self._views) != 1:
            return None
        if not all(isinstance(window.stream, NamedNode) for window in self._windows):
            return None
        ((stream, view),) = self._views.items()
        contents = [operator.live for operator in self._operators.values()]
        if any(type(content) is not EncodedContent for content in contents):
            return None
        shapes = tuple(content.shape for content in contents)
        return (stream, self._windows, self._open_closed, self._non_empty, view.lateness, shapes)

    def detach(self) -> None:
        """From now on it asks nothing of the query that it was made for; for one with a `shape`."""
        self._content_of, self._variable_streams = _quads, None

    def complete_from(self) -> int | None:
        """The instant from which its windows hold the same whatever came before its first input.

        None while that is not known, and for windows that never forget.
        """
        stays = [operator.stay for operator in self._operators.values()]
        if self.first is None or not self._slides or None in stays:
            return None
        return self.first.newest + max(stay for stay in stays if stay is not None)

    # --- what it has become ---------------------------------------------------------------------

    def snapshot(self) -> TimelineSnapshot:
        """What it has become since the registration, for a checkpoint."""
        waiting = sorted(self._pending)
        return TimelineSnapshot(
            {
                stream: StreamViewSnapshot(view.lateness, view.time, view.active, view.idle)
                for stream, view in self._views.items()
            },
            [(key, operator.snapshot()) for key, operator in self._operators.items()],
            deque(entry[4] for entry in waiting),
            [entry[1] for entry in waiting],
            [entry[3] for entry in waiting],
            self._next_report,
            self._last_at,
            self._last_window,
            self.instant,
            self.first,
            self.late,
            self.behind,
            self.taken,
        )

    def restore(self, snapshot: TimelineSnapshot) -> None:
        """Go on from a snapshot of a timeline of the same registration."""
        self._views = {
            stream: _View(order, view.lateness, view.time, view.active, view.idle)
            for order, (stream, view) in enumerate(snapshot.streams.items())
        }
        self._next_report = snapshot.next_report
        self._last_at, self._last_window = snapshot.last_at, snapshot.last_window
        self.instant, self.first = snapshot.instant, snapshot.first
        self.late, self.behind, self.taken = snapshot.late, snapshot.behind, snapshot.taken
        declared = {each.name.value: each for each in self._windows}
        self._operators, self._by_order = {}, [[] for _ in self._views]
        for (window, stream), kept in snapshot.windows:
            operator = self._build(declared[window])
            if kept is not None:
                operator.restore(kept)
            elif self.instant is not None:
                operator.start(self.instant)
            self._operators[window, stream] = operator
            self._by_order[self._views[stream].order].append(operator)
        rows = zip(snapshot.waiting, snapshot.orders, snapshot.pushes, strict=True)
        self._pending = [(each.event_time, order, each.seq, push, each) for each, order, push in rows]
        self._begin_anew()

    def fork(self, taken: int, late: int, behind: int) -> QueryTimeline:
        """A timeline of its own that stands where this one does, of a query that counted otherwise.

        For windows that have no closes.
        """
        other = copy(self)
        own = {id(each): each.fork() for each in self._operators.values()}
        other._views = {stream: replace(view) for stream, view in self._views.items()}
        other._operators = {key: own[id(each)] for key, each in self._operators.items()}
        other._by_order = [[own[id(each)] for each in operators] for operators in self._by_order]
        other._pending = list(self._pending)
        other.taken, other.late, other.behind = taken, late, behind
        other._begin_anew()
        return other

    def _begin_anew(self) -> None:
        # Only the order of pushes matters: later ones come behind those that wait.
        self._pushes = count(1 + max((entry[3] for entry in self._pending), default=-1))
        self._list_windows()

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the streams read, in text order."""
        return tuple(self._views)

    @property
    def reads_every_stream(self) -> bool:
        """True when a window is on a variable that static data does not bind."""
        return any(
            not isinstance(window.stream, NamedNode) and self._bound_streams(window) is None
            for window in self._windows
        )

    @property
    def watermark(self) -> int | None:
        """The query's watermark: the least of its non-idle streams that have had an input."""
        if len(self._views) == 1:
            (only,) = self._views.values()
            return only.watermark() if only.active else None
        active = [(view, view.watermark()) for view in self._views.values() if view.active]
        running = [mark for view, mark in active if not view.idle and mark is not None]
        if running:
            return min(running)
        # All are idle: nothing is waited for.
        return max((mark for _, mark in active if mark is not None), default=None)

    @property
    def pending(self) -> int:
        """Elements that wait for the watermark."""
        return len(self._pending)

    def next_due(self) -> int | None:
        """The next instant at which time alone makes something happen; None when nothing is due."""
        if self.instant is None:
            return self._pending[0][0] if self._pending else None
        due = self._next_time_event()
        times = [due[0] + due[1]] if due is not None else []
        if self._pending:
            times.append(self._pending[0][0])
        return min(times, default=None)

    def window_size(self) -> int:
        """Quads held in windows."""
        return sum(op.state_size() for op in self._operators.values())

    def state_size(self) -> int:
        """Quads held in windows and in waiting elements."""
        return self.window_size() + sum(len(entry[4].quads) for entry in self._pending)

    def lag_of(self, stream: str) -> int | None:
        """This query's view of the stream's watermark, None when it has had no input since registration."""
        view = self._views.get(stream)
        return view.watermark() if view is not None and view.active else None

    # --- inputs ---------------------------------------------------------------------------------

    def add_stream(self, iri: str) -> None:
        """Read a stream that static data, or its declaration, has bound a window's variable to."""
        for declaration in self._windows:
            if isinstance(declaration.stream, NamedNode):
                continue
            bound = self._bound_streams(declaration)
            if bound is None or iri in bound:
                self._add_operator(declaration, iri)

    def handle(self, event: StreamInput) -> Iterator[Step]:
        """Take one input; evaluate at each `Evaluation` before drawing the next."""
        view = self._views.get(event.stream)
        if view is None:
            return iter(())
        if isinstance(event, Arrival) and self._in_order(view, event):
            return self._slide(view, event)
        return self._order(view, event)

    def _order(self, view: _View, event: StreamInput) -> Iterator[Step]:
        """Any input: elements wait for the watermark, those that come too late correct what was told."""
        late: list[Element] = []
        match event:
            case Arrival():
                late = self._accept(view, event)
            case Advance():
                view.active, view.idle = True, False
            case Idle():
                view.idle = True
        view.time = event.after
        watermark = self.watermark
        if watermark is None:
            return
        if late:
            yield from self._correct(event.stream, late)
        yield from self._advance(watermark)
        if self.instant is None and isinstance(event, Advance):
            # The first heartbeat or tick is the first instant.
            self._start(watermark)
            if self.report.kind == "on-content-change":
                yield Evaluation(watermark, "tick")
        if self.instant is not None:
            self.instant = max(self.instant, watermark)

    def _in_order(self, view: _View, event: Arrival) -> bool:
        """True for what comes nearly always: elements in order, for windows that only slide.

        Nothing waits then, before or after, and no window closes.
        """
        if not self._slides or self._pending or self.instant is None or len(self._views) != 1:
            return False
        at = self.instant
        for element in event.elements:
            if element.event_time < at:
                return False
            at = element.event_time
        return event.after.watermark(view.lateness) == at

    def _slide(self, view: _View, event: Arrival) -> Iterator[Step]:
        """`_order` for an arrival that is `_in_order`: elements enter one instant after the other.

        Before each of them come the instants at which elements leave.
        """
        view.active, view.idle, view.time = True, False, event.after
        operators = self._by_order[0]
        elements, end = event.elements, len(event.elements)
        place = 0
        while place < end:
            at = elements[place].event_time
            while True:
                due, leaving = at, False
                for operator in operators:
                    leaves = operator.next_due()
                    if leaves is not None and leaves <= due:
                        due, leaving = leaves, True
                if due == at:
                    break
                self.instant = due
                changed = False
                for operator in operators:
                    changed = operator.advance(due) or changed
                if changed:
                    self._last_at, self._last_window = due, None
                    yield Evaluation(due, "time")
            self.instant = at
            if leaving:
                for operator in operators:
                    operator.advance(at)
            while place < end and elements[place].event_time == at:
                for operator in operators:
                    operator.add(elements[place])
                place += 1
                self.taken += 1
            self._last_at, self._last_window = at, None
            yield Evaluation(at, "elements")

    def _accept(self, view: _View, event: Arrival) -> list[Element]:
        """Sort an arrival's elements into waiting and late ones, the late ones in time order."""
        if self.first is None:
            place = None if self.taken or self._pending else (event.elements[0].seq, self.instant)
            self.first = First(event.before.newest, place)
        before = event.before.watermark(view.lateness)
        view.active, view.idle = True, False
        push = next(self._pushes)
        late = []
        for element in event.elements:
            if self.instant is not None and before is not None and element.event_time < before:
                if event.admit_late:
                    late.append(element)
                else:
                    self.late += 1
            elif self.instant is not None and element.event_time < self.instant:
                # In order on its own stream, but the query went on without it.
                self.behind += 1
                late.append(element)
            else:
                entry = (element.event_time, view.order, element.seq, push, element)
                heapq.heappush(self._pending, entry)
        return sorted(late, key=lambda element: (element.event_time, element.seq))

    # --- working off time -----------------------------------------------------------------------

    def _advance(self, limit: int) -> Iterator[Step]:
        """Work off every instant up to the watermark ``limit`` in order."""
        while True:
            element_at = self._pending[0][0] if self._pending else None
            if element_at is not None and element_at > limit:
                element_at = None
            if self.instant is None:
                if element_at is None:
                    return
                self._start(element_at)
                yield from self._take(element_at, first=True)
                continue
            due = self._next_time_event()
            # A close of (open, close] is known only once the watermark is greater: phase 1.
            if due is not None and due[0] + due[1] > limit:
                due = None
            if due is None and element_at is None:
                return
            if due is None or (element_at is not None and (element_at, 0) < due):
                assert element_at is not None
                yield from self._take(element_at)
            elif due == (element_at, 0):
                yield from self._take(due[0], time=True)
            else:
                yield from self._work_off(*due, limit if element_at is None else element_at)

    def _start(self, origin: int) -> None:
        self.instant = origin
        for operator in self._operators.values():
            operator.start(origin)
        if self.report.kind == "periodic":
            every, t0 = self.report.every_ms, self.report.t0_ms
            self._next_report = t0 + ((origin - t0) // every + 1) * every

    def _next_time_event(self) -> tuple[int, int] | None:
        """The next (instant, phase) at which time alone does something."""
        found: tuple[int, int] | None = None
        for operator in self._operators.values():
            due = operator.next_due()
            if due is not None:
                key = (due, 1 if operator.closes_after else 0)
                found = key if found is None or key < found else found
        if self._next_report is not None:
            key = (self._next_report, 1 if self._reports_after else 0)
            found = key if found is None or key < found else found
        return found

    @property
    def _reports_after(self) -> bool:
        return any(operator.closes_after for operator in self._operators.values())

    def _work_off(self, at: int, phase: int, until: int) -> Iterator[Step]:
        """An instant at which no element is taken: expiries, closes, a periodic report.

        ``until`` is the instant up to which no element will be taken either.
        """
        changed, interval, reported = self._pass(at, phase)
        run = self._empty_run(at, reported, until)
        if run is None:
            yield from self._evaluate(at, "time", changed, interval, reported)
            return
        if self.report.kind == "on-content-change" or not self._non_empty:
            self._last_at, self._last_window = at, interval
            yield Evaluation(at, "time", interval, skipped=True)
        self._jump(run.end)
        if not self._non_empty:
            yield run

    def _pass(self, at: int, phase: int) -> tuple[bool, Interval | None, bool]:
        """Let operators do what is due at ``at``: (content changed, window closed, report due)."""
        assert self.instant is not None
        self.instant = max(self.instant, at)
        reported = self._report_due(at, phase)
        # Definition 17 (strict): a window counts as closed only after its end, so its close comes later.
        held = reported and self.report.strict
        changed = False
        interval: Interval | None = None
        for operator in self._operators.values():
            if (operator.closes_after and phase == 0) or (held and operator.closes):
                continue
            if operator.advance(at):
                changed = True
                if operator.closes and interval is None:
                    interval = operator.closed
        return changed, interval, reported

    def _report_due(self, at: int, phase: int) -> bool:
        if self._next_report is None or self._next_report > at or (self._reports_after and phase == 0):
            return False
        self._next_report += self.report.every_ms
        return True

    def _take(self, at: int, *, first: bool = False, time: bool = False) -> Iterator[Step]:
        """Take the first waiting transaction at ``at``, merged with what time does at that instant."""
        assert self.instant is not None
        self.instant = max(self.instant, at)
        changed, interval, reported = self._pass(at, 0) if time else (False, None, False)
        elements, order = self._next_transaction()
        self.taken += len(elements)
        operators = self._by_order[order]
        counted = False
        for element in elements:
            for operator in operators:
                changed = operator.add(element) or changed
            while _close_next(operators):
                changed = counted = True
                if self.report.kind == "on-window-close":
                    yield from self._evaluate(at, "elements", True, interval, False, closed=True)
                    interval = None
        if counted and self.report.kind == "on-window-close":
            return
        yield from self._evaluate(at, "elements", changed or first, interval, reported)

    def _next_transaction(self) -> tuple[list[Element], int]:
        """All elements of one push with one event time, of one stream."""
        event_time, order, _, push, element = heapq.heappop(self._pending)
        elements = [element]
        while self._pending and self._pending[0][:2] == (event_time, order) and self._pending[0][3] == push:
            elements.append(heapq.heappop(self._pending)[4])
        return elements, order

    def _evaluate(
        self,
        at: int,
        cause: Cause,
        changed: bool,
        interval: Interval | None,
        reported: bool,
        *,
        closed: bool = False,
    ) -> Iterator[Step]:
        match self.report.kind:
            case "on-content-change":
                wanted = changed
            case "on-window-close":
                wanted = closed or interval is not None
            case "periodic":
                wanted = reported
        if not wanted:
            return
        if self._non_empty and self.report.kind != "on-content-change" and self._empty():
            return
        self._last_at, self._last_window = at, interval
        yield Evaluation(at, cause, interval)

    def _empty(self) -> bool:
        return all(operator.empty for operator in self._operators.values())

    # --- late elements --------------------------------------------------------------------------

    def _correct(self, stream: str, late: list[Element]) -> Iterator[Step]:
        """Take elements older than the current instant: one transaction per event time."""
        assert self.instant is not None
        operators = self._by_order[self._views[stream].order]
        while late:
            event_time = late[0].event_time
            changed = closed = False
            while late and late[0].event_time == event_time:
                element = late.pop(0)
                self.taken += 1
                for operator in operators:
                    changed = operator.admit(element, self.instant) or changed
                while _close_next(operators):
                    closed = True
            if self.report.kind == "on-content-change":
                if changed or closed:
                    yield Evaluation(self.instant, "late")
            elif closed and self.report.kind == "on-window-close":
                self._last_at, self._last_window = self.instant, None
                yield Evaluation(self.instant, "late")
            elif changed and self._last_at is not None:
                yield Evaluation(self._last_at, "late", self._last_window, revises=True)

    # --- empty windows --------------------------------------------------------------------------

    def _empty_run(self, at: int, reported: bool, until: int) -> Skipped | None:
        """The run of empty reports from ``at`` on, when it is longer than ``max_empty_windows``.

        Every window is empty now and none will hold an element before the end of the run, so all its
        reports are the same; a month of silence under a slide of a second is one step, not millions.
        """
        if not self._empty():
            return None
        grids = [op for op in self._operators.values() if isinstance(op, GridWindow)]
        busy = [close - 1 for grid in grids if (close := grid.first_busy_close()) is not None]
        # A close of (open, close] holds the elements at its end, and is known only after it.
        end = min([until - 1 if self._reports_after else until, *busy])
        if self.report.kind == "periodic":
            assert self._next_report is not None
            if not reported:
                self._jump(min(end, self._next_report - 1))
                return None
            number = max(0, (end - self._next_report) // self.report.every_ms + 1)
            last = self._next_report + (number - 1) * self.report.every_ms
        else:
            number = sum(grid.closes_by(end) for grid in grids)
            closes = [close for grid in grids if (close := grid.last_close_by(end)) is not None]
            last = max(closes, default=at)
        return Skipped(at, last, number + 1) if number >= self._max_empty else None

    def _jump(self, end: int) -> None:
        """Move grids and reports behind ``end``: nothing but empty windows closes until then."""
        for operator in self._operators.values():
            if isinstance(operator, GridWindow) and (close := operator.last_close_by(end)) is not None:
                operator.skip_to(close)
        if self._next_report is not None and self._next_report <= end:
            every = self.report.every_ms
            self._next_report += ((end - self._next_report) // every + 1) * every
        assert self.instant is not None
        self.instant = max(self.instant, end)

    # --- streams --------------------------------------------------------------------------------

    def _bound_streams(self, declaration: WindowDeclaration) -> Sequence[str] | None:
        """The streams of a window's variable; None for every stream there is."""
        if self._variable_streams is None:
            return None
        return self._variable_streams(declaration.name.value)

    def _add_operator(self, declaration: WindowDeclaration, iri: str) -> None:
        key = (declaration.name.value, iri)
        if key in self._operators:
            return
        view = self._views.get(iri)
        if view is None:
            view = self._views[iri] = _View(len(self._views), self._lateness_ms)
            self._by_order.append([])
        view.lateness = max(view.lateness, declaration.lateness_ms or 0)
        operator = self._build(declaration)
        if self.instant is not None:
            operator.start(self.instant)
        self._operators[key] = operator
        self._by_order[view.order].append(operator)
        self._list_windows()

    def _build(self, declaration: WindowDeclaration) -> WindowOperator:
        """An operator of a window without elements."""
        operator = build_window(declaration.spec, t0_ms=self._t0_ms, open_closed=self._open_closed)
        operator.live = self._content_of(declaration.name)
        return operator


def _close_next(operators: Sequence[WindowOperator]) -> bool:
    """Apply one queued close of each counting window; False when none had one."""
    return any([operator.close_next() for operator in operators])
