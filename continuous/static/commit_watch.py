"""The commit watch, which computes the change of each table of static parts at every commit."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal as OneOf
from typing import TypeAlias

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import ReportedError
from quadrill.store.quads.frozen import FrozenReader
from quadrill.store.quads.quad_store import QuadStore

from ..rows import Solution, difference
from ..rules.definition import RuleSetDefinition
from ..settings import StaticLimits
from .keyed_rows import KEY_S, TooManyRowsError, rows_with
from .rule_graphs import DefinitionOf, NamedRules, RuleGraphs
from .table import Change, Table
from .table_reading import CommitOrder, TableReplay, active
from .trigger_index import AffectedRows, TableGroup, TriggerIndex

log = logging.getLogger("quadrill.continuous")

_FEW_KEYS = 100
_POLL_S = 0.02

Affected: TypeAlias = Counter[Solution] | OneOf["all", "too many"]
"""The rows of a table group that a commit may change: counted rows, ``all`` rows, or ``too many`` rows."""


class CommitWatch:
    """An observer of the store that computes the changes of all tables in the threads of writers.

    Only one writer of the store at a time runs the methods of the commit watch.

    Attributes:
        order: the lock that is held while a commit becomes visible and its changes of tables are computed.
        index: the triggers of all tables whose changes are computed at commits.
        gone: callbacks that release the tables of dropped queries, called while no thread iterates over
            tables.
        due: by version, the tables changed by commits whose tasks have not run.
        rules: the graphs that the rules of queries' entailments read.
        definition_of: returns a rule set as it is defined after the commit that becomes visible; None for a
            set that derives nothing.
        replay: the object that determines, during a replay, which tables fall behind at which commit; None
            outside a replay.
    """

    def __init__(self, store: QuadStore, limits: StaticLimits) -> None:
        """Create a commit watch; it observes no commits of the store before the call of `start`."""
        self._store = store
        self._limits = limits
        self.order = CommitOrder()
        self.index = TriggerIndex()
        self.gone: deque[Callable[[], None]] = deque()
        self.replay: TableReplay | None = None
        self._observing = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._loading = False
        self.due: dict[int, list[Table]] = {}
        self.rules: list[RuleGraphs] = []
        self.definition_of: DefinitionOf = lambda name: None

    def start(self) -> None:
        """Start to observe the commits of the store.

        The caller of `start` must not hold the lock of ``order``, because writers acquire this lock after the
        store's own lock.
        """
        with self._observing:
            if self._stop is None:
                self._stop = self._store.committer.observe(self)

    def stop(self) -> None:
        """Stop observing the commits of the store."""
        with self._observing:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def release_dropped(self) -> None:
        """Release the tables of dropped queries."""
        if self.gone:
            with self.order.lock:
                while self.gone:
                    self.gone.popleft()()

    def look_up(self, table: Table) -> None:
        """Start to compute the changes of a look-up part at commits, after a running bulk load has ended."""
        while True:
            with self.order.lock:
                if not self._loading:
                    self.index.add(table)
                    table.version = self._store.reader.version
                    return
            active().check()
            time.sleep(_POLL_S)

    def wait_delivered(self, seconds: float) -> None:
        """Wait until the commit of the newest version is delivered to the engine."""
        self._store.subscribers.wait_delivered(self._store.reader.version, seconds)

    def read_rule_graphs(self, named: NamedRules) -> RuleGraphs:
        """Start to record the changes of the graphs that a rule set reads, after a running bulk load."""
        while True:
            with self.order.lock:
                if not self._loading:
                    definition = named.definition if self.replay else self.definition_of(named.name)
                    graphs = RuleGraphs(named.name, named.into, definition, self._store, self.order.lock)
                    self.rules.append(graphs)
                    return graphs
            active().check()
            time.sleep(_POLL_S)

    # --- methods that the store calls (`store.quads.observer.Observer`) ---------------------------------

    @contextmanager
    def around_bulk_load(self) -> Iterator[None]:
        """Enclose a bulk load, during which look-ups read a copy of the dataset before the load."""
        with self.order.lock:
            self.release_dropped()
            looked_up = [table for table in self.index.tables() if not table.is_held]
            frozen = self._store.frozen() if looked_up or self.rules else None
            self._loading = True
            for graphs in self.rules:
                graphs.frozen = frozen
            for table in looked_up:
                table.watchers.frozen = frozen
        try:
            yield
        finally:
            with self.order.lock:
                self._loading = False
                for table in looked_up:
                    table.watchers.frozen = None
                for graphs in self.rules:
                    graphs.frozen = None

    @contextmanager
    def around_commits(self, commits: Sequence[Commit]) -> Iterator[bool]:
        """Enclose a group of commits; yield True if none of the commits can change a table.

        The trigger index of the tables does not change within this context.
        """
        with self.order.lock:
            self.release_dropped()
            unaffected = (
                self.replay is None
                and not any(self.index.touched(each, 1) for each in commits)
                and not any(self._replaced(graphs, each) for each in commits for graphs in self.rules)
            )
            yield unaffected
            if unaffected:
                self.order.made_at = commits[-1].at_ms

    @contextmanager
    def around_commit(self, commit: Commit) -> Iterator[None]:
        """Enclose one commit; compute its changes of tables from the rows before and after the commit."""
        replay, version = self.replay, commit.version
        with self.order.lock:
            self.release_dropped()
            behind = [] if replay is None else replay.fell_behind(version, self.index.tables())
            changes = {table: Change(version, commit.at_ms) for table in behind}
            work = []
            for group, touched in self.index.touched(commit, None if replay else self._limits.keys).items():
                if any(not table.blind and table not in changes for table in group.tables):
                    work.append((group, touched, self._before(group, touched, version)))
            yield
            self.order.made_at = commit.at_ms
            for group, touched, before in work:
                # A table that fell behind at this commit before the crash falls behind again in the replay,
                # even if the change of the table is known.
                changes = {**self._after(group, touched, before, commit), **changes}
            self._note(commit, changes)
            self._note_rules(commit)
            if replay is not None:
                replay.read(version, self.index.tables())

    def _note(self, commit: Commit, changes: dict[Table, Change]) -> None:
        """Append the changes of a commit to the tables, where the changes wait for the task of the commit."""
        copy: FrozenReader | None = None
        for table, change in changes.items():
            if not table.is_held and not change.is_known:
                copy = copy or table.watchers.frozen or self._without(commit)
                if copy is None:
                    table.reading.problem = f"the commit of version {commit.version} could not be looked at"
                    continue
                change = Change(commit.version, commit.at_ms, before=copy)
            table.blind = not change.is_known
            table.waiting.append(change)
            for tell in table.watchers.changed:
                tell(change)
            self.due.setdefault(commit.version, []).append(table)

    def _definition(self, graphs: RuleGraphs, version: int) -> RuleSetDefinition | None:
        """Return a rule set after the commit of a version, in a replay as the journal has it."""
        if self.replay is None:
            return self.definition_of(graphs.name)
        return self.replay.definition_at(graphs.name, version, graphs.newest)

    def _replaced(self, graphs: RuleGraphs, commit: Commit) -> bool:
        """Return True if a commit may change what follows from the graphs that rules read."""
        return graphs.reads(commit, self._definition(graphs, commit.version))

    def _note_rules(self, commit: Commit) -> None:
        """Add a commit to the changes of the graphs that rules read."""
        copy: FrozenReader | None = None
        for graphs in self.rules:
            definition = self._definition(graphs, commit.version)
            if graphs.reads(commit, definition):
                if copy is None and graphs.frozen is None and graphs.is_large(commit):
                    copy = self._without(commit)
                graphs.committed(commit, definition, copy)
                self.due.setdefault(commit.version, [])

    def _without(self, commit: Commit) -> FrozenReader | None:
        """Return a copy of the dataset before the newest commit; None if the copy needs too much memory."""
        try:
            return self._store.frozen(undo=commit)
        except ReportedError as error:
            log.warning("what is looked up is lost at version %d: %s", commit.version, error.message)
            return None

    # --- the rows of tables that a commit may change --------------------------------------------

    def _before(self, group: TableGroup, touched: AffectedRows, version: int) -> Affected:
        """Return the rows of a group of tables that a commit may change, as they are before the commit.

        Returns ``all`` if evaluating the whole static part at the commit is allowed and cheaper. Returns
        ``too many`` if the commit would exceed a limit; the tables then fall behind and are read again in the
        background.
        """
        limits, held, limited = self._limits, group.first.is_held, self._is_limited(group)
        if limited and held and group.first.background.is_heavy(group.part):
            if touched.whole or touched.size > _FEW_KEYS or group.keyed_s > limits.keyed_s:
                return _too_many(group, f"at version {version} its evaluation may buffer many rows")
        if touched.whole:
            if held and (not limited or group.took_s <= limits.quick_s):
                return "all"
            return _too_many(group, f"the commit of version {version} does not tell which rows change")
        if limited and touched.size > limits.keys:
            keys = f"more than {touched.size}" if touched.cut else touched.size
            return _too_many(group, f"version {version} changed {keys} keys, the limit is {limits.keys}")
        if held and limited and touched.size > _FEW_KEYS:
            if group.took_s <= limits.quick_s and group.took_s < touched.size * KEY_S:
                return "all"
        return self._rows(group, touched)

    def _after(
        self, group: TableGroup, touched: AffectedRows, before: Affected, commit: Commit
    ) -> dict[Table, Change]:
        """Return the changes of a group's tables by a visible commit, given the rows before the commit."""
        version, at_ms = commit.version, commit.at_ms
        if before == "all":
            return {table: Change(version, at_ms, all_rows=self._all_rows(table)) for table in group.seeing()}
        after = before if before == "too many" else self._rows(group, touched)
        if before == "too many" or after == "too many":
            return {table: Change(version, at_ms) for table in group.seeing()}
        assert isinstance(before, Counter) and isinstance(after, Counter)
        divided = group.divided(difference(after, before))
        return {
            table: Change(version, at_ms, weights)
            for table, weights in divided.items()
            if weights and not table.blind
        }

    def _is_limited(self, group: TableGroup) -> bool:
        """Return True if the limits on the size of changes apply to a group of tables.

        The journal contains which tables in memory fell behind at which commit; a replay repeats this, so in
        a replay the limits apply only to look-up parts.
        """
        return self.replay is None or not group.first.is_held

    def _rows(self, group: TableGroup, touched: AffectedRows) -> Affected:
        limits, evaluator = self._limits, group.first.background
        most = limits.rows if self._is_limited(group) else None
        began = time.perf_counter()
        try:
            return rows_with(self._store.reader, evaluator, group.part, touched.keys, most)
        except TooManyRowsError:
            return _too_many(group, f"a commit reached more than {most} rows")
        except Exception as error:
            names = [each.name for each in group.tables]
            log.warning("the static parts of %s are read again: %s", names, error)
            return "too many"
        finally:
            group.keyed_s = time.perf_counter() - began

    def _all_rows(self, table: Table) -> list[Solution] | None:
        """Evaluate and return all rows of a table; return None if the evaluation fails."""
        began = time.perf_counter()
        try:
            rows = list(table.background.whole(self._store.reader, table.part))
        except Exception as error:
            log.warning("the static part %s is read again: %s", table.name, error)
            return None
        table.reading.took_s = time.perf_counter() - began
        return rows


def _too_many(group: TableGroup, why: str) -> Affected:
    for table in group.tables:
        table.reading.reread_because = why
    return "too many"
