"""Many instants in one generated function: windows move, the plan takes steps, rows become JSON.

The function generated for many instants does what `QueryTimeline.slide`, `EncodedContent`, `PlanState` and
`SelectEmission` do, which are its readable form and its test. These classes of single steps process what the
generated function cannot: measured or newly planned steps, and elements with named graphs or reifiers.

    for each transaction
        while elements leave before it    remove them, run a step
        remove elements that leave at it, add its elements, run a step
        write the rows inserted (or deleted) by each step as one line

If an element's triples are the only triples of their subject, and a star alone reads the window, the
generated loop makes the star operator's entry and row. The star operator processes all changes that are not
such single rows.

Rows of a shared plan have the label of a group member, and events are written member by member.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..errors import BudgetError
from ..expressions.compile import ExpressionEmitter
from ..expressions.emitter import block, fill
from ..output.current import Emission
from ..output.emission import ConstructEmission, EmissionCounts, Event, SelectEmission
from ..rows import Delta
from ..windows.counting import TriplesWindow
from ..windows.encoded import EncodedContent
from ..windows.operator import AllWindow, RangeWindow
from ..windows.query_streams import Transaction
from ..windows.timeline import QueryTimeline
from .event_code import EventCode
from .loop_window import CHANGED, EARLIEST, KEPT, SIZE, LoopWindow, WindowCode
from .plan import SourceKey
from .plan_state import PlanState


@dataclass(slots=True)
class RunOutput:
    """Events that one run of the generated loop emitted for a query, and the deltas of the query's answer.

    ``at`` is the last instant of the run with an event; ``last`` says that this instant is the last one of
    the run.
    """

    events: list[Event] = field(default_factory=list)
    changes: list[Delta] = field(default_factory=list)
    at: int = 0
    last: bool = False


@dataclass(slots=True, eq=False)
class MemberOutput:
    """Events that one run of the generated loop emitted for one member of a group.

    ``counts`` are the counts of events and rows that the member has emitted. ``middle`` is the text of an
    event's JSON line before the rows, and contains the version of the dataset. ``at`` is the last instant
    with an event, and ``place`` is the number of this instant in the run.
    """

    counts: EmissionCounts
    events: list[Event] = field(default_factory=list)
    middle: str = ""
    version: int = 0
    at: int = 0
    place: int = -1


@dataclass(slots=True)
class RunResult:
    """Result of a run of the generated loop: the processed transactions and instants, and the emitted events.

    ``done`` is the number of transactions that the run has processed. ``entered`` says that elements entered
    at ``at``, the last instant; ``before`` is the pair of these values for the instant before. If ``error``
    is set, the evaluation of the next instant failed; ``entering`` says that elements entered at that
    instant.

    For a shared plan, ``net`` is the delta of all members' rows over all instants of the run. ``refused``
    has, by the label of the member, the rows of members whose events were too large at the last instant;
    these rows are also part of ``net``.
    """

    done: int = 0
    instants: int = 0
    at: int = 0
    entered: bool = False
    before: tuple[int, bool] = (0, False)
    entering: bool = False
    output: RunOutput = field(default_factory=RunOutput)
    error: Exception | None = None
    net: Delta = field(default_factory=dict)
    refused: dict[int, Delta] = field(default_factory=dict)


def run_loop(
    state: PlanState,
    timeline: QueryTimeline,
    emission: Emission,
    check: Callable[..., int],
    label: int | None = None,
) -> RunLoop | None:
    """Return the generated loop of a query; None if its windows, plan or output are not supported.

    ``check`` returns how many rows may still be added to the answer after the given deltas, and raises
    BudgetError above the limit. ``label`` is the column of a shared plan's rows that names the group member;
    ``emission`` then belongs to one member, and ``check`` gets the run's delta so far and the next delta.
    """
    if not isinstance(emission, SelectEmission):
        if not isinstance(emission, ConstructEmission) or label is not None or not emission.counts_quads:
            return None
    whole = emission.ordered or emission.output == "rstream"
    if whole if state.top is None else label is not None:
        return None
    plan, streams, windows = state.plan, list(timeline.inputs.views), []
    if len(timeline.windows.contents) > len(timeline.windows.operators):
        return None
    sources = {keys[0] for keys in state.keys.values()}
    if not plan.sources <= sources.union(node.source for node in plan.nodes if node.is_table):
        return None
    for (_, stream), operator, (key, live) in zip(
        timeline.windows.operators, timeline.windows, timeline.windows.contents, strict=True
    ):
        if (
            type(operator) not in (RangeWindow, AllWindow, TriplesWindow)
            or type(live) is not EncodedContent
            or key[1]
        ):
            return None
        place = streams.index(stream)
        triples = operator.count if isinstance(operator, TriplesWindow) else None
        wanted = live.wanted and live.wanted - {state.terms.coder.reifies}
        source = state.keys[key[0]][0]
        star = plan.star_of(source, wanted) if triples is None and label is None else None
        windows.append(LoopWindow(place, source, operator.stay, triples, wanted, star))
    return RunLoop(state, timeline, windows, emission, check, label)


@dataclass(slots=True)
class RunLoop:
    """The generated loop of one query over many instants; generated again with the plan's function.

    ``ran`` is the result of the last run of the generated loop.
    """

    state: PlanState
    timeline: QueryTimeline
    windows: Sequence[LoopWindow]
    emission: SelectEmission | ConstructEmission
    check: Callable[..., int]
    label: int | None = None
    head: str = "def run(given, steps, outputs, rows):"
    source: str = ""
    sources: Mapping[SourceKey, str] = field(init=False)
    only: Mapping[SourceKey, int] = field(init=False)
    stars: Mapping[int, str] = field(init=False)
    ran: RunResult = field(default_factory=RunResult)
    _middle: tuple[int, str] = (-1, "")
    _function: Any = None
    _generated_for: int = -1
    _event_code: EventCode = field(init=False)

    def __post_init__(self) -> None:
        self._event_code = EventCode(self.state, self.emission, self.label)
        self.sources = {each.source: f"change{number}" for number, each in enumerate(self.windows)}
        rows = {f"rows{number}": each.star for number, each in enumerate(self.windows)}
        self.stars = {star[0]: name for name, star in rows.items() if star is not None}
        self.only = {each.source: each.only for each in self.windows if each.only is not None}

    def run(
        self, given: Sequence[Transaction], outputs: int | Mapping[int, MemberOutput], rows: int
    ) -> RunResult | None:
        """Process the first transactions in one run; None if the first one must be evaluated separately.

        ``outputs`` is the dataset's version for a query's private plan, or the outputs of a group's members
        by label. ``rows`` is the number of rows in the query's answer; for a shared plan, an upper bound of
        the members' rows.
        """
        state, ran = self.state, self.ran
        compiled = state.compiled
        elements = given[0][2] if len(given) == 1 else [*chain.from_iterable([each for *_, each in given])]
        plain = state.terms.coder.encode(elements)
        if plain < len(elements):
            given = [each for each in given if (plain := plain - len(each[2])) >= 0]
        steps = state.plain_steps()
        if steps <= 0 or not given:
            return None
        if self._generated_for != compiled.renewals:
            self.source, self._function = compiled.loop(self)
            self._generated_for = compiled.renewals
        if type(outputs) is int and self._middle[0] != outputs:
            self._middle = outputs, f',"version":{outputs}{self.emission.head}'
        ran.done, ran.instants, ran.error = 0, 0, None
        try:
            self._function(given, steps, outputs if self.label is not None else self._middle[1], rows)
        except Exception as failure:
            ran.error = failure
            if isinstance(failure, BudgetError):
                state.add_location(failure)
        state.plan.figures.steps += ran.instants
        return ran if ran.done or ran.instants or ran.error else None

    # --- the generated code -----------------------------------------------------------------------

    def write(self, out: ExpressionEmitter, steps: Callable[[], str], delta: str) -> None:
        """Write the lines of the loop around a step; the local ``delta`` has the step's answer delta."""
        coder = self.state.terms.coder
        out.names.update(keys_of=coder.keys, text=self.state.terms.texts)
        out.names.update(clock=time.monotonic, most=sys.maxsize, timeline=self.timeline, ran=self.ran)
        views = list(self.timeline.inputs.views.values())
        windows = [
            WindowCode(out, number, each, operator)
            for number, (each, operator) in enumerate(zip(self.windows, self.timeline.windows, strict=True))
        ]
        opened = [each.setup_lines() for each in windows]
        expired = [each.expiry_lines() for each in windows]
        entered = []
        for stream in sorted({each.stream for each in self.windows}):
            out.names[f"view{stream}"] = views[stream]
            test = "entering" if len(views) == 1 else f"entering and view is view{stream}"
            inside = [each.entry_lines() for each in windows if each.window.stream == stream]
            entered.append(fill("if $test:\n    $inside", test=test, inside=block(inside)))
        alone = self.label is None
        out.line(
            *fill(
                _LOOP,
                opened=block(opened),
                begun="middle = outputs" if alone else "net, refused = {}, {}",
                earliest=block([each.filled(EARLIEST) for each in windows if each.expires]),
                expired=block(expired),
                entered=block(entered),
                changed=block([each.filled(CHANGED) for each in windows if each.window.star]),
                changes=" or ".join([*self.sources.values(), *self.stars.values()]),
                steps=steps(),
                delta=delta,
                events=self._event_lines(out, delta),
                whole=self._event_code.whole(out, self._top(out))
                if self.emission.output == "rstream"
                else "",
                over="" if alone else _OVER,
                failed="" if alone else fill(_FAILED, changes=block([each.filled(KEPT) for each in windows])),
                sizes=block([each.filled(SIZE) for each in windows]),
                result=_OWN_RESULT if alone else _RESULT,
            ).split("\n")
        )

    def _top(self, out: ExpressionEmitter) -> str | None:
        return None if self.state.top is None else out.name_of(self.state.top, "op")

    def _event_lines(self, out: ExpressionEmitter, delta: str) -> str:
        """Return the generated lines that write the events for a delta of the answer."""
        top = self._top(out)
        check = out.name_of(self.check, "check")
        if self.label is not None:
            members = self._event_code.members(out, delta, self.label)
            return fill(_MEMBERS, check=check, delta=delta, members=members)
        counts = out.name_of(self.emission.counts, "counts")
        ordered = delta if top is None else f"{top}.in_order({delta})"
        rows = self._event_code.rows(out, ordered, "emitted", counts, "last, emitted_at = True, due")
        return fill(_ROWS, check=check, delta=delta, rows=rows)


