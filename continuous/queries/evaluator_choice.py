"""Which evaluator a query gets: the native one where it can serve, else the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from ..algebra.columnar import ColumnarEngine
from ..algebra.static import StaticPattern
from ..evaluate.evaluator import Evaluator
from ..evaluate.native import NativeEvaluator
from ..evaluate.recomputing import ReferenceEvaluator
from ..static.columnar_parts import ColumnarParts
from ..static.options import EvaluationOptions
from ..static.static_evaluator import StaticEvaluator
from ..static.static_inputs import StaticInputs
from ..static.table_registry import TableRegistry
from .prepare import PreparedQuery

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore


def reference_evaluator(
    prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
) -> Evaluator:
    """The evaluator by definition; ``quoted_asserted`` are the streams with that option."""
    registration = prepared.registration
    options = EvaluationOptions(
        name=prepared.name or "",
        window_default_graph=registration.window_default_graph,
        strict_dataset=registration.strict_dataset,
        quoted_asserted=quoted_asserted,
        base_iri=prepared.query.base_iri,
        sources=prepared.sources,
    )
    return ReferenceEvaluator(prepared.query, store, options)


class EvaluatorChoice:
    """Makes evaluators for one engine; its native queries share one dictionary of terms.

    A query that falls back says so: the word for its engine is ``reference (<the construct>)``.
    """

    def __init__(self, statics: TableRegistry, columnar: ColumnarEngine | None = None) -> None:
        """Choose between the native evaluator and the reference.

        Args:
            statics: the tables of static parts.
            columnar: evaluates static parts that are too large for the store.
        """
        self.terms = statics.terms
        self.statics = statics
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
            static_tables=registration.static_tables,
            looked_up=prepared.looked_up,
        )
        # Parts that look into fetched graphs and the store at once are read anew when either changes.
        follows = prepared.sources is None or not prepared.sources.remote_graphs
        statics = self._statics(prepared, store, options) if follows else None
        try:
            if not prepared.query.windows and prepared.sources is not None:
                raise UnsupportedError("a query without windows that reads other servers")
            shared = self.statics if follows else None
            return NativeEvaluator(prepared.query, store, options, self.terms, statics=shared)
        except UnsupportedError as reason:
            engine = f"reference (not native: {reason.construct})"
            return ReferenceEvaluator(prepared.query, store, options, statics, engine=engine)

    def _statics(
        self, prepared: PreparedQuery, store: QuadStore, options: EvaluationOptions
    ) -> Callable[[Sequence[StaticPattern], bool], StaticInputs]:
        background = partial(StaticEvaluator, prepared.query, store, options)

        def make(parts: Sequence[StaticPattern], whole: bool) -> StaticInputs:
            return StaticInputs(options.name, parts, background, self.terms, self.statics, whole=whole)

        return make

    def _columnar_parts(self, wish: str | None) -> ColumnarParts | None:
        return None if self._columnar is None else ColumnarParts(self._columnar, wish)
