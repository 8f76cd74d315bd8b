"""The tables of one engine: made once for all queries that need them, kept in step with the store."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import ConflictError, QuadrillError

from ..algebra.canonical import Canonical
from ..algebra.static import MERGED_PART, StaticPattern
from ..algebra.triggers import triggers
from ..durable.turns import TurnQueue
from ..element import Solution
from ..errors import EngineStoppedError
from ..evaluate.static_evaluator import StaticEvaluator
from .base import BaseTable, MemberTable
from .budget import StaticBudget
from .changes import Recompute, Replaced, VersionedChange
from .commit_delta import CommitDeltas, Past
from .groups import Groups
from .index import Touched, TriggerIndex
from .lookup import Lookup, LookupTable
from .progress import active
from .recompute import Recomputer, Swap, SwapTurn
from .table import SharedTable, Table

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader
    from quadrill.store.quads.quad_store import QuadStore

    from ..windows.engine_terms import EngineTerms
    from .kept import KeptTables
    from .static_inputs import StaticInputs

log = logging.getLogger("quadrill.continuous")

_READY_S = 600.0
_POLL_S = 0.02


class TableRegistry:
    """Tables by what they are. It watches the store's commits in the order in which they are made.

    `watching` is called by writers, `table` and `release` by whoever makes and drops queries, `advance` and
    `swap` in the engine's thread.
    """

    def __init__(self, store: QuadStore, terms: EngineTerms, turns: TurnQueue | None = None) -> None:
        """Make an empty one. Rows that were read anew take their place in ``turns``, without at once."""
        self._store = store
        self._turns = turns
        self.terms = terms
        self._tables: dict[str, SharedTable] = {}
        self._members: dict[str, MemberTable] = {}
        self._index = TriggerIndex()
        self.order = threading.RLock()
        """Held while a commit becomes visible and what it changes is worked out."""
        self._observing = threading.Lock()
        self._made_at = 0
        self._loading = False
        self._stop: Callable[[], None] | None = None
        self._due: dict[int, list[SharedTable]] = {}
        self.recomputer = Recomputer(store, self.order, lambda: self._made_at, self._finished)
        self.gone: deque[StaticInputs] = deque()
        """Of queries that are gone; their tables are let go when nobody walks over them."""
        self.moved: dict[StaticInputs, None] = {}
        """Whose tables have changed since this was looked at last; for the engine's thread."""
        self._fresh: dict[tuple[str, int], Swap] = {}
        self.budget = StaticBudget()
        self.effects = CommitDeltas(store)
        self.version = store.version
        """The version whose turn came last."""
        self.kept: KeptTables | None = None
        """Rows on disk; None keeps none."""
        self.groups = Groups(self)
        """Tables of parts that differ in constants alone."""

    def take_moved(self) -> list[StaticInputs]:
        """The queries whose tables have changed since the last call."""
        moved, self.moved = self.moved, {}
        return list(moved)

    def tables(self) -> list[SharedTable]:
        """All tables."""
        return list(self._tables.values())

    def held(self) -> list[SharedTable]:
        """Those whose rows are in memory."""
        return [table for table in self.tables() if not isinstance(table, LookupTable)]

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
        self.groups.close()
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
        ordered: bool,
        held: bool = True,
        limited: bool = False,
        alone: bool = False,
    ) -> Table:
        """The table of a part that follows the store, made when there is none.

        Args:
            part: as the query has it.
            form: its canonical form.
            background: makes what evaluates it.
            ordered: the order of the rows means something.
            held: its rows are; False for a `LookupTable`.
            limited: it must keep to the limits of the memory.
            alone: it is no member of a `BaseTable`.

        Raises:
            LimitError: it does not.
            QuadrillError: the part cannot be evaluated.
            ConflictError: its rows are read for too long.
        """
        found = triggers(form.pattern)
        assert found is not None, "a part with SERVICE does not follow the store"
        name = MERGED_PART if part.name == MERGED_PART else "static"
        kind = SharedTable if held else LookupTable
        how = "lookup " if not held else "alone " if alone else ""
        scope = f"{how}{name} {ordered} {background().signature}"
        key = f"{scope} {form.text}"
        can_join = held and not alone and not ordered
        self._observe()
        with self.groups.newcomer(scope, form) if can_join else nullcontext() as lift, self.order:
            self._let_go()
            known: Table | None = self._members.get(key) or self._tables.get(key)
            is_new = known is None
            if known is None:
                table = kind(key, form, part.name, found, background, self.terms, ordered=ordered)
                member = None if lift is None else self.groups.member(scope, lift, table)
                if member is None:
                    known = self._tables[key] = table
                else:
                    known = self._members[key] = member
            known.users += 1
        if isinstance(known, MemberTable):
            return self._joined(known)
        table = known
        try:
            if is_new:
                self._materialise(table, limited=limited)
                if can_join:
                    with self.order:
                        self.groups.joined(table, scope, form)
            else:
                self._wait_for(table)
        except BaseException as error:
            table.problem = str(error)
            table.ready.set()
            self.release(table)
            raise
        # The turn of the version that was read comes before that of the query.
        self._store.wait_delivered(table.version, _READY_S)
        if is_new and self.effects.past is None:
            self.groups.consider(table)
        return table

    def _joined(self, member: MemberTable) -> MemberTable:
        try:
            self._wait_for(member.base)
        except BaseException:
            self.release(member)
            raise
        return member

    def read_base(self, base: BaseTable, limited: Callable[[Iterable[Solution]], Iterable[Solution]]) -> None:
        """Read a base for the first time, as a user of it.

        Raises:
            LimitError: ``limited``, which is given the rows, finds them too many.
            QuadrillError: the part cannot be evaluated.
        """
        with self.order:
            self._tables[base.key] = base
            base.users += 1
        try:
            if self.kept is None or not self._take_up(base, self.kept):
                with self.order:
                    base.blind = True
                    self._index.add(base)
                fresh = self.recomputer.read(base, limited)
                base.load(fresh.rows, fresh.listed, fresh.version)
        except BaseException as error:
            base.problem = str(error)
            self.release(base)
            raise
        base.ready.set()

    def _observe(self) -> None:
        """Watch commits from now on. Not under `order`: writers have their own lock before that."""
        with self._observing:
            if self._stop is None:
                self._stop = self._store.observe(self)

    @staticmethod
    def _wait_for(table: SharedTable) -> None:
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

    def _let_go(self) -> None:
        while self.gone:
            self.gone.popleft().close()

    def look_into(self, table: LookupTable) -> Lookup:
        """What one query's join uses to look into a part that is not held."""
        return Lookup(table, self._store, self.order)

    def _materialise(self, table: SharedTable, *, limited: bool) -> None:
        """Take all rows from disk or evaluate them; commits wait only until it is known of which version."""
        if isinstance(table, LookupTable):
            self._begin_lookup(table)
            return
        # A registration has its rows counted while they are read (`budget`).
        if self.kept is not None and not active().limited and self._take_up(table, self.kept):
            table.ready.set()
            return
        with self.order:
            table.blind = True
            self._index.add(table)
        fresh = self.recomputer.read(table, lambda rows: self.budget.limited(rows, table, self.rows, limited))
        table.load(fresh.rows, fresh.listed, fresh.version)
        table.ready.set()

    def _begin_lookup(self, table: LookupTable) -> None:
        """Changes of a part are worked out from now on; while a bulk load runs it is waited for."""
        while True:
            with self.order:
                if not self._loading:
                    self._index.add(table)
                    table.begin(self._store.version)
                    table.ready.set()
                    return
            active().check()
            time.sleep(_POLL_S)

    def _take_up(self, table: SharedTable, kept: KeptTables) -> bool:
        """Take the rows that are on disk, if they are those of the present version."""
        found = kept.find(table)
        if found is None:
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
            if isinstance(table, MemberTable):
                del self._members[table.key]
                table.leave()
                self.release(table.base)
                return
            self._drop(table)
        self.recomputer.dispose(table, table.release())

    def _drop(self, table: SharedTable) -> None:
        del self._tables[table.key]
        self._index.remove(table)
        self.groups.left(table)

    def replace(self, table: SharedTable, member: MemberTable) -> None:
        """Queries read a member of a base from now on, whose rows are those of their table; under `order`."""
        self._members[member.key] = member
        self._drop(table)
        member.take_over(table)
        table.users, table.live = 0, False
        self.recomputer.dispose(table, table.release())

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
            looked_up = [table for table in self.tables() if isinstance(table, LookupTable)]
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
        with self.order:
            self._let_go()
            touched = self._index.touched(commit)
            self._fall_behind_again(commit.version, touched)
            before = {table: self.effects.before(table, each, commit) for table, each in touched.items()}
            yield
            self._made_at = commit.at_ms
            copy: FrozenReader | None = None
            for table, rows in before.items():
                change = self.effects.after(table, touched[table], rows)
                if change is None:
                    continue
                if isinstance(table, LookupTable) and isinstance(change, Recompute):
                    copy = copy or table.frozen or self._without(commit)
                    if copy is None:
                        table.problem = f"the commit of version {commit.version} could not be looked at"
                        continue
                    change = Replaced(copy)
                table.blind = isinstance(change, Recompute)
                table.waiting.append(VersionedChange(commit.version, commit.at_ms, change))
                if isinstance(table, LookupTable):
                    table.changed(table.waiting[-1])
                self._due.setdefault(commit.version, []).append(table)
            self._read_again(commit.version)

    def _without(self, commit: Commit) -> FrozenReader | None:
        """The dataset without the commit that was just made; None when there is no room for it."""
        try:
            return self._store.frozen(undo=commit)
        except QuadrillError as error:
            log.warning("what is looked up is lost at version %d: %s", commit.version, error.message)
            return None

    def _fall_behind_again(self, version: int, touched: dict[SharedTable, Touched]) -> None:
        """In a replay tables fall behind that did so as members of a base, touched themselves or not."""
        if self.effects.past is not None and self.effects.past.behind:
            for table in self.tables():
                if (table.name, version) in self.effects.past.behind and not table.blind:
                    touched.setdefault(table, Touched(whole=True))

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
        self.groups.adopt()
        for table in self._due.pop(version, ()):
            if table.live and table.behind is None:
                self._catch_up(table)

    def swap(self, swap: Swap) -> None:
        """Rows that were read anew take their turn; then the changes that came meanwhile do."""
        table = swap.table
        if not table.users:
            self.recomputer.dispose(table, swap.rows)
            return
        known = swap.delta if swap.refreshes == table.refreshes else None
        old = table.swap(swap.rows, swap.listed, swap.version, swap.at_ms, known)
        self.recomputer.dispose(table, old)
        self._catch_up(table)

    def bring_up(self, table: Table) -> None:
        """A query begins to read a table: it is brought to the version of the present turn."""
        if isinstance(table, MemberTable):
            table = table.base
        table.live = True
        if table.behind is None:
            self._catch_up(table)

    def _catch_up(self, table: SharedTable) -> None:
        table.catch_up(self.version)
        if table.behind is not None:
            told = [each.name for each in table.told]
            if told:
                if self._turns is not None:
                    self._turns.note_behind(told, table.behind)
            if self.effects.past is None:
                self.recomputer.ask(table)

    def _finished(self, swap: Swap) -> None:
        if self.recomputer.threaded:
            # The turn of the version that was read comes before that of the swap.
            self._store.wait_delivered(swap.version, _READY_S)
        if self._turns is None:
            self.swap(swap)
            return
        names = [each.name for each in swap.table.told]
        with contextlib.suppress(EngineStoppedError):
            self._turns.submit(SwapTurn(swap), "swap", tables=names, version=swap.version)

    # --- replay ---------------------------------------------------------------------------------

    def begin_replay(self, past: Past) -> None:
        """From now on tables fall behind and are read anew where they did so the first time."""
        self.effects.past = past

    def swap_again(self, names: Sequence[str], version: int) -> None:
        """The turn of a swap comes again."""
        for name in names:
            swap = self._fresh.pop((name, version), None)
            if swap is not None:
                self.swap(swap)

    def end_replay(self) -> None:
        """What fell behind and was not read anew before the end is read now."""
        if self.effects.past is None:
            return
        self.effects.past = None
        for swap in self._fresh.values():
            swap.table.give_back(swap.rows)
        self._fresh.clear()
        for table in self.tables():
            if table.behind is not None:
                table.blind = True
                self.recomputer.ask(table)
        self.groups.consider_all()

    def _read_again(self, version: int) -> None:
        """At the versions at which rows were read anew the first time they are read again."""
        if self.effects.past is None or not self.effects.past.swaps:
            return
        for table in self.tables():
            if (table.name, version) in self.effects.past.swaps and table.blind:
                self._fresh[table.name, version] = self.recomputer.read(table)
