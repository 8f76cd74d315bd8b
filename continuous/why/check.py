"""The check of a reason: the query over chosen elements and quads alone."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.owners import Owners
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads

from ..errors import BudgetError
from ..evaluate.recomputing import RecomputedAnswer, ReferenceEvaluator
from ..inputs import StreamInput
from ..queries.prepare import PreparedQuery
from ..rows import QueryLimits
from ..static.table_registry import TableRegistry
from ..windows.encoded import EngineTerms
from .limits import Deadline
from .moments import Beginning, ElementKey, MomentReplay, chosen_inputs
from .target import EventRow


class ReasonCheck:
    """Checks whether a query gives a row over chosen elements and quads alone.

    The reference evaluator evaluates the query: a new store has only the chosen quads, and new windows
    receive only the chosen elements, but all heartbeats and times of the streams.
    """

    def __init__(
        self,
        prepared: PreparedQuery,
        inputs: Sequence[StreamInput],
        beginning: Beginning | None,
        quoted_asserted: frozenset[NamedNode],
        owners: Owners,
        row: EventRow,
    ) -> None:
        """Create the check of a row.

        Args:
            prepared: the query.
            inputs: all inputs from which elements are chosen.
            beginning: the first instant of the query over all inputs; None if the query has none.
            quoted_asserted: the streams whose annotated triples count as asserted.
            owners: the owners of the store's graphs.
            row: the row.
        """
        self._beginning, self._owners = beginning, owners
        self._prepared, self._inputs, self._row = prepared, inputs, row
        self._quoted_asserted = quoted_asserted

    def gives(
        self, at: int, elements: Collection[ElementKey], quads: Collection[Quad], deadline: Deadline
    ) -> bool:
        """Return True if the query's answer at an instant has the row.

        Raises:
            LimitError: the evaluation exceeds a limit; code ``query-timeout`` if the deadline has passed.
        """
        store = QuadStore.open(None)
        try:
            if quads:
                store.writer.apply(add=quads)
            for graph, owner in self._owners.items():
                # By default, rules do not read graphs that have an owner, so the new store needs the owners.
                store.queue.own(graph, owner)
            return self._gives(store, at, elements, deadline)
        except BudgetError:
            deadline.check()
            raise
        finally:
            store.close()

    def _gives(self, store: QuadStore, at: int, elements: Collection[ElementKey], deadline: Deadline) -> bool:
        prepared = self._prepared
        options, limits = prepared.options(self._quoted_asserted), prepared.limits
        registry, terms = None, EngineTerms()
        if prepared.rules is not None:
            definition = prepared.rules.definition
            registry = TableRegistry(store, terms, threads=Threads(threaded=False))
            registry.commits.definition_of = lambda _: definition
        evaluator = ReferenceEvaluator(
            prepared.query,
            store,
            replace(options, limits=_within(deadline, limits)),
            terms,
            statics=registry,
            analysis=prepared.analysis,
        )
        try:
            if registry is not None and evaluator.statics.known():
                evaluator.take(evaluator.statics.begin())
            inputs = chosen_inputs(self._inputs, elements)
            replay = MomentReplay(prepared, inputs, evaluator.streams_of, deadline, self._beginning)
            for instant, contents in replay.evaluations(at):
                if instant == at:
                    evaluator.budget.limit(_within(deadline, limits))
                    evaluator.budget.since = time.monotonic()
                    if self._has_row(evaluator, evaluator.answer(at, contents), at):
                        return True
            return False
        finally:
            evaluator.close()
            if registry is not None:
                registry.close()

    def _has_row(self, evaluator: ReferenceEvaluator, answer: RecomputedAnswer, at: int) -> bool:
        value = self._row.value
        if isinstance(value, bool):
            return answer.boolean is value
        if isinstance(value, Quad):
            return value in evaluator.construct(answer.rows, at)
        return value in answer.rows


def _within(deadline: Deadline, limits: QueryLimits) -> QueryLimits:
    """Return the limits of an evaluation that begins now and must end at a deadline.

    An evaluation that the deadline stops is over only after the deadline, so its time limit is 1 ms longer.
    """
    left = deadline.left_ms + 1
    return replace(limits, ms=min(limits.ms or left, left))
