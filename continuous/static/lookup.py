"""A static part that is not held: its rows are read from the store by key, when a query asks for them.

    rows of a key, as the query sees them  =  rows in the store now  -  changes the query has not taken

Nothing is held but a bounded memo of keys that were asked for, and the changes of commits whose turn has not
come for the query. Both sides of the difference are read while no commit can become visible, so the result is
exact whatever the store's version is by then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from quadrill.store.errors import ConflictError

from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.nodes import FunctionCall, Group, Path, Reduced, Slice, Term
from ..algebra.static import StaticPattern
from ..algebra.triggers import can_be_named, triggers
from ..element import Row as TermRow
from ..r2r.arrangement import Arrangement, Key
from ..reference.answer import LookupFacts
from ..rows import Delta, Row
from .changes import RowChange, TableChange, VersionedChange
from .deltas import rows_with
from .table import SharedTable

if TYPE_CHECKING:
    from quadrill.store.dictionary import TermDictionary
    from quadrill.store.quads import QuadStore

MOST_REMEMBERED = 100_000
"""Rows and keys that the memo of one query and part has at most; what was not asked for longest goes."""

TermKey: TypeAlias = tuple[Term | None, ...]


class LookupTable(SharedTable):
    """What commits change in a part whose rows are not held. Its changes take their turns as a table's do.

    Each is worked out at the commit, whatever its size: rows read anew later could not tell what went.
    """

    def begin(self, version: int) -> None:
        """From this version on changes are worked out."""
        self.version = version
        self.indexes: list[Lookup] = []

    @property
    def terms(self) -> TermDictionary:
        """The ids of terms."""
        return self._ids

    def changed(self, change: VersionedChange) -> None:
        """The writers' side knows another change; called while no commit becomes visible."""
        if isinstance(change.change, RowChange):
            for each in self.indexes:
                each.ahead_by(change.change.weights, 1)

    def _take(self, waited: VersionedChange) -> TableChange:
        self.version = waited.version
        assert isinstance(waited.change, RowChange)
        ids = self._ids.ids
        return TableChange(
            {
                tuple([0 if term is None else ids[term] for term in row]): weight
                for row, weight in waited.change.weights.items()
            }
        )


