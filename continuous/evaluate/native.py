"""The native evaluator: the answer kept up to date by deltas.

It has the surface of `ReferenceEvaluator` and is exact in the same sense; what it cannot keep up to date
it refuses at construction, and the query is then recomputed. On top of that surface stands `advance`, which
takes the changes of the windows and gives the change of the answer, at a cost that follows the change.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode, Quad

from quadrill.store.errors import UnsupportedError
from quadrill.store.sweep import Holder

from ..algebra.build import all_nodes, expressions
from ..algebra.nodes import MERGED, Window
from ..algebra.query import ContinuousQuery
from ..algebra.rewrites import has_order, prepare
from ..algebra.static import StaticPattern, is_static, is_volatile, split_static
from ..algebra.variables import certain
from ..algebra.volatile import with_clock
from ..element import Solution
from ..output.construct import Template
from ..plan.plan_state import Encoded, PlanState
from ..plan.sources import StaticTable
from ..plan.template import Skeleton, skeleton
from ..rows import IdRow
from ..static.facts import StaticPart
from ..static.keyed_rows import unfit
from ..static.options import EvaluationOptions
from ..static.static_evaluator import StaticEvaluator, merged_background, projected
from ..static.static_inputs import StaticInputs
from ..static.steps import Changes as StaticChanges
from ..windows.encoded import EncodedContent, EngineTerms
from .answer import Answer, AnswerChange, IncrementalAnswer
from .static_rows import described, streams_of_variable

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

    from ..static.table_registry import TableRegistry


_UNKNOWN = Answer(())


class NativeEvaluator:
    """Evaluates one continuous query incrementally; not thread-safe.

    Raises UnsupportedError at construction for a construct without a delta form, QueryTextError for a wrong
    query.
    """

    engine = "native"

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None = None,
        *,
        statics: TableRegistry | None = None,
    ) -> None:
        """With ``statics`` the static parts are shared tables that follow the store from `begin` on."""
        if query.form == "describe":
            raise UnsupportedError("DESCRIBE")
        self._query = query
        self._options = options
        self._terms = EngineTerms() if terms is None else terms
        root = prepare(query)
        self._columns = query.columns if query.form == "select" else projected(root)
        self.vars = () if query.form == "ask" else tuple(var.name for var in self._columns)
        self._ordered = query.form != "ask" and has_order(root)
        if self._ordered and is_static(root):
            # The store reads the first rows without anybody holding the others.
            raise UnsupportedError("ORDER BY or LIMIT of a query without windows")
        rest, parts = split_static(root, frozenset(var.name for var in self._columns))
        if any(isinstance(each, Window) and each.name == MERGED for each in all_nodes(root)):
            parts += (merged_background(root),)
        self.statics = StaticInputs(
            options.name,
            parts,
            partial(StaticEvaluator, query, store, options),
            self._terms,
            statics,
        )
        self._parts = self.statics.parts
        self._template = Template(query.template, self._columns, options.name)
        self.rest = with_clock(rest)
        # Lets go of what the plan holds.
        self._closers: list[Callable[[], object]] = []
        with self._terms.planning:
            self._start_plan()
            release = self._terms.dictionary.hold(weakly(self._held_rows))
        # Also an evaluator that was only made to check a query lets go of its terms.
        self._finalizer = weakref.finalize(self, _let_go, release, self.statics, self._closers)
        for part in self._parts:
            held_because = self._unkeyed(part) if self.statics.follows else None
            self.statics.open_next(held_because, options.static_tables, options.looked_up)
        self._running.look_up(self.statics)
        if self.statics.has_own or not self._parts:
            self.refresh()

    def _start_plan(self) -> None:
        """Make the operators, empty; nobody sweeps the dictionary meanwhile."""
        self._at_work: PlanState | None = PlanState(
            self.rest,
            self._query,
            self.tables,
            self._options,
            self._terms,
            ordered=self._ordered,
        )
        self._closers[:] = [self._at_work.close]
        names = tuple(var.name for var in self._columns)
        ask = self._query.form == "ask"
        self._answer = IncrementalAnswer(self._at_work, names, ask=ask, ordered=self._ordered)

    @property
    def tables(self) -> dict[str, StaticTable]:
        """What a planner must know of the static parts."""
        return {
            part.name: StaticTable(
                part.name,
                tuple(var.name for var in part.vars),
                certain(part.pattern) & {var.name for var in part.vars},
            )
            for part in self._parts
        }

    @property
    def _running(self) -> PlanState:
        assert self._at_work is not None
        return self._at_work

    def _unkeyed(self, part: StaticPattern) -> str | None:
        """Why a part cannot be looked up by keys beside those that are; None when it can."""
        reason = unfit(part)
        if reason is not None:
            return reason
        streams = {each.stream for each in self._query.windows}
        if any(var in streams for var in part.vars):
            return "it binds the stream of a window"
        return self._running.unkeyed(part.name, [self._parts[each].name for each in self.statics.looked_up])

    # --- the surface of the reference ---------------------------------------------------------------

    def refresh(self) -> bool:
        """Evaluate the static parts that do not follow the store again; True when any row changed.

        All are read at the newest version. The change enters the answer with the next step.
        """
        return self.take(self.statics.refresh())

    def begin(self) -> bool:
        """The query begins in this turn, with the rows of the parts that follow the store.

        True when some enter as a change: those that joins look into do not.
        """
        return self.take(self.statics.begin())

    def take(self, changes: StaticChanges) -> bool:
        """Take changes of static parts into the next step; True when any row changed."""
        taken = False
        for place, change in changes.items():
            if change.renewals:
                for lookup in self.statics.arrangements.get(place, ()):
                    lookup.renewals += change.renewals
            name = self._parts[place].name
            taken = self._running.take(name, change.delta, afresh=bool(change.renewals)) or taken
        return taken

    @property
    def explained(self) -> NativeEvaluator:
        """Itself: it keeps the answer by changes."""
        return self

    @property
    def kept(self) -> Sequence[Solution]:
        """Nothing: the answer follows from the windows."""
        return ()

    def close(self) -> None:
        """The query has ended."""
        self._finalizer()
        self.statics.close()

    @property
    def static_version(self) -> int:
        """The version of the store that the static parts reflect."""
        return self.statics.version

    def construct(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        """The template over some rows of an answer at ``at``: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def static_parts(self) -> list[StaticPart]:
        """What each static part is and how many rows it has."""
        return described(self._query, self.statics)

    def streams_of_variable(self, window_name: NamedNode) -> frozenset[NamedNode] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        return streams_of_variable(self._query, self._parts, self.statics.rows, window_name)

    # --- steps ------------------------------------------------------------------------------------

    def content_of(self, window: NamedNode) -> EncodedContent:
        """What a window of this query is to hold its content in, so that `advance` can take the changes."""
        return self._running.content_of(window)

    def advance(self, at: int, contents: Encoded, *, told: bool = True) -> AnswerChange:
        """Take the changes of one transaction, at instant ``at`` (milliseconds); the change of the answer.

        The windows hold keys of this engine's terms and tell what changed since the last call. Without
        ``told`` nobody asks which rows came and went, only for the whole answer.
        """
        state, answer = self._at_work, self._answer
        assert state is not None
        given = state.gather(at, contents)
        with answer.reading:
            change = answer.step(state.step(given), told=told)
        if self._terms.dictionary.due:
            self._terms.tidy()
        return change

    def go_on(self, at: int, contents: Encoded, kept: Answer = _UNKNOWN) -> AnswerChange:
        """The first step after a restart: over what the windows held at the last evaluation before it.

        What has changed in them since is left to the next step.
        """
        earlier = [(key, self._running.copy_of(content)) for key, content in contents]
        return self.advance(at, earlier, told=False)

    def whole(self) -> Answer:
        """The whole answer after the last step."""
        return self._answer.whole()

    def explain(self, *, analyze: bool = False) -> str:
        """The operators with the rows that they keep; with ``analyze`` also what they did."""
        return self._running.plan.explain(analyze=analyze)

    def measured(self) -> dict[str, Any]:
        """Live figures: ``operators`` as in `Plan.measured`, ``steps`` taken and ``timed_steps`` of them."""
        return self._running.measured()

    @property
    def code(self) -> str | None:
        """The generated function that runs the plan now, as text."""
        return self._running.code

    def state_size(self) -> int:
        """Rows kept by the operators."""
        return self._running.plan.size()

    # --- in a template ----------------------------------------------------------------------------

    @property
    def query(self) -> ContinuousQuery:
        """The query that is evaluated."""
        return self._query

    @property
    def options(self) -> EvaluationOptions:
        """The options of the registration."""
        return self._options

    @property
    def terms(self) -> EngineTerms:
        """The dictionary and caches that all native queries of the engine share."""
        return self._terms

    @cached_property
    def skeleton(self) -> Skeleton:
        """The query without its constants."""
        return skeleton(self.rest)

    @cached_property
    def template(self) -> Hashable | None:
        """Equal for queries that may be evaluated together; None for one that is evaluated alone."""
        volatile = any(is_volatile(expr) for node in all_nodes(self.rest) for expr in expressions(node))
        statics = self.statics
        if self._ordered or volatile:
            return None
        if statics.has_own or not statics.shares or is_static(self.rest):
            return None
        if self._running.asks_clock and statics.parts:
            # A commit is an instant, of those alone whose static parts it changes.
            return None
        columns = tuple((each.name, frozenset(each.vars), each.certain) for each in self.tables.values())
        text = hashlib.sha256(self.skeleton.text.encode()).digest()
        options = self._options
        kept = (options.window_default_graph, options.quoted_asserted, options.base_iri)
        return (text, self._query.form, self.vars, self._query.windows, columns, kept)

    @property
    def own_answer(self) -> IncrementalAnswer:
        """The answer of its own plan."""
        return self._answer

    def sleep(self) -> None:
        """Others evaluate the query: operators and answer are let go of."""
        self._answer.settle()
        with self._answer.reading:
            for close in self._closers:
                close()
            self._at_work = None
        self.statics.look_away()

    def wake(self) -> None:
        """Evaluate it here again, from `go_on`: the operators are empty but for static parts."""
        with self._terms.planning:
            self._start_plan()
        self._running.look_up(self.statics)
        self.take(self.statics.look_again())

    def _held_rows(self) -> Iterator[IdRow]:
        """In the order in which rows are made from others (`quadrill.store.sweep`)."""
        yield from self.statics.steps.waiting()
        if self._at_work is not None:
            yield from self._at_work.held()
        yield from list(self._answer.rows)


def weakly(held: Callable[[], Iterator[IdRow]]) -> Holder:
    """The method of an object that this keeps alive only while it is walked."""
    method = weakref.WeakMethod(held)

    def rows() -> Iterator[IdRow]:
        found = method()
        return iter(()) if found is None else found()

    return rows


def _let_go(
    release: Callable[[], None], statics: StaticInputs, closers: Sequence[Callable[[], object]]
) -> None:
    release()
    for close in closers:
        close()
    statics.abandon()
