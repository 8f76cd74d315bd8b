"""A static part that is not held: its rows are read from the store by key, when a query asks for them.

    rows of a key, as the query sees them  =  rows in the store now  -  changes the query has not taken

Nothing is held but a bounded cache of keys that were asked for, and the changes of commits whose turn has not
come for the query. Both sides of the difference are read while no commit can become visible, so the result is
exact whatever the store's version is by then.

Where a commit's change is not known row by row (a bulk load, too many keys) a copy of the dataset from before
it takes the place of the store until the query takes that commit:

    copy before version 5, less what is not taken | the store now, less what is not taken of 6, 7 ...
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from quadrill.store.errors import ConflictError

from ..element import Solution
from ..operators.arrangement import Arrangement, Key
from ..rows import Delta, IdRow
from .keyed_rows import TermKey, rows_of
from .static_evaluator import Reader
from .table import Change, Table

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader
    from quadrill.store.quads.quad_store import QuadStore


@dataclass(frozen=True, slots=True)
class LookupFacts:
    """What is remembered of a part that is not held.

    ``keys`` and ``rows`` are there now; rows of a key were ``asked`` for and ``found`` there so often.
    """

    keys: int
    rows: int
    asked: int
    found: int


@dataclass(slots=True)
class _Stretch:
    """Versions between two commits that replaced everything.

    ``reader`` has the newest of them (None: the store, or its copy during a bulk load), ``ahead`` what it has
    and the query has not taken.
    """

    reader: FrozenReader | None = None
    ahead: dict[Solution, int] = field(default_factory=dict)


class KeyCache:
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
        """Forget all rows that were read."""
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


class Lookup(Arrangement):
    """An input of a join that looks into the store. Used in the engine's thread, `changed` by writers."""

    is_lookup = True

    def __init__(self, table: Table, store: QuadStore, order: threading.RLock, most: int) -> None:
        """Make one that nobody looks into before `attach`.

        Args:
            table: the part.
            store: where its rows are.
            order: held while no commit can become visible.
            most: rows and keys that are remembered at most; what was not asked for longest goes.
        """
        super().__init__()
        self.table = table
        self.asked = 0
        self.found = 0
        self._store = store
        self._order = order
        self._most = most
        self._caches: dict[tuple[int, ...], KeyCache] = {}
        # The first is the query's, to the last one commits are added.
        self._stretches = deque([_Stretch()])
        self._size = 0

    def attach(self) -> None:
        """The query begins at the table's version: later changes wait for it from here on."""
        with self._order:
            if self.changed not in self.table.lookups:
                for waiting in self.table.waiting:
                    self.changed(waiting)
                self.table.lookups.append(self.changed)

    def detach(self) -> None:
        """The query is gone."""
        with self._order:
            if self.changed in self.table.lookups:
                self.table.lookups.remove(self.changed)

    def check(self) -> None:
        """Raise ConflictError when a commit's change could not be worked out."""
        if self.table.problem is not None:
            raise ConflictError(
                f"a change of the static part {self.table.name} is not known: {self.table.problem}",
                hint='Register the query again, or with "static_tables": "table"',
            )

    def changed(self, change: Change) -> None:
        """The store has a change that the query has not taken; called while no commit becomes visible."""
        if change.before is not None:
            self._stretches[-1].reader = change.before
            self._stretches.append(_Stretch())
        else:
            self._ahead_by(self._stretches[-1], change.weights or {}, 1)

    def _ahead_by(self, stretch: _Stretch, weights: Mapping[Solution, int], sign: int) -> None:
        for row, weight in weights.items():
            add_rows(stretch.ahead, row, sign * weight)
            if stretch is self._stretches[0]:
                for cache in self._caches.values():
                    cache.ahead_by(row, sign * weight)

    def is_behind_by(self, change: Delta) -> None:
        """The query has not taken these rows, which the store had when it began to look."""
        terms = self.table.terms.dictionary.terms
        with self._order:
            rows = {
                tuple([terms[each] if each else None for each in row]): weight
                for row, weight in change.items()
            }
            self._ahead_by(self._stretches[0], rows, 1)

    def renew(self) -> None:
        """The query takes commits that replaced everything, as many as `renewals`."""
        with self._order:
            for _ in range(self.renewals):
                self._stretches.popleft()
            self.renewals = 0
            for cache in self._caches.values():
                cache.forget()
                for row, weight in self._stretches[0].ahead.items():
                    cache.ahead_by(row, weight)
            self._size = 0

    # --- as joins use it ------------------------------------------------------------------------

    def index(self, key: tuple[int, ...]) -> KeyCache:  # type: ignore[override]
        """What finds rows by the values of some columns, all of which every row binds."""
        cache = self._caches.get(key)
        if cache is None:
            assert key, "a look-up needs a key"
            with self._order:
                cache = self._caches[key] = KeyCache(self, key)
                for row, weight in self._stretches[0].ahead.items():
                    cache.ahead_by(row, weight)
        return cache

    def keep(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Have exactly these keys."""
        wanted = set(keys)
        for key in [each for each in self._caches if each not in wanted]:
            with self._order:
                self._size -= self._caches.pop(key).size

    def fan_out(self, key: tuple[int, ...]) -> float:
        """How many rows a value of the key has, by those that are remembered."""
        cache = self._caches.get(key)
        return 1.0 if cache is None or not cache.buckets else cache.size / len(cache.buckets)

    def update(self, change: Delta) -> None:
        """The query takes a change of the part."""
        self.recent.extend(change)
        self.is_behind_by({row: -weight for row, weight in change.items()})
        for cache in self._caches.values():
            self._size += cache.update(change)

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """The rows that are remembered."""
        for cache in self._caches.values():
            for bucket in cache.buckets.values():
                yield from bucket.items()

    def held(self) -> Iterator[IdRow]:
        """The rows that are remembered; see `Arrangement.held`."""
        for cache in list(self._caches.values()):
            yield from chain.from_iterable(map(tuple, list(cache.buckets.values())))

    @property
    def keys(self) -> int:
        """The number of keys that are remembered."""
        return sum(len(cache.buckets) for cache in list(self._caches.values()))

    @property
    def size(self) -> int:
        """How many rows and keys are."""
        return self._size

    def __len__(self) -> int:
        return sum(len(bucket) for cache in self._caches.values() for bucket in cache.buckets.values())

    def read(self, cache: KeyCache, key: Key) -> dict[IdRow, int]:
        """The rows of a key as the query must see them now; remembered."""
        self.check()
        dictionary = self.table.terms.dictionary
        places = cache.columns
        ids = (key,) if isinstance(key, int) else key
        values: TermKey = tuple([dictionary.terms[each] for each in ids])
        with self._order:
            reader: Reader = self._stretches[0].reader or self.table.frozen or self._store
            counted = dict(rows_of(reader, self.table.background, self.table.part, places, values))
            for row, weight in cache.ahead.get(values, {}).items():
                add_rows(counted, row, -weight)
        encode = dictionary.ids
        bucket = {
            tuple([0 if term is None else encode[term] for term in row]): weight
            for row, weight in counted.items()
        }
        while self._size + len(bucket) + 1 > self._most and self._forget():
            pass
        cache.buckets[key] = bucket
        cache.size += len(bucket) + 1
        self._size += len(bucket) + 1
        return bucket

    def _forget(self) -> bool:
        """Forget what was not asked for longest under the key that has most; False when there is nothing."""
        largest = max(self._caches.values(), key=lambda cache: cache.size)
        if not largest.buckets:
            return False
        oldest = next(iter(largest.buckets))
        freed = len(largest.buckets.pop(oldest)) + 1
        largest.size -= freed
        self._size -= freed
        return True


def lookup_facts(lookups: Sequence[Lookup]) -> LookupFacts:
    """What is remembered of one part, and how often it was asked for."""
    keys = sum(each.keys for each in lookups)
    rows = sum(each.size for each in lookups) - keys
    return LookupFacts(keys, rows, sum(each.asked for each in lookups), sum(each.found for each in lookups))


def add_rows(into: dict[Solution, int], row: Solution, weight: int) -> None:
    """So many more of a row, fewer where the weight is negative."""
    total = into.get(row, 0) + weight
    if total:
        into[row] = total
    else:
        into.pop(row, None)