class Lookup(Arrangement):
    """An input of a join that looks into the store. Used in the engine's thread, `ahead_by` by writers."""

    is_lookup = True

    def __init__(self, table: LookupTable, store: QuadStore, order: threading.RLock) -> None:
        """Make one that nobody looks into before `attach`.

        Args:
            table: the part.
            store: where its rows are.
            order: held while no commit can become visible.
        """
        super().__init__([()])
        self.table = table
        self.asked = 0
        self.found = 0
        self._store = store
        self._order = order
        self._memos: dict[tuple[int, ...], Memo] = {}
        # What the store has and the query has not taken yet.
        self._ahead: dict[TermRow, int] = {}
        self._size = 0

    def attach(self) -> None:
        """The query begins at the table's version: later changes wait for it from here on."""
        with self._order:
            if self not in self.table.indexes:
                for waiting in self.table.waiting:
                    if isinstance(waiting.change, RowChange):
                        self.ahead_by(waiting.change.weights, 1)
                self.table.indexes.append(self)

    def detach(self) -> None:
        """The query is gone."""
        with self._order:
            if self in self.table.indexes:
                self.table.indexes.remove(self)

    def check(self) -> None:
        """Raise ConflictError when a commit's change could not be worked out."""
        if self.table.problem is not None:
            raise ConflictError(
                f"a change of the static part {self.table.name} is not known: {self.table.problem}",
                hint='Register the query again, or with "static_tables": "table"',
            )

    def ahead_by(self, weights: Mapping[TermRow, int], sign: int) -> None:
        """Changes that the store has before the query does (1), or that the query has taken (-1)."""
        for row, weight in weights.items():
            _add(self._ahead, row, sign * weight)
            for memo in self._memos.values():
                memo.ahead_by(row, sign * weight)

    # --- as joins use it ------------------------------------------------------------------------

    def index(self, key: tuple[int, ...]) -> Memo:  # type: ignore[override]
        """What finds rows by the values of some columns, all of which every row binds."""
        memo = self._memos.get(key)
        if memo is None:
            assert key, "a look-up needs a key"
            with self._order:
                memo = self._memos[key] = Memo(self, key)
                for row, weight in self._ahead.items():
                    memo.ahead_by(row, weight)
        return memo

    def keep(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Have exactly these keys."""
        wanted = set(keys)
        for key in [each for each in self._memos if each not in wanted]:
            with self._order:
                self._size -= self._memos.pop(key).size

    def fan_out(self, key: tuple[int, ...]) -> float:
        """How many rows a value of the key has, by those that are remembered."""
        memo = self._memos.get(key)
        return 1.0 if memo is None or not memo.buckets else memo.size / len(memo.buckets)

    def update(self, change: Delta) -> None:
        """The query takes a change of the part."""
        self.recent.extend(change)
        terms = self.table.terms.terms
        with self._order:
            self.ahead_by(
                {tuple([terms[each] if each else None for each in row]): w for row, w in change.items()}, -1
            )
        for memo in self._memos.values():
            self._size += memo.update(change)

    def rows(self) -> Iterable[tuple[Row, int]]:
        """The rows that are remembered."""
        for memo in self._memos.values():
            for bucket in memo.buckets.values():
                yield from bucket.items()

    def __len__(self) -> int:
        return sum(len(bucket) for memo in self._memos.values() for bucket in memo.buckets.values())

    def facts(self) -> LookupFacts:
        """What the memos hold and how they did."""
        keys = sum(len(memo.buckets) for memo in list(self._memos.values()))
        return LookupFacts(keys, self._size - keys, self.asked, self.found)

    def read(self, memo: Memo, key: Key) -> dict[Row, int]:
        """The rows of a key as the query must see them now; remembered."""
        self.check()
        dictionary = self.table.terms
        places = memo.columns
        ids = (key,) if isinstance(key, int) else key
        values: TermKey = tuple([dictionary.terms[each] for each in ids])
        with self._order:
            counted = dict(_rows_of(self._store, self.table, places, values))
            for row, weight in memo.ahead.get(values, {}).items():
                _add(counted, row, -weight)
        encode = dictionary.ids
        bucket = {
            tuple([0 if term is None else encode[term] for term in row]): weight
            for row, weight in counted.items()
        }
        while self._size + len(bucket) + 1 > MOST_REMEMBERED and self._forget():
            pass
        memo.buckets[key] = bucket
        memo.size += len(bucket) + 1
        self._size += len(bucket) + 1
        return bucket

    def _forget(self) -> bool:
        """Forget what was not asked for longest under the key that has most; False when there is nothing."""
        largest = max(self._memos.values(), key=lambda memo: memo.size)
        if not largest.buckets:
            return False
        oldest = next(iter(largest.buckets))
        freed = len(largest.buckets.pop(oldest)) + 1
        largest.size -= freed
        self._size -= freed
        return True


class Memo:
    """The rows of the keys that were asked for last, under one set of columns."""

    def __init__(self, lookup: Lookup, columns: tuple[int, ...]) -> None:
        self.columns = columns
        # The key asked for last is the last.
        self.buckets: dict[Key, dict[Row, int]] = {}
        self.ahead: dict[TermKey, dict[TermRow, int]] = {}
        self.size = 0
        self._lookup = lookup

    def get(self, key: Key, _: object = None) -> dict[Row, int]:
        """The rows with a key and how often each is there."""
        lookup = self._lookup
        lookup.asked += 1
        bucket = self.buckets.pop(key, None)
        if bucket is None:
            return lookup.read(self, key)
        self.buckets[key] = bucket
        lookup.found += 1
        return bucket

    def ahead_by(self, row: TermRow, weight: int) -> None:
        """See `Lookup.ahead_by`."""
        key = tuple([row[column] for column in self.columns])
        rows = self.ahead.setdefault(key, {})
        _add(rows, row, weight)
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


def _add(into: dict[TermRow, int], row: TermRow, weight: int) -> None:
    total = into.get(row, 0) + weight
    if total:
        into[row] = total
    else:
        into.pop(row, None)


def _rows_of(
    store: QuadStore, table: SharedTable, places: tuple[int, ...], values: TermKey
) -> Mapping[TermRow, int]:
    """The rows of a part in the store that have the values at these places.

    No text can name blank nodes: by them rows are chosen from those that agree with the other values.
    """
    named = [
        (table.part.vars[place].name, value)
        for place, value in zip(places, values, strict=True)
        if value is not None and can_be_named(value)
    ]
    named.sort(key=lambda each: each[0])
    if named:
        keys = {tuple([name for name, _ in named]): {tuple([value for _, value in named])}}
        found: Mapping[TermRow, int] = rows_with(store, table.background, table.part, keys, None)
    else:
        width = len(table.part.vars)
        counted: dict[TermRow, int] = {}
        with table.background.start(store, table.part) as result:
            for row in result.rows():
                _add(counted, tuple(row[:width]), 1)
        found = counted
    if len(named) == len(places):
        return found
    return {
        row: weight
        for row, weight in found.items()
        if all(row[place] == value for place, value in zip(places, values, strict=True))
    }


def unfit(part: StaticPattern) -> str | None:
    """Why the rows of a part cannot be read by key; None when they can.

    A row must not depend on which others are read with it, and the key of a changed row must be known.
    """
    for each in all_nodes(part.pattern):
        if isinstance(each, Slice | Reduced | Group):
            return f"it has {_NAMES[type(each)]}"
        if isinstance(each, Path) and "ZeroOr" in repr(each.path):
            return "it has a path of zero steps"
        for outer in expressions(each):
            if any(isinstance(inner, FunctionCall) for inner in sub_expressions(outer)):
                return "it calls an extension function"
    if not all(each.key for each in triggers(part.pattern) or ()):
        return "some commits change rows that no key tells of"
    return None


_NAMES = {Slice: "LIMIT or OFFSET", Reduced: "REDUCED", Group: "GROUP BY"}
