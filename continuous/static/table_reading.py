"""Reads all rows of tables, for a registration or anew, away from writers and from the engine's thread.

How far it has come is told to whoever waits for it, it can be called off, and a registration reads no more
rows than there is room for (docs/decisions/0170-tables-that-follow-the-store.md): it looks up what would be
over the limits, or is refused where that cannot be. What is there goes on when commits make it grow.
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
from .changed_rows import ChangedRows
from .static_evaluator import StaticEvaluator
from .table import ReloadedRows, Table

log = logging.getLogger("quadrill.continuous")

_AT_ONCE = 5_000
"""So many rows are let go at once, more in the background."""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_TRIES = 3
"""Beginnings of a read that commits may spoil."""


# --- progress and limits ------------------------------------------------------------------------


@dataclass(slots=True)
class Progress:
    """The making of one query's tables. Written by the thread that makes them, read by others.

    Whoever makes them in a thread of its own enters a progress there; what reads rows finds it without
    having to hand it through every call in between.

    Attributes:
        limited: the limits of `StaticBudget` hold, because somebody registers the query now.
        parts: static parts of the query.
        ready: those whose tables are there.
        rows: rows read for the others so far.
        called_off: whoever makes the tables stops at the next rows.
    """

    limited: bool = False
    parts: int = 0
    ready: int = 0
    rows: int = 0
    called_off: bool = False

    def check(self) -> None:
        """Raise ConflictError when the making was called off."""
        if self.called_off:
            raise ConflictError("the query was dropped before its static parts were read")


_ACTIVE: ContextVar[Progress] = ContextVar("progress")


def active() -> Progress:
    """The progress of what this thread makes; one that nobody reads when nobody entered one."""
    return _ACTIVE.get(None) or Progress()


@contextlib.contextmanager
def entered(progress: Progress) -> Iterator[None]:
    """Tables that this thread makes are part of ``progress``."""
    token = _ACTIVE.set(progress)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@dataclass(slots=True)
class StaticBudget:
    """The rows of static parts that queries may have in memory, counted as often as the parts have them.

    Attributes:
        most: of all tables together, a shared one counted once; 0 for no limit.
        most_of_query: of the tables that one query reads, shared ones included; 0 for no limit.
    """

    most: int = 0
    most_of_query: int = 0

    def check_all(self, rows: int) -> None:
        """Raise LimitError when all tables have too many rows together."""
        message = f"the static parts of all queries would have {rows} rows or more in memory, the limit is"
        _check_rows(rows, self.most, message, "drop queries, or raise the setting max_static_rows")

    def check_query(self, rows: int) -> None:
        """Raise LimitError when the tables of a query have too many rows together."""
        message = f"the static parts of the query have {rows} rows or more, the limit of a query is"
        _check_rows(rows, self.most_of_query, message, "or raise the setting max_query_static_rows")


def _check_rows(rows: int, most: int, message: str, advice: str) -> None:
    if 0 < most < rows:
        raise LimitError(f"{message} {most}", limit=most, hint=f"Narrow the static parts, {advice}")


# --- reading ------------------------------------------------------------------------------------


@dataclass(slots=True)
class CommitOrder:
    """What orders commits and those who look at tables between two of them.

    ``lock`` is held while a commit becomes visible and what it changes is worked out; ``made_at`` is the wall
    clock time of the newest commit, read under it.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    made_at: int = 0


@dataclass(slots=True, eq=False)
class ReloadTask(Task):
    """All rows of some tables at one version, made at ``at_ms``: in their turn the tables take them."""

    version: int
    at_ms: int
    fresh: Sequence[ReloadedRows]


