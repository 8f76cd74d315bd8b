"""One static sub-query as a table that all queries with it share."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

from quadrill.store.dictionary import TermDictionary

from ..algebra.canonical import Canonical
from ..algebra.static import StaticPattern
from ..algebra.triggers import Trigger
from ..element import Solution
from ..evaluate.static_evaluator import Dataset, StaticEvaluator
from ..rows import Delta, IdRow, add, difference
from .changes import AllRows, Recompute, RowChange, TableChange, VersionedChange
from .columnar import Choice
from .shared_index import Columns, TableIndex, TableIndexes

if TYPE_CHECKING:
    from ..windows.engine_terms import EngineTerms
    from .base import MemberTable
    from .packed_rows import PackedRows
    from .shared_arrangement import SharedArrangement


Table: TypeAlias = "SharedTable | MemberTable"
"""What a query reads: a table of its part alone, or a member of one."""


_PIECE = 2_000
"""Rows that are encoded or let go at a time: for so long others wait who plan, or meet new terms."""
_BETWEEN_S = 0.0002
"""Between two pieces that are let go: long enough that who waits for the lock gets it."""


class Reader(Protocol):
    """A query's view of its tables, told what happens to them. Called in the engine's thread."""

    name: str

    def took(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """The table is at a version now, by this change."""
        ...

    def fell_behind(self, table: Table, version: int) -> None:
        """The table's rows at this version and later ones are not known yet."""
        ...

    def caught_up(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """Its rows are known again from this version on, by this change since it fell behind."""
        ...

    def places_of(self, table: Table) -> list[int]:
        """Where the query reads the table."""
        ...

    def exchange(self, table: SharedTable, member: MemberTable) -> None:
        """Another table has the same rows at the same version; the query reads that one from now on."""
        ...


class SharedTable:
    """The rows of a static sub-query at one version of the store, and the changes after it.

    The writers' side (`waiting`, `blind`) is ahead of the engine's side (`rows`, `version`) by the commits
    whose turn has not come.

    Attributes:
        key: what it is; queries with an equal key share the table.
        name: a short name made from the key, the same after a restart.
        part: pattern and columns under canonical names.
        rows: each row as ids and how often it is there; changed in the engine's thread alone.
        listed: the rows in their order, for a query without windows that has one; ``rows`` is then empty.
        version: the version of the store that the rows reflect.
        since: the oldest version of which it is known that the rows were the same from there on.
        from_disk: the version at which the rows were written to disk, None when they were evaluated.
        waiting: changes whose turn has not come, oldest first.
        blind: the writers' side does not look at commits, because all rows will be read anew.
        live: some query reads it: its changes take their turns.
        behind: the first version that the rows do not reflect although its turn has come, None for none.
        problem: why reading the rows anew failed, while it does.
        anew_because: why rows were read anew the last time, with the figures; None when they never were.
        choice: who evaluated all rows the last time, and why; None without a columnar engine.
        took_s: how long it took to evaluate all rows the last time, in seconds.
        by_columns: the indexes that queries look into.
        views: of the queries that do.
    """

    def __init__(
        self,
        key: str,
        form: Canonical,
        part_name: str,
        triggers: tuple[Trigger, ...],
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        *,
        ordered: bool,
    ) -> None:
        self.key = key
        self.name = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.part = StaticPattern(part_name, form.pattern, form.columns)
        self.triggers = triggers
        self.scope: Dataset = background().scope(self.part)
        self.new_background = background
        # Used by writers, one at a time.
        self.background = background()
        self.is_ordered = ordered
        self._terms = terms
        self.rows: Delta = {}
        self.count = 0
        self.listed: Sequence[Solution] | None = None
        self.version = -1
        self.since = -1
        self.from_disk: int | None = None
        self.waiting: deque[VersionedChange] = deque()
        self.blind = False
        self.live = False
        self.behind: int | None = None
        self.problem: str | None = None
        self.anew_because: str | None = None
        self.choice: Choice | None = None
        self.took_s = 0.0
        self.refreshes = 0
        self.readers: list[Reader] = []
        self.by_columns = TableIndexes()
        self.views: list[SharedArrangement] = []
        # Users that made it and may not have begun yet, too.
        self.users = 0
        self.ready = threading.Event()

    @property
    def _ids(self) -> TermDictionary:
        return self._terms.dictionary

    @property
    def told(self) -> Sequence[Table]:
        """What queries know it as."""
        return [self]

    def acquire(self, columns: Columns) -> TableIndex:
        """The index by these columns, for one user more who releases it."""
        return self.by_columns.acquire(columns, lambda: self.rows)

    # --- all rows, in any thread ----------------------------------------------------------------

    def load(self, fresh: Delta, listed: Sequence[Solution] | None, version: int) -> None:
        """All rows at a version, as `encode` gives them."""
        self.rows, self.listed = fresh, listed
        self.count = sum(fresh.values()) if listed is None else len(listed)
        self.version = self.since = version
        self.from_disk = None

    def load_kept(self, kept: PackedRows, version: int, since: int, from_disk: int) -> None:
        """All rows as they were written to disk; they are those of this version.

        Raises:
            LookupError, ValueError: they do not fit together.
        """
        if kept.width != len(self.part.vars):
            raise ValueError("the rows have another width")
        fresh: Delta = {}
        listed: Sequence[Solution] | None = None
        if self.is_ordered:
            listed = [row for row, _ in kept.rows(kept.terms, None)]
        else:
            with self._terms.planning:
                ids = self._ids.ids
                fresh.update(kept.rows([ids[term] for term in kept.terms], 0))
                self._ids.pin(term_id for row in fresh for term_id in row)
        self.load(fresh, listed, version)
        self.since, self.from_disk = since, from_disk

    def encode(self, rows: Iterable[Solution]) -> tuple[Delta, Sequence[Solution] | None]:
        """All rows as ids, which are pinned, or in their order.

        Piece by piece, since reading them may take minutes.
        """
        if self.is_ordered:
            return {}, list(rows)
        ids = self._ids.ids
        fresh: Delta = {}
        waiting = iter(rows)
        try:
            while piece := list(islice(waiting, _PIECE)):
                # While terms are looked up nobody sweeps: what has no holder yet would be forgotten.
                with self._terms.planning:
                    encoded = [tuple([0 if term is None else ids[term] for term in row]) for row in piece]
                    self._ids.pin(chain.from_iterable({row for row in encoded if row not in fresh}))
                for row in encoded:
                    fresh[row] = fresh.get(row, 0) + 1
        except BaseException:
            self.give_back(fresh)
            raise
        return fresh, None

    def release(self) -> Delta:
        """Nobody reads the table any more; the rows, whose terms are still pinned."""
        rows, self.rows, self.listed = self.rows, {}, None
        return rows

    # --- the engine's side ----------------------------------------------------------------------

    def catch_up(self, version: int) -> None:
        """Take the changes up to a version, each as its own; stops where one has to be read anew."""
        while self.behind is None and self.waiting and self.waiting[0].version <= version:
            waited = self.waiting.popleft()
            if waited.version <= self.version:
                continue
            if isinstance(waited.change, Recompute):
                self.behind = waited.version
                self._tell_behind(waited.version)
                return
            change = self._take(waited)
            self.refreshes += 1
            self._tell_took(waited.version, waited.at_ms, change)
        if self.behind is None:
            self.version = max(self.version, version)

    def swap(
        self,
        fresh: Delta,
        listed: Sequence[Solution] | None,
        version: int,
        at_ms: int,
        delta: Delta | None = None,
    ) -> Delta:
        """Take rows that were read anew at a version; the rows before, whose terms are still pinned.

        ``delta`` is how they differ from those before, where it is known.
        """
        old = self.rows
        change = TableChange(difference(fresh, old) if delta is None else delta, listed)
        with self.by_columns.lock:
            self.load(fresh, listed, version)
            self._index(change.delta)
        self._tell_views(change.delta)
        self.behind = None
        self.problem = None
        self.refreshes += 1
        while self.waiting and self.waiting[0].version <= version:
            self.waiting.popleft()
        self._tell_caught_up(version, at_ms, change)
        return old

    def give_back(self, rows: Delta) -> None:
        """Unpin the terms of rows that nobody has any more, which are then gone; piece by piece."""
        while rows:
            self._ids.unpin(chain.from_iterable([rows.popitem()[0] for _ in range(min(len(rows), _PIECE))]))
            if rows:
                time.sleep(_BETWEEN_S)

    def unpin(self, term_ids: IdRow) -> None:
        """Let go of terms that were pinned for it."""
        self._ids.unpin(term_ids)

    def _take(self, waited: VersionedChange) -> TableChange:
        self.version = self.since = waited.version
        if isinstance(waited.change, AllRows):
            return self._take_all(waited.change.rows)
        assert isinstance(waited.change, RowChange)
        ids = self._ids.ids
        delta: Delta = {}
        for row, weight in waited.change.weights.items():
            delta[tuple([0 if term is None else ids[term] for term in row])] = weight
        self._apply(delta)
        return TableChange(delta)

    def _take_all(self, rows: Sequence[Solution]) -> TableChange:
        if self.is_ordered:
            same = list(rows) == self.listed
            self.listed, self.count = list(rows), len(rows)
            return TableChange({}, None if same else self.listed)
        ids = self._ids.ids
        fresh: Delta = {}
        for row, count in Counter(rows).items():
            fresh[tuple([0 if term is None else ids[term] for term in row])] = count
        delta = difference(fresh, self.rows)
        self._apply(delta)
        return TableChange(delta)

    def _apply(self, delta: Delta) -> None:
        with self.by_columns.lock:
            come, gone = self._change(delta)
            self.count += sum(delta.values())
            self._index(delta)
        self._tell_views(delta)
        self._ids.pin(term_id for row in come for term_id in row)
        self._ids.unpin(term_id for row in gone for term_id in row)

    # --- what a base does in another way --------------------------------------------------------

    def _change(self, delta: Delta) -> tuple[list[IdRow], list[IdRow]]:
        """Take a change into the rows: those that were not there before, and those that are not any more."""
        rows = self.rows
        come: list[IdRow] = []
        gone: list[IdRow] = []
        for row, weight in delta.items():
            before = row in rows
            add(rows, row, weight)
            after = row in rows
            if after and not before:
                come.append(row)
            elif before and not after:
                gone.append(row)
        return come, gone

    def _index(self, delta: Delta) -> None:
        self.by_columns.apply(delta)

    def _tell_views(self, delta: Delta) -> None:
        if delta:
            for view in list(self.views):
                view.ahead_by(delta)

    def _tell_took(self, version: int, at_ms: int, change: TableChange) -> None:
        for reader in self.readers:
            reader.took(self, version, at_ms, change)

    def _tell_behind(self, version: int) -> None:
        for reader in self.readers:
            reader.fell_behind(self, version)

    def _tell_caught_up(self, version: int, at_ms: int, change: TableChange) -> None:
        for reader in self.readers:
            reader.caught_up(self, version, at_ms, change)
