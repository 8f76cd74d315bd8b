"""One static sub-query as a table that all queries with it share."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.terms import in_store_form

from ..algebra.canonical import Canonical, Lifted, lifted
from ..algebra.columnar import Choice
from ..algebra.nodes import Term
from ..algebra.static import StaticPattern
from ..algebra.triggers import Trigger
from ..element import Solution
from ..rows import Delta, IdRow, add, difference
from ..windows.encoded import EngineTerms
from .changes import AllRows, Recompute, Replaced, RowChange, TableChange, VersionedChange
from .packed_rows import PackedRows
from .shared_index import TableIndexes
from .static_evaluator import Dataset, StaticEvaluator

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader


_CARRIER = NamedNode("urn:quadrill:term")
_PIECE = 2_000
"""Rows that are encoded or let go at a time: for so long others wait who plan, or meet new terms."""
_BETWEEN_S = 0.0002
"""Between two pieces that are let go: long enough that who waits for the lock gets it."""


class View(Protocol):
    """What the join of one query looks into in place of rows of its own."""

    def ahead_by(self, delta: Delta) -> None:
        """The table has taken a change, the query has not yet."""
        ...


class StoreView(Protocol):
    """What the join of one query looks into for a part that is not held."""

    def changed(self, change: VersionedChange) -> None:
        """The store has a change that the query has not taken; called while no commit becomes visible."""
        ...


class Reader(Protocol):
    """A query's view of its tables, told what happens to them. Called in the engine's thread."""

    name: str

    def close(self) -> None:
        """The query is gone: let the tables go."""
        ...

    def took(
        self, table: Table, version: int, at_ms: int, change: TableChange, *, caught_up: bool = False
    ) -> None:
        """The table is at a version now, by this change; ``caught_up``: by all since it fell behind."""
        ...

    def fell_behind(self, table: Table, version: int) -> None:
        """The table's rows at this version and later ones are not known yet."""
        ...


