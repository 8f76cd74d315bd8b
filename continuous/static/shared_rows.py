"""The rows of a static part, there once for all queries that read it, and what their joins look into.

    rows, as a query sees them  =  rows of the table now  -  changes that the query has not taken

A query holds no rows but those changes, and most of the time there are none: then a look-up is one in the
table's own index.
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
"""Rows that are encoded or let go at a time: for so long others wait who plan, or meet new terms."""
_NO_TEXT = frozenset({type(None), Triple})
_BETWEEN_S = 0.0002
"""Between two pieces that are let go: long enough that who waits for the lock gets it."""


def ids_of(dictionary: TermDictionary, rows: Iterable[Solution]) -> list[IdRow]:
    """Rows as ids, by their terms' texts: there are too many for the terms to be remembered."""
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
    """Rows by the values of some columns, kept up to date with each change.

    Whoever asks for one first makes it, in any thread; changes that come ``late``, meanwhile, wait. Where a
    key has one row, once, that row stands for itself: a mapping of one takes three times as much memory.
    ``own``: the keys whose rows are not those of an index that this one is a copy of; None: all.
    """

    columns: Columns
    users: int = 0
    rows: dict[Key, IdRow | Delta] = field(default_factory=dict)
    late: list[Delta] = field(default_factory=list)
    made: threading.Event = field(default_factory=threading.Event)
    own: set[Key] | None = None

    def get(self, key: Key, _: object = None) -> Delta:
        """The rows with a key and how often each is there."""
        found = self.rows.get(key, EMPTY)
        return found if isinstance(found, dict) else {found: 1}

    def __len__(self) -> int:
        return len(self.rows)

    def copy(self) -> SharedIndex:
        """An index to be changed in place of this one, which suspended evaluations look into."""
        return SharedIndex(self.columns, self.users, dict(self.rows), self.late, self.made, set())

    def enter(self, change: Delta) -> None:
        """Add a change."""
        rows, of = self.rows, key_getter(self.columns)
        if not SLICE.inside:
            self.own = None  # nobody is suspended who could look into the other one
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
    """Rows as ids, which are pinned, with an index for each set of columns that some query looks them up by.

    Attributes:
        rows: each row and how often it is there; changed in the engine's thread alone.
        listed: the rows in their order, for a query without windows that has one; ``rows`` is then empty.
        count: how many there are, or have been read so far.
        lock: held while the rows change, and while a copy of them is taken to make an index.
        indexes: those in use.
        views: what the joins of queries look into.
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

    # --- all rows, in any thread ----------------------------------------------------------------

    def encode(self, rows: Iterable[Solution], fresh: Delta | None = None) -> Delta:
        """Rows as ids, which are pinned, with those that are ``fresh`` already.

        Piece by piece, since reading them may take minutes. What fails gives all of them back.
        """
        found, dictionary = {} if fresh is None else fresh, self.terms.dictionary
        waiting = iter(rows)
        try:
            while piece := list(islice(waiting, _PIECE)):
                # While terms are looked up nobody sweeps: what has no holder yet would be forgotten.
                with self.terms.planning:
                    encoded = ids_of(dictionary, piece)
                    new = set(encoded).difference(found)
                    dictionary.pin(chain.from_iterable(new), settled=True)
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
        """Have these rows, as `encode` gives them; those before, whose terms are still pinned."""
        old, self.rows, self.listed = self.rows, fresh, listed
        self.count = sum(fresh.values()) if listed is None else len(listed)
        return old

    def give_back(self, rows: Delta) -> None:
        """Unpin the terms of rows that nobody has any more, which are then gone; piece by piece."""
        unpin = self.terms.dictionary.unpin
        while rows:
            unpin(chain.from_iterable([rows.popitem()[0] for _ in range(min(len(rows), _PIECE))]))
            if rows:
                time.sleep(_BETWEEN_S)

    # --- changes, in the engine's thread --------------------------------------------------------

    def encoded(self, weights: Mapping[Solution, int]) -> Delta:
        """A change as ids, which nobody holds yet."""
        return dict(zip(ids_of(self.terms.dictionary, weights), weights.values(), strict=True))

    def change(self, delta: Delta) -> None:
        """Rows come and go."""
        dictionary = self.terms.dictionary
        dictionary.pin(chain.from_iterable([row for row in delta if row not in self.rows]))
        dictionary.unpin(chain.from_iterable(self.change_by(delta)))

    def change_by(self, delta: Delta) -> Delta:
        """Rows come, which are pinned, and go; the latter, whose terms are still pinned."""
        rows = self.rows
        with self.lock:
            before = {row: rows[row] for row in delta if row in rows}
            merge(rows, delta)
            self.count += sum(delta.values())
            self._enter(delta)
        self._tell(delta)
        return {row: weight for row, weight in before.items() if row not in rows}

    def change_to(self, fresh: Delta, listed: Sequence[Solution] | None, delta: Delta) -> Delta:
        """Rows that differ by ``delta`` take the place of these, which are given back; see `load`."""
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
                view.told(delta)

    def set_apart(self, views: Iterable[SharedArrangement]) -> None:
        """Let the evaluations that look in by some views, and are suspended, keep what they see.

        Each index that they use is copied once, and the copy is changed from now on.
        """
        used = [index for view in views for index in view.set_apart()]
        with self.lock:
            changed = [each for each in used if self.indexes.get(each.columns) is each]
            for index in changed:
                self.indexes[index.columns] = index.copy()
        for view in list(self.views) if changed else ():
            view.follow()

    # --- indexes, in any thread -----------------------------------------------------------------

    def acquire(self, columns: Columns) -> SharedIndex:
        """The index by these columns for one user more; made when there is none."""
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
        """One user less of an index; the last one takes it along."""
        with self.lock:
            index = self.indexes[columns]
            index.users -= 1
            if not index.users:
                del self.indexes[columns]


class SharedArrangement(Arrangement):
    """An input of a join over shared rows. It is made in any thread, `prepare` too.

    Everything else is called in the engine's thread. The rows never enter the join as a change: they count as
    taken when the query begins, at which some other input is empty.
    """

    def __init__(self, shared: SharedRows) -> None:
        """Look into rows; from `attach` on their changes wait for the query."""
        super().__init__()
        self.shared = shared
        self.now: dict[Columns, SharedIndex | LaggingIndex] = {}
        self._used: dict[Columns, SharedIndex] = {}
        # What the table has and the query has not taken yet.
        self._ahead = Arrangement()
        # What the table has taken since an evaluation of the query was suspended over it; None: nothing is.
        self._later: Delta | None = None

    def prepare(self, keys: Iterable[Columns]) -> None:
        """Have these indexes made, which may take a while."""
        for key in keys:
            self.index(key)

    def attach(self, ahead: Delta = EMPTY) -> None:
        """The query begins at the table's present version, or behind it by a change."""
        if self not in self.shared.views:
            self.shared.views.append(self)
            self._ahead.update(ahead)
            self.follow()

    def detach(self) -> None:
        """The query looks into the table no more; called in any thread."""
        if self in self.shared.views:
            self.shared.views.remove(self)
        used, self._used = self._used, {}
        for columns in used:
            self.shared.release(columns)

    def ahead_by(self, delta: Delta) -> None:
        """The table has taken a change that the query has not."""
        self._ahead.update(delta)
        if not len(self._ahead):
            self._ahead = Arrangement()
        for columns in self._used:
            self.index(columns)

    # --- while an evaluation is suspended -------------------------------------------------------

    def told(self, delta: Delta) -> None:
        """The table has taken a change."""
        if self._later is None:
            self.ahead_by(delta)
        else:
            merge(self._later, delta)

    def set_apart(self) -> list[SharedIndex]:
        """What the query sees is not touched from now on, until `rejoin`; the indexes that this needs."""
        if self._later is not None:
            return []
        self._later = {}
        return list(self._used.values())

    def rejoin(self) -> None:
        """Look into the table as it is now; what the query sees stays the same."""
        later, self._later = self._later, None
        if later is not None:
            # What was handed out stays as it is.
            ahead, self._ahead = merge(dict(self._ahead.rows()), later), Arrangement()
            self._ahead.update(ahead)
            self.follow()

    def follow(self) -> None:
        """Use the indexes that the table has now, but for a query that is set apart."""
        if self._later is None:
            for columns in self._used:
                self._used[columns] = self.shared.indexes[columns]
                self.index(columns)

    # --- as joins use it ------------------------------------------------------------------------

    def index(self, key: Columns) -> SharedIndex | LaggingIndex:  # type: ignore[override]
        """What finds rows by the values of some columns now."""
        used = self._used.get(key)
        if used is None:
            self.rejoin()
            used = self._used[key] = self.shared.acquire(key)
        found = LaggingIndex(used, self._ahead.index(key)) if len(self._ahead) else used
        self.now[key] = found
        return found

    def retain(self, keys: Iterable[Columns]) -> None:
        """Use exactly these indexes."""
        wanted = set(keys)
        self.prepare(wanted)
        for key in [each for each in self._used if each not in wanted]:
            del self._used[key]
            self.shared.release(key)
            self.now.pop(key, None)

    def fan_out(self, key: Columns) -> float:
        """How many rows a value of the key has on average, estimated where there is no index by it."""
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
        """The query takes a change of the part."""
        self.recent.extend(change)
        self.ahead_by(negate(change))

    def rows(self) -> Iterable[tuple[IdRow, int]]:
        """Every row with its weight, as the query sees them."""
        ahead = merge(dict(self._ahead.rows()), self._later or EMPTY)
        return merge(dict(self.shared.rows), negate(ahead)).items()

    def referenced_rows(self) -> Iterator[IdRow]:
        """The table pins its own rows; those it has let go may be here."""
        return chain(self._ahead.referenced_rows(), list(self._later or ()))

    def __len__(self) -> int:
        return len(self.shared.rows)


class LaggingIndex:
    """An index of a table less the changes that a query has not taken yet."""

    def __init__(self, index: SharedIndex, ahead: Index) -> None:
        self._index = index
        self._ahead = ahead

    @property
    def rows(self) -> Self:
        """What gives the rows with a key, as those of an index do."""
        return self

    def get(self, key: Key, _: object = None) -> Delta:
        """The rows with a key and how often the query sees each."""
        found = self._index.get(key)
        ahead = self._ahead.get(key)
        if ahead is None:
            return found
        return merge(dict(found), negate(ahead))

    def __len__(self) -> int:
        return max(len(self._index), len(self._ahead))
