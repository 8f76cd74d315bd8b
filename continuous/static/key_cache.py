"""What a look-up remembers of the rows that it read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..element import Solution
from ..operators.arrangement import Key
from ..rows import Delta, IdRow
from .keyed_rows import TermKey

if TYPE_CHECKING:
    from .lookup import Lookup


class Memo:
    """The rows of the keys that were asked for last, under one set of columns."""

    def __init__(self, lookup: Lookup, columns: tuple[int, ...]) -> None:
        self.columns = columns
        # The key asked for last is the last.
        self.buckets: dict[Key, dict[IdRow, int]] = {}
        self.ahead: dict[TermKey, dict[Solution, int]] = {}
        self.size = 0
        self._lookup = lookup

    def get(self, key: Key, _: object = None) -> dict[IdRow, int]:
        """The rows with a key and how often each is there."""
        lookup = self._lookup
        lookup.asked += 1
        bucket = self.buckets.pop(key, None)
        if bucket is None:
            return lookup.read(self, key)
        self.buckets[key] = bucket
        lookup.found += 1
        return bucket

    def forget(self) -> None:
        """Nothing that was read holds any more."""
        self.buckets.clear()
        self.ahead.clear()
        self.size = 0

    def ahead_by(self, row: Solution, weight: int) -> None:
        """So many more of a row are in the store, and not taken by the query."""
        key = tuple([row[column] for column in self.columns])
        rows = self.ahead.setdefault(key, {})
        add_rows(rows, row, weight)
        if not rows:
            del self.ahead[key]

    def update(self, change: Delta) -> int:
        """Take a change into what is remembered; how much larger that is now."""
        columns, before = self.columns, self.size
        single = columns[0] if len(columns) == 1 else None
        for row, weight in change.items():
            key: Key = row[single] if single is not None else tuple([row[column] for column in columns])
            bucket = self.buckets.get(key)
            if bucket is None:
                continue
            rows = len(bucket)
            total = bucket.get(row, 0) + weight
            if total:
                bucket[row] = total
            else:
                bucket.pop(row, None)
            self.size += len(bucket) - rows
        return self.size - before


def add_rows(into: dict[Solution, int], row: Solution, weight: int) -> None:
    """So many more of a row, fewer where the weight is negative."""
    total = into.get(row, 0) + weight
    if total:
        into[row] = total
    else:
        into.pop(row, None)
