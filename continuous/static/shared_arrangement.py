"""What a join looks into for a static part whose table and indexes other queries share.

    rows, as the query sees them  =  rows of the table now  -  changes that the query has not taken

The query holds no rows but those changes, and most of the time there are none: then a look-up is one in the
table's own index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from ..operators.arrangement import Arrangement, Index, Key, key_of
from ..rows import EMPTY, Delta, IdRow, add, merge
from .shared_index import Columns, TableIndex

if TYPE_CHECKING:
    from .table import Table

Ahead: TypeAlias = dict[Key, Delta]
_SAMPLE = 500


class SharedArrangement(Arrangement):
    """An input of a join over a shared table. It is made in any thread, `prepare` too.

    Everything else is called in the engine's thread. The rows of the table never enter the join as a change:
    they count as taken when the query begins, at which some other input is empty.
    """

    def __init__(self, table: Table) -> None:
        """Look into a table; from `attach` on its changes wait for the query."""
        super().__init__()
        self.table: Table = table
        self.now: dict[Columns, Index | Behind] = {}
        self._used: dict[Columns, TableIndex] = {}
        # What the table has and the query has not taken yet, and the same by each key in use.
        self._ahead: Delta = {}
        self._ahead_by: dict[Columns, Ahead] = {}

    def prepare(self, keys: Iterable[Columns]) -> None:
        """Have these indexes made, which may take a while."""
        for key in keys:
            self.index(key)

    def attach(self, ahead: Delta = EMPTY) -> None:
        """The query begins at the table's present version, or behind it by a change."""
        if self not in self.table.views:
            self.table.views.append(self)
            self.ahead_by(ahead)

    def detach(self) -> None:
        """The query looks into the table no more; called in any thread."""
        if self in self.table.views:
            self.table.views.remove(self)
        used, self._used = self._used, {}
        for index in used.values():
            self.table.by_columns.release(index)

    def ahead_by(self, delta: Delta, sign: int = 1) -> None:
        """The table has taken a change (1), or the query has (-1)."""
        for row, weight in delta.items():
            add(self._ahead, row, sign * weight)
        for columns, ahead in self._ahead_by.items():
            _add_by(ahead, columns, delta, sign)
        if not self._ahead:
            self._ahead_by.clear()
        for columns in self._used:
            self.index(columns)

    # --- as joins use it ------------------------------------------------------------------------

    def index(self, key: Columns) -> Index | Behind:  # type: ignore[override]
        """What finds rows by the values of some columns now."""
        used = self._used.get(key)
        if used is None:
            used = self._used[key] = self.table.by_columns.acquire(key, self.table.rows)
        found: Index | Behind = used.rows
        if self._ahead:
            ahead = self._ahead_by.get(key)
            if ahead is None:
                ahead = self._ahead_by[key] = {}
                _add_by(ahead, key, self._ahead, 1)
            found = Behind(used.rows, ahead)
        self.now[key] = found
        return found

    def keep(self, keys: Iterable[Columns]) -> None:
        """Use exactly these indexes."""
        wanted = set(keys)
        self.prepare(wanted)
        for key in [each for each in self._used if each not in wanted]:
            self.table.by_columns.release(self._used.pop(key))
            self._ahead_by.pop(key, None)
            self.now.pop(key, None)

    def fan_out(self, key: Columns) -> float:
        """How many rows a value of the key has on average, estimated where there is no index by it."""
        count = len(self)
        if not count:
            return 0.0
        known = self.table.by_columns.known(key)
        values = 0 if known is None else len(known.rows)
        if values:
            return count / values
        with self.table.by_columns.lock:
            some = list(islice(self.table.rows, _SAMPLE))
        values = len({key_of(row, key) for row in some})
        return len(some) / values if values > len(some) / 2 else count / max(1, values)

    def update(self, change: Delta) -> None:
        """The query takes a change of the part."""
        self.recent.extend(change)
        self.ahead_by(change, -1)

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Every row with its weight, as the query sees them."""
        seen = dict(self.table.rows)
        merge(seen, {row: -weight for row, weight in self._ahead.items()})
        return seen.items()

    def held(self) -> Iterator[IdRow]:
        """The table pins its own rows; those it has let go may be here."""
        yield from list(self._ahead)

    def __len__(self) -> int:
        return len(self.table.rows)


class Behind:
    """An index of a table less the changes that a query has not taken yet."""

    def __init__(self, index: Index, ahead: Ahead) -> None:
        self._index = index
        self._ahead = ahead

    def get(self, key: Key, _: object = None) -> Delta:
        """The rows with a key and how often the query sees each."""
        found = self._index.get(key, EMPTY)
        ahead = self._ahead.get(key)
        if ahead is None:
            return found
        seen = dict(found)
        for row, weight in ahead.items():
            add(seen, row, -weight)
        return seen

    def __len__(self) -> int:
        return max(len(self._index), len(self._ahead))


def _add_by(ahead: Ahead, columns: Columns, delta: Delta, sign: int) -> None:
    for row, weight in delta.items():
        key = key_of(row, columns)
        rows = ahead.setdefault(key, {})
        add(rows, row, sign * weight)
        if not rows:
            del ahead[key]
