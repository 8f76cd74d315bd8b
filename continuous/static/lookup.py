"""Look-ups: static parts without a table in memory, whose rows a query reads from the store by key.

    rows with a key, as a query sees them  =  rows in the store now  -  changes the query has not applied

A look-up keeps in memory only a bounded cache of recently read keys, and the changes of commits that the
query has not applied. The rows in the store and the unapplied changes are read while no commit can become
visible, so the difference is exact for every version of the store.

If the changed rows of a commit are unknown (a bulk load, too many keys), the query reads a copy of the
dataset before this commit until the query applies the commit:

    copy before version 5, minus unapplied changes | the store now, minus unapplied changes of 6, 7 ...
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from quadrill.store.errors import ConflictError
from quadrill.store.quads.frozen import FrozenReader
from quadrill.store.quads.quad_store import QuadStore

from ..operators.arrangement import Arrangement, Key, add_to_index, key_getter
from ..remote.dataset import Reader
from ..rows import Delta, IdRow, Solution, add, merge, negate
from .keyed_rows import rows_of
from .table import Change, Table


@dataclass(slots=True)
class _Stretch:
    """A range of store versions between two commits whose changes of a look-up part are unknown.

    Attributes:
        reader: a copy of the dataset at the newest version of the range; None for the current store.
        ahead: the changes that the dataset of ``reader`` includes and the query has not applied.
    """

    reader: FrozenReader | None = None
    ahead: dict[Solution, int] = field(default_factory=dict)


class KeyCache:
    """A cache of a static part's rows by recently used keys, for one set of key columns."""

    def __init__(self, lookup: Lookup, columns: tuple[int, ...]) -> None:
        self.columns = columns
        # The dictionary maps keys to rows; the most recently used key is its last entry.
        self.buckets: dict[Key, dict[IdRow, int]] = {}
        self.ahead: dict[Any, dict[Solution, int]] = {}
        self.size = 0
        self._lookup = lookup

    def get(self, key: Key, _: object = None) -> dict[IdRow, int]:
        """Return a look-up part's rows with a key and their numbers of occurrences, from cache or store."""
        lookup = self._lookup
        lookup.asked += 1
        bucket = self.buckets.pop(key, None)
        if bucket is None:
            return lookup.read(self, key)
        self.buckets[key] = bucket
        lookup.found += 1
        return bucket

    def keep(self, key: Key, bucket: dict[IdRow, int]) -> None:
        """Add a key and its rows to the cache of a look-up."""
        self.buckets[key] = bucket
        self.size += len(bucket) + 1

    def forget_oldest(self) -> None:
        """Evict the least recently used key and its rows from the cache."""
        bucket = self.buckets.pop(next(iter(self.buckets)))
        self.size -= len(bucket) + 1

    def update(self, change: Delta) -> None:
        """Apply a change of the look-up part to the cached rows."""
        for row, weight in change.items():
            bucket = self.buckets.get(key_getter(self.columns)(row))
            if bucket is not None:
                self.size -= len(bucket)
                add(bucket, row, weight)
                self.size += len(bucket)

    def begin(self, ahead: Mapping[Solution, int]) -> None:
        """Clear the cache of rows, and set the changes in the dataset that the query has not applied."""
        self.buckets.clear()
        self.ahead.clear()
        self.size = 0
        add_to_index(self.ahead, self.columns, ahead)


