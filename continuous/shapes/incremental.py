"""Incremental validation: after a change, only focus nodes whose results can differ are validated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..rules.facts import Fact
from ..rules.paths import PathSteps
from ..rules.terms import RuleTerms
from .copied_facts import CopiedFacts
from .data_graph import DataGraph, ShapesBudget
from .kept_results import KeptResults, ResultChange, ResultKey, same_results
from .path_uses import uses_of
from .result import Result
from .shape import Shape
from .value_sets import ValueSets


@dataclass(slots=True)
class FactChange:
    """The triples that a change adds to a data graph, and those that it removes."""

    added: list[Fact] = field(default_factory=list)
    removed: list[Fact] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(eq=False, slots=True)
class _Use:
    """One `PathUse` of the dependency paths, with all shapes whose dependencies have it.

    Attributes:
        near: the position in the triple of the node that the path reaches first.
        before: the evaluation of the path from a focus node to this node; None if it is the focus node.
        shapes: the numbers of the shapes.
    """

    near: int
    before: PathSteps | None
    shapes: set[int] = field(default_factory=set)


class _Readers:
    """An index from predicates to the shapes whose results depend on triples with the predicate.

    Attributes:
        predicates: the predicates of all triples that results depend on; None for any predicate.
    """

    def __init__(self, shapes: Iterable[Shape], terms: RuleTerms) -> None:
        self.predicates: frozenset[NamedNode] | None = frozenset()
        self._uses: defaultdict[int | None, list[_Use]] = defaultdict(list)
        # By predicate, the numbers of the shapes that are validated at all focus nodes if a triple changes.
        self._anywhere: defaultdict[int | None, set[int]] = defaultdict(set)
        self._terms = terms
        known: dict[object, _Use] = {}
        for number, shape in enumerate(shapes):
            found = shape.dependencies()
            for each in (None,) if found.anywhere is None else found.anywhere:
                self._anywhere[self._noted(each)].add(number)
            for use in {use for path in found.paths for use in uses_of(path)}:
                if use not in known:
                    known[use] = _Use(use.near, self._steps(use.before))
                    self._uses[self._noted(use.predicate)].append(known[use])
                known[use].shapes.add(number)

    def _steps(self, path: n.PathExpr | None) -> PathSteps | None:
        return None if path is None else PathSteps(path, self._terms)

    def _noted(self, predicate: NamedNode | None) -> int | None:
        """Add a predicate to ``predicates``; return its id, or None for any predicate."""
        if predicate is None:
            self.predicates = None
            return None
        if self.predicates is not None:
            self.predicates |= {predicate}
        return self._terms.id_of(predicate)

    def anywhere(self, change: FactChange) -> set[int]:
        """Return the numbers of the shapes for which a change can affect the results of every focus node."""
        if not self._anywhere:
            return set()
        predicates = {p for facts in (change.added, change.removed) for _, p, _ in facts}
        return {number for each in (None, *predicates) for number in self._anywhere.get(each, ())}

    def reached(self, facts: Iterable[Fact], data: DataGraph) -> Iterator[tuple[set[int], set[int]]]:
        """Yield nodes whose results depend on some of the facts of a data graph.

        Each item is a pair: the numbers of some shapes, and the ids of nodes, which need not be focus nodes.
        """
        near: defaultdict[_Use, set[int]] = defaultdict(set)
        of_any = self._uses.get(None, ())
        for fact in facts:
            for use in (*self._uses.get(fact[1], ()), *of_any):
                near[use].add(fact[use.near])
        for use, nodes in near.items():
            steps = use.before
            if steps is None:
                yield use.shapes, nodes
            else:
                yield use.shapes, {start for node in nodes for start in steps.backward(data.read, node)}


class IncrementalValidation:
    """The shapes with targets, prepared for validations of changes.

    Attributes:
        shapes: the shapes with targets; their positions are the numbers in keys of results.
        predicates: the predicates of all triples that results depend on; None for any predicate.
    """

    def __init__(self, shapes: Iterable[Shape], terms: RuleTerms) -> None:
        self.shapes: Sequence[Shape] = [each for each in shapes if each.targets and not each.deactivated]
        self._terms = terms
        self._readers = _Readers(self.shapes, terms)
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
                    reached[number] |= nodes
        anywhere = set(self._readers.anywhere(changed))
        for number in anywhere:
            reached[number] |= self.shapes[number].focus_nodes(now)
        for number, node in kept.keys() if anywhere else ():
            if number in anywhere:
                reached[number].add(self._terms.id_of(node))
        change: ResultChange = {}
        count = kept.count
        for number in sorted(reached):
            shape = self.shapes[number]
            for focus in reached[number]:
                key = number, self._terms.term(focus)
                old = kept.of(key)
                new = tuple(shape.results(focus, now)) if shape.is_focus_node(focus, now) else ()
                if (old or new) and not same_results(old, new):
                    change[key] = new
                    count += len(new) - len(old)
        now.budget.check_results(count)
        return change


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
