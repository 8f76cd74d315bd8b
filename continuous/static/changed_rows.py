"""The change of a table that fell behind, computed from the rows that recent commits may have changed.

A table falls behind if a commit may change so many rows that the writer should not wait for their
computation. The rows that a commit may change are often still far fewer than all rows of the table, so
reading only them is faster. A test checks that the change so computed equals the change found by reading the
whole table.

    before  =  rows of the table with one of the changed keys; a table that is behind does not change
    after   =  rows of the store with one of the changed keys; keys of newer commits are read again
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from pyoxigraph import BlankNode, NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import ReportedError
from quadrill.store.quads.reading import StoreReader

from ..algebra.nodes import Term, Var
from ..algebra.triggers import Key, Trigger, can_be_named
from ..operators.arrangement import key_getter
from ..rows import Delta, Solution, difference
from .keyed_rows import KEY_S, TooManyRowsError, rows_with
from .shared_rows import ids_of
from .table import ReloadedRows, Table
from .trigger_index import TableGroup, reads

_NODE = BlankNode()
KeySets = Mapping[Key, set[tuple[Term, ...]]]


class ChangedRows:
    """The rows that commits may have changed in one table that is behind the store."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._evaluator = table.new_background()
        self._group = TableGroup(table)
        self._columns = [each.name for each in table.part.vars]
        self._keys: dict[Key, set[tuple[Term, ...]]] = defaultdict(set)
        self._after: Counter[Solution] = Counter()

    def follow(self, reader: StoreReader, commits: Sequence[Commit]) -> bool:
        """Read the rows that further commits may have changed.

        Returns False if reading all rows of the table is better.
        """
        keys = self._reached(commits)
        if keys is None:
            return False
        try:
            found = rows_with(reader, self._evaluator, self.table.part, keys, self.table.count)
        except (TooManyRowsError, ReportedError):
            # Evaluating the whole static part may succeed even if reading its rows by key has exceeded a
            # limit.
            return False
        for key, values in keys.items():
            places = [self._columns.index(name) for name in key]
            stale = [row for row in self._after if tuple([row[each] for each in places]) in values]
            for row in stale:
                del self._after[row]
            self._keys[key] |= values
        self._after.update(found)
        return True

    def fresh(self) -> ReloadedRows:
        """Return the table's change by all commits given to `follow`; the ids of new rows are pinned."""
        table, before = self.table, self._before()
        after = table.encode(self._after.elements())
        delta = difference(after, before)
        come = {row: after.pop(row) for row in delta if row not in table.rows}
        table.give_back(after)
        return ReloadedRows(table, come, None, delta, whole=False)

    def _reached(self, commits: Iterable[Commit]) -> KeySets | None:
        """Return the key values of rows that commits may have changed; None if unknown or too many."""
        found: dict[Key, set[tuple[Term, ...]]] = defaultdict(set)
        for commit in commits:
            if not commit.exact:
                return None
            quads: dict[NamedNode | None, list[Quad]] = {None: [*commit.added, *commit.removed]}
            for quad in quads[None]:
                quads.setdefault(quad.predicate, []).append(quad)
            for trigger in self.table.triggers:
                matching = quads.get(trigger.predicate, [])
                if trigger.graph is not None or self.table.scope.default is not None:
                    matching = [each for each in matching if reads(self._group, trigger, each.graph_name)]
                key = tuple([name for name in trigger.key if name in self._columns])
                values = _values(trigger, key, matching)
                if trigger.pattern is None or () in values or not all(map(can_be_named, chain(*values))):
                    return None
                if values:
                    found[key] |= values
        return found if sum(map(len, found.values())) * KEY_S < self.table.reading.took_s else None

    def _before(self) -> Delta:
        table = self.table
        before: Delta = {}
        for key, values in self._keys.items():
            places = tuple(map(self._columns.index, key))
            of = key_getter(tuple(range(len(places))))
            ids = set(map(of, ids_of(table.terms.dictionary, values)))
            index = table.indexes.get(places)
            if index is not None and index.made.is_set():
                for each in ids:
                    before.update(index.get(each))
            else:
                of = key_getter(places)
                before.update((row, n) for row, n in table.rows.items() if of(row) in ids)
        return before


def _values(trigger: Trigger, key: Key, quads: Iterable[Quad]) -> set[tuple[Term, ...]]:
    """Return the key values of rows that changed quads may affect.

    A blank node as key value stands for an unknown value.
    """
    pattern = trigger.pattern
    if pattern is None:
        return set()
    ends = pattern.subject, pattern.object
    if len(key) == 1 and trigger.predicate and all(isinstance(each, Var) for each in ends):
        # If the trigger is a triple pattern of two different variables, every quad with this predicate
        # matches the trigger, so the key values are the subjects or objects of the quads.
        for place, end in (("subject", ends[0]), ("object", ends[1])):
            if end == Var(key[0]) and ends[0] != ends[1]:
                return {(each,) for each in map(attrgetter(place), quads)}
    matched = [values for each in quads if (values := trigger.match(each)) is not None]
    return {tuple([values.get(name, _NODE) for name in key]) for values in matched}