@dataclass(eq=False)
class Recomputer:
    """Reads all rows of tables, one request after the other, in the background.

    All ``tables`` together keep to the ``budget``; whether they do is looked at with ``rows_each`` rows more.
    ``finished`` is told what was asked for, in the thread that read it.
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
        """Read tables anew, all at one version; their commits since are taken up again from there."""
        self._background.do(self._attempt, tables)

    def dispose(self, table: Table, rows: Delta) -> None:
        """Give the terms of rows back that nobody has any more."""
        if len(rows) <= _AT_ONCE:
            table.give_back(rows)
        else:
            self._rubbish.do(table.give_back, rows)

    def close(self) -> None:
        """Finish what is being read."""
        self._background.close()
        self._rubbish.close()

    def read(self, tables: Sequence[Table], *, limited: bool = False, behind: bool = False) -> ReloadTask:
        """All rows of tables at the newest version; from there on their changes are worked out again.

        With ``limited`` LimitError is raised when they are more than there is room for. Of tables that are
        ``behind`` only what changed is read where that is less.
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
        """What commits have changed in tables since they fell behind; None where all is read with less."""
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
        """All rows of a table; stops when the making was called off and nobody else wants them.

        With ``limited`` they are counted in the table meanwhile.
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
        """The rows of each table, the version that they are of, and when that was made."""
        both = list(zip(tables, evaluators, strict=True))
        # Many that are alike are not for Spark.
        if len({table.identity.kind for table in tables}) == len(tables):
            with self.order.lock, self.store.reader.snapshot_read() as snapshot:
                asked = [evaluator.columnar(snapshot, table.part) for table, evaluator in both]
                others: list[Generator[Solution]] = []
                if any(asked):
                    version, at_ms = snapshot.version, self.order.made_at
                    for each, (table, evaluator) in zip(asked, both, strict=True):
                        others += [] if each else [self._whole(table, evaluator)]
                        table.blind = False
            # What was asked keeps its snapshot: commits go on from here.
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
        """Rows that are still to be drained.

        Oxigraph groups and sorts before it gives the first row. Commits are not kept waiting for that: it is
        tried without, and counts when none became visible meanwhile.
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
        """Read those that were not read meanwhile, with all that their queries need at the same version.

        Each at a version of its own they might never be known at one, while large commits go on.
        """
        due = [table for table in asked if table.users and table.blind]
        beside = chain.from_iterable(reader.tables for table in due for reader in list(table.readers))
        tables = list(dict.fromkeys([*due, *(each for each in beside if each.is_held and each.blind)]))
        if tables:
            self._read_anew(tables)

    def _read_anew(self, tables: Sequence[Table]) -> None:
        try:
            swap = self.read(tables, behind=True)
            # While a table is behind nobody changes its rows: the engine's thread need not compare them.
            for each in swap.fresh:
                if each.delta is None and each.table.behind is not None:
                    each.delta = difference(each.rows, each.table.rows)
            self.finished(swap)
            for table in tables:
                self._failures.pop(table, None)
        except Exception as error:
            if len(tables) > 1:
                for table in tables:
                    self._read_anew([table])
            else:
                self._failed(tables[0], error)

    def _failed(self, table: Table, error: Exception) -> None:
        if not isinstance(error, ReportedError):
            log.exception("a static part could not be read anew")
        table.reading.problem = error.message if isinstance(error, ReportedError) else str(error)
        log.warning("the static part %s keeps its rows: %s", table.name, table.reading.problem)
        failures = self._failures[table] = self._failures.get(table, 0) + 1
        wait_s = min(_RETRY_MOST_S, _RETRY_FIRST_S * 2 ** (failures - 1))
        self._background.do_later(wait_s, self._attempt, [table])


def _check_wanted(table: Table) -> None:
    """Raise ConflictError when the making was called off and nobody else wants the table."""
    if table.users <= 1:
        active().check()


# --- again, after a crash -----------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TableReplay:
    """In a replay tables fall behind, and are read anew, where they did so before the crash.

    By their names and versions ``behind`` and ``swaps`` tell where; rows are read by the recomputer, at once.
    """

    behind: set[tuple[str, int]]
    swaps: set[tuple[str, int]]
    _recomputer: Recomputer
    _fresh: dict[tuple[str, int], tuple[ReloadedRows, int]] = field(default_factory=dict)

    def fell_behind(self, version: int, tables: Iterable[Table]) -> list[Table]:
        """The tables that fell behind at the commit of a version, touched by it themselves or not."""
        if not self.behind:
            return []
        return [table for table in tables if not table.blind and (table.name, version) in self.behind]

    def read(self, version: int, tables: Iterable[Table]) -> None:
        """At the versions at which rows were read anew they are read again."""
        for table in tables if self.swaps else ():
            if (table.name, version) in self.swaps and table.blind:
                swap = self._recomputer.read([table])
                self._fresh[table.name, version] = swap.fresh[0], swap.at_ms

    def swap(self, names: Sequence[str], version: int) -> ReloadTask:
        """The rows of those tables that were read at a version."""
        found = [each for name in names if (each := self._fresh.pop((name, version), None)) is not None]
        return ReloadTask(version, found[0][1] if found else 0, [fresh for fresh, _ in found])

    def close(self) -> None:
        """Give back what was read for turns that are not in the journal."""
        for fresh, _ in self._fresh.values():
            fresh.table.give_back(fresh.rows)
        self._fresh.clear()
