"""Trigger index: finds the tables that a commit may change by the predicates of the changed quads.

Tables whose parts differ only in constants form a group, for which the change of a commit is computed once.

    ?x :in :p1 . ?x :label ?l   }
    ?x :in :p2 . ?x :label ?l   }   ->   ?x :in ?k0 . ?x :label ?l,   divided among the tables by ?k0

Each table stores its own rows. A group of one table uses that table's own pattern.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.changes.commit import DEFAULT_GRAPH_KEY, Commit, GraphName, graph_of_key

from ..algebra.nodes import Term, Var
from ..algebra.static import StaticPattern
from ..algebra.triggers import Key, Trigger, triggers
from ..rows import Solution
from .table import Table

Constants = tuple[Term | None, ...]


class TableGroup:
    """Tables of one kind, whose parts differ only in constants; modified while no commit can become visible.

    Attributes:
        tables: the tables of the group.
        part: the common pattern; the constants in which the tables differ are further columns at the end.
        triggers: the quad patterns that a changed quad must match to change the common pattern's rows.
        keyed_s: seconds that the last evaluation of the rows that a commit may change took.
    """

    def __init__(self, first: Table) -> None:
        self.tables: dict[Table, None] = {first: None}
        self.part: StaticPattern = first.part
        self.triggers: Sequence[Trigger] = first.triggers
        self.keyed_s = 0.0
        # The positions of the constants in which the tables differ.
        self._places: tuple[int, ...] = ()
        # The tables by their constants at these positions, and the counted constants by column name.
        self._by: dict[Constants, list[Table]] = {(): [first]}
        self._asked: dict[str, Counter[Term | None]] = {}

    @property
    def first(self) -> Table:
        """A representative table, for properties that all tables of the group share."""
        return next(iter(self.tables))

    def seeing(self) -> Iterator[Table]:
        """Yield the tables that are not waiting for a reload of all rows."""
        return (table for table in self.tables if not table.blind)

    @property
    def took_s(self) -> float:
        """Total seconds that the last evaluations of all rows of the group's tables took."""
        return sum(table.reading.took_s for table in self.tables)

    def add(self, table: Table) -> None:
        """Add a table; if its constants differ at new positions, the common pattern gets more variables."""
        constants = self.first.identity.constants
        differing = {place for place, term in enumerate(table.identity.constants) if term != constants[place]}
        places = tuple(sorted(differing.union(self._places)))
        self.tables[table] = None
        if places == self._places:
            self._enter(table)
            return
        assert table.identity.lifted is not None
        pattern, more = table.identity.lifted.general(places)
        found = triggers(pattern)
        assert found is not None, "lifting constants adds no SERVICE"
        self.part = StaticPattern(table.part.name, pattern, (*table.part.vars, *more))
        self.triggers, self._places = found, places
        self._by, self._asked = {}, {}
        for each in self.tables:
            self._enter(each)

    def remove(self, table: Table) -> None:
        """Remove a table from the group."""
        del self.tables[table]
        key = self._key(table)
        self._by[key].remove(table)
        if not self._by[key]:
            del self._by[key]
        for name, term in zip(self._names, key, strict=True):
            self._asked[name] -= Counter((term,))

    def asks_for(self, values: Mapping[str, Term]) -> bool:
        """Return False if no table of the group has the constants among the values of a changed quad."""
        return all(values[name] in terms for name, terms in self._asked.items() if name in values)

    def divided(self, weights: Mapping[Solution, int]) -> Mapping[Table, dict[Solution, int]]:
        """Divide a change of the common pattern's rows among the tables; rows without a table are dropped."""
        if not self._places:
            return {table: dict(weights) for table in self.tables}
        found: dict[Table, dict[Solution, int]] = {}
        width = len(self.first.part.vars)
        for row, weight in weights.items():
            for table in self._by.get(row[width:], ()):
                found.setdefault(table, {})[row[:width]] = weight
        return found

    def _enter(self, table: Table) -> None:
        key = self._key(table)
        self._by.setdefault(key, []).append(table)
        for name, term in zip(self._names, key, strict=True):
            self._asked.setdefault(name, Counter())[term] += 1

    def _key(self, table: Table) -> Constants:
        """Return the constants of a table at the positions where the group's tables differ."""
        return tuple([table.identity.constants[place] for place in self._places])

    @property
    def _names(self) -> list[str]:
        """The names of the columns for the constants in which the tables differ."""
        return [each.name for each in self.part.vars[len(self.part.vars) - len(self._places) :]]


@dataclass(slots=True)
class AffectedRows:
    """The rows of a group that a commit may have changed.

    Attributes:
        keys: for each set of columns, the key values of rows that may have changed.
        whole: True if any row may have changed.
        cut: True if the search for keys was stopped at the limit, so that further keys exist.
    """

    keys: dict[Key, set[tuple[Term, ...]]] = field(default_factory=lambda: defaultdict(set))
    whole: bool = False
    cut: bool = False

    @property
    def size(self) -> int:
        """The number of keys of rows that may have changed."""
        return sum(map(len, self.keys.values()))

    def add(self, values: Mapping[str, Term]) -> None:
        """Add the rows with these column values; without any values, all rows may have changed."""
        if not values:
            self.whole = True
        elif not self.whole:
            key = tuple(sorted(values))
            self.keys[key].add(tuple([values[name] for name in key]))


