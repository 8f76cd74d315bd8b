"""The sequencer works turns off, one after the other, and settles what they caused.

    accepted --lock--> journal record, queue --> a turn --> queries --> feeds hold their events
                            |                                             |
                        one fsync  <--------- waits for ----------------- settle -> result log -> subscribers

Nobody sees a result before the inputs that it follows from are durable, so after a crash the replay of the
journal gives every event that was seen once more, with its id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quadrill.store.errors import StoreUnwritableError

from ..durable.turns import AnyTurn, CallTurn, InputTurn, NewStreamTurn, Turn, TurnQueue
from ..output.feed import Outbox
from ..output.views import ViewRegistry
from ..remote.fetching import SourceTurn
from ..remote.source_registry import SourceRegistry
from ..static.recompute import SwapTurn
from ..static.table_registry import TableRegistry
from .attachments import Attachments
from .router import Router
from .turns import (
    AttachTurn,
    CommitTurn,
    DetachTurn,
    RefreshTurn,
    RegistrationTurn,
    ReserveTurn,
    StateTurn,
    SwapAgainTurn,
    UnreadyTurn,
)

log = logging.getLogger("quadrill.continuous")

_BATCH = 64
"""Turns at most between two settlings and two looks at the clock, so that time goes on under load."""
_NOTED = 512
"""Times of turns that are counted together."""
_RETRY_SECONDS = 0.25
_NEGLECTED_SECONDS = 0.05
"""A push that does not wait for the log leaves its record to others this long."""


class Sequencer:
    """Takes turns apart, in the engine's thread or, without one, in the thread of whoever queues them.

    Attributes:
        settles, settle_seconds: how often results were written and how long that took, the wait for their
            inputs included.
    """

    def __init__(
        self,
        turns: TurnQueue,
        router: Router,
        attachments: Attachments,
        statics: TableRegistry,
        sources: SourceRegistry,
        views: ViewRegistry,
        outbox: Outbox | None,
        *,
        threaded: bool,
    ) -> None:
        self.turns = turns
        self.journal = turns.journal
        self.threaded = threaded
        self._router = router
        self._attachments = attachments
        self._statics = statics
        self._sources = sources
        self._views = views
        self._outbox = outbox
        self._stages = turns.stages
        self._working = threading.RLock()
        # The thread that works turns off.
        self._worker: int | None = None
        self._stopping = threading.Event()
        self.settles = 0
        self.settle_seconds = 0.0

    # --- working off ----------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """True when the caller is the engine's thread, or works turns off itself."""
        return self._worker == threading.get_ident()

    def work(self, seconds: float) -> bool:
        """In the engine's thread: wait for turns and work some off; False when none will come any more."""
        self._worker = threading.get_ident()
        if not self.turns.wait_for_one(seconds):
            self._worker = None
            return False
        done: list[Turn] = []
        while len(done) < _BATCH and (turn := self.turns.take()) is not None:
            with self._working:
                self.run(turn)
            done.append(turn)
        self._settle(done)
        return True

    def drain(self) -> None:
        """Without a thread of its own: work off everything that waits; with one nothing is to be done."""
        if self.threaded:
            return
        with self._working:
            if self._worker is not None:
                return
            self._worker = threading.get_ident()
            try:
                while self.turns.waiting and (turn := self.turns.take()) is not None:
                    self.run(turn)
                    self._settle([turn])
            finally:
                self._worker = None

    def finish(self, turn: Turn, timeout: float | None = None) -> Any:
        """See to it that a turn is worked off and durable, and return its result; not within a turn.

        Raises:
            StoreUnwritableError: it is done, and will be durable when there is space again.
            Exception: what working it off raised.
        """
        self.drain()
        if self.inside:
            # A turn cannot wait for another one, nor can the thread that would work it off.
            return None
        result = self.turns.wait(turn, timeout)
        if self.journal is not None:
            self.journal.wait()
        return result

    def submit(self, turn: AnyTurn, kind: str, **members: Any) -> AnyTurn:
        """Give a turn its place; without a thread of its own it is worked off now."""
        self.turns.submit(turn, kind, **members)
        self.drain()
        return turn

    def call(self, work: Callable[[], Any]) -> Any:
        """Do some work between two turns and return what it gives."""
        turn = CallTurn(work)
        self.turns.put(turn)
        self.drain()
        return self.turns.wait(turn)

    def wait_for_all(self, timeout: float | None = None) -> None:
        """Return when everything accepted so far is worked off.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        if not self.inside:
            turn = Turn()
            self.turns.put(turn)
            self.drain()
            self.turns.wait(turn, timeout)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Nothing is worked off while the caller looks at a settled state."""
        with self._working:
            yield

    def run(self, turn: Turn) -> None:
        """Work off a turn; what it raises is kept in it. One of a replay is not measured."""
        turns, stages = self.turns, self._stages
        began = time.perf_counter()
        if turn.since:
            stages.queue.noted.append(began - turn.since)
        turns.number = turn.number
        if self.journal is not None and self.journal.told is not None:
            self.journal.told("before-apply")
        try:
            if type(turn) is InputTurn:
                self._router.dispatch(turn.event, turn.at)
            else:
                turn.result = self._take_apart(turn)
        except Exception as error:
            turn.error = error
        finally:
            turns.number = 0
            if turn.number > turns.processed:
                turns.processed = turn.number
            if turn.number > turns.needed:
                turns.needed = turn.number
        if turn.since:
            stages.process.noted.append(time.perf_counter() - began)
            if len(stages.process.noted) >= _NOTED:
                stages.count_noted()

    def _take_apart(self, turn: Turn) -> Any:
        router, attachments, now = self._router, self._attachments, turn.at
        match turn:
            case CommitTurn(commit=commit):
                self.turns.version = max(self.turns.version, commit.version)
                self._views.committed(commit)
                self._statics.advance(commit.version)
                router.commit(commit, self._statics.take_moved(), now)
            case SwapTurn(swap=swap):
                self._statics.swap(swap)
                self._step(now)
            case SwapAgainTurn(names=names, version=version):
                self._statics.swap_again(names, version)
                self._step(now)
            case SourceTurn():
                if turn.put():
                    router.sources_changed(turn.source.spec.key, now)
            case RefreshTurn(name=name, cause=cause):
                router.refresh(name, cause, now)
            case NewStreamTurn(iri=iri):
                router.new_stream(iri)
            case AttachTurn():
                return attachments.attach(turn)
            case ReserveTurn():
                attachments.begin_waiting(turn)
            case UnreadyTurn():
                attachments.give_up(turn)
            case DetachTurn(entry=entry, running=running, dropped=dropped):
                attachments.detach(entry, running, dropped=dropped)
            case StateTurn(running=running, state=state):
                router.set_state(running, state, now)
            case RegistrationTurn(running=running, registration=registration):
                attachments.change(running, registration)
            case CallTurn(work=work):
                return work()
        return None

    def _step(self, now: int) -> None:
        """Rows that were read anew have taken the place of older ones."""
        self._router.step(self._statics.take_moved(), now)
        self._attachments.begin_ready(now)

    # --- settling -------------------------------------------------------------------------------

    def _settle(self, done: list[Turn]) -> None:
        """Write and tell what some turns caused; then views may follow, and those who wait go on."""
        failure: BaseException | None = None
        try:
            if self._outbox is not None:
                self.settle()
            if self._views.by_name:
                self._views.settled()
        except Exception as error:
            failure = error
            log.warning("what was worked off could not be settled: %s", error)
        self.turns.finish(done, failure)

    def settle(self) -> None:
        """Write what waits, then let subscribers see it. Waits as long as the disk is full.

        Raises:
            StoreUnwritableError: the engine stops, or has no thread of its own to wait in.
        """
        outbox, turns = self._outbox, self.turns
        while outbox is not None and outbox.waits:
            began = time.perf_counter()
            try:
                outbox.write(turns.needed)
            except StoreUnwritableError as error:
                if turns.trouble is None:
                    log.error("results wait: %s", error.message)
                turns.trouble = error.message
                if self._stopping.is_set() or not self.threaded:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                if turns.trouble is not None:
                    log.warning("results are written again")
                    turns.trouble = None
                self.settles += 1
                took = time.perf_counter() - began
                self.settle_seconds += took
                self._stages.results.noted.append(took)
                return

    def write_what_waits(self) -> None:
        """Write records that nobody waits for, and see whether there is space again after a full disk."""
        if self.journal is None:
            return
        failed = self.journal.log.failure is not None
        if not failed and not self.journal.log.neglected(_NEGLECTED_SECONDS):
            return
        try:
            self.journal.wait()
        except StoreUnwritableError as error:
            if not failed:
                log.error("inputs wait: %s", error.message)
            return
        if failed:
            log.warning("the input log can be written again")

    def look_at_clock(self, every_ms: int) -> float:
        """Do what is due; the seconds until the next look."""
        with self._working:
            self.write_what_waits()
            self._router.timetable.look(every_ms)
            return self._router.timetable.wait_ms(every_ms) / 1000

    def stop(self) -> None:
        """Accept nothing more, and wait for the disk no longer."""
        self._stopping.set()
        self.turns.close()
