"""Base class of the evaluators, which splits a query into static parts and a remainder that reads windows."""

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
"""Pairs of a window's key and its content, in the form that the evaluator reads."""


class Evaluator(ABC):
    """Evaluates one continuous query; used by one thread at a time.

    Attributes:
        engine: the name of the evaluator in descriptions of a query, "native" or "reference".
        analysis: the `Analysis` of the query text, independent of data.
        root: the query's algebra; ``rest`` is the same algebra with a table node in place of each static
            part.
        columns: the columns of the answer's rows; ``vars`` are the names of the columns, empty for ASK.
        ordered: True if the query orders the answer's rows.
        is_whole: True if the whole query is one static part, whose rows are the answer in the part's order.
        statics: the static parts of the query.
        budget: the limits on rows, bytes and seconds of one evaluation.
        filter_place: where uncertain filters are evaluated; None if always before the joins.
        state: the plan that maintains the answer by deltas; None if the answer is recomputed.
        content_of: returns a new content object for a window; None if windows contain quads.
        checkpoint_rows: the rows that a checkpoint must contain because window contents alone do not
            determine the answer.
        quads: how many solutions yield each quad of a CONSTRUCT answer; None for SELECT and ASK.
    """

    engine: str
    state: PlanState | None = None
    content_of: ContentOf | None = None
    filter_place: FilterPlace | None = None
    checkpoint_rows: Sequence[Solution] = ()

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
        """Split the query into static parts and remainder, without evaluating anything.

        Args:
            query: the continuous query to evaluate.
            store: the store that static parts read.
            options: the evaluation options of the registration.
            terms: the engine's term dictionary; None creates a private dictionary.
            tables: the registry of shared tables, which follow the store once the query has begun; None if
                the query itself reads its static parts at each `refresh`.
            analysis: the analysis of the query; None analyses the query again.
            whole: True to treat a query without windows as one static part.

        Raises:
            UnsupportedError, QueryTextError: the evaluator cannot evaluate the query.
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
        if options.rules is not None:
            self.statics.read_rule_graphs(options.rules)
        self.quads: QuadCounts | None = None
        if query.form == "construct":
            keys = QuadKeys(self._template, self.columns, self.terms.dictionary)
            self.quads = QuadCounts(keys, self.terms.dictionary)
        # A finalizer releases the term ids even of an evaluator that was created only to validate a
        # query.
        release = self.terms.dictionary.hold(weak_holder(self._referenced_rows))
        self._finalizer = weakref.finalize(self, release_holder, release, self.statics.abandon)

    def run(
        self, given: Sequence[Transaction], timeline: QueryTimeline, emission: Emission, version: int
    ) -> tuple[RunResult, ChangedAnswer] | None:
        """Process the first transactions of a list in one run of a generated loop.

        Returns None if the first transaction must be evaluated separately.
        """
        return None

    def replan_filters(self, at: int, windows: Windows) -> ChangedAnswer | None:
        """Rebuild the plan if another plan is now cheaper, and return the answer of ``at``.

        Returns None if the present plan of the query stays.
        """
        return None

    @property
    def inferred_triples(self) -> int:
        """The number of triples that follow from the contents of the query's windows."""
        return 0

    def list_windows(self) -> None:  # noqa: B027
        """Promise that each report reads all rows of a new window, so that the evaluator may skip deltas."""

    def catch_up(self, at: int, windows: Windows) -> None:  # noqa: B027
        """Apply to the operators a window that was reported directly from its triples' texts."""

    # --- static parts ---------------------------------------------------------------------------

    @abstractmethod
    def take(self, changes: Changes) -> bool:
        """Apply changes of static parts to the next step of the query; return True if any row changed."""

    def streams_of(self, window: str) -> list[str] | None:
        """Return the streams that static data bind to a window's stream variable.

        Returns None if no static part binds the stream variable.
        """
        variable = next(each.stream for each in self.query.windows if each.name.value == window)
        parts = enumerate(self.statics.parts)
        binding = [(place, part.vars.index(variable)) for place, part in parts if variable in part.vars]
        terms = {row[column] for place, column in binding for row in self.statics.rows(place)}
        return sorted(term.value for term in terms if isinstance(term, NamedNode)) if binding else None

    # --- steps ----------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, at: int, windows: Windows) -> ChangedAnswer:
        """Return the answer at an instant (milliseconds) over the present contents of the windows."""

    @abstractmethod
    def resume(
        self, at: int, windows: Windows, checkpoint_rows: Sequence[Solution] = (), boolean: bool | None = None
    ) -> ChangedAnswer:
        """Restore the answer of the last evaluation before a restart, without emitting events.

        Args:
            at: the instant of that evaluation, in milliseconds.
            windows: the present contents of the windows, with the changes since that evaluation.
            checkpoint_rows: the value of attribute `checkpoint_rows` at the checkpoint.
            boolean: the answer of an ASK query at the checkpoint.
        """

    @cached_property
    def _template(self) -> Template:
        return Template(self.query.template, self.columns, self.options.name)

    def construct(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        """Instantiate the template with rows of an answer: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def close(self) -> None:
        """Release the rows and tables of a query that has ended, without waiting for garbage collection."""
        self._finalizer()
        self.statics.close()

    def _referenced_rows(self) -> Iterator[IdRow]:
        """Yield the id rows that the query still needs, so that a sweep does not delete their term ids.

        A term id is copied only to rows that are yielded later, so the sweep misses no id (`store.sweep`).
        """
        yield from self.statics.steps.waiting()
        yield from self._answer_rows()
        if self.quads is not None:
            yield from self.quads.referenced_rows()

    def _answer_rows(self) -> Iterator[IdRow]:
        """Yield the id rows of the operators and of the answer; an id moves only to later rows."""
        yield from ()


class PlanSlot(Protocol):
    """The place of one query in a shared plan, which evaluates all members of a group (`groups`)."""

    seen: int
    budget: Budget

    @property
    def state(self) -> PlanState:
        """The shared plan that evaluates the query."""
        ...

    def visible_after(self, number: int) -> tuple[Evaluation, int] | None:
        """Return the plan's newest visible evaluation, with its version, if it is later than ``number``."""
        ...

    def bring_up_to_date(self) -> None:
        """Update the query's figures to the shared plan's newest evaluation."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the shared plan's number of members, and the query's constants that differ by member."""
        ...


def weak_holder(held: Callable[[], Iterator[IdRow]]) -> Holder:
    """Return a function for the sweep that calls a method without keeping the method's object alive."""
    method = weakref.WeakMethod(held)

    def rows() -> Iterator[IdRow]:
        found = method()
        return iter(()) if found is None else found()

    return rows


def release_holder(release: Callable[[], None], close: Callable[[], object]) -> None:
    """Remove a finalized object's rows from the sweep of term ids, and close its tables or its plan."""
    release()
    close()
