"""Watches the store's commits, one by one, and works out what they change in tables."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import QuadrillError

from .changes import Change, CommitOrder, Recompute, Replaced, VersionedChange
from .commit_delta import CommitDeltas
from .index import TriggerIndex
from .progress import active
from .replay import TableReplay
from .table import Reader, Table

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

_POLL_S = 0.02


class CommitWatch:
    """The writers' side of the tables. `watching` and `loading` are called by writers.

    Attributes:
        order: its lock is held while a commit becomes visible and what it changes is worked out.
        index: the tables for which commits are looked at.
        gone: readers that are gone; their tables are let go when nobody walks over them.
    """

    def __init__(self, store: QuadStore) -> None:
        """Make one that watches nothing before `start`."""
        self._store = store
        self.order = CommitOrder()
        self.index = TriggerIndex()
        self.gone: deque[Reader] = deque()
        self._deltas = CommitDeltas(store)
        self._replay: TableReplay | None = None
        self._observing = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self._loading = False
        self._due: dict[int, list[Table]] = {}

    def start(self) -> None:
        """Watch commits from now on. Not under the lock of the order: writers have their own before that."""
        with self._observing:
            if self._stop is None:
                self._stop = self._store.observe(self)

    def stop(self) -> None:
        """Watch no more commits."""
        with self._observing:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def let_go(self) -> None:
        """Let the tables of readers go that are gone; under the lock."""
        while self.gone:
            self.gone.popleft().close()

    def look_up(self, table: Table) -> None:
        """Work out the changes of a part that is not held; while a bulk load runs it is waited for."""
        while True:
            with self.order.lock:
                if not self._loading:
                    self.index.add(table)
                    table.version = self._store.version
                    return
            active().check()
            time.sleep(_POLL_S)

    def take_due(self, version: int) -> list[Table]:
        """The tables that the commit of a version has changed; for the engine's thread, once."""
        return self._due.pop(version, [])

    def forget_due(self) -> None:
        """Forget what was worked out before the engine started: it takes no turn."""
        self._due.clear()

    def replaying(self, replay: TableReplay | None) -> None:
        """From now on tables fall behind where a replay says it; None: where changes are too large."""
        self._replay = replay
        self._deltas.unlimited = replay is not None

    # --- as the store calls it (`store.writer.Observer`) ----------------------------------------

    def watching(self, commit: Commit) -> AbstractContextManager[None]:
        """Work out what a commit changes, before the next one is made."""
        return self._watch(commit)

    def loading(self) -> AbstractContextManager[None]:
        """A bulk load begins: what is looked up is looked up in a copy until it has its turn."""
        return self._load()

    @contextmanager
    def _load(self) -> Iterator[None]:
        with self.order.lock:
            self.let_go()
            self._loading = True
            looked_up = [table for table in self.index.tables() if not table.is_held]
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
            with self.order.lock:
                self._loading = False
                for table in looked_up:
                    table.frozen = None

    @contextmanager
    def _watch(self, commit: Commit) -> Iterator[None]:
        deltas, replay, version = self._deltas, self._replay, commit.version
        with self.order.lock:
            self.let_go()
            behind = [] if replay is None else replay.fell_behind(version, self.index.tables())
            changes: dict[Table, Change] = dict.fromkeys(behind, Recompute())
            work = []
            for group, touched in self.index.touched(commit).items():
                if not changes or any(not table.blind and table not in changes for table in group.tables):
                    work.append((group, touched, deltas.before(group, touched, commit)))
            yield
            self.order.made_at = commit.at_ms
            for group, touched, before in work:
                # What fell behind in the replayed past does so again, whatever its rows are.
                changes = {**deltas.after(group, touched, before), **changes}
            self._note(commit, changes)
            if replay is not None:
                replay.read(version, self.index.tables())

    def _note(self, commit: Commit, changes: dict[Table, Change]) -> None:
        """The changes wait for their turn."""
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

    def _without(self, commit: Commit) -> FrozenReader | None:
        """The dataset without the commit that was just made; None when there is no room for it."""
        try:
            return self._store.frozen(undo=commit)
        except QuadrillError as error:
            log.warning("what is looked up is lost at version %d: %s", commit.version, error.message)
            return None
