"""The sequencer works turns off, one after the other, and settles what they caused.

    accepted --lock--> journal record, queue --> a turn --> queries --> feeds hold their events
                            |                                             |
                        one fsync  <--------- waits for ----------------- settle -> result log -> subscribers

Nobody sees a result before the inputs that it follows from are durable, so after a crash the replay of the
journal gives every event that was seen once more, with its id.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.feeds.feed import Outbox
from quadrill.store.quads.views import ViewRegistry
from quadrill.store.threads import Threads

from ..durable.tasks import InputTask, Task, TaskQueue
from ..errors import EngineStoppedError
from ..remote.fetching import SourceTask
from ..static.table_reading import ReloadTask
from ..static.table_registry import TableRegistry
from . import task_kinds as kinds
from .attachments import Attachments
from .router import Router

T = TypeVar("T")
log = logging.getLogger("quadrill.continuous")

_BATCH = 64
"""Turns at most between two settlings and two looks at the clock, so that time goes on under load; elements
of inputs in line, or a push more, that are given to queries together."""
_BATCH_S = 0.25
"""Inputs that take longer together, by the pace of those before, are not given so: a stop waits for them."""
_STATS_BATCH = 512
"""Times of turns that are counted together."""
TASK_WAIT_S = 1.0
"""So long who manages queries waits for a turn, and nobody waits again to look at what is at work."""
_INSPECT_WAIT_S, _INSPECT_TRIES = 0.1, 20
_RETRY_S = 0.25
_UNSYNCED_SECONDS = 0.05
"""A push that does not wait for the log leaves its record to others this long."""


@dataclass(slots=True, eq=False)
class Sequencer:
    """Works turns off, in the engine's thread or, without one, in the thread of whoever queues them."""

    tasks: TaskQueue
    _router: Router
    _attachments: Attachments
    _statics: TableRegistry
    _views: ViewRegistry
    _outbox: Outbox
    threads: Threads
    # Nothing is worked off while somebody holds it to look at a settled state.
    paused: threading.RLock = field(default_factory=threading.RLock)
    _worker: int | None = None  # the thread that works turns off
    # Done but for the work of readers that are behind.
    _unfinished: list[Task] = field(default_factory=list)
    _last_timeout: float = 0.0
    _pace: float = 0.0  # seconds that each of the turns worked off last took

    # --- working off ----------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """True when the caller is the engine's thread, or works turns off itself."""
        return self._worker == threading.get_ident()

    def execute_queued(self, seconds: float) -> bool:
        """In the engine's thread: wait for turns and work some off; False when none will come any more."""
        self._worker = threading.get_ident()
        tasks, shares = self.tasks, self._router.shares
        self._execute_batch(tasks.dequeue(0.0 if shares.backlogs else seconds))
        if shares.backlogs:
            self._serve()
        if tasks.closed and tasks.waiting.empty() and (not shares.backlogs or time.monotonic() > tasks.until):
            self._worker = None
            self._abandon_backlogs()
            return False
        return True

    def _serve(self) -> None:
        """Give a slice to a reader that is behind."""
        with self.paused:
            self._router.shares.serve_next()
        self._complete([])

    def catch_up_or_fail(self, seconds: float, reason: str, limit: int) -> None:
        """Give readers that are behind some time for themselves; else the oldest of them fails."""
        shares, until = self._router.shares, time.monotonic() + seconds
        with self.paused:
            while shares.backlogs and time.monotonic() < until:
                shares.serve_next()
            if shares.backlogs:
                self._router.laggards.end_oldest(reason, limit)
        self._complete([])

    def _abandon_backlogs(self) -> None:
        """What readers have not done is left to the next start, which finds it in the journal."""
        self._router.shares.abandon()
        self._complete([], EngineStoppedError("the engine is stopped"))

    def catch_up_readers(self, stopped: Callable[[], Collection[str]]) -> None:
        """Let all readers do everything, but for the queries that somebody has ``stopped`` meanwhile."""
        shares = self._router.shares
        while shares.backlogs:
            for name in stopped() if self.threads.beside else ():
                self._router.laggards.cancel(name)
            shares.serve_next()

    def drain(self) -> None:
        """Without a thread of its own: work off everything that waits; with one nothing is to be done."""
        if self.threads.beside:
            return
        with self.paused:
            if self._worker is not None:
                return
            self._worker = threading.get_ident()
            try:
                while not self.tasks.waiting.empty() or self._router.shares.backlogs:
                    if not self.tasks.waiting.empty():
                        self._execute_batch(self.tasks.dequeue())
                    if self._router.shares.backlogs:
                        self._serve()
            finally:
                self._worker = None

    def finish(self, task: Task, timeout: float | None = None) -> Any:
        """See to it that a turn is worked off and durable, and return its result; not within a turn.

        Raises:
            StoreUnwritableError: it is done, and will be durable when there is space again.
            Exception: what working it off raised.
        """
        self.drain()
        if self.inside:
            # A turn cannot wait for another one, nor can the thread that would work it off.
            return None
        result = self.tasks.wait(task, timeout)
        if self.tasks.journal is not None:
            self.tasks.journal.log.wait(self.tasks.journal.log.last)
        return result

    def perform(self, task: Task, kind: str, **members: Any) -> None:
        """Note a turn in the journal and see to it that it is worked off, see `finish`.

        Where what comes before takes longer than a moment, it is left in line.
        """
        self.tasks.follow_commits()
        with contextlib.suppress(TimeoutError):
            self.finish(self.tasks.submit(task, kind, **members), TASK_WAIT_S)

    def inspect(self, at: Callable[[], T]) -> T:
        """What is found between two turns, or while one is at work that takes longer than a moment.

        Once in a second somebody waits for that moment.
        """
        recently = time.monotonic() - self._last_timeout < TASK_WAIT_S
        held = self.paused.acquire(timeout=0 if recently else _INSPECT_WAIT_S)
        try:
            if held:
                return at()
            self._last_timeout = self._last_timeout if recently else time.monotonic()
            for _ in range(_INSPECT_TRIES):
                try:
                    return at()
                except RuntimeError:  # a dictionary that changed while it was read
                    time.sleep(_INSPECT_WAIT_S / _INSPECT_TRIES)
            return at()
        finally:
            if held:
                self.paused.release()

    def call(self, work: Callable[[], Any], timeout: float | None = None) -> Any:
        """Do some work between two turns and return what it gives.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        return self._queue(kinds.CallTask(work), timeout)

    def _queue(self, task: Task, timeout: float | None) -> Any:
        self.tasks.follow_commits()
        self.tasks.put(task)
        self.drain()
        return self.tasks.wait(task, timeout)

    def wait_for_all(self, timeout: float | None = None) -> None:
        """Return when everything accepted so far is worked off; TimeoutError as from `call`."""
        if not self.inside:
            self._queue(Task(), timeout)

    def _execute_batch(self, task: Task | None) -> None:
        """Work off a turn and some of those behind it, inputs in line together, and settle them together."""
        done, run, following = list[Task](), list[Task](), None
        dequeue, empty = self.tasks.dequeue, self.tasks.waiting.empty
        try:
            while task is not None:
                run, size, pace, following = [task], task.weight, self._pace, None
                while (
                    type(task) is InputTask and size < _BATCH and len(run) * pace < _BATCH_S and not empty()
                ):
                    following = dequeue()
                    if type(following) is not InputTask:
                        break
                    run.append(following)
                    size, following = size + following.weight, None
                with self.paused:
                    self.execute(*run)
                done += run
                task = following or (dequeue() if len(done) < _BATCH and not empty() else None)
        except BaseException:  # somebody stops the program: nobody is to wait for what was in hand
            self._complete([*run, following] if following else run, EngineStoppedError("it was interrupted"))
            raise
        finally:
            self._complete(done)

    def execute(self, *run: Task) -> None:
        """Work off a turn, or inputs in line; what is raised is kept in them. A replay is not measured."""
        tasks, stages, first, last = self.tasks, self.tasks.stages, run[0], run[-1]
        began, events = time.perf_counter(), []
        for task in run:
            if task.since:
                stages.queue.noted.append(began - task.since)
            if type(task) is InputTask:
                events.append(task.event)
        # What is noted of inputs in line bears the number of the first: no other turn comes between them.
        tasks.number, tasks.at = first.number, last.at
        shares = self._router.shares
        # A task begins: its place is made when somebody falls behind there.
        shares.frontier.place += 1
        shares.place = None
        if tasks.journal is not None and tasks.journal.told is not None:
            tasks.journal.told("before-apply")
        try:
            if events:
                self._router.dispatch(events, last.at)
            else:
                first.result = self._execute_other(first)
        except Exception as error:
            for task in run:
                task.error = error
        finally:
            if shares.backlogs:
                self._track_remaining(run)
            tasks.number = 0
            tasks.processed = max(tasks.processed, last.number)
            tasks.needed = max(tasks.needed, last.number)
        if first.since:
            self._pace = (time.perf_counter() - began) / len(run)
            stages.process.noted += [self._pace] * len(run)
            if len(stages.process.noted) >= _STATS_BATCH:
                stages.count_noted()

    def _track_remaining(self, run: Sequence[Task]) -> None:
        """Tasks with work that is left to readers are done when that is."""
        shares = self._router.shares
        for task in run:
            task.remaining_work = shares.barrier() if type(task) is Task else shares.place

    def _execute_other(self, task: Task) -> Any:
        """Do what a turn that is no input says."""
        router, attachments, statics = self._router, self._attachments, self._statics
        match task:
            case kinds.CommitTask(commit=commit):
                self.tasks.version = max(self.tasks.version, commit.version)
                self._views.committed(commit)
                if router.shares.backlogs:
                    router.shares.keep_rows_of_suspended(statics.commits.due.get(commit.version, ()))
                statics.advance(commit.version)
                router.changes.commit(commit, statics.take_moved())
            case ReloadTask():
                router.shares.keep_rows_of_suspended([each.table for each in task.fresh])
                statics.swap(task)
                router.changes.tables_advanced(statics.take_moved())
                attachments.begin_ready_queries()
            case SourceTask():
                if task.put():
                    router.changes.sources_changed(task.source.spec.key)
            case kinds.RefreshTask():
                router.changes.refresh(task.name, task.cause)
            case kinds.PauseTask():
                router.set_state(task.running, task.state)
            case kinds.SettingsTask():
                attachments.change(task.running, task.registration)
            case kinds.AttachTask():
                return attachments.attach(task)
            case kinds.CallTask():
                return task.work()
        return None

    # --- settling -------------------------------------------------------------------------------

    def _complete(self, done: list[Task], failure: Exception | None = None) -> None:
        """Write and tell what some turns caused; then views may follow, and those who wait go on."""
        try:
            self.flush()
            if self._views.by_name:
                self._views.settled()
        except Exception as error:
            failure = error
            log.warning("what was worked off could not be settled: %s", error)
        if self._unfinished:
            done, self._unfinished = [*self._unfinished, *done], []
        for task in done:
            if task.remaining_work is not None and task.remaining_work.jobs_left and failure is None:
                self._unfinished.append(task)
                continue
            task.error = task.error or failure
            task.done = True
            if task.waiter is not None:
                task.waiter.set()

    def flush(self, *, wait_for_space: bool = True) -> None:
        """Write what waits, then let subscribers see it. Waits as long as the disk is full.

        Raises:
            StoreUnwritableError: the engine stops, or nobody is ``patient`` or has a thread to wait in.
        """
        outbox, tasks = self._outbox, self.tasks
        while outbox.feeds or outbox.waits:
            began = time.perf_counter()
            try:
                outbox.write(tasks.needed)
            except StoreUnwritableError as error:
                if tasks.write_error is None:
                    log.error("results wait: %s", error.message)
                tasks.write_error = error.message
                if tasks.closed or not self.threads.beside or not wait_for_space:
                    raise
                time.sleep(_RETRY_S)
            else:
                if tasks.write_error is not None:
                    log.warning("results are written again")
                    tasks.write_error = None
                self.tasks.stages.results.noted.append(time.perf_counter() - began)
                return

    def affects_queries(self, commit: Commit) -> bool:
        """True when the turn of a commit, which is made, has more to do than to note its version."""
        views = bool(self._views.by_name) and not commit.exact
        return views or commit.version in self._statics.commits.due or bool(self._router.commit_readers)

    def write_unsynced_records(self) -> None:
        """Write records that nobody waits for, and see whether there is space again after a full disk."""
        journal = self.tasks.journal
        if journal is None:
            return
        failed = journal.log.failure is not None
        if not failed and not journal.log.neglected(_UNSYNCED_SECONDS):
            return
        try:
            journal.log.wait(journal.log.last)
        except StoreUnwritableError as error:
            if not failed:
                log.error("inputs wait: %s", error.message)
            return
        if failed:
            log.warning("the input log can be written again")

    def run_due(self, every_ms: int) -> float:
        """Do what is due; the seconds until the next look."""
        if self.tasks.delayed:  # without the lock of those who push: both would wait for each other
            self.tasks.put(Task())
        with self.paused:
            self.write_unsynced_records()
            self._router.timetable.run_due(every_ms)
            return self._router.timetable.wait_ms(every_ms) / 1000
