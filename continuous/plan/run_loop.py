"""A run of instants in one generated function: windows move, the plan takes its steps, rows become lines.

What it does at an instant is what `QueryTimeline.slide`, `EncodedContent`, `PlanState` and `SelectEmission`
do, which are its readable form and the test of it. They take over where it stops: before a step that is
measured or planned anew, and at elements with named graphs or reifiers, which a window keeps in another way.

    for each transaction
        while elements leave before it    they go, a step
        those that leave at it go, its elements enter, a step
        the rows that came (or went) at each step are told as one line

Triples that are all there is of their subject, of an element that comes or goes, are a row of the star that
alone reads a window: its entry and row are made here, and it looks at all other changes.

Rows of a plan for several queries bear the label of a member: they are told member by member.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from quadrill.store.documents.one_subject import MOST_KNOWN

from ..errors import BudgetError
from ..expressions.compile import Emitter
from ..operators.star import Star
from ..output.current import Emission
from ..output.emission import ConstructEmission, EmissionCounts, Event, SelectEmission
from ..rows import Delta
from ..windows.counting import TriplesWindow
from ..windows.encoded import EncodedContent
from ..windows.operator import AllWindow, RangeWindow
from ..windows.query_streams import Transaction
from ..windows.taken import Columns, Predicates
from ..windows.timeline import QueryTimeline
from .plan import SourceKey
from .plan_state import PlanState
from .telling import Telling

_OLDEST = "out{0} = held{0}[0].event_time + {1} if held{0} else most"  # when the oldest element leaves


@dataclass(slots=True)
class Told:
    """What a run tells a query: events, and the changes of its answer.

    ``at`` is the last instant that told something, ``last`` says that it is the last of the run.
    """

    events: list[Event] = field(default_factory=list)
    changes: list[Delta] = field(default_factory=list)
    at: int = 0
    last: bool = False


@dataclass(slots=True, eq=False)
class MemberTold:
    """What a run tells a member. ``counts`` are those of its emission, ``middle`` is that of its lines.

    ``version`` is in it; ``at`` is the last instant that told something, ``place`` numbers that instant.
    """

    counts: EmissionCounts
    events: list[Event] = field(default_factory=list)
    middle: str = ""
    version: int = 0
    at: int = 0
    place: int = -1


@dataclass(slots=True)
class Ran:
    """What a run has done: how many transactions it has worked off, at how many instants, and what it tells.

    At ``at``, the last instant, some came if ``entered``; ``before`` are these of the instant before. With an
    ``error`` the evaluation behind these failed, at an instant at which some came if ``entering``.

    Of members: ``net`` is how the rows of all have changed, at all instants together; ``refused`` is what was
    too much for some at the very last one, which is also part of it, by label.
    """

    done: int = 0
    instants: int = 0
    at: int = 0
    entered: bool = False
    before: tuple[int, bool] = (0, False)
    entering: bool = False
    told: Told = field(default_factory=Told)
    error: Exception | None = None
    net: Delta = field(default_factory=dict)
    refused: dict[int, Delta] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoopWindow:
    """One window of a loop: the place of its stream, the source of the plan that its triples are.

    ``stay`` is None for a window that nothing leaves by time; of ``triples`` it keeps the newest, where it
    counts them. ``star`` is what takes rows from it, with its place in the plan.
    """

    stream: int
    source: SourceKey
    stay: int | None
    triples: int | None
    wanted: Predicates
    star: tuple[int, Star] | None


Pick: TypeAlias = Callable[[list[int]], tuple[int, ...]]


class _Picks(dict[Columns | None, Pick | None]):
    """By the columns of an element: what gives a star's objects; None where it is no row by itself."""

    def __init__(self, star: Star, wanted: Predicates) -> None:
        super().__init__({None: None})
        self._star, self._wanted = star, wanted or ()

    def __missing__(self, columns: Columns) -> Pick | None:
        if len(self) >= MOST_KNOWN:
            self.clear()
            self[None] = None
        mine = [(each, place) for place, each in enumerate(columns.predicates) if each in self._wanted]
        by, places = dict(mine), self._star.places
        whole = len(mine) == len(by) == len(places) > 1 and by.keys() == places.keys()
        found = self[columns] = itemgetter(*[by[each] for each in places]) if whole else None
        return found


