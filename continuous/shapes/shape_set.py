"""The shapes of one PUT, their results in the store, and how commits change these results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.owners import Owner
from quadrill.store.changes.pending import PendingChanges, StoreView

from ..rules.facts import Fact
from ..rules.store_facts import InputGraphs, StoreFacts
from ..rules.terms import RuleTerms
from .copied_facts import CopiedFacts
from .data_graph import DataGraph, ShapesBudget
from .definition import ShapesDefinition
from .fact_change import FactChange
from .incremental import IncrementalValidation, ResultsOf
from .kept_results import KeptResults, ResultChange, difference
from .node_facts import NodeFacts
from .reading.reader import read_shapes
from .result import Result
from .snapshot import Snapshot, snapshot
from .validation_counts import ValidationCounts

_MOST_TERMS = 200_000
"""Number of terms in a dictionary above which the shapes are compiled again with an empty dictionary."""
_FEW_CHANGES = 5_000
"""Number of changed quads up to which a change is always validated incrementally."""
_MOST_UNUSED = 4
"""Number of prepared shapes that are kept for validations outside of commits."""
_NO_GRAPH = NamedNode("urn:quadrill:no-graph")


@dataclass(frozen=True, slots=True)
class _PreparedShapes:
    """The compiled shapes and the dictionary of their term ids.

    A new object replaces both once the dictionary is too large.
    """

    terms: RuleTerms
    validation: IncrementalValidation


@dataclass(eq=False)
class ShapeSet:
    """The shapes of one PUT.

    Attributes:
        name: the name of the shapes.
        definition: what the client asked for.
        base_iri: the base of relative IRIs in SPARQL constraints.
        kept: the results at the newest version; the lock of `ShapeConsequences` guards it.
        error: the reason why the validation of the shapes was stopped; None while they are validated.
        counts: how often the shapes have validated changes, and how long it took.
    """

    name: str
    definition: ShapesDefinition
    base_iri: str
    kept: KeptResults = field(default_factory=KeptResults)
    error: str | None = None
    counts: ValidationCounts = field(default_factory=ValidationCounts)

    def __post_init__(self) -> None:
        """Read the shapes graph.

        Raises:
            ShapesInvalidError, UnsupportedError, LimitError: the shapes are refused.
        """
        self.owner = Owner("shapes", self.name)
        # Shapes with dictionaries that no thread uses, for validations of several threads at once.
        self._unused: list[_PreparedShapes] = []
        self._prepared = self._prepare()

    @property
    def size(self) -> int:
        """Number of shapes with targets that are not deactivated."""
        return len(self._prepared.validation.shapes)

    def fail(self, error: str) -> None:
        """Record why the validation of the shapes was stopped, and drop their results."""
        self.error, self.kept = error, KeptResults()

    def _prepare(self) -> _PreparedShapes:
        terms = RuleTerms(self.base_iri)
        triples = parse(self.definition.text, format=RdfFormat.N_TRIPLES)
        return _PreparedShapes(terms, IncrementalValidation(read_shapes(triples, terms), terms))

    def budget(self, *, timed: bool, most_ms: int | None = None) -> ShapesBudget:
        """Return the budget of one validation.

        Unless ``timed`` is True, there is no time limit. The limit is ``max_time`` of the shapes, or
        ``most_ms`` if it is given and lower.
        """
        own = self.definition.max_time_ms
        limit = min(own, most_ms or own)
        until = time.monotonic() + limit / 1000 if timed else None
        return ShapesBudget(self.definition.max_results, until, limit, limit < own)

    def complete(
        self, view: StoreView | PendingChanges, inputs: InputGraphs, budget: ShapesBudget
    ) -> KeptResults:
        """Return all results of a state of the dataset.

        Raises:
            ShapesBudgetError: the validation exceeds the budget.
        """
        with self.counts.validation():
            return self.complete_snapshot(self.snapshot(view, inputs), budget)

    def snapshot(self, view: StoreView | PendingChanges, inputs: InputGraphs) -> Snapshot:
        """Return iterators over the triples that the shapes read, at the version of ``view``."""
        return snapshot(view, inputs, self._prepared.validation.predicates)

    def complete_snapshot(self, data: Snapshot, budget: ShapesBudget) -> KeptResults:
        """Return all results of a data graph, after copying the triples that the shapes read into memory.

        Raises:
            ShapesBudgetError: the validation exceeds the budget.
        """
        with self._borrowed() as prepared:
            facts = CopiedFacts(prepared.terms)
            for predicate, pairs in data.by_predicate:
                facts.extend(predicate, pairs)
                budget.check_time()
            for quads in data.quads:
                facts.add_quads(quads, prepared.validation.predicates)
                budget.check_time()
            kept = KeptResults()
            kept.apply(prepared.validation.complete(facts, budget))
            return kept

    def sees(self, change: NetChange) -> bool:
        """Return False if no changed quad has a predicate that results depend on."""
        read = self._prepared.validation.predicates
        return read is None or any(
            quad.predicate in read for quads in (change.added, change.removed) for quad in quads
        )

    def update(
        self,
        kept: KeptResults,
        below: StoreView | PendingChanges,
        pending: PendingChanges,
        change: NetChange,
        inputs: InputGraphs,
        budget: ShapesBudget,
        *,
        size: Callable[[], int],
    ) -> ResultChange:
        """Return how a change of quads changes the results.

        Args:
            kept: the results before the change.
            below: the dataset before the change.
            pending: the dataset after the change.
            change: the change.
            inputs: the graphs whose union is checked.
            budget: the limits.
            size: returns the number of quads of the dataset.

        Raises:
            ShapesBudgetError: the validation exceeds the budget.
        """
        if not self.sees(change):
            return {}
        changed_quads = len(change.added) + len(change.removed)
        if changed_quads > _FEW_CHANGES and changed_quads > size() // 4:
            return kept.replacing(self.complete(pending, inputs, budget).by_focus())
        prepared = self._prepared
        terms = prepared.terms
        with self.counts.validation():
            states = _States.of(below, pending, change, inputs, terms)
            before, now = (DataGraph(facts, terms, budget) for facts in (states.before, states.now))
            result = prepared.validation.update(kept, before, now, states.changed)
        if len(terms.dictionary) > _MOST_TERMS:
            self._prepared = self._prepare()
        return result

    def added_by(
        self, view: StoreView, triples: Iterable[Quad], inputs: InputGraphs, budget: ShapesBudget
    ) -> list[Result]:
        """Return the results that an insertion of triples into the data would add; ``view`` is the dataset.

        Several threads may call this method at once, also while another thread commits.

        Raises:
            ShapesBudgetError: the validation exceeds the budget.
        """
        graph: GraphName = DefaultGraph() if inputs.listed is None else inputs.listed[0]
        pending = PendingChanges(view)
        for each in triples:
            pending.add(Quad(each.subject, each.predicate, each.object, graph))
        with self._borrowed() as prepared:
            terms = prepared.terms
            states = _States.of(view, pending, pending.net(), inputs, terms)
            if not states.changed:
                return []
            before, now = (DataGraph(facts, terms, budget) for facts in (states.before, states.now))
            kept = ResultsOf(prepared.validation, before)
            change = prepared.validation.update(kept, before, now, states.changed)
            return list(difference(kept, change)[0].elements())

    @contextmanager
    def _borrowed(self) -> Iterator[_PreparedShapes]:
        """Yield shapes with a dictionary that no other thread uses; an error discards them."""
        try:
            prepared = self._unused.pop()
        except IndexError:  # another thread may have taken the last one
            prepared = self._prepare()
        yield prepared
        if len(prepared.terms.dictionary) <= _MOST_TERMS and len(self._unused) < _MOST_UNUSED:
            self._unused.append(prepared)


@dataclass(frozen=True, slots=True)
class _States:
    """The data before and after a change, and the triples that only one of the two states has."""

    before: NodeFacts
    now: NodeFacts
    changed: FactChange

    @classmethod
    def of(
        cls,
        below: StoreView | PendingChanges,
        pending: PendingChanges,
        change: NetChange,
        inputs: InputGraphs,
        terms: RuleTerms,
    ) -> _States:
        """Return the states of the union of the input graphs below and with pending changes."""
        changed = FactChange()
        before = NodeFacts(StoreFacts(below, terms, inputs, _NO_GRAPH, own=False))
        now = StoreFacts(pending, terms, inputs, _NO_GRAPH, own=False)
        ids = terms.dictionary.ids
        for quads, other, facts in (
            (change.added, before, changed.added),
            (change.removed, now, changed.removed),
        ):
            found = set[Fact]()
            for quad in quads:
                if quad.graph_name in inputs:
                    fact = ids[quad.subject], ids[quad.predicate], ids[quad.object]
                    if fact not in found and not other.match(*fact):
                        found.add(fact)
                        facts.append(fact)
        return cls(before, NodeFacts(now, before, changed), changed)
