"""Arrangements: rows indexed by the values of some columns, which joins probe."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from ..rows import Delta, IdRow, merge
from .thresholds import NumberOf, RowsInOrder

Key: TypeAlias = int | tuple[int, ...]
Index: TypeAlias = dict[Key, dict[IdRow, int]]
Row = TypeVar("Row", bound=tuple[Any, ...])

SAMPLE = 500
"""Number of rows that are sampled to estimate the fan-out of a key (rows per value) without an index."""
_RECENT = 32
"""Number of newest changed rows of a join input, from which joins estimate how many rows a probe finds."""


def add_to_index(
    index: dict[Any, dict[Row, int]], columns: tuple[int, ...], change: Mapping[Row, int]
) -> int:
    """Add a delta to an index over some columns; return by how many rows the index has grown."""
    growth, of = 0, key_getter(columns)
    for row, weight in change.items():
        key = of(row)
        bucket = index.get(key)
        if bucket is None:
            index[key] = {row: weight}
            growth += 1
            continue
        before = bucket.get(row, 0)
        after = before + weight
        if after:
            bucket[row] = after
            growth += not before
        else:
            growth -= 1
            del bucket[row]
            if not bucket:
                del index[key]
    return growth


class Arrangement:
    """The rows of a join input, indexed by each requested key, where a key is a tuple of column positions.

    An index maps a key's value (an id for one column, a tuple of ids for several columns, ``()`` for none) to
    the rows with that value and their weights.
    """

    is_lookup = False
    """True for a `Lookup`, which reads the rows of a key from the store.

    A look-up can be probed only with a key.
    """
    renewals = 0
    """How often a commit replaced all rows of a look-up since the last step; `renew` resets the number."""

    now: Mapping[tuple[int, ...], Any] | None = None
    """The indexes at this step by key, for an arrangement whose indexes change objects; None for fixed
    indexes."""

    def __init__(self) -> None:
        self.indexes: dict[tuple[int, ...], Index] = {}
        self.flat: Delta | None = {}
        """All rows of a join input until the first index is requested, None afterwards.

        Generated code adds rows to this delta of an arrangement directly.
        """
        self.count = 0
        self.ordered: dict[int, RowsInOrder] = {}
        self.recent: deque[IdRow] = deque(maxlen=_RECENT)

    def index(self, key: tuple[int, ...]) -> Index:
        """Return the arrangement's index over a key; a missing index is built and then maintained."""
        found = self.indexes.get(key)
        if found is None:
            found, of = {}, key_getter(key)
            for row, weight in self.rows():
                found.setdefault(of(row), {})[row] = weight
            self.indexes[key] = found
            if self.flat is not None:
                self.count, self.flat = len(self.flat), None
        return found

    def sorted_by(self, column: int, number_of: NumberOf) -> RowsInOrder:
        """Return the arrangement's rows sorted by a column's number; maintained from the first call on."""
        found = self.ordered.get(column)
        if found is None:
            found = self.ordered[column] = RowsInOrder(column, number_of)
            found.update(dict(self.rows()))
            self.index(())
        return found

    def retain(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Retain exactly the arrangement's indexes over ``keys``; if there are none, only the first index.

        Does nothing before the first request of an index of the arrangement.
        """
        if self.flat is not None:
            return
        wanted = list(dict.fromkeys(keys)) or [next(iter(self.indexes))]
        for key in wanted:
            self.index(key)
        for key in [each for each in self.indexes if each not in wanted]:
            del self.indexes[key]

    def fan_out(self, key: tuple[int, ...]) -> float:
        """Return the mean number of rows per value of a key, estimated from a sample if no index exists."""
        count = len(self)
        if not count:
            return 0.0
        known = self.indexes.get(key)
        if known:
            return count / len(known)
        return estimate_fan_out([row for row, _ in islice(self.rows(), SAMPLE)], key, count)

    def update(self, change: Delta) -> None:
        """Add a delta to every index and to the sorted rows of the arrangement."""
        self.recent.extend(change)
        if self.flat is not None:
            merge(self.flat, change)
            return
        growth = 0
        for columns, index in self.indexes.items():
            growth = add_to_index(index, columns, change)
        self.count += growth
        for each in self.ordered.values():
            each.update(change)

    def renew(self) -> None:
        """Read the rows of a look-up that a commit has replaced; only look-ups support this method."""
        raise NotImplementedError("rows that are held change one by one")

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Yield every row of the arrangement with its weight."""
        if self.flat is not None:
            yield from self.flat.items()
            return
        for bucket in next(iter(self.indexes.values())).values():
            yield from bucket.items()

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield every row of the arrangement while rows change.

        The iteration over an arrangement misses no row that stays while other rows change.
        """
        if self.flat is not None:
            yield from list(self.flat)
            return
        # A row that stays remains in its bucket of the index, so the copied list of buckets has every row
        # that stays.
        buckets = list(next(iter(self.indexes.values())).values())
        yield from chain.from_iterable(map(tuple, buckets))

    def __len__(self) -> int:
        return self.count if self.flat is None else len(self.flat)


def estimate_fan_out(sample: Sequence[IdRow], key: tuple[int, ...], count: int) -> float:
    """Return the mean number of rows per value of a key among ``count`` rows, estimated from a sample."""
    values = len(set(map(key_getter(key), sample)))
    # A sample with few distinct values probably has all values; the number of many distinct values grows with
    # the rows.
    return len(sample) / values if values > len(sample) / 2 else count / max(1, values)


@lru_cache(maxsize=1024)
def key_getter(columns: tuple[int, ...]) -> Callable[[Sequence[Any]], Key]:
    """Return a function that reads the value of a key (one or several columns) from a row."""
    return itemgetter(*columns) if columns else lambda row: ()


def picker(columns: tuple[int, ...]) -> Callable[[IdRow], IdRow]:
    """Return a function that reads some columns of a row as a tuple."""
    if len(columns) > 1:
        return itemgetter(*columns)
    if columns:
        (only,) = columns
        return lambda row: (row[only],)
    return lambda row: ()
