"""Incremental validation: after a change, only focus nodes whose results can differ are validated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..algebra import nodes as n
from ..rules.terms import RuleTerms
from .copied_facts import CopiedFacts
from .data_graph import DataGraph, ShapesBudget
from .fact_change import FactChange
from .kept_results import KeptResults, ResultChange, ResultKey, same_results
from .readers import Readers
from .result import Result
from .shape import Shape
from .value_sets import ValueSets


class IncrementalValidation:
    """The shapes with targets, prepared for validations of changes.

    Attributes:
        shapes: the shapes with targets; their positions are the numbers in keys of results.
        predicates: the predicates of all triples that results depend on; None for any predicate.
    """

    def __init__(self, shapes: Iterable[Shape], terms: RuleTerms) -> None:
        self.shapes: Sequence[Shape] = [each for each in shapes if each.targets and not each.deactivated]
        self._terms = terms
        self._readers = Readers(self.shapes, terms)
        self.predicates = self._readers.predicates

    def id_of(self, term: n.Term) -> int:
        """Return the id of a term in the dictionary of the shapes."""
        return self._terms.id_of(term)

    def complete(self, facts: CopiedFacts, budget: ShapesBudget) -> dict[ResultKey, tuple[Result, ...]]:
        """Return all results, by shape and focus node.

        Most constraints are checked for all focus nodes at once; only the nodes that may have results are
        validated alone.

        Raises:
            ShapesBudgetError: the validation exceeds the budget.
        """
        data = DataGraph(facts, self._terms, budget)
        found: dict[ResultKey, tuple[Result, ...]] = {}
        count = 0
        for number, shape in enumerate(self.shapes):
            budget.check_time()
            nodes = shape.focus_terms(facts)
            candidates, unchecked = shape.candidates(ValueSets(facts, nodes))
            for node in nodes if unchecked else candidates:
                constraints = None if node in candidates else unchecked
                results = tuple(shape.results(data.terms.id_of(node), data, constraints))
                if results:
                    found[number, node] = results
                    count += len(results)
                    budget.check_results(count)
        return found

    def update(
        self, kept: KeptResults, before: DataGraph, now: DataGraph, changed: FactChange
    ) -> ResultChange:
        """Return how a change of triples changes the results.

        The results of a focus node differ only if one of its dependency paths uses a removed triple before
        the change, or an added triple after it. So the walks from removed triples back to focus nodes read
        ``before``, and the walks from added triples read ``now``.

        Args:
            kept: the results before the change.
            before: the data graph before the change.
            now: the data graph after the change.
            changed: the triples that only one of the two data graphs has.

        Raises:
            ShapesBudgetError: the validation exceeds the budget of ``now``.
        """
        reached: defaultdict[int, set[int]] = defaultdict(set)
        for facts, data in ((changed.removed, before), (changed.added, now)):
            for numbers, nodes in self._readers.reached(facts, data):
                for number in numbers:
                    reached[number].update(nodes)
        anywhere = set(self._readers.anywhere(changed))
        for number in anywhere:
            reached[number] |= self.shapes[number].focus_nodes(now)
        for number, node in kept.keys() if anywhere else ():
            if number in anywhere:
                reached[number].add(self._terms.id_of(node))
        change: ResultChange = {}
        count = kept.count
        for node_id, shapes in _by_node(reached).items():
            term = self._terms.term(node_id)
            for number in sorted(shapes):
                shape, key = self.shapes[number], (number, term)
                old = kept.of(key)
                new = tuple(shape.results(node_id, now)) if shape.is_focus_node(node_id, now) else ()
                if (old or new) and not same_results(old, new):
                    change[key] = new
                    count += len(new) - len(old)
        now.budget.check_results(count)
        return change


def _by_node(reached: Mapping[int, set[int]]) -> dict[int, list[int]]:
    """Return the numbers of shapes by node; ``reached`` has nodes by the number of a shape."""
    found: dict[int, list[int]] = {}
    for number, nodes in reached.items():
        for node in nodes:
            found.setdefault(node, []).append(number)
    return found


class ResultsOf(KeptResults):
    """The results of one state of the data, computed for a focus node when `of` is called.

    Other methods see only the results of focus nodes that `of` was called with.
    """

    def __init__(self, validation: IncrementalValidation, data: DataGraph) -> None:
        super().__init__()
        self._validation = validation
        self._data = data

    def of(self, key: ResultKey) -> tuple[Result, ...]:
        """Return the results of a focus node."""
        found = self._own.get(key)
        if found is None:
            number, focus = key
            shape, node = self._validation.shapes[number], self._validation.id_of(focus)
            is_focus = shape.is_focus_node(node, self._data)
            found = self._own[key] = tuple(shape.results(node, self._data)) if is_focus else ()
        return found
