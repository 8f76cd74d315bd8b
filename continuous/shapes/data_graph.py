"""The data graph: the triples of one state of the data, which shapes are checked against within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from pyoxigraph import Literal

from quadrill.store.documents.times import readable_duration

from ..algebra import nodes as n
from ..rules.facts import Fact, Facts, Pattern, Row
from ..rules.paths import DistinctReader, PathSteps
from ..rules.terms import RuleTerms
from .errors import ShapesBudgetError
from .node_facts import Neighbours, NodeFacts
from .vocabulary import SUB_CLASS_OF, TYPE

_CHECK_EVERY = 256
"""Number of look-ups between two checks of the time limit; they take about a millisecond."""
_MOST_REMEMBERED = 100_000
"""Maximum number of cached pairs of a shape and a node, and of nodes with cached classes; about 10 MB
each."""


@dataclass(frozen=True, slots=True)
class ShapesBudget:
    """The limits of one validation.

    Attributes:
        max_results: maximum number of results; None for no limit.
        until: the value of `time.monotonic` at which the validation must end; None for no limit.
        max_time_ms: the time limit in milliseconds, which the error message names.
        lowered: True if this limit is lower than ``max_time`` of the shapes.
    """

    max_results: int | None = None
    until: float | None = None
    max_time_ms: int = 0
    lowered: bool = False

    def check_results(self, count: int) -> None:
        """Raise ShapesBudgetError if there are more results than allowed."""
        if self.max_results is not None and count > self.max_results:
            raise ShapesBudgetError(
                f"the validation has more than {self.max_results} results (max_results)",
                hint="raise max_results, or correct the data or the shapes first",
                max_results=self.max_results,
            )

    def check_time(self) -> None:
        """Raise ShapesBudgetError if the time limit has passed."""
        if self.until is not None and time.monotonic() > self.until:
            if self.lowered:
                name, hint = "the limit of one validation without a commit", "send less at once, or try again"
            else:
                name, hint = "max_time", "raise max_time, or change less in one commit"
            raise ShapesBudgetError(
                f"the validation takes longer than {readable_duration(self.max_time_ms)} ({name})",
                hint=hint,
                max_time_ms=self.max_time_ms,
            )


NO_LIMITS = ShapesBudget()


class TimedFacts:
    """Facts whose look-ups check the time limit of a budget."""

    def __init__(self, facts: Facts, budget: ShapesBudget) -> None:
        self._facts, self._budget = facts, budget
        self.reads = 0

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        self._count()
        return self._facts.match(s, p, o)

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named graphs; see `Facts.match_in`."""
        self._count()
        return self._facts.match_in(graph, s, p, o)

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named graphs."""
        return self._facts.graph_names()

    def count(self, p: Pattern) -> int:
        """Return an estimate of the number of facts; see `Facts.count`."""
        return self._facts.count(p)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find``, which depend only on facts with ``predicates``; see `Facts.kept`."""
        return self._facts.kept(predicates, key, find)

    def _count(self) -> None:
        self.reads += 1
        if self.reads >= _CHECK_EVERY:
            self.reads = 0
            self._budget.check_time()


class DataGraph:
    """The facts of one state of the data, with the look-ups that constraints need.

    Look-ups are cached, so changed facts need a new DataGraph.
    """

    def __init__(self, facts: Facts, terms: RuleTerms, budget: ShapesBudget = NO_LIMITS) -> None:
        self.facts: Facts = facts if budget.until is None else TimedFacts(facts, budget)
        self.terms = terms
        self.budget = budget
        self.conforming: dict[tuple[object, int], bool] = {}
        self._around = facts.around if isinstance(facts, NodeFacts) else _unknown
        self.read = DistinctReader(self.facts, None)
        self._type, self._sub_class_of = terms.id_of(TYPE), terms.id_of(SUB_CLASS_OF)
        self._superclasses: dict[int, set[int]] = {}
        self._classes: dict[int, set[int]] = {}

    def term(self, term_id: int) -> n.Term:
        """Return the term of an id."""
        return self.terms.term(term_id)

    def literal(self, term_id: int) -> Literal | None:
        """Return the literal of an id; None for an IRI, a blank node or a triple term."""
        term = self.terms.term(term_id)
        return term if isinstance(term, Literal) else None

    def reached(self, steps: PathSteps, start: int) -> list[int]:
        """Return the nodes that a path reaches from ``start``, each once."""
        return list(dict.fromkeys(steps.forward(self.read, start)))

    def around(self, place: int, node: int) -> Neighbours | None:
        """Return the triples of a node, or None if no single look-up gives them; see `NodeFacts.around`."""
        return self._around(place, node)

    def objects(self, subject: int, predicate: int) -> list[int]:
        """Return the objects of the triples with a subject and a predicate."""
        return [o for _, _, o in self.facts.match(subject, predicate, None)]

    def is_instance(self, node: int, class_id: int) -> bool:
        """Return True if a node is a SHACL instance of a class, by rdf:type and rdfs:subClassOf."""
        found = self._classes.get(node)
        if found is None:
            if len(self._classes) >= _MOST_REMEMBERED:
                self._classes.clear()
            found = self._classes[node] = self._classes_of(node)
        return class_id in found

    def _classes_of(self, node: int) -> set[int]:
        classes = self.objects(node, self._type)
        if len(classes) == 1:
            return self._above(classes[0])  # shared by all instances of the class
        return {above for each in classes for above in self._above(each)}

    def instances(self, class_id: int) -> set[int]:
        """Return the SHACL instances of a class."""
        classes = self._closure(class_id, 2, 0)
        return {s for each in classes for s, _, _ in self.facts.match(None, self._type, each)}

    def remember(self, shape: object, node: int, conforms: bool) -> None:
        """Cache whether a node conforms to a shape."""
        if len(self.conforming) >= _MOST_REMEMBERED:
            self.conforming.clear()
        self.conforming[shape, node] = conforms

    def _above(self, class_id: int) -> set[int]:
        found = self._superclasses.get(class_id)
        if found is None:
            found = self._superclasses[class_id] = self._closure(class_id, 0, 2)
        return found

    def _closure(self, class_id: int, near: int, far: int) -> set[int]:
        found = {class_id}
        waiting = [class_id]
        while waiting:
            each = waiting.pop()
            subject, value = (each, None) if near == 0 else (None, each)
            for fact in self.facts.match(subject, self._sub_class_of, value):
                if fact[far] not in found:
                    found.add(fact[far])
                    waiting.append(fact[far])
        return found


def _unknown(place: int, node: int) -> None:
    """Return None: the facts do not read all triples of a node at once."""
