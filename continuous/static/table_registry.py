"""The tables of one engine: made once for all queries that need them, kept in step with the store."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import ConflictError, QuadrillError

from ..algebra.canonical import Canonical
from ..algebra.static import MERGED_PART, StaticPattern
from ..algebra.triggers import triggers
from ..durable.turns import TurnQueue
from ..errors import EngineStoppedError
from ..windows.engine_terms import EngineTerms
from .budget import StaticBudget
from .changes import Change, Recompute, Replaced, VersionedChange
from .commit_delta import CommitDeltas, Past
from .index import TriggerIndex
from .kept import KeptTables
from .lookup import Lookup
from .progress import active
from .recompute import FreshRows, Recomputer, Swap, SwapTurn
from .static_evaluator import StaticEvaluator
from .table import Reader, Table

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

_READY_S = 600.0
_POLL_S = 0.02


class TableRegistry:
    """Tables by what they are. It watches the store's commits in the order in which they are made.

    `watching` is called by writers, `table` and `release` by whoever makes and drops queries, `advance` and
    `swap` in the engine's thread.

    Attributes:
        order: held while a commit becomes visible and what it changes is worked out.
        gone: of queries that are gone; their tables are let go when nobody walks over them.
        version: the version whose turn came last.
    """

    def __init__(
        self,
        store: QuadStore,
        terms: EngineTerms,
        turns: TurnQueue | None = None,
        budget: StaticBudget | None = None,
        kept: KeptTables | None = None,
        *,
        threaded: bool = True,
    ) -> None:
        """Make an empty one.

        Args:
            store: what the tables follow.
            terms: the dictionary.
            turns: where rows that were read anew take their place; without, they do at once.
            budget: how many rows may be in memory.
            kept: rows on disk; None keeps none.
            threaded: rows are read anew by a thread of their own.
        """
        self._store = store
        self.terms = terms
        self.budget = budget or StaticBudget()
        self.kept = kept
        self._turns = turns
        self._tables: dict[str, Table] = {}
        self._index = TriggerIndex()
        self._deltas = CommitDeltas(store)
        self.order = threading.RLock()
        self._observing = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._made_at = 0
        self._loading = False
        self._due: dict[int, list[Table]] = {}
        self.recomputer = Recomputer(
            store, self.order, lambda: self._made_at, self._finished, threaded=threaded
        )
        self.gone: deque[Reader] = deque()
        self._moved: dict[Reader, None] = {}
        self._fresh: dict[tuple[str, int], tuple[FreshRows, int]] = {}
        self.version = store.version

    # --- what there is --------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """All tables."""
        return list(self._tables.values())

    def held(self) -> list[Table]:
        """Those whose rows are in memory."""
        return [table for table in self.tables() if table.is_held]

    def rows(self) -> int:
        """The rows of all tables, those included that are being read."""
        return sum(table.count for table in self.tables())

    @property
    def is_behind(self) -> bool:
        """True while the rows of some table that a query reads are read anew."""
        return any(table.live and (table.blind or table.behind is not None) for table in self.tables())

    def settle(self, seconds: float) -> None:
        """Wait until rows that are read anew have taken their turn, for so long at most."""
        until = time.monotonic() + seconds
        while self.recomputer.threaded and self.is_behind and time.monotonic() < until:
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Watch no more commits."""
        self.recomputer.close()
        if self.kept is not None:
            self.kept.close()
        with self._observing:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    # --- making and dropping --------------------------------------------------------------------

    def table(
        self,
        part: StaticPattern,
        form: Canonical,
        background: Callable[[], StaticEvaluator],
        *,
        ordered: bool = False,
        held: bool = True,
        limited: bool = False,
    ) -> Table:
        """The table of a part that follows the store, made when there is none.

        Args:
            part: as the query has it.
            form: its canonical form.
            background: makes what evaluates it.
            ordered: the order of the rows means something.
            held: its rows are; False where they are looked up.
            limited: it must keep to the limits of the memory.

        Raises:
            LimitError: it does not.
            QuadrillError: the part cannot be evaluated.
            ConflictError: its rows are read for too long.
        """
        found = triggers(form.pattern)
        assert found is not None, "a part with SERVICE does not follow the store"
        name = MERGED_PART if part.name == MERGED_PART else "static"
        scope = f"{'' if held else 'lookup '}{name} {ordered} {background().signature}"
        key = f"{scope} {form.text}"
        with self._observing:
            # Not under `order`: writers have their own lock before that.
            if self._stop is None:
                self._stop = self._store.observe(self)
        with self.order:
            self._let_go()
            table = self._tables.get(key)
            is_new = table is None
            if table is None:
                table = self._tables[key] = Table.of(
                    scope, part.name, form, found, background, self.terms, ordered=ordered, held=held
                )
            table.users += 1
        try:
            if is_new:
                self._materialise(table, limited=limited)
            else:
                self._wait_for(table)
        except BaseException as error:
            table.problem = str(error)
            table.ready.set()
            self.release(table)
            raise
        # The turn of the version that was read comes before that of the query.
        self._store.wait_delivered(table.version, _READY_S)
        return table

    @staticmethod
    def _wait_for(table: Table) -> None:
        """Another query is reading the rows for the first time, or they are read anew."""
        until = time.monotonic() + _READY_S
        progress = active()
        known = table.ready.is_set()
        while not known and time.monotonic() < until:
            progress.check()
            known = table.ready.wait(_POLL_S)
        while known and table.live and (table.blind or table.behind is not None) and table.problem is None:
            progress.check()
            time.sleep(_POLL_S)
            known = time.monotonic() < until
        if not known or table.problem is not None:
            raise ConflictError(
                table.problem or "the rows of a static part are still being read",
                hint="register the query again in a moment",
            )

    def _materialise(self, table: Table, *, limited: bool) -> None:
        """Take all rows from disk or evaluate them; commits wait only until it is known of which version."""
        if not table.is_held:
            self._begin_lookup(table)
        # A registration has its rows counted while they are read (`budget`).
        elif active().limited or not self._take_up(table):
            with self.order:
                table.blind = True
                self._index.add(table)
            swap = self.recomputer.read(
                [table], lambda rows: self.budget.limited(rows, table, self.rows, limited)
            )
            (fresh,) = swap.fresh
            table.load(fresh.rows, fresh.listed, swap.version)
        table.ready.set()

    def _begin_lookup(self, table: Table) -> None:
        """Changes of a part are worked out from now on; while a bulk load runs it is waited for."""
        while True:
            with self.order:
                if not self._loading:
                    self._index.add(table)
                    table.version = self._store.version
                    return
            active().check()
            time.sleep(_POLL_S)

    def _take_up(self, table: Table) -> bool:
        """Take the rows that are on disk, if they are those of the present version."""
        kept = self.kept
        found = None if kept is None else kept.find(table)
        if kept is None or found is None:
            return False
        # The long way is gone while commits go on, the rest while they wait.
        reaches = kept.unchanged(table, found.until, self._store.version)
        with self.order:
            version = self._store.version
            if not found.since <= version or kept.unchanged(table, reaches, version) < version:
                return False
            # Known before a commit is looked at, which asks for it.
            table.took_s = found.read_s
            self._index.add(table)
        if kept.load(table, found, version):
            return True
        with self.order:
            self._index.remove(table)
        return False

    def look_into(self, table: Table) -> Lookup:
        """What one query's join uses to look into a part that is not held."""
        return Lookup(table, self._store, self.order)

    def keep(self, evaluated: Mapping[str, int], *, at_end: bool = False) -> None:
        """Have tables written to disk that have changed; called in the engine's thread between turns.

        ``evaluated`` says from which version each query goes on after a restart; see `KeptTables.keep`.
        """
        if self.kept is not None:
            if self.gone:
                with self.order:
                    self._let_go()
            self.kept.keep(self.held(), self.version, evaluated, at_end=at_end)

    def release(self, table: Table) -> None:
        """One user less; the last one takes the table along."""
        with self.order:
            table.users -= 1
            if table.users:
                return
            del self._tables[table.key]
            self._index.remove(table)
        self.recomputer.dispose(table, table.release())

    def _let_go(self) -> None:
        while self.gone:
            self.gone.popleft().close()

    # --- the writers' side ----------------------------------------------------------------------

    def watching(self, commit: Commit) -> AbstractContextManager[None]:
        """Work out what a commit changes, before the next one is made (`store.writer.Observer`)."""
        return self._watch(commit)

    def loading(self) -> AbstractContextManager[None]:
        """A bulk load begins: what is looked up is looked up in a copy until it has its turn."""
        return self._load()

    @contextmanager
    def _load(self) -> Iterator[None]:
        with self.order:
            self._let_go()
            self._loading = True
            looked_up = [table for table in self.tables() if not table.is_held]
            try:
                frozen = self._store.frozen() if looked_up else None
            except BaseException:
                self._loading = False
                raise
            for table in looked_up:
                table.frozen = frozen
        try:
            yield
        finally:
            with self.order:
                self._loading = False
                for table in looked_up:
                    table.frozen = None

    @contextmanager
    def _watch(self, commit: Commit) -> Iterator[None]:
        deltas = self._deltas
        with self.order:
            self._let_go()
            changes: dict[Table, Change] = dict.fromkeys(self._behind_again(commit.version), Recompute())
            work = []
            for group, touched in self._index.touched(commit).items():
                tables = {table for table in group.tables if not table.blind and table not in changes}
                if tables:
                    work.append((group, touched, deltas.before(group, touched, commit), tables))
            yield
            self._made_at = commit.at_ms
            for group, touched, before, tables in work:
                changes.update(deltas.after(group, touched, before, tables))
            copy: FrozenReader | None = None
            for table, change in changes.items():
                if not table.is_held and isinstance(change, Recompute):
                    copy = copy or table.frozen or self._without(commit)
                    if copy is None:
                        table.problem = f"the commit of version {commit.version} could not be looked at"
                        continue
                    change = Replaced(copy)
                table.blind = isinstance(change, Recompute)
                waiting = VersionedChange(commit.version, commit.at_ms, change)
                table.waiting.append(waiting)
                for each in table.lookups:
                    each.changed(waiting)
                self._due.setdefault(commit.version, []).append(table)
            self._read_again(commit.version)

    def _without(self, commit: Commit) -> FrozenReader | None:
        """The dataset without the commit that was just made; None when there is no room for it."""
        try:
            return self._store.frozen(undo=commit)
        except QuadrillError as error:
            log.warning("what is looked up is lost at version %d: %s", commit.version, error.message)
            return None

    def _behind_again(self, version: int) -> list[Table]:
        """In a replay: the tables that fell behind the first time, touched themselves or not."""
        past = self._deltas.past
        if past is None or not past.behind:
            return []
        return [table for table in self.tables() if not table.blind and (table.name, version) in past.behind]

    # --- the engine's side ----------------------------------------------------------------------

    def begin_at(self, version: int) -> None:
        """The engine starts, its queries reflect a version."""
        self.version = version
        self._due.clear()

    def advance(self, version: int) -> None:
        """The commit of a version takes its turn: the tables take what it changed, and tell their readers."""
        self.version = max(self.version, version)
        if self.gone:
            with self.order:
                self._let_go()
        self._catch_up([table for table in self._due.pop(version, ()) if table.live])

    def swap(self, swap: Swap) -> None:
        """Rows that were read anew take their turn; then the changes that came meanwhile do."""
        for each in swap.fresh:
            table = each.table
            if not table.users:
                self.recomputer.dispose(table, each.rows)
                continue
            known = each.delta if each.refreshes == table.refreshes else None
            old = table.swap(each.rows, each.listed, swap.version, swap.at_ms, known)
            self.recomputer.dispose(table, old)
        self._catch_up([each.table for each in swap.fresh if each.table.users])

    def bring_up(self, table: Table) -> None:
        """A query begins to read a table: it is brought to the version of the present turn."""
        table.live = True
        self._catch_up([table])

    def moved(self, reader: Reader) -> None:
        """The tables of a query have changed in this turn."""
        self._moved[reader] = None

    def take_moved(self) -> list[Reader]:
        """The queries whose tables have changed since the last call."""
        moved, self._moved = self._moved, {}
        return list(moved)

    def _catch_up(self, tables: Sequence[Table]) -> None:
        """Bring tables to the version of the present turn; those that fall behind together are read so."""
        fallen: dict[tuple[int, str], list[Table]] = {}
        for table in tables:
            if table.behind is None:
                table.catch_up(self.version)
                if table.behind is not None:
                    fallen.setdefault((table.behind, table.kind), []).append(table)
        for (version, _), together in fallen.items():
            names = [table.name for table in together if table.readers]
            if names and self._turns is not None:
                self._turns.note_behind(names, version)
            if self._deltas.past is None:
                self.recomputer.ask(together)

    def _finished(self, swap: Swap) -> None:
        if self.recomputer.threaded:
            # The turn of the version that was read comes before that of the swap.
            self._store.wait_delivered(swap.version, _READY_S)
        if self._turns is None:
            self.swap(swap)
            return
        names = [each.table.name for each in swap.fresh]
        with contextlib.suppress(EngineStoppedError):
            self._turns.submit(SwapTurn(swap), "swap", tables=names, version=swap.version)

    # --- replay ---------------------------------------------------------------------------------

    def begin_replay(self, past: Past) -> None:
        """From now on tables fall behind and are read anew where they did so the first time."""
        self._deltas.past = past

    def swap_again(self, names: Sequence[str], version: int) -> None:
        """The turn of a swap comes again."""
        found = [each for name in names if (each := self._fresh.pop((name, version), None)) is not None]
        if found:
            self.swap(Swap(version, found[0][1], [fresh for fresh, _ in found]))

    def end_replay(self) -> None:
        """What fell behind and was not read anew before the end is read now."""
        if self._deltas.past is None:
            return
        self._deltas.past = None
        for fresh, _ in self._fresh.values():
            fresh.table.give_back(fresh.rows)
        self._fresh.clear()
        for table in self.tables():
            if table.behind is not None:
                table.blind = True
                self.recomputer.ask([table])

    def _read_again(self, version: int) -> None:
        """At the versions at which rows were read anew the first time they are read again."""
        past = self._deltas.past
        if past is None or not past.swaps:
            return
        for table in self.tables():
            if (table.name, version) in past.swaps and table.blind:
                swap = self.recomputer.read([table])
                self._fresh[table.name, version] = swap.fresh[0], swap.at_ms
