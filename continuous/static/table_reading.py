"""Reading of all rows of static tables, at the registration of a query or later, in separate threads.

Reading the static tables at the registration of a query reports its progress, can be cancelled, and obeys
limits on the number of rows (docs/decisions/0170-tables-that-follow-the-store.md). A static part with more
rows than allowed becomes a look-up; if this is impossible, the registration is rejected. Commits may later
let existing tables of static parts grow over the limits.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

from quadrill.store.errors import ConflictError, GoneError, LimitError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads

from ..durable.tasks import Task
from ..rows import Delta, Solution, difference
from ..rules.definition import RuleSetDefinition
from .changed_rows import ChangedRows
from .static_evaluator import StaticEvaluator
from .table import ReloadedRows, Table

log = logging.getLogger("quadrill.continuous")

_AT_ONCE = 5_000
"""Maximum number of replaced rows of a table that are released immediately.

If a static table has more replaced rows, they are released in the background.
"""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_TRIES = 3
"""Number of attempts to start reading tables without the commit lock.

A commit during an attempt to start reading makes the attempt invalid.
"""


# --- progress and limits ------------------------------------------------------------------------


@dataclass(slots=True)
class Progress:
    """The progress of creating one query's tables, written by the creating thread and read by other threads.

    The creating thread stores its progress in a context variable, so that the functions that read rows need
    no parameter for the progress.

    Attributes:
        limited: True if the limits of `StaticBudget` apply, because a client is registering the query.
        parts: the number of static parts of the query.
        ready: the number of parts whose tables are complete.
        rows: the number of rows read so far.
        called_off: True after the registration was cancelled; the creating thread then stops at the next rows
        that it reads.
    """

    limited: bool = False
    parts: int = 0
    ready: int = 0
    rows: int = 0
    called_off: bool = False

    def check(self) -> None:
        """Raise ConflictError if the creation of the tables was cancelled."""
        if self.called_off:
            raise ConflictError("the query was dropped before its static parts were read")


_ACTIVE: ContextVar[Progress] = ContextVar("progress")


def active() -> Progress:
    """Return the progress that `entered` set in this thread, or a new object that nobody reads."""
    return _ACTIVE.get(None) or Progress()


@contextlib.contextmanager
def entered(progress: Progress) -> Iterator[None]:
    """Report to ``progress`` on the tables that this thread creates within the context."""
    token = _ACTIVE.set(progress)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@dataclass(slots=True)
class StaticBudget:
    """Limits on the number of rows of static parts in memory; duplicate rows count, too.

    Attributes:
        most: the maximum number of rows of all tables, where a shared table counts once; 0 is no limit.
        most_of_query: the maximum number of rows of one query's tables, including shared tables; 0 is no
            limit.
    """

    most: int = 0
    most_of_query: int = 0

    def check_all(self, rows: int) -> None:
        """Raise LimitError if all tables of the engine together have too many rows."""
        message = f"the static parts of all queries would have {rows} rows or more in memory, the limit is"
        _check_rows(rows, self.most, message, "drop queries, or raise the setting max_static_rows")

    def check_query(self, rows: int) -> None:
        """Raise LimitError if the tables of one query together have too many rows."""
        message = f"the static parts of the query have {rows} rows or more, the limit of a query is"
        _check_rows(rows, self.most_of_query, message, "or raise the setting max_query_static_rows")


def _check_rows(rows: int, most: int, message: str, advice: str) -> None:
    if 0 < most < rows:
        raise LimitError(f"{message} {most}", limit=most, hint=f"Narrow the static parts, {advice}")


# --- reading all rows of tables -----------------------------------------------------------------


@dataclass(slots=True)
class CommitOrder:
    """The lock that orders commits of the store and reads of tables, and the time of the newest commit.

    Attributes:
        lock: the lock that is held while a commit becomes visible and its changes of tables are computed.
        made_at: wall-clock time of the newest commit in milliseconds, read and written under the lock.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    made_at: int = 0


@dataclass(slots=True, eq=False)
class ReloadTask(Task):
    """A task that replaces rows of tables by rows read at ``version``, which was committed at ``at_ms``."""

    version: int
    at_ms: int
    fresh: Sequence[ReloadedRows]


