"""A query's timeline: maps stream inputs to evaluation instants, at which window contents are read.

The timeline is pure and deterministic: it reads no clock and no store, and writes no output. The reference
evaluator and the native evaluator both use this timeline of a query. The timeline of a query implements
semantics.md, sections 2 to 4:

    inputs       Arrival (the elements of one push), Advance (heartbeat or clock tick), Idle
    order        elements are processed in (event_time, order of the streams in the text, seq) once the
                 query's watermark, the least of its non-idle streams, has reached them
    instants     the event times of processed elements, expiries and closes, in time order
    evaluations  one per transaction that can change the answer (on-content-change), per instant at which a
                 window closes (on-window-close), or at fixed instants (periodic)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby

from ..algebra.query import WindowDeclaration
from ..algebra.reports import Cause, Evaluation, Interval, Reminder, Report, Step, UnchangedRun
from ..inputs import NEVER, Advance, Arrival, Element, StreamInput
from .operator import EVENT_TIME, WindowOperator
from .query_streams import (
    ContentOf,
    InputOrder,
    QueryWindows,
    StreamsOf,
    StreamView,
    TimelineSnapshot,
    Transaction,
)
from .report_strategies import STRATEGIES
from .runs import AskSilent, ReportSchedule, always, never

_NOT_DUE = (1 << 62, 0)


class QueryTimeline:
    """Orders one query's inputs by event time, and decides when to evaluate the query.

    The caller must evaluate the query at every `Evaluation` before it resumes the timeline's generator,
    because window contents are valid only until then.

    Attributes:
        windows: the window operators of the query.
        inputs: the query's streams, and the elements that wait for the watermark.
        instant: the query's current instant; None before the first instant.
        origin: the first instant; None before it, and in a timeline that was restored.
        quiet_until: the instant until which AFTER suppresses events; `NEVER` afterwards, or without AFTER.
        remind_at: the instant at which rows of the last answer are emitted again; None without one. The
            caller sets ``remind_at`` after each evaluation and each reminder.
    """

    def __init__(
        self,
        windows: Sequence[WindowDeclaration],
        report: Report,
        *,
        t0_ms: int | None = None,
        open_closed: bool = False,
        max_empty_windows: int = 1000,
        lateness_ms: int = 0,
        content_of: ContentOf | None = None,
        variable_streams: StreamsOf | None = None,
    ) -> None:
        """Create the timeline of a newly registered query.

        Args:
            windows: the declarations of the windows in the order of the text.
            report: the policy that says when to evaluate.
            t0_ms: the origin of grids without an origin in the query text.
            open_closed: True for ``bounds: open-closed``.
            max_empty_windows: the length above which a run of empty reports becomes one `EmptyReportRun`.
            lateness_ms: how long the registration waits for disordered elements on every stream, in
                milliseconds.
            content_of: returns a new empty content for a window.
            variable_streams: returns the stream IRIs that static data bind to a window's stream variable, or
                None for every stream; called with the window's name.
        """
        self.report = report
        self._max_empty = max_empty_windows
        self._lateness_ms = lateness_ms
        self.quiet_until = NEVER
        self._strategy = strategy = STRATEGIES[report.kind]
        self.windows = QueryWindows(
            tuple(windows), t0_ms, open_closed, strategy.at_closes, content_of, variable_streams
        )
        self.inputs = InputOrder()
        self._slides = strategy.at_changes and self.windows.slide and not report.repeats
        self.remind_at: int | None = None
        self._schedule = ReportSchedule(self.windows, report)
        self._last_at: int | None = None
        self._last_window: Interval | None = None
        self.instant: int | None = None
        self.origin: int | None = None
        for declaration in windows:
            for iri in sorted(self.windows.streams_of(declaration) or ()):
                self._read(declaration, iri)

    # --- description and state of the timeline ----------------------------------------------------

    def shape(self) -> Hashable | None:
        """Return a key that is equal for timelines that queries may share; None if sharing is impossible.

        Timelines of equal shape have equal window contents and evaluations under equal inputs.
        """
        windows = self.windows.shape if len(self.inputs.views) == 1 else None
        if windows is None or self.report.after_ms is not None or self.report.repeats:
            return None
        ((stream, view),) = self.inputs.views.items()
        return (stream, windows, self.report, self._max_empty, view.lateness)

    def complete_from(self) -> int | None:
        """Return the instant from which window contents depend on no input before the first; or None.

        None means that no instant is known from which contents depend only on later inputs.
        """
        first, stay = self.inputs.first, self.windows.stay
        return None if first is None or stay is None else first.newest + stay + self.report.every_ms

    def snapshot(self) -> TimelineSnapshot:
        """Return the state of the timeline for a checkpoint."""
        inputs, waiting = self.inputs, sorted(self.inputs.heap)
        return TimelineSnapshot(
            {iri: copy(view) for iri, view in inputs.views.items()},
            [(key, operator.snapshot()) for key, operator in self.windows.operators.items()],
            deque(element for *_, element in waiting),
            [order for _, order, *_ in waiting],
            [push for *_, push, _ in waiting],
            self._schedule.next_report,
            self._last_at,
            self._last_window,
            self.instant,
            inputs.first,
            inputs.late,
            inputs.behind,
            inputs.taken,
            self.quiet_until,
        )

    def restore(self, snapshot: TimelineSnapshot) -> None:
        """Restore the timeline from a snapshot of the same registration."""
        self._schedule.next_report = snapshot.next_report
        self._last_at, self._last_window = snapshot.last_at, snapshot.last_window
        self.instant, self.quiet_until = snapshot.instant, snapshot.quiet_until
        self.inputs.restore(snapshot)
        self.windows.restore(snapshot, self.inputs.views)

    def fork(self, taken: int, late: int, behind: int) -> QueryTimeline:
        """Return an independent copy of the timeline for a query whose counts of inputs differ."""
        other = copy(self)
        other.windows, other.inputs = self.windows.fork(), self.inputs.fork()
        other._schedule = ReportSchedule(other.windows, self.report, self._schedule.next_report)
        other.inputs.taken, other.inputs.late, other.inputs.behind = taken, late, behind
        for (_, stream), operator in other.windows.operators.items():
            other.inputs.views[stream].operators.append(operator)
        return other

    def next_due(self) -> int | None:
        """Return the next instant at which time or a waiting element causes an event; None without one."""
        waiting, due = self.inputs.next_at, sum(self._next_time_event())
        due = due if waiting is None else min(due, waiting)
        return None if due == _NOT_DUE[0] else due

    def state_size(self) -> int:
        """Return the number of quads in the query's windows and waiting elements."""
        return self.windows.size() + sum(len(element.statements) for *_, element in self.inputs.heap)

    # --- inputs ---------------------------------------------------------------------------------

    def add_stream(self, iri: str) -> None:
        """Read a stream to which static data, or its declaration, have bound a window's stream variable."""
        for declaration in self.windows.declarations:
            bound = self.windows.streams_of(declaration)
            if bound is None or iri in bound:
                self._read(declaration, iri)

    def _read(self, declaration: WindowDeclaration, iri: str) -> None:
        """Add a stream to a window, with a window operator for the stream."""
        if (declaration.name.value, iri) not in self.windows.operators:
            view = self.inputs.views.setdefault(iri, StreamView(self._lateness_ms))
            view.lateness = max(view.lateness, declaration.lateness_ms or 0)
            self.windows.add(declaration, iri, view, self.instant)

    def handle(self, event: StreamInput, silent: AskSilent = never) -> Iterator[Step]:
        """Process one input; the caller evaluates at each `Evaluation` before it resumes the iterator.

        The function ``silent`` is called after an evaluation, and returns True if another evaluation over the
        same contents would emit nothing. A run of evaluations that would emit nothing becomes one
        `UnchangedRun` and the evaluation at its end.
        """
        given, ends = self.gather((event,))
        if ends:
            return self.slide(given)
        view = self.inputs.views.get(event.stream)
        if view is None:
            return iter(())
        if type(event) is Arrival and len(self.windows.grids) == len(view.operators):
            if self.inputs.in_order(event, self.instant):
                # Elements before the next close of a grid window or periodic report cause no evaluation.
                number = bisect_left(event.elements, sum(self._next_time_event()), key=EVENT_TIME)
                if number:
                    for grid in self.windows.grids:
                        grid.add_all(event.elements[:number])
                    self.instant = event.elements[number - 1].event_time
                    self.inputs.taken += number
                if number == len(event.elements):
                    view.active, view.idle, view.time = True, False, event.after
                    return iter(())
                event = event._replace(elements=event.elements[number:])
        steps = self._order(view, event, silent)
        return (
            steps
            if self.report.after_ms is None
            else (each for each in steps if each.end >= self.quiet_until)
        )

    def gather(self, events: Sequence[StreamInput]) -> tuple[list[Transaction], list[int]]:
        """Return the transactions of the first inputs if all windows slide; see `InputOrder.gather`."""
        if self.instant is None or self.quiet_until > NEVER or not self._slides:
            return [], []
        return self.inputs.gather(events, self.instant)

    def _order(self, view: StreamView, event: StreamInput, silent: AskSilent) -> Iterator[Step]:
        """Process any input: elements wait for the watermark, and late elements correct earlier answers."""
        late = self.inputs.accept(view, event, self.instant)
        watermark = self.inputs.watermark
        if watermark is None:
            return
        if late:
            yield from self._correct(view.operators, late)
            if not (isinstance(event, Arrival) and event.admit_late):
                self.inputs.missed.clear()
        yield from self._advance(watermark, silent)
        if self.instant is None and isinstance(event, Advance):
            # A query whose first input is a heartbeat or tick has its first instant at the watermark.
            self.start(watermark)
            if self._strategy.at_changes:
                yield Evaluation(watermark, "tick")
        if self.instant is not None:
            self.instant = max(self.instant, watermark)

    def slide(self, transactions: Iterable[Transaction]) -> Iterator[Step]:
        """Add elements to windows instant by instant.

        Before each instant of the query, elements that expire earlier are removed from the windows.
        """
        windows = tuple(self.windows)
        for at, view, elements in transactions:
            while due := [leaves for each in windows if (leaves := each.next_due()) is not None]:
                if (first := min(due)) > at - (len(elements) > 0):
                    break
                self.instant = first
                if any([operator.advance(first) for operator in windows]):
                    yield Evaluation(first, "time")
            assert self.instant is not None
            self.instant = max(self.instant, at)
            if elements:
                for operator in windows:
                    operator.advance(at)
                for operator in view.operators:
                    operator.add_all(elements)
                self.inputs.taken += len(elements)
                yield Evaluation(at, "elements")

    # --- passage of event time --------------------------------------------------------------------

    def _advance(self, limit: int, silent: AskSilent) -> Iterator[Step]:
        """Process every instant of the query up to the watermark ``limit`` in order."""
        while True:
            waiting, due = self.inputs.next_at, self._next_time_event()
            element = _NOT_DUE if waiting is None or waiting > limit else (waiting, 0)
            # A window (open, close] closes only once the watermark has passed its end, which is phase 1 of
            # the instant.
            if sum(due) > limit:
                due = _NOT_DUE
            if element == due == _NOT_DUE:
                return
            if element <= due:
                yield from self._take(element[0], time=element == due)
            else:
                quiet = self.quiet_until - 1 if due[0] < self.quiet_until else limit
                yield from self._process_time_event(*due, min(limit, element[0], quiet), silent)

    def start(self, origin: int) -> None:
        """Begin at the first instant; inputs begin at their own unless the caller has begun before."""
        self.instant = self.origin = origin
        if self.report.after_ms is not None:
            self.quiet_until = origin + self.report.after_ms
        for operator in self.windows:
            operator.start(origin)
        self._schedule.start(origin)

    def _next_time_event(self) -> tuple[int, int]:
        """Return the next (instant, phase) at which time alone causes an event, or `_NOT_DUE`.

        Phase 1 of an instant is after the watermark has passed it, when windows ``(open, close]`` close.
        """
        if self.instant is None:
            return _NOT_DUE
        due = [(at, int(each.closes_after)) for each in self.windows if (at := each.next_due()) is not None]
        if (report := self._schedule.next_report) is not None:
            due.append((report, int(self.windows.closes_after)))
        if self.quiet_until > NEVER:
            due.append((self.quiet_until, 0))
        if self.remind_at is not None:
            due.append((self.remind_at, 0))
        return min(due, default=_NOT_DUE)

    def _process_time_event(self, at: int, phase: int, until: int, silent: AskSilent) -> Iterator[Step]:
        """Process an instant without elements: expiries, closes, a periodic report.

        The argument ``until`` says that no element will be processed up to this instant.
        """
        reminds = _take_reminder(self, at)
        changed, interval, reported = yield from self._pass(at, phase)
        run, ends_quiet = None, at == self.quiet_until
        # Rows that are emitted again may be due within a run of empty reports, so such a run has evaluations.
        runs = not ends_quiet and not self.report.repeats
        if runs and self.windows.empty and (reported or self._schedule.next_report is None):
            run = self._schedule.empty_run(at, until, self._max_empty)
        if run is None:
            quiet = at < self.quiet_until
            wanted = self._is_wanted(at, changed, interval, reported)
            steps = self._tell(at, "time", interval) if wanted else ()
            yield from steps
            if reminds and not steps:
                yield Reminder(max(at, self.instant or at))
            if wanted and (quiet or not steps):
                # The query's AFTER clause suppresses the event, or non_empty suppresses the report of empty
                # windows.
                silent = always
            if not ends_quiet:
                yield from self._pass_over(until, silent if wanted else never)
            return
        if self._strategy.at_changes or not self.report.non_empty:
            yield Evaluation(at, "time", interval, skipped=True)
        self._jump(run.end)
        self._last_at = run.end
        closed = ((grid.closed, grid.past_ms) for grid in self.windows.grids)
        self._last_window = next(
            (each for each, past in closed if each and each.close + past == run.end), None
        )
        if not self.report.non_empty:
            yield run

    def _pass(self, at: int, phase: int) -> Generator[Evaluation, None, tuple[bool, Interval | None, bool]]:
        """Advance the window operators, and evaluate closed sessions.

        Returns whether a window's content changed, the bounds of a closed window, and whether a periodic
        report is due.
        """
        assert self.instant is not None
        self.instant = max(self.instant, at)
        reported = (phase == 1 or not self.windows.closes_after) and self._schedule.take_report(at)
        # Definition 17 of RSP-QL (strict): a window counts as closed only after its end, so it closes in the
        # next step.
        held = reported and self.report.strict
        changed = False
        interval: Interval | None = None
        for operator in self.windows:
            if (operator.closes_after and phase == 0) or (held and operator.closes):
                continue
            if operator.advance(at):
                changed, self._last_at = True, None
                if operator.closes and interval is None:
                    interval = operator.closed
        while closing := self.windows.close_next():
            self._last_at = None
            yield from self._tell(at, "time", interval or closing[-1].closed)
            interval = None
        return changed, interval, reported

    def _take(self, at: int, *, time: bool) -> Iterator[Step]:
        """Process the first waiting transaction at ``at``, and the expiries and closes at that instant."""
        changed, interval, reported = False, None, False
        reminds = _take_reminder(self, at)
        if self.instant is None:
            self.start(at)
            changed = True
        elif time:
            changed, interval, reported = yield from self._pass(at, 0)
        else:
            self.instant = max(self.instant, at)
        for view, elements in self.inputs.take_transaction():
            self.inputs.taken += len(elements)
            for element in elements:
                for operator in view.operators:
                    if operator.add(element):
                        changed, self._last_at = True, None
                while self.windows.close_next():
                    changed, self._last_at = True, None
                    if self._strategy.at_closes:
                        yield from self._tell(at, "elements", interval)
                        interval = None
        steps: Sequence[Step] = ()
        if self._is_wanted(at, changed, interval, reported):
            steps = self._tell(at, "elements", interval)
            yield from steps
        if reminds and not steps:
            yield Reminder(at)

    def _is_wanted(self, at: int, changed: bool, interval: Interval | None, reported: bool) -> bool:
        """Return True if the query's report policy evaluates the events at an instant."""
        if NEVER < self.quiet_until <= at:
            # When the time of AFTER ends, the query's whole answer is emitted as if it were new.
            self.quiet_until, changed = NEVER, True
        return self._strategy.wants(changed, interval is not None, reported)

    def _tell(self, at: int, cause: Cause, interval: Interval | None) -> Sequence[Evaluation]:
        """Return the evaluation at an instant; none if non_empty suppresses it, as the windows are empty."""
        self._last_at, self._last_window = at, interval
        if self.report.non_empty and not self._strategy.at_changes and self.windows.empty:
            return ()
        return (Evaluation(at, cause, interval),)

    # --- late elements --------------------------------------------------------------------------

    def _correct(self, operators: Sequence[WindowOperator], late: Sequence[Element]) -> Iterator[Step]:
        """Process late elements, older than the current instant, as one transaction per event time."""
        assert self.instant is not None
        for at, elements in groupby(late, EVENT_TIME):
            changed = closed = reported = False
            unreported = self.report.non_empty and self.windows.empty
            for element in elements:
                self.inputs.taken += 1
                for operator in operators:
                    before = operator.closed
                    took = operator.admit(element, self.instant)
                    if took and before is not None and self._last_window == before:
                        # The late element has extended a session that was the last report.
                        self._last_window, reported = operator.closed, True
                    changed = changed or took
                if all(each.missed for each in operators):
                    self.inputs.missed.append(element)
                while self.windows.close_next():
                    closed = True
            if self._strategy.corrects(changed, closed):
                self._last_at, self._last_window = self.instant, None
                yield Evaluation(self.instant, "late")
            elif changed and self._last_at is not None and (reported or at <= self._last_at):
                yield Evaluation(self._last_at, "late", self._last_window, revises=not unreported)
            elif changed or closed:
                self._last_at = None

    # --- runs of closes and periodic reports ------------------------------------------------------

    def _pass_over(self, until: int, silent: AskSilent) -> Iterator[UnchangedRun]:
        """Skip the closes and reports up to ``until`` that change no window and emit nothing.

        The last close or report of the run is not skipped but evaluated. A query with periodic reports is not
        evaluated at closes, so closes before its next report that change no window are skipped even if
        ``silent`` returns False.
        """
        waiting, schedule = self.inputs.next_at, self._schedule
        until = min([until, *(at - 1 for at in (waiting, self.remind_at) if at is not None)])
        unreported, before, number = schedule.unchanged_run(until)
        if unreported is not None:
            self._last_at = None
            self._jump(unreported)
        if number and silent():
            self._jump(before)
            if silent is not always:
                yield UnchangedRun(before, number)

    def _jump(self, end: int) -> None:
        """Move the timeline to the instant ``end``; until then only windows with unchanged content close."""
        self._schedule.skip_to(end)
        assert self.instant is not None
        self.instant = max(self.instant, end)


def _take_reminder(timeline: QueryTimeline, at: int) -> bool:
    """Return True, and forget the instant, if a timeline is to emit rows again at ``at``."""
    due = timeline.remind_at is not None and timeline.remind_at <= at
    if due:
        timeline.remind_at = None
    return due
