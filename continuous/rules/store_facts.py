"""The facts of a rule set in the quad store, including pending changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.pending import PendingChanges, StoreView

from .facts import Fact, Pattern
from .fixpoint import InputChange
from .terms import RuleTerms

_FEW_GRAPHS = 2
"""Number of listed input graphs from which one look-up in all graphs replaces a look-up in each of them."""
_MOST_MATCHES = 20_000
"""Maximum number of cached matches of one rule set; about 10 MB if most of them have few facts."""
_MOST_FACTS = 100
"""Maximum number of facts of a cached match."""


@dataclass(frozen=True, slots=True)
class InputGraphs:
    """The graphs that a rule set reads, without its own graph.

    Attributes:
        listed: the graphs of the member ``from``; None for all graphs except ``excluded``.
        excluded: graphs of rule sets, shapes and views, which are not input graphs if ``listed`` is None.
    """

    listed: tuple[GraphName, ...] | None = None
    excluded: frozenset[GraphName] = frozenset()

    def __contains__(self, graph: GraphName) -> bool:
        return graph not in self.excluded if self.listed is None else graph in self.listed


class MatchCache:
    """A cache of matches in the committed dataset, for patterns with a predicate.

    A commit removes the matches of the predicates that it changes. So matches of schema triples, which a
    commit of data looks up most often, come from the cache instead of the store.

    Attributes:
        changed: the ids of the predicates of quads that the current change adds or removes.
        usable: True if the dataset before the current change is the committed one.
    """

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self.usable = False
        self._matches: dict[int, dict[tuple[Pattern, Pattern], Collection[Fact]]] = {}
        self._size = 0

    def begin(self, *, usable: bool) -> None:
        """Begin a change; ``usable`` is True if the dataset before it is the committed one."""
        self.changed.clear()
        self.usable = usable

    def end(self) -> None:
        """End a change: remove the matches of the predicates that it has changed."""
        for predicate in self.changed:
            forgotten = self._matches.pop(predicate, None)
            if forgotten is not None:
                self._size -= len(forgotten)
        self.usable = False

    def clear(self) -> None:
        """Remove all matches."""
        self._matches.clear()
        self._size = 0

    def table(self, predicate: int) -> dict[tuple[Pattern, Pattern], Collection[Fact]] | None:
        """Return the cached matches of a predicate by subject and object; None if the cache is not usable."""
        if not self.usable or predicate in self.changed:
            return None
        table = self._matches.get(predicate)
        if table is None:
            table = self._matches[predicate] = {}
        return table

    def added(self) -> None:
        """Count a match that the caller has added, and remove all matches if there are too many."""
        self._size += 1
        if self._size > _MOST_MATCHES:
            self.clear()


class StoreFacts:
    """The facts of a rule set in one state of the dataset; see `facts.Facts`."""

    def __init__(
        self,
        view: StoreView | PendingChanges,
        terms: RuleTerms,
        inputs: InputGraphs,
        into: NamedNode,
        cache: MatchCache | None = None,
        *,
        own: bool = True,
    ) -> None:
        """Create the facts of a view of the dataset.

        Args:
            view: the dataset.
            terms: the dictionary of the rule set.
            inputs: the input graphs.
            into: the set's own graph.
            cache: a cache of matches in the committed dataset; None for none.
            own: True if the triples of the set's own graph are facts.
        """
        self.view = view
        self._own = own
        self._cache = cache or MatchCache()
        self._terms = terms
        self._inputs = inputs
        self._into = into
        listed = inputs.listed
        self._each: tuple[GraphName, ...] | None = None
        if listed is not None and len(listed) < _FEW_GRAPHS:
            self._each = (*listed, into) if own else listed

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        table = None if p is None else self._cache.table(p)
        if table is None:
            return self._read(s, p, o)
        found = table.get((s, o))
        if found is None:
            found = self._read(s, p, o)
            if len(found) <= _MOST_FACTS:
                table[s, o] = found
                self._cache.added()
        return found

    def _read(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        quads = self._quads(s, p, o)
        ids = self._terms.dictionary.ids
        if s is not None and p is not None:
            found = [(s, p, ids[quad.object]) for quad in quads]
        else:
            found = [(ids[quad.subject], ids[quad.predicate], ids[quad.object]) for quad in quads]
        return found if len(found) < 2 else dict.fromkeys(found)

    def _quads(self, s: Pattern, p: Pattern, o: Pattern) -> Iterable[Quad]:
        pattern = self._pattern(s, p, o)
        if pattern is None:
            return ()
        if self._each is not None:
            return [quad for graph in self._each for quad in self.view.match(*pattern, graph)]
        inputs, into, own = self._inputs, self._into, self._own
        return [
            quad
            for quad in self.view.match(*pattern, None)
            if (own if quad.graph_name == into else quad.graph_name in inputs)
        ]

    def _pattern(
        self, s: Pattern, p: Pattern, o: Pattern
    ) -> (
        tuple[NamedNode | BlankNode | None, NamedNode | None, NamedNode | BlankNode | Literal | Triple | None]
        | None
    ):
        """Return the terms of a pattern; None if RDF allows no such triple."""
        terms = self._terms.dictionary.terms
        subject = None if s is None else terms[s]
        predicate = None if p is None else terms[p]
        if isinstance(subject, Literal | Triple) or not (
            predicate is None or isinstance(predicate, NamedNode)
        ):
            return None
        return subject, predicate, None if o is None else terms[o]

    def quads(self, ids: tuple[Pattern, Pattern, Pattern], graph: Pattern, *, named: bool) -> list[Quad]:
        """Return the quads that a pattern matches: those of input graphs, then those of the set's own graph.

        With ``named``, only named input graphs are read, or only ``graph`` if it is not None.
        """
        if named:
            return self._named_quads(graph, *ids)
        return sorted(self._quads(*ids), key=lambda quad: quad.graph_name == self._into)

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named input graphs; see `Facts.match_in`."""
        ids = self._terms.dictionary.ids
        return [
            (ids[quad.graph_name], (ids[quad.subject], ids[quad.predicate], ids[quad.object]))  # type: ignore[index]
            for quad in self._named_quads(graph, s, p, o)
        ]

    def _named_quads(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> list[Quad]:
        pattern = self._pattern(s, p, o)
        name = None if graph is None else self._terms.dictionary.terms[graph]
        if pattern is None or isinstance(name, Literal | Triple):
            return []
        return [
            quad
            for quad in self.view.match(*pattern, name)
            if not isinstance(quad.graph_name, DefaultGraph) and self._reads_named(quad.graph_name)
        ]

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named input graphs."""
        ids = self._terms.dictionary.ids
        return [ids[name] for name in self.view.graph_names() if self._reads_named(name)]

    def _reads_named(self, name: GraphName) -> bool:
        return name != self._into and name in self._inputs

    def count(self, p: Pattern) -> int:
        """Return a fixed estimate, because an exact number takes a scan of the store."""
        return 1_000_000 if p is None else 10_000

    def asserted(self, fact: Fact) -> bool:
        """Return True if an input graph has the triple."""
        pattern = self._pattern(*fact)
        if pattern is None:
            return False
        listed = self._inputs.listed
        if listed is not None:
            return any(self.view.contains(Quad(*pattern, graph)) for graph in listed)  # type: ignore[arg-type]
        return any(
            quad.graph_name != self._into and quad.graph_name in self._inputs
            for quad in self.view.match(*pattern, None)
        )

    def quad(self, fact: Fact) -> Quad:
        """Return the fact as a quad of the rule set's own graph."""
        terms = self._terms.dictionary.terms
        s, p, o = fact
        return Quad(terms[s], terms[p], terms[o], self._into)  # type: ignore[arg-type]


class StoreState:
    """The facts of a rule set before and after a change that is not yet committed.

    Inferred triples are added to ``pending`` and removed from it. See `fixpoint.Inferred`.

    Attributes:
        before: the facts before the change.
        now: the facts after the change and the changes of inferred triples so far.
        given: the triples of the input graphs after the change, without inferred ones.
        added: number of inferred triples that were added, minus the number of those that were removed.
        changes: number of inferred triples that were added, plus the number of those that were removed.
    """

    def __init__(
        self,
        below: StoreView | PendingChanges,
        pending: PendingChanges,
        terms: RuleTerms,
        inputs: InputGraphs,
        into: NamedNode,
        cache: MatchCache | None = None,
    ) -> None:
        cache = cache or MatchCache()
        self.before = StoreFacts(below, terms, inputs, into, cache)
        self.now = StoreFacts(pending, terms, inputs, into, cache)
        self.given = StoreFacts(pending, terms, inputs, into, own=False)
        self._changed = cache.changed
        self.added = self.changes = 0
        self._pending = pending
        self._inputs = inputs
        self._into = into
        self._terms = terms

    def input_change(self, change: NetChange, *, quads: bool) -> InputChange:
        """Return how a change of quads changes the facts.

        With ``quads``, the result also has the changed triples of named input graphs, for GRAPH patterns.
        """
        result = InputChange()
        for lost, changed in ((False, change.added), (True, change.removed)):
            for quad in changed:
                graph = quad.graph_name
                if graph == self._into or graph not in self._inputs:
                    continue
                fact = self._fact(quad)
                self._changed.add(fact[1])
                if quads and not isinstance(graph, DefaultGraph):
                    result.quads.append((self._terms.dictionary.ids[graph], fact))
                if lost and not self.now.asserted(fact):
                    result.removed.append(fact)
                elif not lost and not self.before.match(*fact):
                    result.added.append(fact)
        return result

    def _fact(self, quad: Quad) -> Fact:
        ids = self._terms.dictionary.ids
        return ids[quad.subject], ids[quad.predicate], ids[quad.object]

    def asserted(self, fact: Fact) -> bool:
        """Return True if an input graph has the triple after the change."""
        return self.now.asserted(fact)

    def known(self, fact: Fact) -> bool:
        """Return True if the triple is a fact in the state ``now``."""
        return bool(self.now.match(*fact))

    def inferred(self, fact: Fact) -> bool:
        """Return True if the set's own graph has the triple in the state ``now``."""
        return self._pending.contains(self.now.quad(fact))

    def infer(self, fact: Fact) -> None:
        """Add an inferred triple."""
        self._changed.add(fact[1])
        self._pending.add(self.now.quad(fact))
        self.added += 1
        self.changes += 1

    def retract(self, fact: Fact) -> None:
        """Remove an inferred triple; it stays a fact if an input graph asserts it."""
        self._changed.add(fact[1])
        self._pending.remove(self.now.quad(fact))
        self.added -= 1
        self.changes += 1
