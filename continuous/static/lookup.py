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
        self.ahead: dict[Any, dict[Solution, int]] = {}
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

    def keep(self, key: Key, bucket: dict[IdRow, int]) -> None:
        """Remember the rows of a key."""
        self.buckets[key] = bucket
        self.size += len(bucket) + 1

    def forget_oldest(self) -> None:
        """Forget the key that was not asked for longest."""
        bucket = self.buckets.pop(next(iter(self.buckets)))
        self.size -= len(bucket) + 1

    def update(self, change: Delta) -> None:
        """Take a change into what is remembered."""
        for row, weight in change.items():
            bucket = self.buckets.get(key_getter(self.columns)(row))
            if bucket is not None:
                self.size -= len(bucket)
                add(bucket, row, weight)
                self.size += len(bucket)

    def begin(self, ahead: Mapping[Solution, int]) -> None:
        """Nothing is remembered; these rows are in the store, and not taken by the query."""
        self.buckets.clear()
        self.ahead.clear()
        self.size = 0
        add_to_index(self.ahead, self.columns, ahead)


class Lookup(Arrangement):
    """An input of a join that looks into the store. Used in the engine's thread, `changed` by writers."""

    is_lookup = True

    def __init__(self, table: Table, store: QuadStore, order: threading.RLock, most: int) -> None:
        """Make one that nobody looks into before `attach`.

        ``order`` is held while no commit can become visible. ``most`` rows and keys are remembered: what was
        not asked for longest goes.
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

    def attach(self) -> None:
        """The query begins at the table's version: later changes wait for it from here on."""
        with self._order:
            if self.changed not in self.table.watchers.changed:
                for waiting in self.table.waiting:
                    self.changed(waiting)
                self.table.watchers.changed.append(self.changed)

    def detach(self) -> None:
        """The query is gone."""
        with self._order:
            if self.changed in self.table.watchers.changed:
                self.table.watchers.changed.remove(self.changed)

    def check(self) -> None:
        """Raise ConflictError when a commit's change could not be worked out."""
        if self.table.reading.problem is not None:
            raise ConflictError(
                f"a change of the static part {self.table.name} is not known: {self.table.reading.problem}",
                hint='Register the query again, or with "static_tables": "table"',
            )

    def changed(self, change: Change) -> None:
        """The store has a change that the query has not taken; called while no commit becomes visible."""
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
        """The query takes commits that replaced everything, as many as `renewals`."""
        with self._order:
            for _ in range(self.renewals):
                self._stretches.popleft()
            self.renewals = 0
            for cache in self._caches.values():
                cache.begin(self._stretches[0].ahead)

    # --- as joins use it ------------------------------------------------------------------------

    def index(self, key: tuple[int, ...]) -> KeyCache:  # type: ignore[override]
        """What finds rows by the values of some columns, all of which every row binds."""
        cache = self._caches.get(key)
        if cache is None:
            assert key, "a look-up needs a key"
            with self._order:
                cache = self._caches[key] = KeyCache(self, key)
                cache.begin(self._stretches[0].ahead)
        return cache

    def retain(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Have exactly these keys."""
        wanted = set(keys)
        for key in [each for each in self._caches if each not in wanted]:
            with self._order:
                del self._caches[key]

    def fan_out(self, key: tuple[int, ...]) -> float:
        """How many rows a value of the key has, by those that are remembered."""
        cache = self._caches.get(key)
        return 1.0 if cache is None or not cache.buckets else cache.size / len(cache.buckets)

    def update(self, change: Delta) -> None:
        """The query takes a change of the part."""
        self.recent.extend(change)
        decode = self.table.terms.dictionary.decode
        rows = {tuple(map(decode, row)): -weight for row, weight in change.items()}
        with self._order:
            self._ahead_by(self._stretches[0], rows)
        for cache in self._caches.values():
            cache.update(change)

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """The rows that are remembered."""
        for cache in self._caches.values():
            for bucket in cache.buckets.values():
                yield from bucket.items()

    def referenced_rows(self) -> Iterator[IdRow]:
        """The rows that are remembered; see `Arrangement.referenced_rows`."""
        for cache in list(self._caches.values()):
            yield from chain.from_iterable(map(tuple, list(cache.buckets.values())))

    @property
    def keys(self) -> int:
        """The number of keys that are remembered."""
        return sum(len(cache.buckets) for cache in list(self._caches.values()))

    @property
    def size(self) -> int:
        """How many rows and keys are."""
        return sum(cache.size for cache in list(self._caches.values()))

    def __len__(self) -> int:
        return self.size - self.keys

    def read(self, cache: KeyCache, key: Key) -> dict[IdRow, int]:
        """The rows of a key as the query must see them now; remembered."""
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
