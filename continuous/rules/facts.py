"""Facts: the triples that rule bodies are matched with, as term ids, and an index of them in memory.

A fact is a triple ``(s, p, o)`` of term ids of one `TermDictionary`. The facts of a rule set are the triples
of its input graphs and of its own graph; a triple in several graphs is one fact. GRAPH patterns are matched
with the named input graphs instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Protocol, TypeAlias

Fact: TypeAlias = tuple[int, int, int]
"""The term ids of a triple's subject, predicate and object."""
Pattern: TypeAlias = int | None
"""A term id, or None for any term."""
Row: TypeAlias = tuple[Pattern, ...]
"""The values of some variables in a solution."""


class Facts(Protocol):
    """A set of facts with an index, and the named graphs that GRAPH patterns match."""

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match, without duplicates; None matches any term.

        Later changes of the facts do not change the returned collection.
        """
        ...

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of one named input graph, or of all (None), with the id of their graph."""
        ...

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named input graphs."""
        ...

    def count(self, p: Pattern) -> int:
        """Return an estimate of the number of facts with the predicate ``p``; of all facts for None."""
        ...

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find``, or equal rows that an earlier call with the same key has found.

        Args:
            predicates: the predicates of the facts on which the rows depend.
            key: identifies the rows.
            find: computes the rows from these facts.
        """
        ...


class RememberedFacts:
    """Facts with a cache of their matches, for the time of one update or until `clear`.

    The caller must report each fact that is added or removed, with `changed` if it does not know which.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._matches: dict[tuple[Pattern, Pattern, Pattern], Collection[Fact]] = {}

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        pattern = (s, p, o)
        found = self._matches.get(pattern)
        if found is None:
            found = self._facts.match(s, p, o)
            if len(self._matches) >= _MOST_REMEMBERED:
                self._matches.clear()
            if len(found) <= _LARGEST_REMEMBERED:
                self._matches[pattern] = found
        return found

    def clear(self) -> None:
        """Forget all matches."""
        self._matches.clear()

    def read_from(self, facts: Facts) -> None:
        """Read matches that are not remembered from other facts, which have equal remembered matches."""
        self._facts = facts

    def changed(self, fact: Fact) -> None:
        """Remove the cached matches of every pattern that matches ``fact``, which was added or removed."""
        for pattern in _patterns_of(fact):
            self._matches.pop(pattern, None)

    def added(self, fact: Fact) -> None:
        """Add a new fact to the cached matches."""
        for pattern in _patterns_of(fact):
            found = self._matches.get(pattern)
            if found is not None:
                self._matches[pattern] = [*found, fact]  # a caller may still iterate over the old matches

    def removed(self, fact: Fact) -> None:
        """Remove a fact from the cached matches."""
        for pattern in _patterns_of(fact):
            found = self._matches.get(pattern)
            if found:
                self._matches[pattern] = [each for each in found if each != fact]

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named graphs; see `Facts.match_in`."""
        return self._facts.match_in(graph, s, p, o)

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named input graphs."""
        return self._facts.graph_names()

    def count(self, p: Pattern) -> int:
        """Return an estimate of the number of facts with a predicate; see `Facts.count`."""
        return self._facts.count(p)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return rows that only facts with some predicates affect; see `Facts.kept`."""
        return self._facts.kept(predicates, key, find)


def _patterns_of(fact: Fact) -> Iterator[tuple[Pattern, Pattern, Pattern]]:
    """Yield the patterns that match a fact."""
    s, p, o = fact
    for subject in (s, None):
        for predicate in (p, None):
            yield subject, predicate, o
            yield subject, predicate, None


_MOST_REMEMBERED = 50_000
"""Maximum number of cached patterns; a full cache is emptied, which bounds the memory of a large update."""
_LARGEST_REMEMBERED = 1_000
"""Maximum number of facts that match a cached pattern; larger matches are looked up each time."""


