"""The rows of a static part, stored once for all reading queries, and the indexes that their joins probe.

    rows, as a query sees them  =  rows of the table now  -  changes that the query has not applied

A query stores only the changes of a shared table that it has not applied. Usually a query has applied all
changes of its shared tables, and its joins probe the table's indexes directly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Self, TypeAlias

from pyoxigraph import Triple

from quadrill.store.dictionary import TermDictionary

from ..operators.arrangement import SAMPLE, Arrangement, Index, Key, estimate_fan_out, key_getter
from ..rows import EMPTY, Delta, IdRow, Solution, merge, negate
from ..slices import SLICE
from ..windows.encoded import EngineTerms

Columns: TypeAlias = tuple[int, ...]
_PIECE = 2_000
"""Maximum number of rows encoded or released in one piece, during which other threads cannot add terms."""
_NO_TEXT = frozenset({type(None), Triple})
_BETWEEN_S = 0.0002
"""Pause in seconds between two pieces of rows to release, so that waiting threads get the lock."""


def ids_of(dictionary: TermDictionary, rows: Iterable[Solution]) -> list[IdRow]:
    """Encode the rows of a table, which are tuples of terms, as rows of term ids.

    The dictionary finds the ids by the terms' texts and does not cache the terms, because a table may have
    many rows.
    """
    ids, of_text, rows = dictionary.ids, dictionary.texts.__getitem__, list(rows)
    columns = [
        map(of_text, map(str, terms))
        if _NO_TEXT.isdisjoint(map(type, terms))
        else [0 if t is None else ids[t] if type(t) is Triple else of_text(str(t)) for t in terms]
        for terms in zip(*rows, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [() for _ in rows]


@dataclass(slots=True, eq=False)
class SharedIndex:
    """An index of a table's rows by the values of some columns, which several queries probe.

    The first join that uses the index builds it, in any thread; each change of the table updates the index.
    For a key with one row that occurs once, the index of a table stores the row itself, because a dictionary
    with one entry takes three times as much memory.

    Attributes:
        columns: the positions of the key columns.
        users: the number of join inputs that use the index.
        rows: the rows by key.
        late: changes of the table that arrived while the index was being built.
        made: an event that is set when the index is complete.
        own: for a copied index, the keys whose rows are no longer shared with the original index; None if no
            rows are shared.
    """

    columns: Columns
    users: int = 0
    rows: dict[Key, IdRow | Delta] = field(default_factory=dict)
    late: list[Delta] = field(default_factory=list)
    made: threading.Event = field(default_factory=threading.Event)
    own: set[Key] | None = None

    def get(self, key: Key, _: object = None) -> Delta:
        """Return the table's rows with a key, and the number of occurrences of each row."""
        found = self.rows.get(key, EMPTY)
        return found if isinstance(found, dict) else {found: 1}

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> SharedIndex:
        """Return a copy of the index for further changes.

        Suspended evaluations continue to probe the original index, and changes go to the copy.
        """
        return SharedIndex(self.columns, self.users, dict(self.rows), self.late, self.made, set())

    def enter(self, change: Delta) -> None:
        """Apply a change of the table's rows to the index."""
        rows, of = self.rows, key_getter(self.columns)
        if not SLICE.inside:
            # No suspended evaluation can probe the original index now, so no rows are shared with it.
            self.own = None
        own = self.own
        for row, weight in change.items():
            key = of(row)
            if weight == 1 and key not in rows:
                rows[key] = row
                continue
            bucket = self.get(key)
            if own is not None and key not in own:
                own.add(key)
                bucket = dict(bucket)
            bucket = merge(bucket or {}, {row: weight})
            if not bucket:
                del rows[key]
            elif len(bucket) == 1 and 1 in bucket.values():
                (rows[key],) = bucket
            else:
                rows[key] = bucket