class Lookup(Arrangement):
    """A join input that reads rows of a static part from the store by key.

    All methods of a look-up are called in the engine's thread, except `changed`, which writers call, and
    `detach` and the properties, which any thread may use.
    """

    is_lookup = True

    def __init__(self, table: Table, store: QuadStore, order: threading.RLock, most: int) -> None:
        """Create a look-up of a static part, which a query uses only after a call of `attach`.

        Args:
            table: the table of the look-up part, which has changes but no rows.
            store: the store that the rows are read from.
            order: the lock under which commits become visible.
            most: maximum number of cached rows and keys; the least recently used keys are evicted.
        """
        super().__init__()
        self.table = table
        self.asked = 0
        self.found = 0
        self._store = store
        self._order = order
        self._most = most
        self._caches: dict[tuple[int, ...], KeyCache] = {}
        # The query reads the dataset of the first range of versions; new commits belong to the last range.
        self._stretches = deque([_Stretch()])

    def attach(self) -> None:
        """Start to record changes of the look-up part after the table's version.

        The query applies the recorded changes of the look-up part later.
        """
        with self._order:
            if self.changed not in self.table.watchers.changed:
                for waiting in self.table.waiting:
                    self.changed(waiting)
                self.table.watchers.changed.append(self.changed)

    def detach(self) -> None:
        """Stop recording changes of the look-up part, because the query no longer reads it."""
        with self._order:
            if self.changed in self.table.watchers.changed:
                self.table.watchers.changed.remove(self.changed)

    def check(self) -> None:
        """Raise ConflictError if a commit's change of the static part could not be computed."""
        if self.table.reading.problem is not None:
            raise ConflictError(
                f"a change of the static part {self.table.name} is not known: {self.table.reading.problem}",
                hint='Register the query again, or with "static_tables": "table"',
            )

    def changed(self, change: Change) -> None:
        """Record a commit's change of the look-up part, which the query has not applied.

        The caller that records a commit's change of a look-up part holds the lock of commits.
        """
        if change.before is not None:
            self._stretches[-1].reader = change.before
            self._stretches.append(_Stretch())
        else:
            self._ahead_by(self._stretches[-1], change.weights or {})

    def _ahead_by(self, stretch: _Stretch, weights: Mapping[Solution, int]) -> None:
        merge(stretch.ahead, weights)
        if stretch is self._stretches[0]:
            for cache in self._caches.values():
                add_to_index(cache.ahead, cache.columns, weights)

    def renew(self) -> None:
        """Apply the next `renewals` commits whose changed rows are unknown, and clear all caches."""
        with self._order:
            for _ in range(self.renewals):
                self._stretches.popleft()
            self.renewals = 0
            for cache in self._caches.values():
                cache.begin(self._stretches[0].ahead)

    # --- methods of a look-up that joins call -----------------------------------------------------

    def index(self, key: tuple[int, ...]) -> KeyCache:  # type: ignore[override]
        """Return the look-up's cache for these key columns, which must be bound in every row."""
        cache = self._caches.get(key)
        if cache is None:
            assert key, "a look-up needs a key"
            with self._order:
                cache = self._caches[key] = KeyCache(self, key)
                cache.begin(self._stretches[0].ahead)
        return cache

    def retain(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Delete the look-up's caches for all sets of key columns except ``keys``."""
        wanted = set(keys)
        for key in [each for each in self._caches if each not in wanted]:
            with self._order:
                del self._caches[key]

    def fan_out(self, key: tuple[int, ...]) -> float:
        """Return the average number of rows of a cached key, plus 1; return 1 if no keys are cached."""
        cache = self._caches.get(key)
        return 1.0 if cache is None or not cache.buckets else cache.size / len(cache.buckets)

    def update(self, change: Delta) -> None:
        """Apply a change of the look-up part to the rows that the query sees, including all caches."""
        self.recent.extend(change)
        decode = self.table.terms.dictionary.decode
        rows = {tuple(map(decode, row)): -weight for row, weight in change.items()}
        with self._order:
            self._ahead_by(self._stretches[0], rows)
        for cache in self._caches.values():
            cache.update(change)

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Yield the cached rows of the look-up part with their numbers of occurrences."""
        for cache in self._caches.values():
            for bucket in cache.buckets.values():
                yield from bucket.items()

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the cached rows, whose terms a sweep must not delete; see `Arrangement.referenced_rows`."""
        for cache in list(self._caches.values()):
            yield from chain.from_iterable(map(tuple, list(cache.buckets.values())))

    @property
    def keys(self) -> int:
        """The number of keys in all caches of the look-up."""
        return sum(len(cache.buckets) for cache in list(self._caches.values()))

    @property
    def size(self) -> int:
        """The number of rows and keys together in all caches of the look-up."""
        return sum(cache.size for cache in list(self._caches.values()))

    def __len__(self) -> int:
        return self.size - self.keys

    def read(self, cache: KeyCache, key: Key) -> dict[IdRow, int]:
        """Read the rows with a key from the store at the query's version, and add them to the cache."""
        self.check()
        places, terms = cache.columns, self.table.terms.dictionary.terms
        values = tuple([terms[each] for each in ((key,) if isinstance(key, int) else key)])
        with self._order:
            reader: Reader = self._stretches[0].reader or self.table.watchers.frozen or self._store.reader
            counted = dict(rows_of(reader, self.table.background, self.table.part, places, values))
            ahead = cache.ahead.get(values[0] if isinstance(key, int) else values, {})
            merge(counted, negate(ahead))
        bucket = self.table.encoded(counted)
        while self.size and self.size + len(bucket) + 1 > self._most:
            max(self._caches.values(), key=lambda cache: cache.size).forget_oldest()
        cache.keep(key, bucket)
        return bucket
