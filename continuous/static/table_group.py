"""Tables whose parts differ in constants alone: what a commit changes is worked out once for all of them.

    ?x :in :p1 . ?x :label ?l   }
    ?x :in :p2 . ?x :label ?l   }   ->   ?x :in ?k0 . ?x :label ?l,   handed to the tables by ?k0

Each table has its own rows. A group of one table has that table's own pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..algebra.nodes import Term
from ..algebra.static import StaticPattern
from ..algebra.triggers import Trigger, triggers
from ..element import Solution
from .static_evaluator import Dataset, StaticEvaluator
from .table import Table

Constants = tuple[Term | None, ...]


class TableGroup:
    """Tables of one kind; changed while no commit becomes visible.

    Attributes:
        tables: those in it.
        part: their pattern, the constants in which they differ as further columns behind theirs.
        triggers: where a quad can match that.
    """

    def __init__(self, first: Table) -> None:
        self.tables: dict[Table, None] = {first: None}
        self.part: StaticPattern = first.part
        self.triggers: Sequence[Trigger] = first.triggers
        self._places: tuple[int, ...] = ()
        # The tables by their constants at these places, and the constants by the names of their columns.
        self._by: dict[Constants, list[Table]] = {(): [first]}
        self._asked: dict[str, Counter[Term | None]] = {}

    @property
    def _first(self) -> Table:
        return next(iter(self.tables))

    @property
    def background(self) -> StaticEvaluator:
        """Evaluates the part; used by writers, one at a time."""
        return self._first.background

    @property
    def scope(self) -> Dataset:
        """The graphs that the part reads."""
        return self._first.scope

    @property
    def is_held(self) -> bool:
        """False where their rows are looked up."""
        return self._first.is_held

    @property
    def sees(self) -> bool:
        """False while all rows of all its tables are to be read anew."""
        return any(not table.blind for table in self.tables)

    @property
    def took_s(self) -> float:
        """How long it took to evaluate all rows of all its tables, in seconds."""
        return sum(table.took_s for table in self.tables)

    def add(self, table: Table) -> None:
        """Take one table more; its constants may make the pattern a more general one."""
        mine, first = table.constants, self._first.constants
        places = {place for place, term in enumerate(mine) if term != first[place]} | set(self._places)
        self.tables[table] = None
        if places == set(self._places):
            self._enter(table)
            return
        self._generalize(table, tuple(sorted(places)))
        self._by, self._asked = {}, {}
        for each in self.tables:
            self._enter(each)

    def remove(self, table: Table) -> bool:
        """Let a table go; True when it was the last one."""
        if table in self.tables:
            del self.tables[table]
            key = self._key(table)
            self._by[key].remove(table)
            if not self._by[key]:
                del self._by[key]
            for name, term in zip(self._names, key, strict=True):
                self._asked[name] -= Counter((term,))
        return not self.tables

    def asks_for(self, values: Mapping[str, Term]) -> bool:
        """False when no table has the constants that some changed rows have."""
        return all(values[name] in terms for name, terms in self._asked.items() if name in values)

    def divided(self, weights: Mapping[Solution, int]) -> Mapping[Table, dict[Solution, int]]:
        """The changes of the tables, by that of the part; other rows are nobody's."""
        found: dict[Table, dict[Solution, int]] = {}
        if not self._places:
            return {table: dict(weights) for table in self.tables}
        width = len(self._first.part.vars)
        for row, weight in weights.items():
            for table in self._by.get(row[width:], ()):
                found.setdefault(table, {})[row[:width]] = weight
        return found

    def _generalize(self, like: Table, places: tuple[int, ...]) -> None:
        assert like.lifted is not None
        pattern, more = like.lifted.general(places)
        found = triggers(pattern)
        assert found is not None, "lifting constants adds no SERVICE"
        self.part = StaticPattern(like.part.name, pattern, (*like.part.vars, *more))
        self.triggers, self._places = found, places

    def _enter(self, table: Table) -> None:
        key = self._key(table)
        self._by.setdefault(key, []).append(table)
        for name, term in zip(self._names, key, strict=True):
            self._asked.setdefault(name, Counter())[term] += 1

    def _key(self, table: Table) -> Constants:
        """The constants of a table where the tables differ."""
        return tuple([table.constants[place] for place in self._places])

    @property
    def _names(self) -> list[str]:
        """The columns of these."""
        return [each.name for each in self.part.vars[len(self.part.vars) - len(self._places) :]]