class SharedRows:
    """The id rows of a table, whose terms are pinned, and an index for each set of probed columns.

    Attributes:
        terms: the term dictionary of the engine.
        is_ordered: True if the order of the rows matters.
        rows: each row with its number of occurrences; changed in the engine's thread only.
        listed: the ordered rows of a query without windows that has ORDER BY; ``rows`` is then empty.
        count: the number of rows in the table, or read so far for the table.
        lock: the lock that is held while the rows change, and while they are copied to build an index.
        indexes: the indexes in use, by their key columns.
        views: the join inputs of the queries that read the rows.
    """

    def __init__(self, terms: EngineTerms, *, ordered: bool) -> None:
        self.terms = terms
        self.is_ordered = ordered
        self.rows: Delta = {}
        self.listed: Sequence[Solution] | None = None
        self.count = 0
        self.lock = threading.Lock()
        self.indexes: dict[Columns, SharedIndex] = {}
        self.views: list[SharedArrangement] = []

    # --- encoding of all rows of a table, in any thread -------------------------------------------

    def encode(self, rows: Iterable[Solution], fresh: Delta | None = None) -> Delta:
        """Encode rows as id rows, pin their terms, and add the id rows to ``fresh``.

        Rows are encoded in pieces, because reading all rows of a static part may take minutes. If the
        iterator of rows raises an error, the terms of all rows are unpinned.
        """
        found, dictionary = {} if fresh is None else fresh, self.terms.dictionary
        waiting = iter(rows)
        try:
            while piece := list(islice(waiting, _PIECE)):
                # The lock prevents a sweep of the term dictionary, which would delete new terms before they
                # are pinned.
                with self.terms.planning:
                    encoded = ids_of(dictionary, piece)
                    new = set(encoded).difference(found)
                    dictionary.pin(chain.from_iterable(new), compact=True)
                if len(new) == len(encoded):
                    found.update(dict.fromkeys(encoded, 1))
                    continue
                for row in encoded:
                    found[row] = found.get(row, 0) + 1
        except BaseException:
            self.give_back(found)
            raise
        return found

    def load(self, fresh: Delta, listed: Sequence[Solution] | None) -> Delta:
        """Replace all rows of the table by rows from `encode`; return the old rows, still pinned."""
        old, self.rows, self.listed = self.rows, fresh, listed
        self.count = sum(fresh.values()) if listed is None else len(listed)
        return old

    def give_back(self, rows: Delta) -> None:
        """Unpin the terms of released rows, piece by piece; the call empties the argument ``rows``."""
        unpin = self.terms.dictionary.unpin
        while rows:
            unpin(chain.from_iterable([rows.popitem()[0] for _ in range(min(len(rows), _PIECE))]))
            if rows:
                time.sleep(_BETWEEN_S)

    # --- changes of the rows, in the engine's thread ----------------------------------------------

    def encoded(self, weights: Mapping[Solution, int]) -> Delta:
        """Encode a change of the table as id rows, without pinning the terms."""
        return dict(zip(ids_of(self.terms.dictionary, weights), weights.values(), strict=True))

    def change(self, delta: Delta) -> None:
        """Apply a change of the table's rows; pin the terms of new rows and unpin those of deleted rows."""
        dictionary = self.terms.dictionary
        dictionary.pin(chain.from_iterable([row for row in delta if row not in self.rows]))
        dictionary.unpin(chain.from_iterable(self.change_by(delta)))

    def change_by(self, delta: Delta) -> Delta:
        """Apply a change whose new rows are pinned already; return the deleted rows, still pinned."""
        rows = self.rows
        with self.lock:
            before = {row: rows[row] for row in delta if row in rows}
            merge(rows, delta)
            self.count += sum(delta.values())
            self._enter(delta)
        self._tell(delta)
        return {row: weight for row, weight in before.items() if row not in rows}

    def change_to(self, fresh: Delta, listed: Sequence[Solution] | None, delta: Delta) -> Delta:
        """Replace all rows of the table by ``fresh``; return the old rows, whose terms are still pinned.

        The argument ``delta`` is the difference between the table's new and old rows.
        """
        with self.lock:
            old = self.load(fresh, listed)
            self._enter(delta)
        self._tell(delta)
        return old

    def _enter(self, delta: Delta) -> None:
        for index in self.indexes.values():
            if index.made.is_set():
                index.enter(delta)
            else:
                index.late.append(delta)

    def _tell(self, delta: Delta) -> None:
        if delta:
            for view in list(self.views):
                view.apply_change(delta)

    def set_apart(self, views: Iterable[SharedArrangement]) -> None:
        """Preserve the rows of the table that suspended evaluations see through some join inputs.

        Each index that these join inputs of suspended evaluations use is copied once, and further changes
        apply to the copy.
        """
        used = [index for view in views for index in view.set_apart()]
        with self.lock:
            changed = [each for each in used if self.indexes.get(each.columns) is each]
            for index in changed:
                self.indexes[index.columns] = index.copy()
        for view in list(self.views) if changed else ():
            view.follow()

    # --- indexes of the table's rows, in any thread -----------------------------------------------

    def acquire(self, columns: Columns) -> SharedIndex:
        """Return the table's index by these columns to one more user; build the index if it is missing."""
        copy: Delta | None = None
        with self.lock:
            found = self.indexes.get(columns)
            if found is None:
                found = self.indexes[columns] = SharedIndex(columns)
                copy = dict(self.rows)
            found.users += 1
        if copy is not None:
            found.enter(copy)
            with self.lock:
                for delta in found.late:
                    found.enter(delta)
                found.made.set()
        found.made.wait()
        return found

    def release(self, columns: Columns) -> None:
        """Release the table's index by these columns for one user.

        An index of a shared table without users is deleted.
        """
        with self.lock:
            index = self.indexes[columns]
            index.users -= 1
            if not index.users:
                del self.indexes[columns]


