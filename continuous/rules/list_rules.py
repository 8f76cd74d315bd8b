"""Rules of OWL 2 RL that need all members of a list: cls-int1, prp-spo2 and prp-key.

An axiom is a fact ``(subject, predicate, list)``. Each rule walks the list cell by cell, with the nodes that
satisfy the cells so far. Cells with several values stand for many lists, which are never enumerated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyoxigraph import NamedNode

from .facts import Fact, Facts
from .interfaces import Premise
from .lists import FIRST, NIL, REST, TYPE, Cells, Lists
from .rule import Rule
from .terms import RuleTerms

_OWL = "http://www.w3.org/2002/07/owl#"


@dataclass(slots=True, eq=False)
class ListTrigger:
    """A trigger of a list rule; ``of`` computes its heads. See `interfaces.TriggerLike`."""

    predicates: frozenset[int] | None
    of: Callable[[Sequence[Fact], Facts], Iterable[Fact]]
    closed: bool = False
    value: int | None = None
    key: int | None = None
    together: bool = True
    selective: bool = False
    graph: int | None = None

    def matches(self, fact: Fact) -> bool:
        """Return True: every fact with one of the predicates can match."""
        return True

    def heads(
        self, changed: Sequence[Fact], graph: int | None, facts: Facts, states: Sequence[Facts]
    ) -> Iterable[Fact]:
        """Return the heads that changed facts can affect; see `interfaces.TriggerLike.heads`."""
        return self.of(changed, facts)


class CompiledListRule(ABC):
    """A rule whose axioms refer to a list; see `interfaces.Evaluable`."""

    axiom: str
    """The local name of the OWL property that is the predicate of the axioms."""

    def __init__(self, rule: Rule, terms: RuleTerms) -> None:
        self.rule = rule
        self._terms = terms
        self._axiom = terms.id_of(NamedNode(_OWL + self.axiom))
        self._type = terms.id_of(TYPE)
        self._lists = Lists(terms.id_of(FIRST), terms.id_of(REST), terms.id_of(NIL))

    @abstractmethod
    def _of_axiom(self, facts: Facts, subject: int, head: int) -> Iterable[Fact]:
        """Return the head triples that follow from the axiom with this subject and first list cell."""

    @abstractmethod
    def _element_triggers(self) -> list[ListTrigger]:
        """Return the triggers for facts other than axioms and list cells."""

    @abstractmethod
    def _evidence(self, fact: Fact, subject: int, head: int, cells: Cells, facts: Facts) -> list[Fact] | None:
        """Return facts that derive ``fact`` together with an axiom; None if the axiom does not derive it."""

    @abstractmethod
    def _axioms_for(self, fact: Fact, facts: Facts) -> Iterable[Fact]:
        """Return the axioms from which the rule may derive a fact."""

    def explain(self, fact: Fact, facts: Facts) -> Iterator[list[Premise]]:
        """Yield the premises of one solution for each axiom from which the rule derives the fact."""
        for axiom in self._axioms_for(fact, facts):
            cells = self._lists.read(facts, axiom[2])
            if cells.values:
                found = self._evidence(fact, axiom[0], axiom[2], cells, facts)
                if found is not None:
                    yield [Premise(each) for each in (axiom, *found)]

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if the rule derives the fact from an axiom; see `interfaces.Evaluable`."""
        return any(True for _ in self.explain(fact, facts))

    def _walked(self, cell: int, following: int | None) -> Fact:
        """Return the fact that links a cell to the following one, or that ends the list."""
        return cell, self._lists.rest, self._lists.nil if following is None else following

    def heads(self, facts: Facts) -> Iterator[Fact]:
        """Yield the head triples of all solutions."""
        for subject, _, head in facts.match(None, self._axiom, None):
            yield from self._of_axiom(facts, subject, head)

    def triggers(self) -> list[ListTrigger]:
        """Return the triggers of axioms, of list cells, and of other facts."""
        lists = self._lists
        return [
            ListTrigger(frozenset((self._axiom,)), self._of_axioms),
            ListTrigger(frozenset((lists.first, lists.rest)), self._of_cells),
            *self._element_triggers(),
        ]

    def _of_axioms(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        for subject, _, head in changed:
            yield from self._of_axiom(facts, subject, head)

    def _of_cells(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        for head in self._lists.before(facts, {cell for cell, _, _ in changed}):
            for subject, _, _ in facts.match(None, self._axiom, head):
                yield from self._of_axiom(facts, subject, head)

    def _places(self, facts: Facts, value: int) -> Iterator[tuple[int, int, int, Cells]]:
        """Yield the places of a value in the lists of axioms.

        A place is the axiom's subject, the first cell of its list, the cell with the value, and all cells.
        """
        for cell, _, _ in facts.match(None, self._lists.first, value):
            for head in self._lists.before(facts, (cell,)):
                axioms = facts.match(None, self._axiom, head)
                if axioms:
                    cells = self._lists.read(facts, head)
                    if cell in cells.values:
                        for subject, _, _ in axioms:
                            yield subject, head, cell, cells


class IntersectionRule(CompiledListRule):
    """cls-int1: an instance of every member of a list is an instance of the intersection."""

    axiom = "intersectionOf"

    def _of_axiom(self, facts: Facts, subject: int, head: int) -> Iterator[Fact]:
        cells = self._lists.read(facts, head)
        if not cells.values:
            return
        for node in self._candidates(facts, head, cells):
            if self._has_all(facts, node, head, cells):
                yield node, self._type, subject

    def _candidates(self, facts: Facts, head: int, cells: Cells) -> set[int]:
        """Return a superset of the instances of the intersection.

        If one list starts at ``head``, these are the instances of its class with the fewest instances. If
        there are more lists, these are the instances of all classes in the first cell.
        """
        if cells.plain:
            found = [facts.match(None, self._type, value) for (value,) in cells.values.values()]
            return {node for node, _, _ in min(found, key=len)}
        return {node for value in cells.values[head] for node, _, _ in facts.match(None, self._type, value)}

    def _has_all(self, facts: Facts, node: int, head: int, cells: Cells) -> bool:
        """Return True if the node is an instance of every class of a list that starts at ``head``."""
        seen = {head}
        waiting = [head]
        while waiting:
            cell = waiting.pop()
            if any(facts.match(node, self._type, value) for value in cells.values[cell]):
                if cell in cells.last:
                    return True
                following = [each for each in cells.following[cell] if each not in seen]
                seen.update(following)
                waiting += following
        return False

    def _axioms_for(self, fact: Fact, facts: Facts) -> Iterable[Fact]:
        return facts.match(fact[2], self._axiom, None) if fact[1] == self._type else ()

    def _evidence(self, fact: Fact, subject: int, head: int, cells: Cells, facts: Facts) -> list[Fact] | None:
        node = fact[0]
        waiting: list[tuple[int, list[Fact]]] = [(head, [])]
        seen = {head}
        while waiting:
            cell, before = waiting.pop()
            value = next((each for each in cells.values[cell] if facts.match(node, self._type, each)), None)
            if value is None:
                continue
            found = [*before, (cell, self._lists.first, value), (node, self._type, value)]
            if cell in cells.last:
                return [*found, self._walked(cell, None)]
            for each in cells.following[cell]:
                if each not in seen:
                    seen.add(each)
                    waiting.append((each, [*found, self._walked(cell, each)]))
        return None

    def _element_triggers(self) -> list[ListTrigger]:
        return [ListTrigger(frozenset((self._type,)), self._of_types)]

    def _of_types(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        by_class: dict[int, list[int]] = {}
        for node, _, kind in changed:
            by_class.setdefault(kind, []).append(node)
        for kind, nodes in by_class.items():
            for subject, head, _, cells in self._places(facts, kind):
                for node in nodes:
                    if self._has_all(facts, node, head, cells):
                        yield node, self._type, subject


class ChainRule(CompiledListRule):
    """prp-spo2: the axiom's subject is a property that links the ends of paths along a list of properties."""

    axiom = "propertyChainAxiom"

    def _of_axiom(self, facts: Facts, subject: int, head: int) -> Iterator[Fact]:
        if not self._is_property(subject):
            return
        cells = self._lists.read(facts, head)
        starts = {
            node for value in cells.values.get(head, ()) for node, _, _ in facts.match(None, value, None)
        }
        for start in starts:
            for end in self._ends(facts, cells, head, start):
                yield start, subject, end

    def _is_property(self, term_id: int) -> bool:
        return isinstance(self._terms.term(term_id), NamedNode)

    def _ends(self, facts: Facts, cells: Cells, cell: int, start: int) -> set[int]:
        """Return the ends of paths from ``start`` along the properties of ``cell`` and the cells after it."""
        ends: set[int] = set()
        seen = {(cell, start)}
        waiting = [(cell, start)]
        while waiting:
            cell, node = waiting.pop()
            for value in cells.values.get(cell, ()):
                for _, _, end in facts.match(node, value, None):
                    if cell in cells.last:
                        ends.add(end)
                    for each in cells.following[cell]:
                        if (each, end) not in seen:
                            seen.add((each, end))
                            waiting.append((each, end))
        return ends

    def _starts(self, facts: Facts, cells: Cells, head: int, cell: int, node: int) -> set[int]:
        """Return the starts of paths to ``node`` along the properties of the cells before ``cell``."""
        before: dict[int, list[int]] = {}
        for each, following in cells.following.items():
            for other in following:
                before.setdefault(other, []).append(each)
        starts: set[int] = set()
        seen = {(cell, node)}
        waiting = [(cell, node)]
        while waiting:
            cell, node = waiting.pop()
            if cell == head:
                starts.add(node)
            for each in before.get(cell, ()):
                for value in cells.values[each]:
                    for start, _, _ in facts.match(None, value, node):
                        if (each, start) not in seen:
                            seen.add((each, start))
                            waiting.append((each, start))
        return starts

    def _axioms_for(self, fact: Fact, facts: Facts) -> Iterable[Fact]:
        return facts.match(fact[1], self._axiom, None)

    def _evidence(self, fact: Fact, subject: int, head: int, cells: Cells, facts: Facts) -> list[Fact] | None:
        start, _, wanted = fact
        waiting: list[tuple[int, int, list[Fact]]] = [(head, start, [])]
        seen = {(head, start)}
        while waiting:
            cell, node, before = waiting.pop()
            for value in cells.values[cell]:
                for link in facts.match(node, value, None):
                    found = [*before, (cell, self._lists.first, value), link]
                    if cell in cells.last and link[2] == wanted:
                        return [*found, self._walked(cell, None)]
                    for each in cells.following[cell]:
                        if (each, link[2]) not in seen:
                            seen.add((each, link[2]))
                            waiting.append((each, link[2], [*found, self._walked(cell, each)]))
        return None

    def _element_triggers(self) -> list[ListTrigger]:
        return [ListTrigger(None, self._of_links)]

    def _of_links(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        by_property: dict[int, list[Fact]] = {}
        for fact in changed:
            by_property.setdefault(fact[1], []).append(fact)
        for value, links in by_property.items():
            for subject, head, cell, cells in self._places(facts, value):
                if not self._is_property(subject):
                    continue
                for node, _, reached in links:
                    starts = self._starts(facts, cells, head, cell, node)
                    ends = {reached} if cell in cells.last else set()
                    for each in cells.following[cell]:
                        ends |= self._ends(facts, cells, each, reached)
                    for start in starts:
                        for end in ends:
                            yield start, subject, end


class KeyRule(CompiledListRule):
    """prp-key: two instances of a class that share a value of each key property are the same."""

    axiom = "hasKey"

    def __init__(self, rule: Rule, terms: RuleTerms) -> None:
        super().__init__(rule, terms)
        self._same = terms.id_of(NamedNode(_OWL + "sameAs"))

    def _of_axiom(self, facts: Facts, subject: int, head: int) -> Iterator[Fact]:
        cells = self._lists.read(facts, head)
        if not cells.values:
            return
        for node, _, _ in facts.match(None, self._type, subject):
            for other in self._equal(facts, node, subject, head, cells):
                yield node, self._same, other

    def _equal(self, facts: Facts, node: int, subject: int, head: int, cells: Cells) -> list[int]:
        """Return the instances of the class ``subject`` that share a value of each key with the node."""
        sharing: dict[int, set[int]] = {}

        def share(cell: int) -> set[int]:
            found = sharing.get(cell)
            if found is None:
                found = sharing[cell] = {
                    other
                    for value in cells.values[cell]
                    for _, _, shared in facts.match(node, value, None)
                    for other, _, _ in facts.match(None, value, shared)
                }
            return found

        reached = {head: share(head)}
        waiting = [(head, reached[head])]
        equal: set[int] = set()
        while waiting:
            cell, new = waiting.pop()
            if cell in cells.last:
                equal |= new
            for each in cells.following[cell]:
                known = reached.setdefault(each, set())
                more = (new & share(each)) - known
                if more:
                    known |= more
                    waiting.append((each, more))
        return [other for other in equal if facts.match(other, self._type, subject)]

    def _axioms_for(self, fact: Fact, facts: Facts) -> Iterator[Fact]:
        if fact[1] == self._same:
            for _, _, kind in facts.match(fact[0], self._type, None):
                if facts.match(fact[2], self._type, kind):
                    yield from facts.match(kind, self._axiom, None)

    def _evidence(self, fact: Fact, subject: int, head: int, cells: Cells, facts: Facts) -> list[Fact] | None:
        node, _, other = fact
        waiting = [(head, [(node, self._type, subject), (other, self._type, subject)])]
        seen = {head}
        while waiting:
            cell, before = waiting.pop()
            shared = next(self._shared(facts, node, other, cells.values[cell]), None)
            if shared is None:
                continue
            found = [*before, (cell, self._lists.first, shared[1]), shared, (other, shared[1], shared[2])]
            if cell in cells.last:
                return [*found, self._walked(cell, None)]
            for each in cells.following[cell]:
                if each not in seen:
                    seen.add(each)
                    waiting.append((each, [*found, self._walked(cell, each)]))
        return None

    def _shared(self, facts: Facts, node: int, other: int, properties: Iterable[int]) -> Iterator[Fact]:
        """Yield the facts of ``node`` with one of the properties whose object ``other`` has as well."""
        for value in properties:
            for fact in facts.match(node, value, None):
                if facts.match(other, value, fact[2]):
                    yield fact

    def _element_triggers(self) -> list[ListTrigger]:
        return [
            ListTrigger(frozenset((self._type,)), self._of_types),
            ListTrigger(None, self._of_values),
        ]

    def _of_types(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        for node, _, kind in changed:
            for _, _, head in facts.match(kind, self._axiom, None):
                yield from self._both(facts, node, kind, head, self._lists.read(facts, head))

    def _of_values(self, changed: Sequence[Fact], facts: Facts) -> Iterator[Fact]:
        by_property: dict[int, set[int]] = {}
        for node, value, _ in changed:
            by_property.setdefault(value, set()).add(node)
        for value, nodes in by_property.items():
            for subject, head, _, cells in self._places(facts, value):
                for node in nodes:
                    if facts.match(node, self._type, subject):
                        yield from self._both(facts, node, subject, head, cells)

    def _both(self, facts: Facts, node: int, subject: int, head: int, cells: Cells) -> Iterator[Fact]:
        if cells.values:
            for other in self._equal(facts, node, subject, head, cells):
                yield node, self._same, other
                yield other, self._same, node
