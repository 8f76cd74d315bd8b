"""The trigger index, which finds the tables that a commit may change by the predicates of changed quads.

Tables whose static parts differ only in constants form a group. A commit's change is computed once for a
whole group of tables whose parts differ only in constants.

    ?x :in :p1 . ?x :label ?l   }
    ?x :in :p2 . ?x :label ?l   }   ->   ?x :in ?k0 . ?x :label ?l,   divided among the tables by ?k0

Each table of a group of similar static parts stores its own rows. A group that contains only one table uses
the pattern of this table's static part.
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
    """A group of tables whose static parts differ only in constants; modified while no commit is running.

    Attributes:
        tables: the tables of the group.
        part: the common pattern, in which additional columns at the end stand for the constants in which the
            tables differ.
        triggers: the quad patterns, one of which a changed quad must match to change the common pattern's
            rows.
        keyed_s: the seconds that the last evaluation of rows by key took, for one commit.
    """

    def __init__(self, first: Table) -> None:
        self.tables: dict[Table, None] = {first: None}
        self.part: StaticPattern = first.part
        self.triggers: Sequence[Trigger] = first.triggers
        self.keyed_s = 0.0
        # The positions of the constants in which the tables of the group differ.
        self._places: tuple[int, ...] = ()
        # `_by` maps the constants at these positions to tables, and `_asked` counts how many tables have a
        # constant in a column.
        self._by: dict[Constants, list[Table]] = {(): [first]}
        self._asked: dict[str, Counter[Term | None]] = {}

    @property
    def first(self) -> Table:
        """The first table of a group, for properties that all tables of the group share."""
        return next(iter(self.tables))

    def seeing(self) -> Iterator[Table]:
        """Yield the tables of the group that do not wait for a reload of all rows."""
        return (table for table in self.tables if not table.blind)

    @property
    def took_s(self) -> float:
        """The sum in seconds of the last evaluation times of all tables of a group."""
        return sum(table.reading.took_s for table in self.tables)

    def add(self, table: Table) -> None:
        """Add a table to the group; differences in further constants add variables to its pattern."""
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
        """Remove a table from its group of similar static parts."""
        del self.tables[table]
        key = self._key(table)
        self._by[key].remove(table)
        if not self._by[key]:
            del self._by[key]
        for name, term in zip(self._names, key, strict=True):
            self._asked[name] -= Counter((term,))

    def asks_for(self, values: Mapping[str, Term]) -> bool:
        """Return False if no table of a group has the constants that a changed quad would need."""
        return all(values[name] in terms for name, terms in self._asked.items() if name in values)

    def divided(self, weights: Mapping[Solution, int]) -> Mapping[Table, dict[Solution, int]]:
        """Divide a change of the common pattern's rows among the tables, and drop rows without a table."""
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
        """Return the constants of a table at the positions where the tables of the group differ."""
        return tuple([table.identity.constants[place] for place in self._places])

    @property
    def _names(self) -> list[str]:
        """The names of a group's additional columns for the constants in which its tables differ."""
        return [each.name for each in self.part.vars[len(self.part.vars) - len(self._places) :]]


@dataclass(slots=True)
class AffectedRows:
    """The rows of a group of tables that a commit may have changed.

    Attributes:
        keys: by key columns, the values of these columns in rows that may have changed.
        whole: True if any row may have changed.
        cut: True if the search for keys was stopped at the limit, so that further keys exist.
    """

    keys: dict[Key, set[tuple[Term, ...]]] = field(default_factory=lambda: defaultdict(set))
    whole: bool = False
    cut: bool = False

    @property
    def size(self) -> int:
        """The number of key values, in a group of tables, of rows that may have changed."""
        return sum(map(len, self.keys.values()))

    def add(self, values: Mapping[str, Term]) -> None:
        """Mark rows with these column values as possibly changed; without values, mark all rows."""
        if not values:
            self.whole = True
        elif not self.whole:
            key = tuple(sorted(values))
            self.keys[key].add(tuple([values[name] for name in key]))


_BLOCK = 1_000  # number of changed quads between two checks of the limit on keys of a table group
_Reader = tuple[TableGroup, Trigger, bool]
"""A group of tables, one of its triggers, and True if the trigger reads every graph."""


class TriggerIndex:
    """The triggers of all groups of tables, indexed by predicate.

    The time to process a changed quad does not depend on the number of tables in a group.
    """

    def __init__(self) -> None:
        self._groups: dict[str, TableGroup] = {}
        self._by_predicate: dict[NamedNode, list[tuple[TableGroup, Trigger]]] = {}
        self._any_predicate: list[tuple[TableGroup, Trigger]] = []
        self._graphs: list[tuple[TableGroup, Trigger]] = []

    def add(self, table: Table) -> None:
        """Add a table to the group of similar static parts, and index the group's triggers."""
        group = self._groups.get(table.identity.kind)
        if group is None:
            group = self._groups[table.identity.kind] = TableGroup(table)
        else:
            self._take_out(group)
            group.add(table)
        for trigger in group.triggers:
            self._list_of(trigger).append((group, trigger))

    def remove(self, table: Table) -> None:
        """Remove a table from the trigger index, if the index contains the table."""
        group = self._groups.get(table.identity.kind)
        if group is not None and table in group.tables:
            group.remove(table)
            if not group.tables:
                del self._groups[table.identity.kind]
                self._take_out(group)

    def tables(self) -> list[Table]:
        """Return all tables of the trigger index."""
        return [table for group in self._groups.values() for table in group.tables]

    def touched(self, commit: Commit, most: int | None) -> dict[TableGroup, AffectedRows]:
        """Return the groups of tables that a commit may change, with the key values of affected rows.

        Groups whose tables all wait for a reload are left out. The search for changed keys of a table group
        stops soon after ``most`` keys; None is no limit.
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
        """Return the triggers that quads with this predicate may match.

        The search for triggers is done once per predicate of a commit.
        """
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
        """Mark all rows of a group as affected if it reads a graph that changed without recorded quads."""
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
    """Yield the triggers that read a graph, with their groups; omit groups that wait for a reload."""
    for group, trigger in known:
        if any(group.seeing()) and reads(group, trigger, graph):
            yield group, trigger


def reads(group: TableGroup, trigger: Trigger, graph: GraphName) -> bool:
    """Return True if the pattern of a trigger reads this graph in the datasets of a group."""
    wanted, scope = trigger.graph, group.first.scope
    if wanted is None:
        return scope.default is None or graph in scope.default
    if isinstance(graph, DefaultGraph):
        return False
    if not isinstance(wanted, Var) and wanted != graph:
        return False
    return scope.named is None or graph in scope.named
