"""The facts of a rule set in the quad store, including pending changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable
from dataclasses import dataclass

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges, StoreView

from .facts import Fact, Pattern, Row
from .fixpoint import InputChange
from .match_cache import MatchCache
from .terms import RuleTerms

_FEW_QUADS = 64
"""Number of quads up to which a repeated read costs little.

All quads of a subject are read at once up to this number. The quads of a match are kept above it.
"""
_FEW_GRAPHS = 2
"""Number of listed input graphs from which one look-up in all graphs replaces a look-up in each of them."""


@dataclass(frozen=True, slots=True)
class InputGraphs:
    """The graphs that a rule set reads, without its own graph.

    Attributes:
        listed: the graphs of the member ``from``; None for all graphs except ``excluded``.
        excluded: graphs of rule sets, shapes and views, which are not input graphs if ``listed`` is None.
    """

    listed: tuple[GraphName, ...] | None = None
    excluded: frozenset[GraphName] = frozenset()

    @classmethod
    def of(cls, sources: tuple[GraphName, ...] | None, into: NamedNode, owned: Owners) -> InputGraphs:
        """Return the input graphs of a set with the member ``from``, its graph, and the owners of graphs."""
        return cls(sources, frozenset((*owned, into)) if sources is None else frozenset())

    def __contains__(self, graph: GraphName) -> bool:
        return graph not in self.excluded if self.listed is None else graph in self.listed


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
        shared: StoreFacts | None = None,
    ) -> None:
        """Create the facts of a view of the dataset.

        Args:
            view: the dataset.
            terms: the dictionary of the rule set.
            inputs: the input graphs.
            into: the set's own graph.
            cache: a cache of matches in the committed dataset; None for none.
            own: True if the triples of the set's own graph are facts.
            shared: facts of the same view, whose last large match answers the same question here.
        """
        self.view = view
        self._own = own
        self._shared = shared
        # The last pattern with many matches, and the quads of all graphs that match it.
        self.last_large: tuple[tuple[Pattern, Pattern, Pattern] | None, list[Quad]] = None, []
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
            return self.read(s, p, o)
        found = table.get((s, o))
        if found is None:
            found = self.read(s, p, o)
            self._cache.add(table, (s, o), found)
        return found

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return rows that only facts with some predicates affect; see `Facts.kept`."""
        return self._cache.kept(predicates, key, find)

    def read(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match without the cache; see `Facts.match`."""
        quads = self._quads(s, p, o)
        ids = self._terms.dictionary.ids
        if s is not None and p is not None:
            found = [(s, p, ids[quad.object]) for quad in quads]
        else:
            found = [(ids[quad.subject], ids[quad.predicate], ids[quad.object]) for quad in quads]
        return found if len(found) < 2 else dict.fromkeys(found)

    def _quads(self, s: Pattern, p: Pattern, o: Pattern) -> Iterable[Quad]:
        pattern = self._terms.pattern(s, p, o)
        if pattern is None:
            return ()
        if self._each is not None:
            return [quad for graph in self._each for quad in self.view.match(*pattern, graph)]
        inputs, into, own = self._inputs, self._into, self._own
        shared = self._shared
        if shared is not None and shared.last_large[0] == (s, p, o):
            quads = shared.last_large[1]  # only quads of the set's own graph may have changed since
        else:
            quads = self.view.match(*pattern, None)
            if len(quads) > _FEW_QUADS:
                self.last_large = (s, p, o), quads
        return [quad for quad in quads if (own if quad.graph_name == into else quad.graph_name in inputs)]

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
        pattern = self._terms.pattern(s, p, o)
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
        return self.found(fact)[1]

    def found(self, fact: Fact) -> tuple[bool, bool]:
        """Return whether the set's own graph has the triple, and whether an input graph has it."""
        pattern = self._terms.pattern(*fact)
        if pattern is None:
            return False, False
        view, inputs, into = self.view, self._inputs, self._into
        if inputs.listed is not None:
            return (
                view.contains(Quad(*pattern, into)),  # type: ignore[arg-type]
                any(view.contains(Quad(*pattern, graph)) for graph in inputs.listed),  # type: ignore[arg-type]
            )
        graphs = [quad.graph_name for quad in view.match(*pattern, None)]
        return into in graphs, any(graph != into and graph in inputs for graph in graphs)

    def few(self, s: Pattern, o: Pattern, most: int) -> list[Fact] | None:
        """Return the facts with a subject or an object, one of them None; None if they have many quads."""
        pattern = self._terms.pattern(s, None, o)
        if pattern is None:
            return []
        quads = self.view.few(pattern[0], pattern[2], most)
        if quads is None:
            return None
        ids, inputs, into, own = self._terms.dictionary.ids, self._inputs, self._into, self._own
        return list(
            dict.fromkeys(
                (ids[quad.subject], ids[quad.predicate], ids[quad.object])
                for quad in quads
                if (own if quad.graph_name == into else quad.graph_name in inputs)
            )
        )

    def found_about(self, s: int, found: dict[tuple[int, int], tuple[bool, bool]]) -> bool:
        """Add the answers of `found` for all triples with a subject; return False if they are too many."""
        pattern = self._terms.pattern(s, None, None)
        quads = None if pattern is None or pattern[0] is None else self.view.few(pattern[0], None, _FEW_QUADS)
        if quads is None:
            return False
        ids, into = self._terms.dictionary.ids, self._into
        for quad in quads:
            key = ids[quad.predicate], ids[quad.object]
            inferred, asserted = found.get(key, (False, False))
            own = quad.graph_name == into
            found[key] = inferred or own, asserted or (not own and quad.graph_name in self._inputs)
        return True

    def quad(self, fact: Fact) -> Quad:
        """Return the fact as a quad of the rule set's own graph."""
        terms = self._terms.dictionary.terms
        s, p, o = fact
        return Quad(terms[s], terms[p], terms[o], self._into)  # type: ignore[arg-type]


class CheckedFacts(StoreFacts):
    """Facts that call a function before each read of the store; it can raise an error to end the work."""

    def __init__(
        self,
        view: StoreView | PendingChanges,
        terms: RuleTerms,
        inputs: InputGraphs,
        into: NamedNode,
        check: Callable[[], None],
    ) -> None:
        """Create the facts of a view of the dataset; see `StoreFacts`."""
        super().__init__(view, terms, inputs, into)
        self._check = check

    def _quads(self, s: Pattern, p: Pattern, o: Pattern) -> Iterable[Quad]:
        self._check()
        return super()._quads(s, p, o)

    def _named_quads(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> list[Quad]:
        self._check()
        return super()._named_quads(graph, s, p, o)


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
        self.given = StoreFacts(pending, terms, inputs, into, own=False, shared=self.now)
        self._changed = cache.changed
        self.added = self.changes = 0
        # The last subject, and whether its triples are inferred and asserted. Complete is True if its other
        # triples are neither, False if it has too many quads, and None if its quads have not been read.
        self._subject: int | None = None
        self._answers: dict[tuple[int, int], tuple[bool, bool]] = {}
        self._complete: bool | None = None
        self._pending = pending
        self._inputs = inputs
        self._into = into
        self._terms = terms

    def input_change(
        self, change: NetChange, *, quads: bool, idle: Container[NamedNode] = frozenset()
    ) -> InputChange:
        """Return how a change of quads changes the facts.

        With ``quads``, the result also has the changed triples of named input graphs, for GRAPH patterns. It
        leaves out quads with predicates of ``idle``.
        """
        result = InputChange()
        for lost, changed in ((False, change.added), (True, change.removed)):
            for quad in changed:
                graph = quad.graph_name
                if quad.predicate in idle or graph == self._into or graph not in self._inputs:
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

    def entering(self, added: Iterable[Quad], idle: Container[NamedNode]) -> list[Fact]:
        """Return the triples of added quads of input graphs, without quads with predicates of ``idle``."""
        found = []
        for quad in added:
            graph = quad.graph_name
            if quad.predicate not in idle and graph != self._into and graph in self._inputs:
                fact = self._fact(quad)
                self._changed.add(fact[1])
                found.append(fact)
        return found

    def _fact(self, quad: Quad) -> Fact:
        ids = self._terms.dictionary.ids
        return ids[quad.subject], ids[quad.predicate], ids[quad.object]

    def asserted(self, fact: Fact) -> bool:
        """Return True if an input graph has the triple after the change."""
        return self._found(fact)[1]

    def known(self, fact: Fact) -> bool:
        """Return True if the triple is a fact in the state ``now``."""
        return any(self._found(fact))

    def inferred(self, fact: Fact) -> bool:
        """Return True if the set's own graph has the triple in the state ``now``."""
        return self._found(fact)[0]

    def infer(self, fact: Fact) -> None:
        """Add an inferred triple, which must not be inferred already."""
        self._changed.add(fact[1])
        if not self.changes:
            self._pending.create(self._into)
        self._pending.add_missing(self.now.quad(fact))
        self._answer(fact, True)
        self.added += 1
        self.changes += 1

    def insert(self, facts: list[Fact]) -> None:
        """Infer those of some facts that are not inferred already."""
        if len(facts) > 1:
            self._ask_about(facts[0][0])
        for fact in facts:
            if not self._found(fact)[0]:
                self.infer(fact)

    def retract(self, fact: Fact) -> None:
        """Remove an inferred triple; it stays a fact if an input graph asserts it."""
        self._changed.add(fact[1])
        self._pending.remove(self.now.quad(fact))
        self._answer(fact, False)
        self.added -= 1
        self.changes += 1

    def _answer(self, fact: Fact, inferred: bool) -> None:
        """Note that a triple is now inferred or not."""
        _, asserted = self._found(fact)
        self._answers[fact[1:]] = inferred, asserted

    def _found(self, fact: Fact) -> tuple[bool, bool]:
        """Return whether the set's own graph has a triple, and whether an input graph has it.

        From the second question about a subject on, the quads of the subject are read once for all questions,
        because the consequences of a quad mostly have its subject.
        """
        s, key = fact[0], fact[1:]
        if s != self._subject:
            self._subject, self._complete, self._answers = s, None, {}
        elif self._complete is None and key not in self._answers:
            self._ask_about(s)
        answers = self._answers
        found = answers.get(key)
        if found is None:
            found = answers[key] = (False, False) if self._complete else self.now.found(fact)
        return found

    def _ask_about(self, s: int) -> None:
        """Read the quads of a subject at once, unless they are many or have been read."""
        if s != self._subject:
            self._subject, self._complete, self._answers = s, None, {}
        if self._complete is None:
            self._complete = self.now.found_about(s, self._answers)
