"""The indexes of one table, each made once for all queries that look into the table by the same columns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TypeAlias

from ..operators.arrangement import Index, enter
from ..rows import EMPTY, Delta, IdRow

Columns: TypeAlias = tuple[int, ...]


class TableIndex:
    """The rows of a table by the values of some columns, kept up to date with each change of the table.

    Whoever asks for one first makes it, in any thread; changes that the table takes meanwhile wait.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.users = 0
        self.made = threading.Event()
        self.rows: Index = {}
        """By their key; changed with each change of the table."""
        self._late: list[Delta] | None = []

    def fill(self, rows: Mapping[IdRow, int]) -> None:
        """All rows that the table had when the index was announced."""
        enter(self.rows, self.columns, rows)

    def settle(self) -> None:
        """Take the changes that came while it was made; under the lock of the table."""
        late, self._late = self._late or [], None
        for delta in late:
            enter(self.rows, self.columns, delta)
        self.made.set()

    def apply(self, delta: Delta) -> None:
        """The table takes a change; under its lock."""
        if self._late is None:
            enter(self.rows, self.columns, delta)
        else:
            self._late.append(delta)


class TableIndexes:
    """The indexes of a table that queries look into now.

    Attributes:
        lock: held while the table's rows change, and while a copy of them is taken to make an index.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._indexes: dict[Columns, TableIndex] = {}

    def __len__(self) -> int:
        return len(self._indexes)

    def known(self, columns: Columns) -> TableIndex | None:
        """The index by these columns, if somebody uses one and it is there."""
        found = self._indexes.get(columns)
        return found if found is not None and found.made.is_set() else None

    def acquire(self, columns: Columns, rows: Mapping[IdRow, int]) -> TableIndex:
        """The index by these columns for one user more; made of the table's rows when there is none."""
        copy: Mapping[IdRow, int] = EMPTY
        with self.lock:
            found = self._indexes.get(columns)
            is_new = found is None
            if found is None:
                found = self._indexes[columns] = TableIndex(columns)
                copy = dict(rows)
            found.users += 1
        if is_new:
            found.fill(copy)
            with self.lock:
                found.settle()
        found.made.wait()
        return found

    def release(self, index: TableIndex) -> None:
        """One user less; the last one takes the index along."""
        with self.lock:
            index.users -= 1
            if not index.users:
                del self._indexes[index.columns]

    def apply(self, delta: Delta) -> None:
        """The table takes a change; under the lock."""
        for index in self._indexes.values():
            index.apply(delta)