def run_loop(
    state: PlanState,
    timeline: QueryTimeline,
    emission: Emission,
    check: Callable[..., int],
    label: int | None = None,
) -> RunLoop | None:
    """The loop of a query; None where its windows, its plan or what it tells must be taken one by one.

    ``check`` says how many rows the answer may have more behind some changes; it raises when it has too many.
    ``label``: the column with the member that a row is for; ``emission`` is that of one of them, ``check``
    gets the change of the run so far and the one behind that.
    """
    if not isinstance(emission, SelectEmission):
        if not isinstance(emission, ConstructEmission) or label is not None or not emission.counts_quads:
            return None
    whole = emission.ordered or emission.output == "rstream"
    if whole if state.top is None else label is not None:
        return None
    plan, streams, windows = state.plan, list(timeline.inputs.views), []
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
    """The loop of one query, as `compiled.Around`; made again with the other functions of its plan.

    ``ran`` is what its last run has done.
    """

    state: PlanState
    timeline: QueryTimeline
    windows: Sequence[LoopWindow]
    emission: SelectEmission | ConstructEmission
    check: Callable[..., int]
    label: int | None = None
    head: str = "def run(given, steps, telling, rows):"
    source: str = ""
    sources: Mapping[SourceKey, str] = field(init=False)
    only: Mapping[SourceKey, int] = field(init=False)
    stars: Mapping[int, str] = field(init=False)
    ran: Ran = field(default_factory=Ran)
    _middle: tuple[int, str] = (-1, "")
    _function: Any = None
    _made_for: int = -1
    _telling: Telling = field(init=False)

    def __post_init__(self) -> None:
        self._telling = Telling(self.state, self.emission, self.label)
        self.sources = {each.source: f"change{number}" for number, each in enumerate(self.windows)}
        rows = {f"rows{number}": each.star for number, each in enumerate(self.windows)}
        self.stars = {star[0]: name for name, star in rows.items() if star is not None}
        alone = [each for each in self.windows if each.wanted and len(each.wanted) == 1]
        self.only = {each.source: only for each in alone for only in each.wanted or ()}

    def run(
        self, given: Sequence[Transaction], telling: int | Mapping[int, MemberTold], rows: int
    ) -> Ran | None:
        """Work off the first of some transactions; None when the next is to be worked off by itself.

        ``telling`` is the version of the dataset, or takes what members are told, by their labels; ``rows``
        are those that the answer has, or the largest of members at most.
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
        if self._made_for != compiled.renewals:
            self.source, self._function = compiled.loop(self)
            self._made_for = compiled.renewals
        if type(telling) is int and self._middle[0] != telling:
            self._middle = telling, f',"version":{telling}{self.emission.head}'
        ran.done, ran.instants, ran.error = 0, 0, None
        try:
            self._function(given, steps, telling if self.label is not None else self._middle[1], rows)
        except Exception as failure:
            ran.error = failure
            if isinstance(failure, BudgetError):
                state.tell_where(failure)
        state.plan.figures.steps += ran.instants
        return ran if ran.done or ran.instants or ran.error else None

    # --- the generated lines ----------------------------------------------------------------------

    def before(self, out: Emitter) -> None:
        """The lines before a step: what leaves and what enters at the next instant."""
        terms = self.state.terms
        out.names.update(keys_of=terms.coder.keys, text=terms.texts)
        out.names.update(clock=time.monotonic, most=sys.maxsize, timeline=self.timeline, ran=self.ran)
        operators, views = list(self.timeline.windows), list(self.timeline.inputs.views.values())
        streams = {each.stream for each in self.windows}
        out.depth = 1
        out.line("first = entered = entering = last = over = False")
        out.line("done = taken = worked = told_at = grown = 0")
        for number, each in enumerate(self.windows):
            out.names[f"window{number}"] = operators[number]
            out.line(f"live{number} = window{number}.live")
            held = "counts" if each.star is None else "alone"
            out.line(f"count{number}, size{number} = live{number}.{held}, live{number}.occurrences")
            out.line(f"if live{number}.changes or live{number}.named: return")
            if each.stay is not None:
                out.line(f"held{number} = window{number}.state.elements")
                out.line(_OLDEST.format(number, each.stay))
            elif each.triples is not None:
                out.line(f"newest{number} = window{number}.state.newest")
            if each.star is not None:
                star = out.name_of(each.star[1], "star")
                out.line(f"entries{number} = {star}.entries")
        for stream in streams:
            out.names[f"view{stream}"] = views[stream]
        # How many rows it may have more before somebody has to look.
        out.line("room = (budget.limits.kept or most) - rows")
        out.line("told, changes, left, heavy = [], [], steps, budget.limits.bytes or most")
        out.line("middle = telling" if self.label is None else "net, refused = {}, {}")
        out.line("try:")
        out.depth += 1
        out.line("for at, view, elements in given:")
        out.depth += 1
        out.line("until = at if elements else at + 1")
        out.line("while True:")
        out.depth += 1
        out.line("due = until")
        for number, each in enumerate(self.windows):
            if each.stay is not None:
                out.line(f"if out{number} < due: due = out{number}")
        out.line("entering = due == until")
        out.line("if entering and not elements: break")
        out.line("if not left: return")
        out.line("timeline.instant = due")
        for number, each in enumerate(self.windows):
            self._move(out, number, each)
        for stream in sorted(streams):
            out.line("if entering:" if len(views) == 1 else f"if entering and view is view{stream}:")
            out.depth += 1
            for number, each in enumerate(self.windows):
                if each.stream == stream:
                    self._enter(out, number, each)
            out.depth -= 1
        for number in [number for number, each in enumerate(self.windows) if each.star is not None]:
            out.line(f"change{number} = live{number}.changes")
            out.line(f"if change{number}: live{number}.changes = {{}}")
        out.line("last = False")
        out.line(f"if {' or '.join([*self.sources.values(), *self.stars.values()])}:")
        out.depth += 1
        out.line("budget.since = clock()")

    def _move(self, out: Emitter, number: int, window: LoopWindow) -> None:
        """What is too old leaves a window."""
        out.line(f"{'change' if window.star is None else 'rows'}{number} = {{}}")
        if window.stay is None:
            return
        out.line(f"while out{number} <= due:")
        out.depth += 1
        out.line(f"element = held{number}.popleft()")
        out.line(_OLDEST.format(number, window.stay))
        self._leave(out, number, window)
        out.depth -= 1

    def _leave(self, out: Emitter, number: int, window: LoopWindow) -> None:
        """An element leaves a window."""
        # Its ids are held by the window: they mean the same whatever was forgotten since.
        out.line("known = element.encoded")
        if window.star is not None:
            out.line(f"if known is not None and count{number}.get(known[3]) is known[1]:")
            out.line(f"    del count{number}[known[3]]")
            out.line(f"    size{number} -= known[1].number")
            out.line(f"    rows{number}[(known[3], *entries{number}.pop(known[3]))] = -1")
            self._otherwise(out, number, "remove")
            return
        out.line("keys = keys_of(element) if known is None else known[1]")
        out.line(f"size{number} -= len(keys)")
        out.line("for key in keys:")
        out.line(f"    if {self._unwanted(out, window)}: continue")
        out.line(f"    n = count{number}[key] - 1")
        out.line(f"    if n: count{number}[key] = n")
        out.line("    else:")
        out.line(f"        del count{number}[key]")
        if window.triples is not None:  # else nothing has entered yet
            out.line(f"        if key in change{number}: del change{number}[key]; continue")
        out.line(f"        change{number}[key] = -1")

    def _otherwise(self, out: Emitter, number: int, method: str) -> None:
        """What is no row of a star by itself goes through the window and the operator, triple by triple."""
        out.line("else:")
        out.line(f"    live{number}.occurrences = size{number}")
        out.line(f"    live{number}.{method}(element)")
        out.line(f"    size{number} = live{number}.occurrences")

    def _enter(self, out: Emitter, number: int, window: LoopWindow) -> None:
        """Elements enter a window."""
        if window.stay is not None:
            out.line(f"if not held{number}: out{number} = at + {window.stay}")
            out.line(f"held{number}.extend(elements)")
        out.line("for element in elements:")
        if window.star is not None:
            out.depth += 1
            self._enter_star(out, number, window, window.star[1])
            out.depth -= 1
            return
        out.line("    keys = element.encoded[1]")
        out.line(f"    size{number} += len(keys)")
        out.line("    for key in keys:")
        out.line(f"        if {self._unwanted(out, window)}: continue")
        out.line(f"        n = count{number}.get(key)")
        out.line(f"        if n is not None: count{number}[key] = n + 1")
        out.line("        else:")
        out.line(f"            count{number}[key] = 1")
        out.line(f"            if key in change{number}: del change{number}[key]")
        out.line(f"            else: change{number}[key] = 1")
        if window.triples is not None:
            out.line(f"    newest{number}.add(element)")
            out.line(f"    if newest{number}.number > {window.triples}:")
            out.depth += 2
            out.line(f"for element in newest{number}.take(newest{number}.number - {window.triples}):")
            out.depth += 1
            self._leave(out, number, window)
            out.depth -= 3

    def _enter_star(self, out: Emitter, number: int, window: LoopWindow, star: Star) -> None:
        """What enters with an element becomes an entry of a star and a row, or changes of the window."""
        picks = out.name_of(_Picks(star, window.wanted), "picks")
        out.line("_, keys, _, subject, columns = element.encoded")
        out.line(f"pick = {picks}[columns]")
        out.line(f"if pick is not None and subject not in entries{number} and not live{number}.changes:")
        out.line(f"    count{number}[subject] = keys")
        out.line(f"    size{number} += keys.number")
        out.line("    objects = pick(keys.objects)")
        out.line(f"    entries{number}[subject] = [*objects]")
        out.line("    row = (subject, *objects)")
        out.line(f"    if rows{number} and row in rows{number}: del rows{number}[row]")
        out.line(f"    else: rows{number}[row] = 1")
        self._otherwise(out, number, "add")

    def _unwanted(self, out: Emitter, window: LoopWindow) -> str:
        """The test of a key that the window does not keep."""
        if window.wanted is None:
            return "key is None"
        if (only := self.only.get(window.source)) is not None:
            return f"key is None or key[1] != {out.name_of(only, 'id')}"
        return f"key is None or key[1] not in {out.name_of(window.wanted, 'wanted')}"

    def behind(self, out: Emitter, delta: str) -> None:
        """The lines behind a step: what it tells."""
        top = None if self.state.top is None else out.name_of(self.state.top, "op")
        check = out.name_of(self.check, "check")
        out.line(f"if {delta}:")
        out.depth += 1
        out.line(f"grown += len({delta})")
        if self.label is None:
            out.line(f"if grown > room: room, grown = {check}([*changes, {delta}]), 0")
            counts = out.name_of(self.emission.counts, "counts")
            ordered = delta if top is None else f"{top}.in_order({delta})"
            self._telling.rows(out, ordered, "told", counts, "last, told_at = True, due")
            out.line(f"changes.append({delta})")
        else:
            out.line(f"if grown > room: room, grown = {check}(net, {delta}), 0")
            self._telling.members(out, delta, self.label)
        out.depth -= 2
        if self.emission.output == "rstream":
            self._telling.whole(out, top)
        out.line("left -= 1")
        if self.label is not None:
            out.line("if over:")
            out.line("    ran.before, worked, entered = (worked, entered), due, entering")
            out.line("    if entering: taken, done = taken + len(elements), done + 1")
            out.line("    return")
        out.line("worked, entered = due, entering")
        out.line("if entering: break")
        out.depth -= 1
        out.line("taken += len(elements)")
        out.line("done += 1")
        out.depth -= 2
        out.line("    if at > timeline.instant: timeline.instant = at")
        if self.label is not None:
            # All members are evaluated at this instant once more, each by itself.
            out.line("except BaseException:")
            for number in range(len(self.windows)):
                out.line(f"    live{number}.changes = change{number}")
            out.line("    if entering: taken, done = taken + len(elements), done + 1")
            out.line("    raise")
        out.line("finally:")
        out.line("    budget.since = 0.0")
        for number in range(len(self.windows)):
            out.line(f"    live{number}.occurrences = size{number}")
        out.line("    timeline.inputs.taken += taken")
        out.line("    ran.done, ran.instants, ran.at, ran.entered = done, steps - left, worked, entered")
        if self.label is None:
            out.line("    whole = ran.told")
            out.line("    whole.events, whole.changes, whole.at, whole.last = told, changes, told_at, last")
        else:
            out.line("    ran.entering, ran.net, ran.refused = entering, net, refused")
