"""Finds the tables that a commit can touch, without looking at the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import DEFAULT_GRAPH_KEY, Commit, GraphName, graph_of_key

from ..algebra.nodes import Term, Var
from ..algebra.triggers import Key, Trigger
from .table import Table
from .table_group import TableGroup


@dataclass(slots=True)
class Touched:
    """What a commit may have changed in a group: the rows with these keys, or ``whole``: any."""

    keys: dict[Key, set[tuple[Term, ...]]] = field(default_factory=lambda: defaultdict(set))
    whole: bool = False

    @property
    def size(self) -> int:
        """How many keys there are."""
        return sum(map(len, self.keys.values()))


class TriggerIndex:
    """The triggers of groups of tables by predicate: a commit costs a look-up a quad, whatever there is."""

    def __init__(self) -> None:
        self._groups: dict[str, TableGroup] = {}
        self._by_predicate: dict[NamedNode, list[tuple[TableGroup, Trigger]]] = {}
        self._any_predicate: list[tuple[TableGroup, Trigger]] = []
        self._graphs: list[tuple[TableGroup, Trigger]] = []

    def add(self, table: Table) -> None:
        """From now on commits are looked at for the table, together with those that differ in constants."""
        group = self._groups.get(table.kind)
        if group is None:
            group = self._groups[table.kind] = TableGroup(table)
        else:
            self._remove(group)
            group.add(table)
        for trigger in group.triggers:
            self._list_of(trigger).append((group, trigger))

    def remove(self, table: Table) -> None:
        """Take a table out of the index."""
        group = self._groups.get(table.kind)
        if group is not None and group.remove(table):
            del self._groups[table.kind]
            self._remove(group)

    def tables(self) -> list[Table]:
        """All tables for which commits are looked at."""
        return [table for group in self._groups.values() for table in group.tables]

    def group_of(self, table: Table) -> TableGroup | None:
        """The tables whose changes are worked out together with those of one, itself included."""
        group = self._groups.get(table.kind)
        return group if group is not None and table in group.tables else None

    def touched(self, commit: Commit) -> dict[TableGroup, Touched]:
        """The groups that the commit may change. Those of which all tables are blind are left out."""
        if not commit.exact:
            return self._touched_by_load(commit)
        found: dict[TableGroup, Touched] = {}
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

    def _remove(self, group: TableGroup) -> None:
        for trigger in group.triggers:
            self._list_of(trigger).remove((group, trigger))
            predicate = trigger.predicate
            if predicate is not None and not self._by_predicate[predicate]:
                del self._by_predicate[predicate]

    def _list_of(self, trigger: Trigger) -> list[tuple[TableGroup, Trigger]]:
        if trigger.pattern is None:
            return self._graphs
        if trigger.predicate is None:
            return self._any_predicate
        return self._by_predicate.setdefault(trigger.predicate, [])

    @staticmethod
    def _match(
        known: Sequence[tuple[TableGroup, Trigger]], quad: Quad, found: dict[TableGroup, Touched]
    ) -> None:
        for group, trigger in known:
            if not group.sees or not _reads(group, trigger, quad.graph_name):
                continue
            values = trigger.match(quad)
            if values is not None and group.asks_for(values):
                touched = found.get(group)
                if touched is None:
                    touched = found[group] = Touched()
                if not values:
                    touched.whole = True
                elif not touched.whole:
                    key = tuple(sorted(values))
                    touched.keys[key].add(tuple([values[name] for name in key]))

    def _match_graph(self, name: NamedNode | BlankNode, found: dict[TableGroup, Touched]) -> None:
        for group, trigger in self._graphs:
            if not group.sees or not _reads(group, trigger, name):
                continue
            touched = found.setdefault(group, Touched())
            if trigger.graph_key is None or isinstance(name, BlankNode):
                touched.whole = True
            else:
                touched.keys[(trigger.graph_key,)].add((name,))

    def _touched_by_load(self, commit: Commit) -> dict[TableGroup, Touched]:
        """A bulk load tells only which graphs have changed."""
        names: list[GraphName] = [graph_of_key(key) for key in commit.graphs]
        if DEFAULT_GRAPH_KEY in commit.graphs:
            names.append(DefaultGraph())
        found: dict[TableGroup, Touched] = {}
        for known in (*self._by_predicate.values(), self._any_predicate, self._graphs):
            for group, trigger in known:
                if group.sees and any(_reads(group, trigger, name) for name in names):
                    found[group] = Touched(whole=True)
        return found


def _reads(group: TableGroup, trigger: Trigger, graph: GraphName) -> bool:
    """True when the trigger's patterns are matched in this graph."""
    wanted = trigger.graph
    scope = group.scope
    if wanted is None:
        return scope.default is None or graph in scope.default
    if isinstance(graph, DefaultGraph):
        return False
    if not isinstance(wanted, Var) and wanted != graph:
        return False
    return scope.named is None or graph in scope.named
