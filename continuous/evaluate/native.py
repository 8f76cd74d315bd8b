"""The native evaluator: the answer kept up to date by deltas, at a cost that follows the change.

It is exact in the sense of `ReferenceEvaluator`; what it cannot keep up to date it refuses at construction,
and the query is then recomputed.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError
from quadrill.store.feeds.subscription import EventKind
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.query import ContinuousQuery
from ..algebra.static import is_static
from ..errors import BudgetError
from ..language.analysis import Analysis
from ..output.current import Emission
from ..plan.plan_state import Encoded, PlanState
from ..plan.run_loop import RunLoop, RunResult, run_loop
from ..rows import Budget, Delta, IdRow, Solution, merge
from ..slices import pausing
from ..static.static_evaluator import EvaluationOptions
from ..static.table import Changes
from ..static.table_registry import TableRegistry
from ..windows.encoded import EncodedContent, EngineTerms
from ..windows.query_streams import Transaction
from ..windows.timeline import QueryTimeline
from .evaluator import Evaluator, Windows
from .filter_place import FilterPlace
from .listed_window import ListedAnswer, WindowListing, window_listing


@dataclass(slots=True, eq=False, weakref_slot=True)
class AnswerChange:
    """What one step did to the answer, and the answer after it: ``known`` where somebody asked for it.

    ``later`` is the change after this one.
    """

    _answer: IncrementalAnswer
    deltas: Sequence[Delta]
    boolean: bool | None
    known: list[Solution] | None
    later: AnswerChange | None = None
    _rows: tuple[list[Solution], list[Solution]] | None = None

    @property
    def delta(self) -> Delta:
        """The rows that went and came, in the answer's order; as long as it is somebody's ids are known."""
        if len(self.deltas) != 1:
            self.deltas = [reduce(merge, self.deltas, {})]
        return self.deltas[0]

    @property
    def deleted(self) -> list[Solution]:
        """The rows that went, each as often as it did."""
        return (self._rows or self.decode())[0]

    @property
    def inserted(self) -> list[Solution]:
        """The rows that came, each as often as it did."""
        return (self._rows or self.decode())[1]

    @property
    def rows(self) -> list[Solution]:
        """The whole answer after this step, also when it is read after later ones and in another thread."""
        if self.known is None:
            self.known = self._answer.rows_after(self)
        return self.known

    def listed(self, kind: EventKind) -> tuple[int, str] | None:
        """The rows that went or came straight from their ids, or all of them behind the newest step."""
        whole = kind == "answer"
        # What is decoded may have ids that are forgotten by now.
        if (self.later or self.known) if whole else self._rows:
            return None
        weights, sign = self._answer.rows if whole else self.delta, -1 if kind == "delete" else 1
        rows = [row for row, weight in weights.items() for _ in range(sign * weight)]
        return len(rows), f"{{{self._answer.listed(rows)}}}" if rows else ""

    def coded(self, *, whole: bool = False) -> Delta:
        """The change of the rows, or all of them at the newest step, as ids in the order of the columns."""
        return self._answer.coded(self._answer.rows if whole else self.delta)

    def decode(self) -> tuple[list[Solution], list[Solution]]:
        """What went and what came, in terms, which are known from now on."""
        deleted, inserted = list[Solution](), list[Solution]()
        for row, weight in pausing(self.delta.items()):
            (inserted if weight > 0 else deleted).extend([self._answer.decode(row)] * abs(weight))
        self._rows = deleted, inserted
        return self._rows


class IncrementalAnswer:
    """The answer of one plan and what the last step did to it; read in any thread.

    Attributes:
        rows: the plan's rows with their weights.
        decode: gives a row's columns as terms; ``listed`` writes them (`TermTexts.listed`), ``coded`` gives
            a change of rows in the order of the columns.
    """

    def __init__(
        self, state: PlanState, names: Sequence[str], budget: Budget, *, ask: bool, ordered: bool
    ) -> None:
        """``budget``: that of the query, which limits the answer's rows."""
        self.rows: Delta = {}
        self._reading = threading.Lock()
        self.decode = state.decoder(names)
        self.coded = state.coder_of(names)
        self._places = state.plan.schema.columns(names)
        self.listed = partial(state.terms.texts.listed, names, self._places)
        self._ask = ask
        self._top = state.top if ordered else None
        self._shown_revision = -1
        self._newest: AnswerChange | None = None
        self._budget = budget
        # Changes that are not decoded yet, those of them that somebody has.
        self._waiting: deque[weakref.ref[AnswerChange]] = deque()

    def step(self, *deltas: Delta) -> AnswerChange:
        """Apply changes of the plan's rows; they are decoded if anybody asks."""
        top = self._top
        same_order = top is None or top.revision == self._shown_revision
        newest = self._newest
        # A step that changes nothing after one that changed nothing.
        if newest is not None and not any(deltas) and not any(newest.deltas) and same_order:
            return newest
        mine = self.rows
        with self._reading:
            for delta in deltas:
                for row, weight in delta.items():
                    if total := mine.get(row, 0) + weight:
                        mine[row] = total
                    else:
                        del mine[row]
            known = [] if self._ask else None if top is None else self._decoded()
            change = AnswerChange(self, deltas, bool(mine) if self._ask else None, known)
            if newest is not None:
                newest.later = change
            self._newest = change
        if (most := self._budget.limits.kept) and len(mine) > most:
            self.limit(len(mine))
        if top is not None:
            self._shown_revision = top.revision
        waiting = self._waiting
        while waiting and waiting[0]() is None:
            waiting.popleft()
        waiting.append(weakref.ref(change))
        return change

    def check(self, changes: Iterable[Delta]) -> int:
        """How many rows it may have more behind some changes; raises BudgetError when it has too many."""
        return self.limit(len(reduce(merge, changes, dict(self.rows))))

    def limit(self, rows: int) -> int:
        """How many rows it may have more than some; raises BudgetError when these are too many."""
        limits = self._budget.limits
        most = limits.kept or sys.maxsize
        if rows > most:
            which = "max_rows" if most == limits.rows else "max_answer_rows"
            raise BudgetError(f"the answer has {rows} rows, the limit is {most} ({which})", limit=most)
        return most - rows

    def rows_after(self, change: AnswerChange) -> list[Solution]:
        """The whole answer after a step: the newest answer without the changes since. In any thread."""
        with self._reading:
            since: list[AnswerChange] = []
            newest = change
            while newest.later is not None:
                newest = newest.later
                since.append(newest)
            rows = self._decoded() if newest.known is None else newest.known
        if not since:
            return rows
        counted = Counter(rows)
        for later in since:
            counted.subtract(later.inserted)
            counted.update(later.deleted)
        return list(counted.elements())

    def _decoded(self) -> list[Solution]:
        decode = self.decode
        if self._top is not None:
            return [decode(row) for row in self._top.rows()]
        return [solution for row, weight in self.rows.items() for solution in [decode(row)] * weight]

    def equals(self, other: IncrementalAnswer) -> bool:
        """True when both, perhaps of different plans, are the same answer."""
        if self._ask:
            return bool(self.rows) == bool(other.rows)
        return self.coded(self.rows) == other.coded(other.rows)

    def held(self) -> Iterator[IdRow]:
        """The rows of the answer and of changes that are not decoded yet."""
        yield from list(self.rows)
        for each in list(self._waiting):
            change = each()
            yield from () if change is None else change.delta

    def settle(self) -> None:
        """The plan ends: what was given out must not need it any more."""
        for each in self._waiting:
            change = each()
            if change is not None:
                change.decode()
        if self._newest is not None:
            self._newest.known = self._newest.rows
        with self._reading:
            self.rows = {}