# In the code template, ``room`` is the number of rows that may be added before the answer's limit is checked.
_LOOP = """
first = entered = entering = last = over = False
done = taken = last_instant = emitted_at = grown = 0
$opened
room = (budget.limits.kept or most) - rows
emitted, changes, remaining, heavy = [], [], steps, budget.limits.bytes or most
$begun
try:
    for at, view, elements in given:
        until = at if elements else at + 1
        while True:
            due = until
            $earliest
            entering = due == until
            if entering and not elements: break
            if not remaining: return
            timeline.instant = due
            $expired
            $entered
            $changed
            last = False
            if $changes:
                budget.since = clock()
                $steps
                if $delta:
                    grown += len($delta)
                    $events
            $whole
            remaining -= 1
            $over
            last_instant, entered = due, entering
            if entering: break
        taken += len(elements)
        done += 1
    if at > timeline.instant: timeline.instant = at
$failed
finally:
    budget.since = 0.0
    $sizes
    timeline.inputs.taken += taken
    ran.done, ran.instants, ran.at, ran.entered = done, steps - remaining, last_instant, entered
    $result
"""
_ROWS = """
if grown > room: room, grown = $check([*changes, $delta]), 0
$rows
changes.append($delta)
"""
_MEMBERS = """
if grown > room: room, grown = $check(net, $delta), 0
$members
"""
_OVER = """
if over:
    ran.before, last_instant, entered = (last_instant, entered), due, entering
    if entering: taken, done = taken + len(elements), done + 1
    return
"""
# After a failed instant, each member of the group is evaluated separately at that instant.
_FAILED = """
except BaseException:
    $changes
    if entering: taken, done = taken + len(elements), done + 1
    raise
"""
_RESULT = "ran.entering, ran.net, ran.refused = entering, net, refused"
_OWN_RESULT = """
output = ran.output
output.events, output.changes, output.at, output.last = emitted, changes, emitted_at, last
"""