class MemoryFacts:
    """Facts indexed in memory: those of a rule set for one computation, or the content of a window."""

    def __init__(self) -> None:
        self._objects: dict[int, dict[int, set[int]]] = {}  # predicate -> subject -> objects
        self._subjects: dict[int, dict[int, set[int]]] = {}  # predicate -> object -> subjects
        self._by_subject: dict[int, set[int]] = {}  # subject -> predicates
        self._by_object: dict[int, set[int]] = {}  # object -> predicates
        self._counts: dict[int, int] = {}
        self._graphs: dict[int, MemoryFacts] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, fact: Fact) -> bool:
        s, p, o = fact
        objects = self._objects.get(p)
        return objects is not None and o in objects.get(s, ())

    def __iter__(self) -> Iterator[Fact]:
        for p, subjects in self._objects.items():
            for s, objects in subjects.items():
                for o in objects:
                    yield s, p, o

    def add(self, fact: Fact) -> bool:
        """Add a fact; return False if it was there already."""
        s, p, o = fact
        objects = self._objects.setdefault(p, {}).setdefault(s, set())
        if o in objects:
            return False
        objects.add(o)
        self._subjects.setdefault(p, {}).setdefault(o, set()).add(s)
        self._by_subject.setdefault(s, set()).add(p)
        self._by_object.setdefault(o, set()).add(p)
        self._counts[p] = self._counts.get(p, 0) + 1
        self._size += 1
        return True

    def remove(self, fact: Fact) -> None:
        """Remove a fact, which must exist."""
        s, p, o = fact
        for index, key, value in ((self._objects, s, o), (self._subjects, o, s)):
            values = index[p][key]
            values.remove(value)
            if not values:
                del index[p][key]
        if s not in self._objects[p]:
            _drop(self._by_subject, s, p)
        if o not in self._subjects[p]:
            _drop(self._by_object, o, p)
        self._counts[p] -= 1
        if not self._counts[p]:
            del self._objects[p], self._subjects[p], self._counts[p]
        self._size -= 1

    def add_in(self, graph: int, fact: Fact) -> None:
        """Add a triple of a named input graph, for GRAPH patterns only."""
        self._graphs.setdefault(graph, MemoryFacts()).add(fact)

    def name_graph(self, graph: int) -> None:
        """Add the name of an input graph; it then matches GRAPH patterns even if it has no triples."""
        self._graphs.setdefault(graph, MemoryFacts())

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        if p is not None:
            if s is not None:
                objects = self._objects.get(p, _NOTHING).get(s, ())
                if o is not None:
                    return ((s, p, o),) if o in objects else ()
                return [(s, p, value) for value in objects]
            if o is not None:
                return [(subject, p, o) for subject in self._subjects.get(p, _NOTHING).get(o, ())]
            return [
                (subject, p, value)
                for subject, values in self._objects.get(p, _NOTHING).items()
                for value in values
            ]
        predicates: Iterable[int] = self._objects
        if s is not None:
            predicates = self._by_subject.get(s, ())
            if o is not None:
                predicates = self._by_object.get(o, set()).intersection(predicates)
        elif o is not None:
            predicates = self._by_object.get(o, ())
        return [fact for predicate in predicates for fact in self.match(s, predicate, o)]

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named graphs; see `Facts.match_in`."""
        if graph is not None:
            inside = self._graphs.get(graph)
            return () if inside is None else [(graph, fact) for fact in inside.match(s, p, o)]
        return [(name, fact) for name, inside in self._graphs.items() for fact in inside.match(s, p, o)]

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named graphs."""
        return list(self._graphs)

    def count(self, p: Pattern) -> int:
        """Return the exact number of facts with the predicate ``p``; of all facts for None."""
        return self._size if p is None else self._counts.get(p, 0)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find``: nothing is kept. See `Facts.kept`."""
        return find()


def _drop(index: dict[int, set[int]], key: int, predicate: int) -> None:
    predicates = index[key]
    predicates.remove(predicate)
    if not predicates:
        del index[key]


_NOTHING: dict[int, set[int]] = {}
