"""Reads all rows of a table anew, away from writers and from the engine's thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quadrill.store.errors import QuadrillError

from ..durable.turns import Turn
from ..element import Solution
from ..rows import Delta, difference
from .progress import active
from .table import SharedTable

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

    from ..evaluate.static_evaluator import StaticEvaluator

log = logging.getLogger("quadrill.continuous")

_AT_ONCE = 5_000
"""So many rows are let go at once, more by a thread of their own."""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0
_TRIES = 3
"""Beginnings of a read that commits may spoil."""


@dataclass(frozen=True, slots=True)
class Swap:
    """All rows of a table at a version, encoded, ready to take the place of those it has.

    ``delta`` is how they differ from those that it had after so many ``refreshes``; None is not known.
    """

    table: SharedTable
    version: int
    at_ms: int
    rows: Delta
    listed: Sequence[Solution] | None
    delta: Delta | None = None
    refreshes: int = 0


@dataclass(slots=True, eq=False)
class SwapTurn(Turn):
    """Rows that were read anew take the place of those that a table has."""

    swap: Swap


class Recomputer:
    """One thread that reads tables one after the other, made when there is something to do."""

    def __init__(
        self,
        store: QuadStore,
        order: threading.RLock,
        made_at: Callable[[], int],
        finished: Callable[[Swap], None],
    ) -> None:
        """Make one that has nothing to do.

        Args:
            store: what is read.
            order: held while no commit may become visible.
            made_at: the time of the newest commit, asked under ``order``.
            finished: told the rows, in the thread that read them.
        """
        self._store = store
        self._order = order
        self._made_at = made_at
        self._finished = finished
        self.threaded = True
        self._line: deque[SharedTable] = deque()
        self._later: list[tuple[float, SharedTable]] = []
        self._failures: dict[SharedTable, int] = {}
        self._woken = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, table: SharedTable) -> None:
        """Read a table anew; its commits since are taken up again from the version that is read."""
        if not self.threaded:
            self._attempt(table)
            return
        with self._woken:
            self._line.append(table)
            self._wake()

    def dispose(self, table: SharedTable, rows: Delta) -> None:
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

    def read(
        self, table: SharedTable, limited: Callable[[Iterable[Solution]], Iterable[Solution]] | None = None
    ) -> Swap:
        """All rows at the newest version; from there on the table's changes are worked out again.

        ``limited`` gives the same rows, and raises when there are too many.
        """
        began = time.perf_counter()
        background = table.new_background()
        found: Iterable[Solution] | None = None
        with self._order, self._store.snapshot_read() as snapshot:
            asked = background.columnar(snapshot, table.part)
            if asked is not None:
                version, at_ms = snapshot.version, self._made_at()
                table.blind = False
        # What was asked keeps its snapshot: commits go on from here.
        try:
            if asked is not None:
                found = asked()
            if found is None:
                found, version, at_ms = self._begun(table, background)
            table.choice = background.choice(table.part)
            read = active().counted(found, lambda: table.users > 1)
            rows, listed = table.encode(read if limited is None else limited(read))
        except BaseException:
            table.blind = True
            raise
        table.took_s = time.perf_counter() - began
        return Swap(table, version, at_ms, rows, listed)

    def _begun(self, table: SharedTable, background: StaticEvaluator) -> tuple[Generator[Solution], int, int]:
        """Rows that are still to be drained, the version that they are of, and when that was made.

        Oxigraph groups and sorts before it gives the first row. Commits are not kept waiting for that: it is
        tried without, and counts when none became visible meanwhile.
        """
        for _ in range(_TRIES):
            with self._order:
                before = self._store.version
            found = background.whole(self._store, table.part)
            with self._order:
                if self._store.version == before:
                    table.blind = False
                    return found, before, self._made_at()
            found.close()
        with self._order, self._store.snapshot_read() as snapshot:
            found = background.whole(snapshot, table.part)
            table.blind = False
            return found, snapshot.version, self._made_at()

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="quadrill-static", daemon=True)
            self._thread.start()
        self._woken.notify_all()

    def _run(self) -> None:
        while True:
            with self._woken:
                table = self._next()
                while table is None:
                    if self._closed:
                        return
                    self._woken.wait(self._pause())
                    table = self._next()
            self._attempt(table)

    def _next(self) -> SharedTable | None:
        """A table to read."""
        now = time.monotonic()
        for place, (due, table) in enumerate(self._later):
            if due <= now:
                del self._later[place]
                return table
        return self._line.popleft() if self._line and not self._closed else None

    def _pause(self) -> float | None:
        return max(0.0, min(due for due, _ in self._later) - time.monotonic()) if self._later else None

    def _attempt(self, table: SharedTable) -> None:
        if not table.users:
            return
        try:
            swap = self.read(table)
            # While a table is behind nobody changes its rows: the engine's thread need not compare them.
            refreshes = table.refreshes
            if table.behind is not None:
                swap = replace(swap, delta=difference(swap.rows, table.rows), refreshes=refreshes)
            self._finished(swap)
            self._failures.pop(table, None)
        except Exception as error:
            if not isinstance(error, QuadrillError):
                log.exception("a static part could not be read anew")
            table.problem = error.message if isinstance(error, QuadrillError) else str(error)
            log.warning("the static part %s keeps its rows: %s", table.name, table.problem)
            failures = self._failures[table] = self._failures.get(table, 0) + 1
            wait_s = min(_RETRY_MOST_S, _RETRY_FIRST_S * 2 ** (failures - 1))
            with self._woken:
                self._later.append((time.monotonic() + wait_s, table))
