"""The native evaluator: maintains the answer by deltas, at a cost proportional to the change.

The native evaluator gives the same answers as `ReferenceEvaluator`. The native evaluator's constructor raises
UnsupportedError for a query without a delta form, and the reference evaluator recomputes the answers of that
query.
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
    """The change of the answer by one step, and the answer after that step, computed on demand.

    The field ``known`` is the whole answer as terms, or None while it is not decoded: the rows of an answer
    without an order are decoded when a caller first reads them. ``later`` is the next change of the answer.
    """

    _answer: IncrementalAnswer
    deltas: Sequence[Delta]
    boolean: bool | None
    known: list[Solution] | None
    later: AnswerChange | None = None
    _rows: tuple[list[Solution], list[Solution]] | None = None

    @property
    def delta(self) -> Delta:
        """The deleted and inserted rows of the answer, in the answer's order.

        The sweep does not delete the ids of an answer's changed rows while a caller references the
        `AnswerChange`.
        """
        if len(self.deltas) != 1:
            self.deltas = [reduce(merge, self.deltas, {})]
        return self.deltas[0]

    @property
    def deleted(self) -> list[Solution]:
        """The rows deleted from the answer as terms, each row as often as it was deleted."""
        return (self._rows or self.decode())[0]

    @property
    def inserted(self) -> list[Solution]:
        """The rows inserted into the answer as terms, each row as often as it was inserted."""
        return (self._rows or self.decode())[1]

    @property
    def rows(self) -> list[Solution]:
        """The whole answer after this step, which may be read after later steps and in another thread."""
        if self.known is None:
            self.known = self._answer.rows_after(self)
        return self.known

    def json_rows(self, kind: EventKind) -> tuple[int, str] | None:
        """Return the number and the JSON text of an event's rows, written directly from term ids.

        Returns no JSON text (None) if the event's rows were decoded to terms already, or, for the whole
        answer, if a later step ran.
        """
        whole = kind == "answer"
        # Rows that were decoded to terms already may have ids that a sweep has deleted.
        if (self.later or self.known) if whole else self._rows:
            return None
        weights, sign = self._answer.rows if whole else self.delta, -1 if kind == "delete" else 1
        rows = [row for row, weight in weights.items() for _ in range(sign * weight)]
        return len(rows), f"{{{self._answer.json_rows(rows)}}}" if rows else ""

    def id_delta(self, *, whole: bool = False) -> Delta:
        """Return the answer's delta, or all rows if ``whole``, as term ids in the order of the columns."""
        return self._answer.id_delta(self._answer.rows if whole else self.delta)

    def decode(self) -> tuple[list[Solution], list[Solution]]:
        """Decode the answer's deleted and inserted rows to terms, and cache the result."""
        deleted, inserted = list[Solution](), list[Solution]()
        for row, weight in pausing(self.delta.items()):
            (inserted if weight > 0 else deleted).extend([self._answer.decode(row)] * abs(weight))
        self._rows = deleted, inserted
        return self._rows


