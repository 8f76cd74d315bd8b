"""Reads all rows of tables anew, away from writers and from the engine's thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrill.store.errors import QuadrillError

from ..durable.turns import Turn
from ..element import Solution
from ..rows import Delta, difference
from .budget import StaticBudget
from .changes import CommitOrder
from .progress import active
from .static_evaluator import StaticEvaluator
from .table import Table

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

_AT_ONCE = 5_000
"""So many rows are let go at once, more by a thread of their own."""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_TRIES = 3
"""Beginnings of a read that commits may spoil."""


@dataclass(slots=True)
class FreshRows:
    """All rows of a table, encoded, ready to take the place of those it has.

    ``delta`` is how they differ from those that it had after so many ``refreshes``; None is not known.
    """

    table: Table
    rows: Delta
    listed: Sequence[Solution] | None
    delta: Delta | None = None
    refreshes: int = 0


@dataclass(frozen=True, slots=True)
class Swap:
    """The rows of some tables at one version, and when that was made."""

    version: int
    at_ms: int
    fresh: Sequence[FreshRows]


@dataclass(slots=True, eq=False)
class SwapTurn(Turn):
    """Rows that were read anew take the place of those that tables have."""

    swap: Swap


class Recomputer:
    """One thread that reads tables, made when there is something to do."""

    def __init__(
        self,
        store: QuadStore,
        order: CommitOrder,
        tables: Mapping[str, Table],
        budget: StaticBudget,
        finished: Callable[[Swap], None],
        *,
        threaded: bool = True,
    ) -> None:
        """Make one that has nothing to do.

        Args:
            store: what is read.
            order: its lock is held while no commit may become visible.
            tables: all that there are.
            budget: how many rows they may have in memory.
            finished: told the rows, in the thread that read them.
            threaded: False reads in the thread that asks.
        """
        self._store = store
        self._order = order
        self._tables = tables
        self._budget = budget
        self._finished = finished
        self.threaded = threaded
        self._line: deque[Sequence[Table]] = deque()
        self._later: list[tuple[float, Sequence[Table]]] = []
        self._failures: dict[Table, int] = {}
        self._woken = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, tables: Sequence[Table]) -> None:
        """Read tables anew, all at one version; their commits since are taken up again from there."""
        if not self.threaded:
            self._attempt(tables)
            return
        with self._woken:
            self._line.append(tables)
            self._wake()

    def dispose(self, table: Table, rows: Delta) -> None:
        """Give the terms of rows back that nobody has any more."""
        if not self.threaded or len(rows) <= _AT_ONCE:
            table.give_back(rows)
            return
        threading.Thread(
            target=table.give_back, args=(rows,), name="quadrill-static-rubbish", daemon=True
        ).start()

    def close(self) -> None:
        """Finish what is being read and end the thread."""
        with self._woken:
            self._closed = True
            self._woken.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def read(self, tables: Sequence[Table], *, limited: bool = False) -> Swap:
        """All rows of tables at the newest version; from there on their changes are worked out again.

        With ``limited`` LimitError is raised when they are more than there is room for.
        """
        began = time.perf_counter()
        evaluators = [table.new_background() for table in tables]
        fresh: list[FreshRows] = []
        try:
            found, version, at_ms = self._rows(tables, evaluators)
            for table, evaluator, rows in zip(tables, evaluators, found, strict=True):
                table.choice = evaluator.choice(table.part)
                read = active().counted(rows, lambda table=table: table.users > 1)  # type: ignore[misc]
                if limited:
                    read = self._budget.limited(read, table, self._tables)
                fresh.append(FreshRows(table, *table.encode(read)))
                table.took_s = (time.perf_counter() - began) / len(tables)
        except BaseException:
            for table in tables:
                table.blind = True
            for each in fresh:
                each.table.give_back(each.rows)
            raise
        return Swap(version, at_ms, fresh)

    def _rows(
        self, tables: Sequence[Table], evaluators: Sequence[StaticEvaluator]
    ) -> tuple[Sequence[Iterable[Solution]], int, int]:
        """The rows of each table, the version that they are of, and when that was made."""
        if len(tables) == 1:
            with self._order.lock, self._store.snapshot_read() as snapshot:
                asked = evaluators[0].columnar(snapshot, tables[0].part)
                if asked is not None:
                    version, at_ms = snapshot.version, self._order.made_at
                    tables[0].blind = False
            # What was asked keeps its snapshot: commits go on from here.
            found = None if asked is None else asked()
            if found is not None:
                return [found], version, at_ms
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
            with self._order.lock:
                before = self._store.version
            found = [evaluator.whole(self._store, table.part) for table, evaluator in both]
            with self._order.lock:
                if self._store.version == before:
                    for table in tables:
                        table.blind = False
                    return found, before, self._order.made_at
            for each in found:
                each.close()
        with self._order.lock, self._store.snapshot_read() as snapshot:
            found = [evaluator.whole(snapshot, table.part) for table, evaluator in both]
            for table in tables:
                table.blind = False
            return found, snapshot.version, self._order.made_at

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="quadrill-static", daemon=True)
            self._thread.start()
        self._woken.notify_all()

    def _run(self) -> None:
        while True:
            with self._woken:
                tables = self._next()
                while tables is None:
                    if self._closed:
                        return
                    self._woken.wait(self._pause())
                    tables = self._next()
            self._attempt(tables)

    def _next(self) -> Sequence[Table] | None:
        """Tables to read."""
        now = time.monotonic()
        for place, (due, tables) in enumerate(self._later):
            if due <= now:
                del self._later[place]
                return tables
        return self._line.popleft() if self._line and not self._closed else None

    def _pause(self) -> float | None:
        return max(0.0, min(due for due, _ in self._later) - time.monotonic()) if self._later else None

    def _attempt(self, asked: Sequence[Table]) -> None:
        tables = [table for table in asked if table.users]
        if not tables:
            return
        try:
            swap = self.read(tables)
            # While a table is behind nobody changes its rows: the engine's thread need not compare them.
            for each in swap.fresh:
                each.refreshes = each.table.refreshes
                if each.table.behind is not None:
                    each.delta = difference(each.rows, each.table.rows)
            self._finished(swap)
            for table in tables:
                self._failures.pop(table, None)
        except Exception as error:
            if len(tables) > 1:
                for table in tables:
                    self._attempt([table])
            else:
                self._failed(tables[0], error)

    def _failed(self, table: Table, error: Exception) -> None:
        if not isinstance(error, QuadrillError):
            log.exception("a static part could not be read anew")
        table.problem = error.message if isinstance(error, QuadrillError) else str(error)
        log.warning("the static part %s keeps its rows: %s", table.name, table.problem)
        failures = self._failures[table] = self._failures.get(table, 0) + 1
        wait_s = min(_RETRY_MOST_S, _RETRY_FIRST_S * 2 ** (failures - 1))
        with self._woken:
            self._later.append((time.monotonic() + wait_s, [table]))
