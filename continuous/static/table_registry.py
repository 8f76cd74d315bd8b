"""The table registry, which creates the table of each static part once for all queries that read it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quadrill.store.errors import ConflictError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads

from ..algebra.canonical import Canonical, lifted
from ..algebra.static import MERGED_PART, StaticPattern
from ..algebra.triggers import triggers
from ..durable.tasks import TaskQueue
from ..errors import EngineStoppedError
from ..expressions.oxigraph import canonical
from ..rules.definition import RuleSetDefinition
from ..settings import StaticLimits
from ..windows.encoded import EngineTerms
from .commit_watch import CommitWatch
from .lookup import Lookup
from .rule_registry import RuleGraphsRegistry
from .static_evaluator import StaticEvaluator
from .stored_tables import KeptTables
from .table import Table, TableFrontier
from .table_facts import PartIdentity
from .table_reading import Recomputer, ReloadTask, StaticBudget, TableReplay, active

_READY_S = 600.0
_POLL_S = 0.02


@dataclass(eq=False)
class TableRegistry:
    """A registry of all tables of an engine by the identities of their static parts.

    `table` is called by threads that register queries, `advance` and `swap` by the engine's thread, and
    `release` by any thread, for example by a writer that finds dropped queries.

    Attributes:
        store: the store that the tables follow.
        terms: the term dictionary of the engine.
        tasks: the task queue of the engine; if None, reloaded rows replace the old rows immediately.
        budget: the limits on rows in memory.
        kept: the storage of tables on disk; None if tables are not stored on disk.
        limits: the limits on changes of tables and on look-ups.
        threads: the object that starts background threads.
        commits: the commit watch, which computes the changes of tables in writers' threads.
        recomputer: the reader of all rows of tables.
        task: the newest version whose task has run, and the queries whose tables have changed.
        rules: the graphs that the rules of queries' entailments read.
    """

    store: QuadStore
    terms: EngineTerms
    tasks: TaskQueue | None = None
    budget: StaticBudget = field(default_factory=StaticBudget)
    kept: KeptTables | None = None
    limits: StaticLimits = StaticLimits()
    threads: Threads = field(default_factory=lambda: Threads(threaded=True))
    _tables: dict[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commits = CommitWatch(self.store, self.limits)
        self._lock = self.commits.order.lock
        self.recomputer = Recomputer(
            self.store,
            self.commits.order,
            self._tables,
            self.budget,
            self._finished,
            self.limits.rows_each,
            self.threads,
        )
        self.task = TableFrontier(self.store.reader.version)
        self.rules = RuleGraphsRegistry(self.commits, self.task, self.tasks)

    # --- tables and rows ------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """Return all tables of the engine, including the tables of look-up parts."""
        return list(self._tables.values())

    def held(self) -> list[Table]:
        """Return the tables of the engine whose rows are in memory."""
        return [table for table in self.tables() if table.is_held]

    def rows(self) -> int:
        """Return the total number of rows of all tables, including rows that are being read."""
        return sum(table.count for table in self.tables())

    @property
    def is_behind(self) -> bool:
        """True while a query waits for a table whose rows are being read again."""
        return any(table.is_awaited for table in self.tables())

    def wait_for_reloads(self, seconds: float) -> None:
        """Wait for at most ``seconds`` until no query waits for a reload of a table."""
        until = time.monotonic() + seconds
        while self.threads.threaded and self.is_behind and time.monotonic() < until:
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Stop reading tables and observing commits, and wait until the running writes of tables end."""
        self.recomputer.close()
        if self.kept is not None:
            self.kept.rows.close()
        self.commits.stop()

    # --- creation and release of tables ---------------------------------------------------------

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
        """Return the table of a static part that follows the store; create the table if there is none.

        Args:
            part: the static part.
            form: the static part in canonical form.
            background: a function that creates evaluators of the static part.
            ordered: True if the order of the rows matters.
            held: True if the table has its rows in memory, False for a look-up.
            limited: True if the number of rows must not exceed the budget.

        Raises:
            LimitError: the rows exceed the budget.
            ReportedError: the static part cannot be evaluated.
            ConflictError: another registration reads the rows of the table and takes too long or has failed,
                or this registration was cancelled.
        """
        self.commits.start()
        self.commits.release_dropped()
        with self._lock:
            table = self._table(part.name, form, background, ordered=ordered, held=held)
            is_new = not table.users
            table.users += 1
        try:
            if is_new:
                self._materialise(table, limited=limited)
            else:
                self._wait_for(table)
        except BaseException as error:
            table.reading.problem = str(error)
            table.ready.set()
            self.release(table)
            raise
        # The task of the commit whose version was read must enter the task queue before the query's
        # registration task.
        self.store.subscribers.wait_delivered(table.version, _READY_S)
        return table

    def _table(
        self,
        name: str,
        form: Canonical,
        background: Callable[[], StaticEvaluator],
        *,
        ordered: bool,
        held: bool,
    ) -> Table:
        found = triggers(form.pattern)
        assert found is not None, "a part with SERVICE does not follow the store"
        kind = MERGED_PART if name == MERGED_PART else "static"
        scope = f"{'' if held else 'lookup '}{kind} {ordered} {background().signature}"
        key = f"{scope} {form.text}"
        table = self._tables.get(key)
        if table is None:
            part = StaticPattern(name, form.pattern, form.columns)
            lift, identity = None if ordered else lifted(form), PartIdentity(key, key)
            if lift is not None:
                constants = tuple(map(canonical, lift.constants))
                identity = PartIdentity(key, f"{scope} {lift.text}", lift, constants)
            table = Table(part, background, self.terms, identity, found, ordered=ordered, held=held)
            self._tables[key] = table
        return table

    @staticmethod
    def _wait_for(table: Table) -> None:
        """Wait until another registration has read the rows of a new table."""
        until = time.monotonic() + _READY_S
        progress = active()
        known = table.ready.is_set()
        while not known and time.monotonic() < until:
            progress.check()
            known = table.ready.wait(_POLL_S)
        if not known or table.reading.problem is not None:
            raise ConflictError(
                table.reading.problem or "the rows of a static part are still being read",
                hint="register the query again in a moment",
            )

    def _materialise(self, table: Table, *, limited: bool) -> None:
        """Load all rows of a new table from disk, or evaluate them, mostly while commits continue."""
        if not table.is_held:
            self.commits.look_up(table)
        # A client's registration evaluates the rows, because the row budget can stop an evaluation, but not
        # the loading of rows from disk.
        elif active().limited or not self._take_up(table):
            with self._lock:
                table.blind = True
                self.commits.index.add(table)
            swap = self.recomputer.read([table], limited=limited)
            (fresh,) = swap.fresh
            table.begin_at(swap.version, fresh.rows, fresh.listed)
        table.ready.set()

    def _take_up(self, table: Table) -> bool:
        """Load a table's rows from disk; return False if they are missing or outdated."""
        kept = self.kept
        if kept is None or (found := kept.find(table)) is None:
            return False
        # Most commits of the change log are checked without the commit lock for changes of a table loaded
        # from disk. Writers wait only while the few newest commits are checked for changes of a table loaded
        # from disk.
        reaches = kept.unchanged(table, found.until, self.store.reader.version, found.read_s)
        with self._lock:
            version = self.store.reader.version
            if not found.since <= version or kept.unchanged(table, reaches, version, found.read_s) < version:
                return False
            # Commits read the evaluation time of the tables in the trigger index, so the time is set before
            # the table is added.
            table.reading.took_s = found.read_s
            self.commits.index.add(table)
        if kept.load(table, found, version):
            return True
        with self._lock:
            self.commits.index.remove(table)
        return False

    def look_into(self, table: Table) -> Lookup:
        """Create a join input of one query over the table of a look-up part."""
        return Lookup(table, self.store, self._lock, self.limits.remembered)

    def keep(self, evaluated: Mapping[str, int], *, at_end: bool = False) -> None:
        """Write changed tables to disk; called in the engine's thread between two tasks.

        ``evaluated`` contains, by query name, the version from which a query would continue after a restart;
        see `KeptTables.keep`.
        """
        if self.kept is not None:
            self.commits.release_dropped()
            self.kept.keep(self.held(), self.task.version, evaluated, at_end=at_end)

    def release(self, table: Table) -> None:
        """Release a table for one query; remove the table if no other query uses it."""
        with self._lock:
            table.users -= 1
            if table.users:
                return
            del self._tables[table.identity.key]
            self.commits.index.remove(table)
        self.recomputer.dispose(table, table.load({}, None))

    # --- methods of the registry for the engine's thread ----------------------------------------

    def begin_at(self, version: int) -> None:
        """Set the store version that the queries reflect when the engine starts."""
        self.task.version = version
        self.commits.due.clear()

    def advance(self, version: int) -> None:
        """Apply a commit's waiting changes to the tables, and add steps for the queries that read them."""
        self.task.version = max(self.task.version, version)
        self.commits.release_dropped()
        self._catch_up([table for table in self.commits.due.pop(version, ()) if table.live])
        if self.commits.rules:
            self.rules.advance()

    def swap(self, swap: ReloadTask) -> None:
        """Replace the rows of reloaded tables, and apply the changes of commits after the reload."""
        for each in swap.fresh:
            table = each.table
            if not table.users:
                self.recomputer.dispose(table, each.rows)
                continue
            self.recomputer.dispose(table, table.swap(each, swap.version, swap.at_ms))
        self._catch_up([each.table for each in swap.fresh if each.table.users])

    def bring_up(self, table: Table) -> None:
        """Bring a table to the version of the running task, because a query begins to read it."""
        table.live = True
        self._catch_up([table])

    def take_moved(self) -> list[str]:
        """Return the names of the queries whose tables have changed since the last call."""
        moved, self.task.moved = self.task.moved, {}
        return list(moved)

    def _catch_up(self, tables: Sequence[Table]) -> None:
        """Bring tables to the running task's version; request reloads of tables that fall behind.

        Tables that differ only in constants and fall behind at the same commit are reloaded together.
        """
        fallen: dict[tuple[int, str], list[Table]] = {}
        for table in tables:
            if table.behind is None:
                table.catch_up(self.task.version)
                if table.behind is not None:
                    fallen.setdefault((table.behind, table.identity.kind), []).append(table)
        for (version, _), together in fallen.items():
            names = [table.name for table in together if table.readers]
            if names and self.tasks is not None:
                self.tasks.record_outcome("behind", tables=names, version=version)
            if self.commits.replay is None:
                self.recomputer.ask(together)

    def _finished(self, swap: ReloadTask) -> None:
        if self.threads.threaded:
            # The task of the commit whose version was read must enter the task queue before the task that
            # replaces the rows.
            self.store.subscribers.wait_delivered(swap.version, _READY_S)
        if self.tasks is None:
            self.swap(swap)
            return
        names = [each.table.name for each in swap.fresh]
        with contextlib.suppress(EngineStoppedError):
            self.tasks.submit(swap, "swap", tables=names, version=swap.version)

    # --- replay ---------------------------------------------------------------------------------

    def begin_replay(
        self,
        behind: set[tuple[str, int]],
        swaps: set[tuple[str, int]],
        definitions: Mapping[tuple[str, int], RuleSetDefinition | None] = MappingProxyType({}),
    ) -> None:
        """Begin a replay, in which tables fall behind and are reloaded as before the crash.

        ``definitions`` are the rule sets that commits have replaced, by name and version of the commit.
        """
        self.commits.replay = TableReplay(behind, swaps, definitions, self.recomputer)

    def swap_again(self, names: Sequence[str], version: int) -> ReloadTask:
        """Return the task of a table reload that the journal contains, during a replay."""
        assert self.commits.replay is not None
        return self.commits.replay.swap(names, version)

    def end_replay(self) -> None:
        """End a replay, and reload all tables that are still behind the store."""
        replay, self.commits.replay = self.commits.replay, None
        if replay is None:
            return
        replay.close()
        for table in self.tables():
            if table.behind is not None:
                table.blind = True
                self.recomputer.ask([table])
