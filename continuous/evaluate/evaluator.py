"""What evaluators of continuous queries share: a query split into static parts and the rest, its template."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

from pyoxigraph import NamedNode, Quad

from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sweep import Holder

from ..algebra.nodes import Algebra, TableNode
from ..algebra.query import ContinuousQuery
from ..algebra.reports import Evaluation
from ..algebra.static import (
    StaticPattern,
    calls_service,
    is_static,
    merged_background,
)
from ..expressions.construct import Template
from ..expressions.quad_keys import QuadKeys
from ..language.analysis import Analysis
from ..output.current import Emission
from ..output.emission import ChangedAnswer
from ..output.quad_counts import QuadCounts
from ..plan.plan_state import PlanState
from ..plan.run_loop import RunResult
from ..rows import Budget, IdRow, Solution
from ..static.static_evaluator import EvaluationOptions, StaticEvaluator
from ..static.static_inputs import StaticInputs
from ..static.table import Changes
from ..static.table_registry import TableRegistry
from ..windows.encoded import EngineTerms
from ..windows.query_streams import ContentOf, Transaction
from ..windows.timeline import QueryTimeline
from ..windows.window_delta import WindowKey
from .filter_place import FilterPlace

Windows = Iterable[tuple[WindowKey, Any]]
"""The contents of the windows of a query, each of the kind that its evaluator gave (`content_of`)."""


class Evaluator(ABC):
    """Evaluates one continuous query; used by one thread at a time.

    Attributes:
        engine: the word for it in descriptions.
        analysis: what follows from the query alone.
        root: the query's algebra; ``rest`` has tables in the place of static parts.
        columns: of its rows; ``vars`` are their names, none for ASK.
        ordered: the order of its rows means something.
        is_whole: the one static part is the whole query: its rows are the answer, in their order.
        statics: its static parts.
        budget: what one evaluation may cost.
        filter_place: where its uncertain filters are evaluated; None: before the joins.
        state: the plan at work that keeps the answer by changes; None where it is computed anew.
        content_of: gives a window what it holds its content in; None for quads.
        kept: the rows that a checkpoint must hold, where the answer does not follow from the windows.
        quads: the counts of the quads in the answer of a CONSTRUCT, for an output that deletes quads.
    """

    engine: str
    state: PlanState | None = None
    content_of: ContentOf | None = None
    filter_place: FilterPlace | None = None
    kept: Sequence[Solution] = ()

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None,
        tables: TableRegistry | None,
        analysis: Analysis | None,
        *,
        whole: bool,
    ) -> None:
        """Split the query; nothing is evaluated yet.

        Args:
            query: what to evaluate.
            store: where its static parts are.
            options: of the registration.
            terms: the dictionary of the engine; by default its own.
            tables: where static parts are shared tables that follow the store from `begin` on; None: it reads
                them itself with each `refresh`.
            analysis: of the query; by default it is made here.
            whole: a query without windows is one static part.

        Raises:
            UnsupportedError, QueryTextError: it cannot be evaluated.
        """
        if query.form == "describe":
            raise UnsupportedError(
                "DESCRIBE",
                "DESCRIBE is not supported as a continuous query",
                hint="write a CONSTRUCT that says which triples you want",
            )
        self.query = query
        self.options = options
        self.budget = Budget(options.limits)
        self.terms = EngineTerms() if terms is None else terms
        self.analysis = analysis = Analysis(query) if analysis is None else analysis
        self.root, self.columns = analysis.root, analysis.columns
        self.vars = () if query.form == "ask" else tuple(var.name for var in self.columns)
        self.ordered = analysis.is_ordered
        self.is_whole = whole and is_static(self.root) and not calls_service(self.root)
        self.rest: Algebra
        parts: tuple[StaticPattern, ...]
        if self.is_whole:
            self.rest, parts = TableNode("0", self.columns), (StaticPattern("0", self.root, self.columns),)
        else:
            self.rest, parts = analysis.split
        if analysis.is_merged:
            parts += (merged_background(self.root),)
        background = partial(StaticEvaluator, query, store, options)
        known = None if self.is_whole or tables is None else analysis.arranged
        self.statics = StaticInputs(
            options, parts, background, self.terms, tables, whole=self.is_whole, earlier=known
        )
        self.quads: QuadCounts | None = None
        if query.form == "construct":
            keys = QuadKeys(self._template, self.columns, self.terms.dictionary)
            self.quads = QuadCounts(keys, self.terms.dictionary)
        # Also an evaluator that was only made to check a query lets go of its terms.
        release = self.terms.dictionary.hold(weakly(self._held_rows))
        self._finalizer = weakref.finalize(self, let_go, release, self.statics.abandon)

    def run(
        self, given: Sequence[Transaction], timeline: QueryTimeline, emission: Emission, version: int
    ) -> tuple[RunResult, ChangedAnswer] | None:
        """Work off the first of some transactions at once, as if by `advance`; None where none can be."""
        return None

    def replans(self, at: int, windows: Windows) -> ChangedAnswer | None:
        """Make another plan where one is better by now; the answer of ``at``, None where the plan stays."""
        return None

    def list_windows(self) -> None:  # noqa: B027
        """From now on all of a window is told whenever it has taken the place of another."""

    def catch_up(self, at: int, windows: Windows) -> None:  # noqa: B027
        """Others go on from here: what was told at an instant without what they need is worked off."""

    # --- static parts ---------------------------------------------------------------------------

    @abstractmethod
    def take(self, changes: Changes) -> bool:
        """Take changes of static parts into the next step; True when any row changed."""

    def streams_of(self, window: str) -> list[str] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        variable = next(each.stream for each in self.query.windows if each.name.value == window)
        parts = enumerate(self.statics.parts)
        binding = [(place, part.vars.index(variable)) for place, part in parts if variable in part.vars]
        terms = {row[column] for place, column in binding for row in self.statics.rows(place)}
        return sorted(term.value for term in terms if isinstance(term, NamedNode)) if binding else None

    # --- steps ----------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, at: int, windows: Windows) -> ChangedAnswer:
        """The answer at an instant (milliseconds), given what the windows hold now."""

    @abstractmethod
    def go_on(
        self, at: int, windows: Windows, kept: Sequence[Solution] = (), boolean: bool | None = None
    ) -> ChangedAnswer:
        """The answer of the last evaluation before a restart, of which nothing is news.

        Args:
            at: its instant.
            windows: what they hold now, and what of that has changed since.
            kept: the rows that were `kept`.
            boolean: the answer of ASK.
        """

    @cached_property
    def _template(self) -> Template:
        return Template(self.query.template, self.columns, self.options.name)

    def construct(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        """The template over some rows of an answer: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def close(self) -> None:
        """The query has ended: let go of what is held now, not when memory is tidied."""
        self._finalizer()
        self.statics.close()

    def _held_rows(self) -> Iterator[IdRow]:
        """The rows of ids that it needs, in the order in which they are made from others (`store.sweep`)."""
        yield from self.statics.steps.waiting()
        yield from self._answer_rows()
        if self.quads is not None:
            yield from self.quads.held()

    def _answer_rows(self) -> Iterator[IdRow]:
        """Those of them that the answer is made from, and its own."""
        yield from ()


class PlanSlot(Protocol):
    """The place of a query in a plan of several, which evaluates it (`groups`)."""

    seen: int
    budget: Budget

    @property
    def state(self) -> PlanState:
        """The plan at work."""
        ...

    def shown_after(self, number: int) -> tuple[Evaluation, int] | None:
        """The newest evaluation that may be shown and its version, if later than that of a number."""
        ...

    def settle(self) -> None:
        """Bring the query's figures to the plan's newest evaluation."""
        ...

    def describe(self) -> dict[str, Any]:
        """How many queries are evaluated together, and this one's constants where they differ."""
        ...


def weakly(held: Callable[[], Iterator[IdRow]]) -> Holder:
    """The method of an object that this keeps alive only while it is walked."""
    method = weakref.WeakMethod(held)

    def rows() -> Iterator[IdRow]:
        found = method()
        return iter(()) if found is None else found()

    return rows


def let_go(release: Callable[[], None], close: Callable[[], object]) -> None:
    """At the end of what holds rows: nobody walks over them any more, and what they are from is closed."""
    release()
    close()
