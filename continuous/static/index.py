"""Finds the tables that a commit can touch, without looking at the others."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import DEFAULT_GRAPH_KEY, Commit, GraphName, graph_of_key

from ..algebra.nodes import Term, Var
from ..algebra.triggers import Key, Trigger
from .table import SharedTable


@dataclass(slots=True)
class Touched:
    """What a commit may have changed in one table: the rows with these keys, or ``whole``: any."""

    keys: dict[Key, set[tuple[Term, ...]]] = field(default_factory=lambda: defaultdict(set))
    whole: bool = False

    @property
    def size(self) -> int:
        """How many keys there are."""
        return sum(map(len, self.keys.values()))


class TriggerIndex:
    """The triggers of all tables by predicate. A commit costs a look-up a quad, whatever tables there are."""

    def __init__(self) -> None:
        self._by_predicate: dict[NamedNode, list[tuple[SharedTable, Trigger]]] = {}
        self._any_predicate: list[tuple[SharedTable, Trigger]] = []
        self._graphs: list[tuple[SharedTable, Trigger]] = []

    def add(self, table: SharedTable) -> None:
        """From now on commits are looked at for the table."""
        for trigger in table.triggers:
            self._list_of(trigger).append((table, trigger))

    def remove(self, table: SharedTable) -> None:
        """Not any more."""
        for trigger in table.triggers:
            self._list_of(trigger).remove((table, trigger))
            predicate = trigger.predicate
            if predicate is not None and not self._by_predicate[predicate]:
                del self._by_predicate[predicate]

    def touched(self, commit: Commit) -> dict[SharedTable, Touched]:
        """The tables that the commit may change. Tables that are blind are left out."""
        if not commit.exact:
            return self._touched_by_load(commit)
        found: dict[SharedTable, Touched] = {}
        by_predicate, everywhere = self._by_predicate, self._any_predicate
        for quads in (commit.added, commit.removed):
            for quad in quads:
                known = by_predicate.get(quad.predicate)
                if known is not None:
                    self._match(known, quad, found)
                if everywhere:
                    self._match(everywhere, quad, found)
        if self._graphs:
            for name in (*commit.created, *commit.dropped):
                self._match_graph(name, found)
        return found

    def _list_of(self, trigger: Trigger) -> list[tuple[SharedTable, Trigger]]:
        if trigger.pattern is None:
            return self._graphs
        if trigger.predicate is None:
            return self._any_predicate
        return self._by_predicate.setdefault(trigger.predicate, [])

    @staticmethod
    def _match(
        known: list[tuple[SharedTable, Trigger]], quad: Quad, found: dict[SharedTable, Touched]
    ) -> None:
        for table, trigger in known:
            if table.blind or not _reads(table, trigger, quad.graph_name):
                continue
            values = trigger.match(quad)
            if values is not None:
                touched = found.get(table)
                if touched is None:
                    touched = found[table] = Touched()
                if not values:
                    touched.whole = True
                elif not touched.whole:
                    key = tuple(sorted(values))
                    touched.keys[key].add(tuple([values[name] for name in key]))

    def _match_graph(self, name: NamedNode | BlankNode, found: dict[SharedTable, Touched]) -> None:
        for table, trigger in self._graphs:
            if table.blind or not _reads(table, trigger, name):
                continue
            touched = found.setdefault(table, Touched())
            if trigger.graph_key is None or isinstance(name, BlankNode):
                touched.whole = True
            else:
                touched.keys[(trigger.graph_key,)].add((name,))

    def _touched_by_load(self, commit: Commit) -> dict[SharedTable, Touched]:
        """A bulk load tells only which graphs have changed."""
        names: list[GraphName] = [graph_of_key(key) for key in commit.graphs]
        if DEFAULT_GRAPH_KEY in commit.graphs:
            names.append(DefaultGraph())
        found: dict[SharedTable, Touched] = {}
        for known in (*self._by_predicate.values(), self._any_predicate, self._graphs):
            for table, trigger in known:
                if not table.blind and any(_reads(table, trigger, name) for name in names):
                    found[table] = Touched(whole=True)
        return found


def _reads(table: SharedTable, trigger: Trigger, graph: GraphName) -> bool:
    """True when the trigger's patterns are matched in this graph."""
    wanted = trigger.graph
    scope = table.scope
    if wanted is None:
        return scope.default is None or graph in scope.default
    if isinstance(graph, DefaultGraph):
        return False
    if not isinstance(wanted, Var) and wanted != graph:
        return False
    return scope.named is None or graph in scope.named