class Table:
    """The rows of a static sub-query at one version of the store, and the changes after it.

    The writers' side (`waiting`, `blind`) is ahead of the engine's side (`rows`, `version`) by the commits
    whose turn has not come. A part that is looked up has a table without rows: only its changes take their
    turns.

    Attributes:
        key: what it is; queries with an equal key share the table.
        name: a short name made from the key, the same after a restart.
        kind: equal for tables whose parts differ in constants alone.
        constants: in which it may differ from these, in the store's form.
        part: pattern and columns under canonical names.
        is_held: its rows are; else they are looked up.
        follows: commits change it by themselves; else `replace` gives it other rows.
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
        lookups: what looks into the store in its place.
        frozen: of a part that is looked up, the dataset from before a bulk load that is under way.
    """

    def __init__(
        self,
        key: str,
        part: StaticPattern,
        triggers: tuple[Trigger, ...],
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        *,
        lifted: Lifted | None = None,
        kind: str | None = None,
        ordered: bool = False,
        held: bool = True,
        follows: bool = True,
    ) -> None:
        self.key = key
        self.name = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.part = part
        self.triggers = triggers
        self.lifted = lifted
        self.kind = kind or key
        self.constants: tuple[Term, ...] = ()
        if lifted is not None:
            self.constants = tuple(map(_stored, lifted.constants))
        self.follows = follows
        self.background = background()
        self.scope: Dataset = self.background.scope(self.part)
        self.new_background = background
        # Used by writers, one at a time.
        self.is_ordered = ordered
        self.is_held = held
        self.terms = terms
        self._ids = terms.dictionary
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
        self.views: list[View] = []
        self.lookups: list[StoreView] = []
        self.frozen: FrozenReader | None = None
        # Users that made it and may not have begun yet, too.
        self.users = 0
        self.ready = threading.Event()

    @classmethod
    def of(
        cls,
        scope: str,
        part_name: str,
        form: Canonical,
        triggers: tuple[Trigger, ...],
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        *,
        ordered: bool,
        held: bool,
    ) -> Table:
        """The table of a part in its canonical form; ``scope`` is what its key says besides."""
        lift = None if ordered else lifted(form)
        return cls(
            f"{scope} {form.text}",
            StaticPattern(part_name, form.pattern, form.columns),
            triggers,
            background,
            terms,
            lifted=lift,
            kind=None if lift is None else f"{scope} {lift.text}",
            ordered=ordered,
            held=held,
        )

    @classmethod
    def own(
        cls,
        part: StaticPattern,
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        *,
        ordered: bool = False,
    ) -> Table:
        """That of a part which is read when its query asks: by hand, by a timer, or because of SERVICE."""
        return cls("", part, (), background, terms, ordered=ordered, follows=False)

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
            with self.terms.planning:
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
                with self.terms.planning:
                    encoded = [tuple([0 if term is None else ids[term] for term in row]) for row in piece]
                    self._ids.pin(chain.from_iterable({row for row in encoded if row not in fresh}))
                for row in encoded:
                    fresh[row] = fresh.get(row, 0) + 1
        except BaseException:
            self.give_back(fresh)
            raise
        return fresh, None

    def release(self) -> Delta:
        """The rows of a table that has no readers any more; their terms are still pinned."""
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
                for reader in self.readers:
                    reader.fell_behind(self, waited.version)
                return
            change = self._take(waited)
            self.refreshes += 1
            for reader in self.readers:
                reader.took(self, waited.version, waited.at_ms, change)
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
            self.by_columns.apply(change.delta)
        self._tell_views(change.delta)
        self.behind = None
        self.problem = None
        self.refreshes += 1
        while self.waiting and self.waiting[0].version <= version:
            self.waiting.popleft()
        for reader in self.readers:
            reader.took(self, version, at_ms, change, caught_up=True)
        return old

    def replace(self, rows: Sequence[Solution], version: int) -> TableChange:
        """Take the rows of another version, of a part that does not follow the store; the change."""
        old, before = self.rows, self.listed
        fresh, listed = self.encode(rows)
        self.load(fresh, listed, version)
        change = TableChange(difference(fresh, old), None if listed == before else listed)
        self.give_back(dict(old))
        return change

    def give_back(self, rows: Delta) -> None:
        """Unpin the terms of rows that nobody has any more, which are then gone; piece by piece."""
        while rows:
            self._ids.unpin(chain.from_iterable([rows.popitem()[0] for _ in range(min(len(rows), _PIECE))]))
            if rows:
                time.sleep(_BETWEEN_S)

    def _take(self, waited: VersionedChange) -> TableChange:
        self.version = waited.version
        change = waited.change
        if isinstance(change, Replaced):
            return TableChange({}, renewals=1)
        if isinstance(change, AllRows):
            self.since = waited.version
            return self._take_all(change.rows)
        assert isinstance(change, RowChange)
        delta = self._encoded(change.weights)
        if self.is_held:
            self.since = waited.version
            self._apply(delta)
        return TableChange(delta)

    def _encoded(self, weights: Mapping[Solution, int]) -> Delta:
        ids = self._ids.ids
        return {
            tuple([0 if term is None else ids[term] for term in row]): weight
            for row, weight in weights.items()
        }

    def _take_all(self, rows: Sequence[Solution]) -> TableChange:
        if self.is_ordered:
            same = list(rows) == self.listed
            self.listed, self.count = list(rows), len(rows)
            return TableChange({}, None if same else self.listed)
        delta = difference(self._encoded(Counter(rows)), self.rows)
        self._apply(delta)
        return TableChange(delta)

    def _apply(self, delta: Delta) -> None:
        rows = self.rows
        come: list[IdRow] = []
        gone: list[IdRow] = []
        with self.by_columns.lock:
            for row, weight in delta.items():
                before = row in rows
                add(rows, row, weight)
                if (row in rows) != before:
                    (gone if before else come).append(row)
            self.count += sum(delta.values())
            self.by_columns.apply(delta)
        self._tell_views(delta)
        self._ids.pin(chain.from_iterable(come))
        self._ids.unpin(chain.from_iterable(gone))

    def _tell_views(self, delta: Delta) -> None:
        if delta:
            for view in list(self.views):
                view.ahead_by(delta)


def _stored(term: Term) -> Term:
    """A constant as the store gives it back."""
    if not isinstance(term, Literal):
        return term
    (quad,) = in_store_form([Quad(_CARRIER, _CARRIER, term)])
    return quad.object