class SharedArrangement(Arrangement):
    """A join input over the rows of a shared table.

    The constructor, `prepare` and `detach` may be called in any thread, all other methods of the join input
    in the engine's thread. A query that begins does not process a shared table's existing rows as a delta,
    because the result of the join is empty anyway: another input of the join is empty when a query begins.
    """

    def __init__(self, shared: SharedRows) -> None:
        """Create a join input over the shared rows ``shared``, which records changes after `attach`."""
        super().__init__()
        self.shared = shared
        self.now: dict[Columns, SharedIndex | LaggingIndex] = {}
        self._used: dict[Columns, SharedIndex] = {}
        # The changes of the shared table that the table has applied and the query has not.
        self._ahead = Arrangement()
        # The changes of the table since an evaluation of the query was suspended; None while no evaluation is
        # suspended.
        self._later: Delta | None = None

    def prepare(self, keys: Iterable[Columns]) -> None:
        """Build the shared table's indexes by these columns, which may take seconds for large tables."""
        for key in keys:
            self.index(key)

    def attach(self, ahead: Delta = EMPTY) -> None:
        """Start to read the shared table.

        ``ahead`` is the change that the table has applied and the query has not.
        """
        if self not in self.shared.views:
            self.shared.views.append(self)
            self._ahead.update(ahead)
            self.follow()

    def detach(self) -> None:
        """Stop reading the shared table and release its indexes; may be called in any thread."""
        if self in self.shared.views:
            self.shared.views.remove(self)
        used, self._used = self._used, {}
        for columns in used:
            self.shared.release(columns)

    def ahead_by(self, delta: Delta) -> None:
        """Record a change that the shared table has applied and the query has not applied."""
        self._ahead.update(delta)
        if not len(self._ahead):
            self._ahead = Arrangement()
        for columns in self._used:
            self.index(columns)

    # --- while an evaluation is suspended -------------------------------------------------------

    def apply_change(self, delta: Delta) -> None:
        """Record a change of the shared table.

        While an evaluation of the query is suspended, a change of the shared table waits for `rejoin`.
        """
        if self._later is None:
            self.ahead_by(delta)
        else:
            merge(self._later, delta)

    def set_apart(self) -> list[SharedIndex]:
        """Freeze the rows that the query sees until `rejoin`; return the indexes that must not change."""
        if self._later is not None:
            return []
        self._later = {}
        return list(self._used.values())

    def rejoin(self) -> None:
        """Use the shared table's current indexes again, because the suspended evaluation has ended."""
        later, self._later = self._later, None
        if later is not None:
            # A join may still use indexes of the old arrangement of unapplied changes, so a new arrangement
            # is built.
            ahead, self._ahead = merge(dict(self._ahead.rows()), later), Arrangement()
            self._ahead.update(ahead)
            self.follow()

    def follow(self) -> None:
        """Switch to the shared table's current indexes, unless a suspended evaluation has frozen the rows."""
        if self._later is None:
            for columns in self._used:
                self._used[columns] = self.shared.indexes[columns]
                self.index(columns)

    # --- methods of a join input that joins call --------------------------------------------------

    def index(self, key: Columns) -> SharedIndex | LaggingIndex:  # type: ignore[override]
        """Return the index by these columns, which finds the table's rows that the query sees."""
        used = self._used.get(key)
        if used is None:
            self.rejoin()
            used = self._used[key] = self.shared.acquire(key)
        found = LaggingIndex(used, self._ahead.index(key)) if len(self._ahead) else used
        self.now[key] = found
        return found

    def retain(self, keys: Iterable[Columns]) -> None:
        """Acquire the table's indexes by the columns ``keys`` and release all other indexes."""
        wanted = set(keys)
        self.prepare(wanted)
        for key in [each for each in self._used if each not in wanted]:
            del self._used[key]
            self.shared.release(key)
            self.now.pop(key, None)

    def fan_out(self, key: Columns) -> float:
        """Return the average number of rows per key; without an index, estimate it from some rows."""
        count = len(self)
        if not count:
            return 0.0
        known = self.shared.indexes.get(key)
        if known is not None and known.made.is_set() and len(known):
            return count / len(known)
        with self.shared.lock:
            some = list(islice(self.shared.rows, SAMPLE))
        return estimate_fan_out(some, key, count)

    def update(self, change: Delta) -> None:
        """Apply a change of the static part to the rows that this query sees."""
        self.recent.extend(change)
        self.ahead_by(negate(change))

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Return all rows that the query sees, with their numbers of occurrences."""
        ahead = merge(dict(self._ahead.rows()), self._later or EMPTY)
        return merge(dict(self.shared.rows), negate(ahead)).items()

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the changed rows that the query has not applied, because the table pins only its own rows."""
        return chain(self._ahead.referenced_rows(), list(self._later or ()))

    def __len__(self) -> int:
        return len(self.shared.rows)


class LaggingIndex:
    """An index of a table minus the changes that a query has not applied."""

    def __init__(self, index: SharedIndex, ahead: Index) -> None:
        self._index = index
        self._ahead = ahead

    @property
    def rows(self) -> Self:
        """The index itself, so that the expression ``rows.get(key)`` works as for a `SharedIndex`."""
        return self

    def get(self, key: Key, _: object = None) -> Delta:
        """Return the table's rows with a key that the query sees, and each row's number of occurrences."""
        found = self._index.get(key)
        ahead = self._ahead.get(key)
        if ahead is None:
            return found
        return merge(dict(found), negate(ahead))

    def __len__(self) -> int:
        return max(len(self._index), len(self._ahead))
