"""Incremental validation: the focus nodes whose results a change of triples can change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyoxigraph import NamedNode

from ..rules.facts import Fact
from ..rules.paths import FactReader, PathSteps
from ..rules.terms import RuleTerms
from ..rules.triggers import predicates_of
from .data_graph import DataGraph
from .kept_results import KeptResults, ResultChange, ResultKey, same_results
from .result import Result
from .shape import Shape


@dataclass(slots=True)
class _Reads:
    """What the results of one shape depend on.

    Attributes:
        shape: the shape.
        paths: the evaluation of each path of its dependencies.
        anywhere: ids of the predicates whose triples can change results at every focus node; None for all.
    """

    shape: Shape
    paths: list[PathSteps] = field(default_factory=list)
    anywhere: set[int] | None = field(default_factory=set)


class IncrementalValidation:
    """The shapes with targets, prepared for validations of changes.

    Attributes:
        shapes: the shapes with targets; their positions are the numbers in keys of results.
        predicates: the predicates of all triples that results depend on; None for any predicate.
    """

    def __init__(self, shapes: Iterable[Shape], terms: RuleTerms) -> None:
        self.shapes: Sequence[Shape] = [each for each in shapes if each.targets and not each.deactivated]
        self._terms = terms
        self._reads = []
        self.predicates: frozenset[NamedNode] | None = frozenset()
        for shape in self.shapes:
            found = shape.dependencies()
            for read in (found.anywhere, *map(predicates_of, found.paths)):
                self.predicates = None if read is None or self.predicates is None else self.predicates | read
            anywhere = None if found.anywhere is None else {terms.id_of(each) for each in found.anywhere}
            self._reads.append(_Reads(shape, [PathSteps(path, terms) for path in found.paths], anywhere))

    def complete(self, data: DataGraph) -> dict[ResultKey, tuple[Result, ...]]:
        """Return all results.

        Raises:
            ShapesBudgetError: the validation exceeds the budget of ``data``.
        """
        found: dict[ResultKey, tuple[Result, ...]] = {}
        count = 0
        for number, shape in enumerate(self.shapes):
            for focus in shape.focus_nodes(data):
                results = tuple(shape.results(focus, data))
                if results:
                    found[number, data.term(focus)] = results
                    count += len(results)
                    data.budget.check_results(count)
        return found

    def update(
        self, kept: KeptResults, before: DataGraph, now: DataGraph, changed: Sequence[Fact]
    ) -> ResultChange:
        """Return how the results change.

        Args:
            kept: the results before the change.
            before: the data graph before the change.
            now: the data graph after the change.
            changed: the triples that only one of these states has.

        Raises:
            ShapesBudgetError: the validation exceeds the budget of ``now``.
        """
        change: ResultChange = {}
        count = kept.count
        predicates = {p for _, p, _ in changed}
        for number, reads in enumerate(self._reads):
            for focus in self._reached(number, reads, kept, before, now, changed, predicates):
                key = number, self._terms.term(focus)
                shape, old = reads.shape, kept.of(key)
                new = tuple(shape.results(focus, now)) if shape.is_focus_node(focus, now) else ()
                if not same_results(old, new):
                    change[key] = new
                    count += len(new) - len(old)
        now.budget.check_results(count)
        return change

    def _reached(
        self,
        number: int,
        reads: _Reads,
        kept: KeptResults,
        before: DataGraph,
        now: DataGraph,
        changed: Sequence[Fact],
        predicates: set[int],
    ) -> set[int]:
        """Return the nodes whose results a change can change, and other nodes."""
        if reads.anywhere is None or not predicates.isdisjoint(reads.anywhere):
            found = reads.shape.focus_nodes(now)
            return found | {self._terms.id_of(focus) for each, focus in kept.keys() if each == number}
        found = set()
        for data in (before, now):
            read = FactReader(data.facts, None)
            for path in reads.paths:
                found |= path.starts_through(read, changed)
        return found
