"""Which evaluator a query gets: the native one where it can serve, else the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from .columnar import ColumnarEngine, ColumnarParts
from .native import EngineTerms, NativeEvaluator
from .prepare import Evaluator, PreparedQuery
from .reference import EvaluationOptions, ReferenceEvaluator

if TYPE_CHECKING:
    from quadrill.store.quads import QuadStore


class EvaluatorChoice:
    """Makes evaluators for one engine; its native queries share one dictionary of terms.

    A query that falls back says so: the word for its engine is ``reference (<the construct>)``.
    """

    def __init__(self, columnar: ColumnarEngine | None = None) -> None:
        """Make one; ``columnar`` evaluates static parts that are too large for the store."""
        self.terms = EngineTerms()
        self._columnar = columnar

    def __call__(
        self, prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
    ) -> Evaluator:
        """The evaluator of a query; ``quoted_asserted`` are the streams with that option.

        Raises QueryTextError or UnsupportedError for what neither evaluates.
        """
        registration = prepared.registration
        options = EvaluationOptions(
            name=prepared.name or "",
            window_default_graph=registration.window_default_graph,
            strict_dataset=registration.strict_dataset,
            quoted_asserted=quoted_asserted,
            base_iri=prepared.query.base_iri,
            sources=prepared.sources,
            columnar=self._columnar_parts(registration.static_engine),
        )
        if not prepared.query.windows:
            return ReferenceEvaluator(prepared.query, store, options)
        try:
            return NativeEvaluator(prepared.query, store, options, self.terms)
        except UnsupportedError as reason:
            return _Recomputed(prepared, store, options, reason.construct)

    def _columnar_parts(self, wish: str | None) -> ColumnarParts | None:
        return None if self._columnar is None else ColumnarParts(self._columnar, wish)


class _Recomputed(ReferenceEvaluator):
    """The reference evaluator of a query that has no native plan."""

    def __init__(
        self, prepared: PreparedQuery, store: QuadStore, options: EvaluationOptions, construct: str
    ) -> None:
        super().__init__(prepared.query, store, options)
        self.engine = f"reference (not native: {construct})"