_BLOCK = 1_000  # number of quads between two checks of the number of keys
_Reader = tuple[TableGroup, Trigger, bool]
"""A group, one of its triggers, and True if the trigger reads every graph."""


class TriggerIndex:
    """The triggers of all groups by predicate: the cost of a quad does not depend on the number of tables."""

    def __init__(self) -> None:
        self._groups: dict[str, TableGroup] = {}
        self._by_predicate: dict[NamedNode, list[tuple[TableGroup, Trigger]]] = {}
        self._any_predicate: list[tuple[TableGroup, Trigger]] = []
        self._graphs: list[tuple[TableGroup, Trigger]] = []

    def add(self, table: Table) -> None:
        """Add a table to the group of its kind, and index the group's triggers."""
        group = self._groups.get(table.identity.kind)
        if group is None:
            group = self._groups[table.identity.kind] = TableGroup(table)
        else:
            self._take_out(group)
            group.add(table)
        for trigger in group.triggers:
            self._list_of(trigger).append((group, trigger))

    def remove(self, table: Table) -> None:
        """Remove a table from the index, if the index contains it."""
        group = self._groups.get(table.identity.kind)
        if group is not None and table in group.tables:
            group.remove(table)
            if not group.tables:
                del self._groups[table.identity.kind]
                self._take_out(group)

    def tables(self) -> list[Table]:
        """Return all tables of the index."""
        return [table for group in self._groups.values() for table in group.tables]

    def touched(self, commit: Commit, most: int | None) -> dict[TableGroup, AffectedRows]:
        """Return the groups that a commit may change, with the affected rows.

        Groups whose tables all wait for a reload are skipped. Collecting keys of a group stops soon after
        ``most`` keys; None for no limit.
        """
        found: dict[TableGroup, AffectedRows] = defaultdict(AffectedRows)
        if not commit.exact:
            self._touch_by_load(commit, found)
            return found
        readers: dict[NamedNode, list[_Reader]] = {}
        for number, quad in enumerate(chain(commit.added, commit.removed)):
            if most is not None and number and not number % _BLOCK:
                for touched in found.values():
                    if not touched.cut and (touched.whole or touched.size > most):
                        touched.cut, readers = True, {}
            known = readers.get(quad.predicate)
            if known is None:
                known = readers[quad.predicate] = self._readers(quad.predicate, found)
            for group, trigger, anywhere in known:
                if anywhere or reads(group, trigger, quad.graph_name):
                    values = trigger.match(quad)
                    if values is not None and group.asks_for(values):
                        found[group].add(values)
        if self._graphs:
            for name in (*commit.created, *commit.dropped):
                for group, trigger in _reading(self._graphs, name):
                    key = None if isinstance(name, BlankNode) else trigger.graph_key
                    found[group].add({} if key is None else {key: name})
        return found

    def _readers(self, predicate: NamedNode, found: Mapping[TableGroup, AffectedRows]) -> list[_Reader]:
        """Return the triggers that match quads with this predicate; called once per commit and predicate."""
        return [
            (group, trigger, trigger.graph is None and group.first.scope.default is None)
            for group, trigger in (*self._by_predicate.get(predicate, ()), *self._any_predicate)
            if any(group.seeing()) and not (group in found and found[group].cut)
        ]

    def _take_out(self, group: TableGroup) -> None:
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

    def _touch_by_load(self, commit: Commit, found: dict[TableGroup, AffectedRows]) -> None:
        """Mark all rows of groups that read a changed graph, since a bulk load records no changed quads."""
        names: list[GraphName] = [graph_of_key(key) for key in commit.graphs]
        if DEFAULT_GRAPH_KEY in commit.graphs:
            names.append(DefaultGraph())
        for known in (*self._by_predicate.values(), self._any_predicate, self._graphs):
            for name in names:
                for group, _ in _reading(known, name):
                    found[group].add({})


def _reading(
    known: Sequence[tuple[TableGroup, Trigger]], graph: GraphName
) -> Iterable[tuple[TableGroup, Trigger]]:
    """Yield the triggers that read a graph, with their groups, except groups that wait for a reload."""
    for group, trigger in known:
        if any(group.seeing()) and reads(group, trigger, graph):
            yield group, trigger


def reads(group: TableGroup, trigger: Trigger, graph: GraphName) -> bool:
    """Return True if the trigger's pattern is matched in this graph."""
    wanted, scope = trigger.graph, group.first.scope
    if wanted is None:
        return scope.default is None or graph in scope.default
    if isinstance(graph, DefaultGraph):
        return False
    if not isinstance(wanted, Var) and wanted != graph:
        return False
    return scope.named is None or graph in scope.named