@dataclass(eq=False)
class Recomputer:
    """A reader of all rows of static tables, which executes reload requests in a background thread.

    Attributes:
        store: the store that the rows are read from.
        order: the lock that orders commits and reads.
        tables: all tables of the engine, whose rows count against the ``budget``.
        budget: the limits on rows in memory.
        finished: a callback that receives each finished reload, in the reading thread.
        rows_each: the number of rows between two checks of the budget.
        threads: the object that starts the background threads.
    """

    store: QuadStore
    order: CommitOrder
    tables: Mapping[str, Table]
    budget: StaticBudget
    finished: Callable[[ReloadTask], None]
    rows_each: int
    threads: Threads

    def __post_init__(self) -> None:
        self._background = self.threads.background("quadrill-static")
        self._rubbish = self.threads.background("quadrill-static-rubbish")
        self._failures: dict[Table, int] = {}

    def ask(self, tables: Sequence[Table]) -> None:
        """Request a reload of tables, all at one version, after which commits change them again."""
        self._background.do(self._attempt, tables)

    def dispose(self, table: Table, rows: Delta) -> None:
        """Unpin the terms of a table's released rows; many rows are unpinned in the background."""
        if len(rows) <= _AT_ONCE:
            table.give_back(rows)
        else:
            self._rubbish.do(table.give_back, rows)

    def close(self) -> None:
        """Wait for running reads of tables and stop the background threads."""
        self._background.close()
        self._rubbish.close()

    def read(self, tables: Sequence[Table], *, limited: bool = False, behind: bool = False) -> ReloadTask:
        """Read all rows of tables at the newest version.

        Commits after the read compute changes of these static tables again. With ``limited``, raise
        LimitError if the rows of the tables exceed the budget. With ``behind``, read only the changed rows of
        tables that fell behind, if this is cheaper than reading all rows.
        """
        began = time.perf_counter()
        evaluators = [table.new_background() for table in tables]
        fresh: list[ReloadedRows] = []
        try:
            if behind and (changed := self._changed(tables)) is not None:
                reads, version, at_ms = changed
                fresh.extend(map(ChangedRows.fresh, reads))
                return ReloadTask(version, at_ms, fresh)
            found, version, at_ms = self._rows(tables, evaluators)
            for table, evaluator, rows in zip(tables, evaluators, found, strict=True):
                table.reading.choice = evaluator.choices.get(table.part.name)
                fresh.append(self._drained(table, rows, limited=limited))
                table.reading.took_s = (time.perf_counter() - began) / len(tables)
        except BaseException:
            for table in tables:
                table.blind = True
            for each in fresh:
                each.table.give_back(each.rows)
            raise
        return ReloadTask(version, at_ms, fresh)

    def _changed(self, tables: Sequence[Table]) -> tuple[list[ChangedRows], int, int] | None:
        """Read the changed rows of tables that fell behind; return None if reading all rows is better."""
        reads, begin = [], []
        for table in tables:
            if table.behind is None or table.is_ordered or table.background.is_heavy(table.part):
                return None
            reads.append(ChangedRows(table))
            begin.append(table.behind - 1)
        for _ in range(_TRIES):
            with self.order.lock:
                version = self.store.reader.version
            for each, since in zip(reads, begin, strict=True):
                try:
                    commits = [one for one in self.store.commits_after(since) if one.version <= version]
                except GoneError:
                    return None
                if not each.follow(self.store.reader, commits):
                    return None
            begin = [version] * len(reads)
            with self.order.lock:
                if self.store.reader.version == version:
                    for table in tables:
                        table.blind = False
                    return reads, version, self.order.made_at
        return None

    def _drained(self, table: Table, rows: Iterable[Solution], *, limited: bool) -> ReloadedRows:
        """Read and encode all rows of a table from an iterator.

        Raises ConflictError if the registration that reads the table was cancelled and no other query uses
        the table. With ``limited``, the rows of a table count against the budget while they are read.
        """
        fresh = ReloadedRows(table, {}, [] if table.is_ordered else None)
        progress, waiting, number = active(), iter(rows), 0
        try:
            while piece := list(islice(waiting, self.rows_each)):
                number += len(piece)
                progress.rows += len(piece)
                _check_wanted(table)
                if limited:
                    self._check(table, number)
                if fresh.listed is None:
                    table.encode(piece, fresh.rows)
                else:
                    fresh.listed += piece
        except BaseException:
            table.give_back(fresh.rows)
            if limited:
                table.count = 0
            raise
        return fresh

    def _check(self, table: Table, number: int) -> None:
        table.count = number
        self.budget.check_query(number)
        if self.budget.most:
            self.budget.check_all(sum(each.count for each in list(self.tables.values())))

    def _rows(
        self, tables: Sequence[Table], evaluators: Sequence[StaticEvaluator]
    ) -> tuple[Sequence[Iterable[Solution]], int, int]:
        """Return all rows of each table, their version, and the time in ms of that version's commit."""
        both = list(zip(tables, evaluators, strict=True))
        # Spark is slow for many small static parts, so the store reads tables that differ only in constants.
        if len({table.identity.kind for table in tables}) == len(tables):
            with self.order.lock, self.store.reader.snapshot_read() as snapshot:
                asked = [evaluator.columnar(snapshot, table.part) for table, evaluator in both]
                others: list[Generator[Solution]] = []
                if any(asked):
                    version, at_ms = snapshot.version, self.order.made_at
                    for each, (table, evaluator) in zip(asked, both, strict=True):
                        others += [] if each else [self._whole(table, evaluator)]
                        table.blind = False
            # The columnar engine reads the version of the snapshot, so the commit lock is released and
            # commits continue.
            rest = iter(others)
            found = [each() if each else next(rest) for each in asked] if any(asked) else [None]
            if None not in found:
                return [each for each in found if each is not None], version, at_ms
            for other in others:
                other.close()
        return self._begun(tables, evaluators)

    def _begun(
        self, tables: Sequence[Table], evaluators: Sequence[StaticEvaluator]
    ) -> tuple[Sequence[Generator[Solution]], int, int]:
        """Start to read the rows of tables; return a row iterator per table, version and commit time.

        Oxigraph executes GROUP BY and ORDER BY when a query starts. So that commits need not wait for GROUP
        BY and ORDER BY, the queries for static rows are first started without the commit lock; such a start
        is valid if no commit became visible during the start.
        """
        both = list(zip(tables, evaluators, strict=True))
        for _ in range(_TRIES):
            with self.order.lock:
                before = self.store.reader.version
            found = [self._whole(table, evaluator) for table, evaluator in both]
            with self.order.lock:
                if self.store.reader.version == before:
                    for table in tables:
                        table.blind = False
                    return found, before, self.order.made_at
            for each in found:
                each.close()
        with self.order.lock, self.store.reader.snapshot_read() as snapshot:
            found = [self._whole(table, evaluator) for table, evaluator in both]
            for table in tables:
                table.blind = False
            return found, snapshot.version, self.order.made_at

    def _whole(self, table: Table, evaluator: StaticEvaluator) -> Generator[Solution]:
        return evaluator.whole(self.store.reader, table.part, partial(_check_wanted, table))

    def _attempt(self, asked: Sequence[Table]) -> None:
        """Reload the tables that still need it, with all other tables that their queries wait for.

        A query needs all its tables of static parts at one version of the store. During a series of large
        commits, separate reloads of a query's tables might never reach a common version.
        """
        due = [table for table in asked if table.users and table.blind]
        related = chain.from_iterable(reader.tables for table in due for reader in list(table.readers))
        tables = list(dict.fromkeys([*due, *(each for each in related if each.is_held and each.blind)]))
        if tables:
            self._reload(tables)

    def _reload(self, tables: Sequence[Table]) -> None:
        try:
            swap = self.read(tables, behind=True)
            # The rows of a table that is behind do not change, so the background thread can compare old and
            # new rows. The comparison of rows in a background thread saves time in the engine's thread.
            for each in swap.fresh:
                if each.delta is None and each.table.behind is not None:
                    each.delta = difference(each.rows, each.table.rows)
            self.finished(swap)
            for table in tables:
                self._failures.pop(table, None)
        except Exception as error:
            if len(tables) > 1:
                for table in tables:
                    self._reload([table])
            else:
                self._failed(tables[0], error)

    def _failed(self, table: Table, error: Exception) -> None:
        if not isinstance(error, ReportedError):
            log.exception("a static part could not be read again")
        table.reading.problem = error.message if isinstance(error, ReportedError) else str(error)
        log.warning("the static part %s keeps its rows: %s", table.name, table.reading.problem)
        failures = self._failures[table] = self._failures.get(table, 0) + 1
        wait_s = min(_RETRY_MOST_S, _RETRY_FIRST_S * 2 ** (failures - 1))
        self._background.do_later(wait_s, self._attempt, [table])