class IncrementalAnswer:
    """The answer of one plan and its last change; may be read in any thread.

    Attributes:
        rows: the plan's output rows with their weights.
        decode: maps an id row to the answer's columns as terms. The function ``json_rows`` writes id rows as
            JSON (`TermTexts.listed`), ``id_delta`` reorders the cells of a delta to the order of the columns.
    """

    def __init__(
        self, state: PlanState, names: Sequence[str], budget: Budget, *, ask: bool, ordered: bool
    ) -> None:
        """Create an empty answer; ``budget`` is the query's budget, which limits the rows of the answer."""
        self.rows: Delta = {}
        self._lock = threading.Lock()
        self.decode = state.decoder(names)
        self.id_delta = state.coder_of(names)
        self._places = state.plan.schema.columns(names)
        self.json_rows = partial(state.terms.texts.listed, names, self._places)
        self._ask = ask
        self._ordering = state.top if ordered else None
        self._last_revision = -1
        self._newest: AnswerChange | None = None
        self._budget = budget
        # Weak references to the changes that a caller may still read, of which some are not decoded to terms
        # yet.
        self._pending: deque[weakref.ref[AnswerChange]] = deque()

    def step(self, *deltas: Delta) -> AnswerChange:
        """Add deltas of the plan's output to the answer; the changed rows are decoded to terms on demand."""
        top = self._ordering
        same_order = top is None or top.revision == self._last_revision
        newest = self._newest
        # Two consecutive steps without a change of the answer share one `AnswerChange` object.
        if newest is not None and not any(deltas) and not any(newest.deltas) and same_order:
            return newest
        mine = self.rows
        with self._lock:
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
            self._last_revision = top.revision
        waiting = self._pending
        while waiting and waiting[0]() is None:
            waiting.popleft()
        waiting.append(weakref.ref(change))
        return change

    def check(self, changes: Iterable[Delta]) -> int:
        """Return how many rows the answer may gain after some deltas; raise BudgetError above the limit."""
        return self.limit(len(reduce(merge, changes, dict(self.rows))))

    def limit(self, rows: int) -> int:
        """Return how many rows an answer of ``rows`` rows may still gain.

        Raises BudgetError if ``rows`` exceeds the limit of the query.
        """
        limits = self._budget.limits
        most = limits.kept or sys.maxsize
        if rows > most:
            which = "max_rows" if most == limits.rows else "max_answer_rows"
            raise BudgetError(f"the answer has {rows} rows, the limit is {most} ({which})", limit=most)
        return most - rows

    def rows_after(self, change: AnswerChange) -> list[Solution]:
        """Return the answer after a step: the newest answer minus the later changes.

        May be called in any thread, while the engine changes the answer.
        """
        with self._lock:
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
        if self._ordering is not None:
            return [decode(row) for row in self._ordering.rows()]
        return [solution for row, weight in self.rows.items() for solution in [decode(row)] * weight]

    def equals(self, other: IncrementalAnswer) -> bool:
        """Return True if two answers, perhaps of different plans, have equal rows."""
        if self._ask:
            return bool(self.rows) == bool(other.rows)
        return self.id_delta(self.rows) == other.id_delta(other.rows)

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the id rows of the answer and of changes that callers may still decode."""
        yield from list(self.rows)
        for each in list(self._pending):
            change = each()
            yield from () if change is None else change.delta

    def decode_all(self) -> None:
        """Decode all changes that callers still reference, before the plan and its ids are released."""
        for each in self._pending:
            change = each()
            if change is not None:
                change.decode()
        if self._newest is not None:
            self._newest.known = self._newest.rows
        with self._lock:
            self.rows = {}


class NativeEvaluator(Evaluator):
    """Evaluates one continuous query incrementally; not thread-safe.

    Attributes:
        parsed: the analysis of the query text; ``analysis`` belongs to the present plan.
        movable: the ``filter_place`` if uncertain filters may move; None if their place is fixed.
        tables: the column names of each static part, by the part's name.
        state: the private plan of the query; None while a shared plan evaluates the query.
        answer: the answer of the private plan.
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
        """Create the evaluator; also raises UnsupportedError for a query that has no delta form."""
        super().__init__(query, store, options, terms, statics, analysis, whole=False)
        self.parsed = self.analysis
        if options.uncertain_filters != "early":
            self.filter_place = FilterPlace(options.uncertain_filters)
        try:
            self._make_plan()
        except BaseException:
            self.close()  # Closing the evaluator releases tables that other queries may share.
            raise

    def _make_plan(self) -> None:
        """Build the plan of the query, and open the tables of its static parts."""
        # The generated loop of the present plan, built at the first call of `run`.
        self._loop: tuple[PlanState, QueryTimeline, RunLoop | None] | None = None
        self._listing: WindowListing | None = None
        if self.ordered and is_static(self.root):
            # For a query with LIMIT and no window, the store reads only the first rows; an incremental plan
            # would hold all rows.
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
        """Build the operators without rows, while the sweep of the term dictionary is suspended."""
        place, options = self.filter_place, self.options
        if place is not None:
            options = replace(options, uncertain_filters=place.place)
            self.analysis = self.parsed.with_late_filters if place.place == "late" else self.parsed
        self.rest = self.analysis.clocked
        with self.terms.planning:
            state = PlanState(
                self.rest,
                self.query,
                self.tables,
                options,
                self.terms,
                self.budget,
                ordered=self.ordered,
                rules=self.statics.steps.rules,
            )
            names = [var.name for var in self.columns]
            ask = self.query.form == "ask"
            self.answer = IncrementalAnswer(state, names, self.budget, ask=ask, ordered=self.ordered)
            self.state = state
        self.movable = None if place is None else place.begin(state.plan)
        return state

    def take(self, changes: Changes) -> bool:
        """Apply changes of static parts to the query's next step; return True if any row changed."""
        assert self.state is not None
        taken = self.statics.rules_moved
        for place, change in changes.items():
            if change.renewals:
                for lookup in self.statics.arrangements.get(place, ()):
                    lookup.renewals += change.renewals
            name = self.statics.parts[place].name
            taken = self.state.take(name, change.delta, afresh=bool(change.renewals)) or taken
        return taken

    def advance(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer:
        """Apply one transaction at instant ``at`` (milliseconds), and return the change of the answer.

        The windows contain keys of the engine's terms, and the changes of the keys since the last call.
        """
        state, answer = self.state, self.answer
        assert state is not None
        if (listed := self._list_window(state, at, windows)) is not None:
            return listed
        given = state.gather(at, windows)
        delta = state.step(given)
        if self.ordered and state.top is not None:
            delta = state.top.in_order(delta)
        change = answer.step(delta)
        self.terms.tidy()
        return change

    @property
    def inferred_triples(self) -> int:
        """The number of triples that follow from the contents of the query's windows."""
        entailed = None if self.state is None else self.state.entailed
        return 0 if entailed is None else entailed.size

    def list_windows(self) -> None:
        """Promise that each report reads a whole new window, so that texts may replace the operators."""
        if self.state is not None and not self.ordered and self.state.entailed is None:
            self._listing = window_listing(self.state, self.vars)

    def _list_window(self, state: PlanState, at: int, windows: Encoded) -> ListedAnswer | None:
        """Return the rows of a window directly from the texts of its triples.

        Returns None if the operators must evaluate the window.
        """
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
            # The operators still contain the rows of an earlier window, which an empty window retracts.
            content.waiting = ()
            self.answer.step(state.step(state.gather(at, [(key, content)])))
            content.waiting = waiting
        else:
            state.plan.figures.steps += 1
        # The plan's figures count the rows as if the operators had emitted them; retractions are not counted.
        figures = state.plan.figures
        figures.rows[:] = [rows + listed.number for rows in figures.rows]
        return listed

    def catch_up(self, at: int, windows: Windows) -> None:
        """Apply to the operators a window that was reported directly from its triples' texts."""
        for _, content in windows:
            if self.state is not None and type(content) is EncodedContent and content.by_text:
                content.encode_waiting()
                with suppress(BudgetError):
                    self.advance(at, [(_, content)])
                content.by_text = False

    def run(
        self, given: Sequence[Transaction], timeline: QueryTimeline, emission: Emission, version: int
    ) -> tuple[RunResult, AnswerChange] | None:
        """Process the first transactions of a list in one run of the generated loop.

        Returns None if the first transaction must be evaluated separately.
        """
        state, answer, made = self.state, self.answer, self._loop
        assert state is not None
        if (self.movable is not None and self.movable.is_due) or state.entailed is not None:
            return None
        if made is None or made[0] is not state or made[1] is not timeline:
            made = self._loop = state, timeline, run_loop(state, timeline, emission, answer.check)
        loop = made[2]
        ran = None if loop is None else loop.run(given, version, len(answer.rows))
        if ran is None:
            return None
        change = answer.step(*ran.output.changes)
        self.terms.tidy()
        return ran, change

    def replan_filters(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer | None:
        """Rebuild the plan if the query's uncertain filters have a better place.

        Returns the answer of instant ``at``, or None if the plan stays. At the rebuild, the windows are in
        the state of the last `advance`.
        """
        if self.movable is None or not self.movable.is_due or not self.movable.update_place():
            return None
        return self.movable.build(partial(self._rebuild, at, windows))

    def _rebuild(self, at: int, windows: Encoded) -> AnswerChange | ListedAnswer:
        self.sleep()
        self.wake()
        self.take(self.statics.own_rows())
        return self.resume(at, windows)

    def resume(
        self, at: int, windows: Encoded, checkpoint_rows: Sequence[Solution] = (), boolean: bool | None = None
    ) -> AnswerChange | ListedAnswer:
        """Evaluate the first step after a restart, over the windows of the last evaluation.

        Changes of the windows since the last evaluation before the restart are left to the next step.
        """
        assert self.state is not None
        return self.advance(at, [(key, self.state.copy_of(content)) for key, content in windows])

    def close(self) -> None:
        """Release the operators, the tables and the answer of a query that has ended."""
        super().close()
        if self.state is not None:
            self.state.close()

    def _answer_rows(self) -> Iterator[IdRow]:
        if self.state is not None:
            yield from self.state.referenced_rows()
            yield from self.answer.referenced_rows()

    # --- in a template ----------------------------------------------------------------------------

    @cached_property
    def template(self) -> Hashable | None:
        """The group key: queries with equal keys may share a plan; None if the query is evaluated alone."""
        statics, options = self.statics, self.options
        alone = self.ordered or statics.has_own or not statics.shares or is_static(self.rest)
        # The fan-out of one query may move its filters, while the filters of a sibling query stay.
        assert self.state is not None
        if alone or self.analysis.is_volatile or self.movable is not None or self.state.entailed is not None:
            return None
        if self.state.asks_clock and statics.parts:
            # A commit evaluates only queries whose static parts it changes, so in a shared plan NOW() would
            # differ by member.
            return None
        place = "early" if self.filter_place is None else self.filter_place.place
        kept = (options.window_default_graph, options.quoted_asserted, options.base_iri, place)
        return (self.analysis.skeleton.digest, self.query.form, self.vars, self.query.windows, kept)

    def sleep(self) -> None:
        """Release the operators and the answer, because a shared plan now evaluates the query."""
        assert self.state is not None
        self.answer.decode_all()
        self.state.close()
        self.state = None
        self.statics.look_away()

    def wake(self) -> None:
        """Rebuild a private plan, which has only rows of static parts until `resume` adds windows."""
        self._start_plan().look_up(self.statics)
        self.take(self.statics.look_again())
