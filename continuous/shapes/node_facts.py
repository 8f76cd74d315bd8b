"""Facts for the validation of single nodes: all triples of a node are read at once, and kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from ..rules.facts import Fact, Facts, Pattern, Row
from ..rules.store_facts import StoreFacts
from .fact_change import FactChange

_MOST_FACTS = 32
"""Maximum number of quads of a node that are read at once; they take as long as about six look-ups."""
_MOST_NODES = 10_000
"""Maximum number of nodes whose triples are kept; about 50 MB if each has the maximum number of triples."""

Neighbours = Mapping[int, list[int]]
"""By predicate, the other nodes of the triples of a node."""
_NONE: list[int] = []


class NodeFacts:
    """Facts of one state of the dataset, with the triples of nodes that were looked up before.

    The validation of a node asks for the values of many predicates. One look-up in the store answers all of
    them. Changed facts need a new object.
    """

    def __init__(self, facts: StoreFacts, before: NodeFacts | None = None, changed: FactChange | None = None):
        """Create the facts of a state of the dataset.

        Args:
            facts: the facts, read from the store.
            before: the facts of an earlier state, whose look-ups this object uses; None for none.
            changed: how the facts differ from ``before``.
        """
        self._facts: Facts = facts
        self._few = facts.few
        self._before = before
        self._changed = changed or FactChange()
        # The triples of subjects and of objects; None for nodes with too many of them.
        self._kept: tuple[dict[int, Neighbours | None], dict[int, Neighbours | None]] = {}, {}

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        if p is not None:
            if s is not None:
                found = self.around(0, s)
                if found is not None:
                    values = found.get(p, _NONE)
                    if o is not None:
                        return ((s, p, o),) if o in values else ()
                    return [(s, p, value) for value in values]
            elif o is not None:
                found = self.around(2, o)
                if found is not None:
                    return [(subject, p, o) for subject in found.get(p, _NONE)]
        return self._facts.match(s, p, o)

    def around(self, place: int, node: int) -> Neighbours | None:
        """Return the triples with a node as subject (``place`` 0) or object (2); None if too many."""
        kept = self._kept[place // 2]
        if node in kept:
            return kept[node]
        if len(kept) >= _MOST_NODES:
            kept.clear()
        if self._before is None:
            found = self._read(place, node)
        else:
            found = self._before.around(place, node)
            if found is not None:
                found = _after(found, place, node, self._changed)
        kept[node] = found
        return found

    def _read(self, place: int, node: int) -> Neighbours | None:
        facts = self._few(node if place == 0 else None, node if place == 2 else None, _MOST_FACTS)
        if facts is None:
            return None
        found: dict[int, list[int]] = {}
        for fact in facts:
            found.setdefault(fact[1], []).append(fact[2 - place])
        return found

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named graphs; see `Facts.match_in`."""
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
        """Return the rows of ``find``; see `Facts.kept`."""
        return self._facts.kept(predicates, key, find)


def _after(before: Neighbours, place: int, node: int, changed: FactChange) -> Neighbours:
    """Return the triples of a node after a change; ``before`` are those before it."""
    added, removed = (facts.get((place, node), ()) for facts in changed.by_node())
    if not added and not removed:
        return before
    found = {predicate: list(values) for predicate, values in before.items()}
    for fact in removed:
        found[fact[1]].remove(fact[2 - place])
    for fact in added:
        found.setdefault(fact[1], []).append(fact[2 - place])
    return found