def _check_wanted(table: Table) -> None:
    """Raise ConflictError if the registration was cancelled and no other query uses the table."""
    if table.users <= 1:
        active().check()


# --- replay after a crash -----------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TableReplay:
    """The commits at which tables fell behind and were reloaded before a crash, repeated by the replay.

    Attributes:
        behind: pairs of a table name and a version at which the table fell behind.
        swaps: pairs of a table name and a version at which the table was reloaded.
        definitions: the rule sets that commits have replaced, by name and version of the commit.
    """

    behind: set[tuple[str, int]]
    swaps: set[tuple[str, int]]
    definitions: Mapping[tuple[str, int], RuleSetDefinition | None]
    _recomputer: Recomputer
    _fresh: dict[tuple[str, int], tuple[ReloadedRows, int]] = field(default_factory=dict)

    def definition_at(
        self, name: str, version: int, before: RuleSetDefinition | None
    ) -> RuleSetDefinition | None:
        """Return a rule set after the commit of a version; ``before`` is the set before the commit."""
        return self.definitions.get((name, version), before)

    def fell_behind(self, version: int, tables: Iterable[Table]) -> list[Table]:
        """Return the tables that fell behind at the commit of this version before the crash."""
        if not self.behind:
            return []
        return [table for table in tables if not table.blind and (table.name, version) in self.behind]

    def read(self, version: int, tables: Iterable[Table]) -> None:
        """Read all rows of the tables that were reloaded at this version before the crash."""
        for table in tables if self.swaps else ():
            if (table.name, version) in self.swaps and table.blind:
                swap = self._recomputer.read([table])
                self._fresh[table.name, version] = swap.fresh[0], swap.at_ms

    def swap(self, names: Sequence[str], version: int) -> ReloadTask:
        """Return a task that replaces tables' rows by those which `read` has read at a version."""
        found = [each for name in names if (each := self._fresh.pop((name, version), None)) is not None]
        return ReloadTask(version, found[0][1] if found else 0, [fresh for fresh, _ in found])

    def close(self) -> None:
        """Release the rows that were read for those reloads whose tasks are not in the journal."""
        for fresh, _ in self._fresh.values():
            fresh.table.give_back(fresh.rows)
        self._fresh.clear()