class NativeEvaluator(Evaluator):
    """Evaluates one continuous query incrementally; not thread-safe.

    Attributes:
        parsed: the analysis of the text; ``analysis`` is that of the present plan.
        movable: its ``filter_place`` where that may change.
        tables: the columns of the static parts, by name.
        state: its plan at work; None while others evaluate the query.
        answer: that of the plan.
    """

    engine = "native"
    content_of: Callable[[NamedNode], EncodedContent]
    answer: IncrementalAnswer
    movable: FilterPlace | None

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None = None,
        *,
        statics: TableRegistry | None = None,
        analysis: Analysis | None = None,
    ) -> None:
        """As `Evaluator`. Raises UnsupportedError also for a construct without a delta form."""
        super().__init__(query, store, options, terms, statics, analysis, whole=False)
        self.parsed = self.analysis
        if options.uncertain_filters != "early":
            self.filter_place = FilterPlace(options.uncertain_filters)
        try:
            self._make_plan()
        except BaseException:
            self.close()  # its tables may be others' too
            raise

    def _make_plan(self) -> None:
        """Make the plan and the tables of the static parts."""
        # The plan at work and its loop, once somebody asked for it.
        self._loop: tuple[PlanState, QueryTimeline, RunLoop | None] | None = None
        self._listing: WindowListing | None = None
        if self.ordered and is_static(self.root):
            # The store reads the first rows without anybody holding the others.
            raise UnsupportedError("ORDER BY or LIMIT of a query without windows")
        self.tables = {part.name: [var.name for var in part.vars] for part in self.statics.parts}
        state = self._start_plan()
        self.content_of = state.content_of
        for part in self.statics.parts:
            names = [self.statics.parts[place].name for place in self.statics.looked_up]
            why = partial(state.why_held, part, self.query.windows, names)
            held_because = why() if self.statics.may_be_looked_up else None
            self.statics.open_next(held_because)
        state.look_up(self.statics)
        if self.statics.has_own or not self.statics.parts:
            self.take(self.statics.refresh())

    def _start_plan(self) -> PlanState:
        """Make the operators, empty; nobody sweeps the dictionary meanwhile."""
        place, options = self.filter_place, self.options
        if place is not None:
            options = replace(options, uncertain_filters=place.place)
            self.analysis = self.parsed.with_late_filters if place.place == "late" else self.parsed
        self.rest = self.analysis.clocked
        with self.terms.planning:
            state = PlanState(
                self.rest, self.query, self.tables, options, self.terms, self.budget, ordered=self.ordered
            )
            names = [var.name for var in self.columns]
            ask = self.query.form == "ask"
            self.answer = IncrementalAnswer(state, names, self.budget, ask=ask, ordered=self.ordered)
            self.state = state
        self.movable = None if place is None else place.begin(state.plan)
        return state

    def take(self, changes: Changes) -> bool:
        """Take changes of static parts into the next step; True when any row changed."""
        assert self.state is not None
        taken = False
        for place, change in changes.items():
            if change.renewals:
                for lookup in self.statics.arrangements.get(place, ()):
                    lookup.renewals += change.renewals
            name = self.statics.parts[place].name
            taken = self.state.take(name, change.delta, afresh=bool(change.renewals)) or taken
        return taken

    def advance(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer:
        """Take the changes of one transaction, at instant ``at`` (milliseconds); the change of the answer.

        The windows hold keys of this engine's terms and tell what changed since the last call.
        """
        state, answer = self.state, self.answer
        assert state is not None
        if (listed := self._list(state, at, windows)) is not None:
            return listed
        given = state.gather(at, windows)
        delta = state.step(given)
        if self.ordered and state.top is not None:
            delta = state.top.in_order(delta)
        change = answer.step(delta)
        self.terms.tidy()
        return change

    def list_windows(self) -> None:
        """From now on all of a window is told whenever it has taken the place of another."""
        if self.state is not None and not self.ordered:
            self._listing = window_listing(self.state, self.vars)

    def _list(self, state: PlanState, at: int, windows: Encoded) -> ListedAnswer | None:
        """The answer straight from the texts of a window; None where the operators must look at it."""
        if self._listing is None:
            return None
        ((key, content),) = windows
        if type(content) is not EncodedContent:
            return None
        waiting, content.by_text = content.waiting, True
        listed = self._listing.answer(waiting) if waiting else None
        if listed is None:
            return None
        if 0 < self.budget.limits.kept < listed.number:
            self.answer.limit(len({*listed.texts}))
        if content.changes:
            # The operators let go of what they have, of a window before.
            content.waiting = ()
            self.answer.step(state.step(state.gather(at, [(key, content)])))
            content.waiting = waiting
        else:
            state.plan.figures.steps += 1
        # What the operators would have given out, but for what they would have taken back.
        figures = state.plan.figures
        figures.rows[:] = [rows + listed.number for rows in figures.rows]
        return listed

    def catch_up(self, at: int, windows: Windows) -> None:
        """Let the operators know what was told without them: others are to go on from here."""
        for _, content in windows:
            if self.state is not None and type(content) is EncodedContent and content.by_text:
                content.settle()
                with suppress(BudgetError):
                    self.advance(at, [(_, content)])
                content.by_text = False

    def run(
        self, given: Sequence[Transaction], timeline: QueryTimeline, emission: Emission, version: int
    ) -> tuple[RunResult, AnswerChange] | None:
        """Work off the first of some transactions at once, as if by `advance`; None where none can be."""
        state, answer, made = self.state, self.answer, self._loop
        assert state is not None
        if self.movable is not None and self.movable.is_due:
            return None
        if made is None or made[0] is not state or made[1] is not timeline:
            made = self._loop = state, timeline, run_loop(state, timeline, emission, answer.check)
        loop = made[2]
        ran = None if loop is None else loop.run(given, version, len(answer.rows))
        if ran is None:
            return None
        change = answer.step(*ran.told.changes)
        self.terms.tidy()
        return ran, change

    def replans(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer | None:
        """Make another plan where filters have a better place by now; the answer of ``at``, None without.

        The windows are those of `advance`, before it.
        """
        if self.movable is None or not self.movable.is_due or not self.movable.changes():
            return None
        return self.movable.planned(partial(self._go_on_anew, at, windows))

    def _go_on_anew(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer:
        self.sleep()
        self.wake()
        self.take(self.statics.own_rows())
        return self.go_on(at, windows)

    def go_on(
        self, at: int, windows: Encoded, kept: Sequence[Solution] = (), boolean: bool | None = None
    ) -> AnswerChange | ListedAnswer:
        """The first step after a restart, over what the windows held at the last evaluation before it.

        What has changed in them since is left to the next step.
        """
        assert self.state is not None
        return self.advance(at, [(key, self.state.copy_of(content)) for key, content in windows])

    def close(self) -> None:
        """The query has ended."""
        super().close()
        if self.state is not None:
            self.state.close()

    def _answer_rows(self) -> Iterator[IdRow]:
        if self.state is not None:
            yield from self.state.held()
            yield from self.answer.held()

    # --- in a template ----------------------------------------------------------------------------

    @cached_property
    def template(self) -> Hashable | None:
        """Equal for queries that may be evaluated together; None for one that is evaluated alone."""
        statics, options = self.statics, self.options
        alone = self.ordered or statics.has_own or not statics.shares or is_static(self.rest)
        # The place of filters may change for one query and not for another.
        if alone or self.analysis.is_volatile or self.movable is not None:
            return None
        assert self.state is not None
        if self.state.asks_clock and statics.parts:
            # A commit is an instant, of those alone whose static parts it changes.
            return None
        place = "early" if self.filter_place is None else self.filter_place.place
        kept = (options.window_default_graph, options.quoted_asserted, options.base_iri, place)
        return (self.analysis.skeleton.digest, self.query.form, self.vars, self.query.windows, kept)

    def sleep(self) -> None:
        """Others evaluate the query: operators and answer are let go of."""
        assert self.state is not None
        self.answer.settle()
        self.state.close()
        self.state = None
        self.statics.look_away()

    def wake(self) -> None:
        """Evaluate it here again, from `go_on`: the operators are empty but for static parts."""
        self._start_plan().look_up(self.statics)
        self.take(self.statics.look_again())
