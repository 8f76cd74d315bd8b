"""Rows indexed by some of their columns: what joins look into."""

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
_RECENT = 32


def enter(index: dict[Any, dict[Row, int]], columns: tuple[int, ...], change: Mapping[Row, int]) -> int:
    """Add a change to an index by some columns; how many rows it has more than before."""
    grown, of = 0, key_getter(columns)
    for row, weight in change.items():
        key = of(row)
        bucket = index.get(key)
        if bucket is None:
            index[key] = {row: weight}
            grown += 1
            continue
        before = bucket.get(row, 0)
        after = before + weight
        if after:
            bucket[row] = after
            grown += not before
        else:
            grown -= 1
            del bucket[row]
            if not bucket:
                del index[key]
    return grown


class Arrangement:
    """A relation kept under the keys that were asked for, each key a tuple of column places.

    An index maps the key's value (an id for one column, a tuple of ids for several, ``()`` for none) to the
    rows with it and their weights.
    """

    is_lookup = False
    """The rows are not held: each key costs a query of the store, and there must be one."""
    renewals = 0
    """How often all rows were replaced since the last step, of a look-up; `renew` takes them."""

    now: Mapping[tuple[int, ...], Any] | None = None
    """What `index` gives at this step, by key, where it may be another one at each; None where it is not."""

    def __init__(self) -> None:
        self.indexes: dict[tuple[int, ...], Index] = {}
        self.flat: Delta | None = {}
        """The rows until the first index is asked for, which generated code adds to as `update` does."""
        self.count = 0
        self.ordered: dict[int, RowsInOrder] = {}
        self.recent: deque[IdRow] = deque(maxlen=_RECENT)

    def index(self, key: tuple[int, ...]) -> Index:
        """The index under a key; it is made when there is none yet, and kept up to date from then on."""
        found = self.indexes.get(key)
        if found is None:
            found, of = {}, key_getter(key)
            for row, weight in self.rows():
                found.setdefault(of(row), {})[row] = weight
            self.indexes[key] = found
            if self.flat is not None:
                self.count, self.flat = len(self.flat), None
        return found

    def in_order(self, column: int, number_of: NumberOf) -> RowsInOrder:
        """The rows by the number in a column; kept up to date from when they are first asked for."""
        found = self.ordered.get(column)
        if found is None:
            found = self.ordered[column] = RowsInOrder(column, number_of)
            found.update(dict(self.rows()))
            self.index(())
        return found

    def keep(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Have exactly these indexes, one at least; none when none has been asked for yet."""
        if self.flat is not None:
            return
        wanted = list(dict.fromkeys(keys)) or [next(iter(self.indexes))]
        for key in wanted:
            self.index(key)
        for key in [each for each in self.indexes if each not in wanted]:
            del self.indexes[key]

    def fan_out(self, key: tuple[int, ...]) -> float:
        """How many rows a value of the key has on average, estimated from a sample where it must be."""
        count = len(self)
        if not count:
            return 0.0
        known = self.indexes.get(key)
        if known:
            return count / len(known)
        return estimated([row for row, _ in islice(self.rows(), SAMPLE)], key, count)

    def update(self, change: Delta) -> None:
        """Add a change to every index."""
        self.recent.extend(change)
        if self.flat is not None:
            merge(self.flat, change)
            return
        grown = 0
        for columns, index in self.indexes.items():
            grown = enter(index, columns, change)
        self.count += grown
        for each in self.ordered.values():
            each.update(change)

    def renew(self) -> None:
        """Take the rows that were replaced."""
        raise NotImplementedError("rows that are held change one by one")

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Every row with its weight."""
        if self.flat is not None:
            yield from self.flat.items()
            return
        for bucket in next(iter(self.indexes.values())).values():
            yield from bucket.items()

    def held(self) -> Iterator[IdRow]:
        """Every row, read in pieces while rows come and go; those that stay are there."""
        if self.flat is not None:
            yield from list(self.flat)
            return
        # Buckets that lose their rows to others in the meantime keep their own.
        buckets = list(next(iter(self.indexes.values())).values())
        yield from chain.from_iterable(map(tuple, buckets))

    def __len__(self) -> int:
        return self.count if self.flat is None else len(self.flat)


def estimated(sample: Sequence[IdRow], key: tuple[int, ...], count: int) -> float:
    """How many of so many rows a value of a key has on average, by a sample of them."""
    values = len(set(map(key_getter(key), sample)))
    # Few values in the sample are likely all there are; many go on in proportion.
    return len(sample) / values if values > len(sample) / 2 else count / max(1, values)


@lru_cache(maxsize=1024)
def key_getter(columns: tuple[int, ...]) -> Callable[[Sequence[Any]], Key]:
    """Gives the value of a key in a row."""
    return itemgetter(*columns) if columns else lambda row: ()


def picker(columns: tuple[int, ...]) -> Callable[[IdRow], IdRow]:
    """Gives some columns of a row."""
    if len(columns) > 1:
        return itemgetter(*columns)
    if columns:
        (only,) = columns
        return lambda row: (row[only],)
    return lambda row: ()
