"""The sequencer executes tasks one after the other and flushes their results.

    accepted --lock--> journal record, queue --> a task --> queries --> feeds buffer events
                            |                                                |
                        one fsync  <------------- waits for ---------------- flush -> result log -> clients

Results of queries become visible only after the inputs that they follow from are durable. Therefore, after a
crash, the replay of the journal produces each visible event again, with the same id.
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
"""Number of tasks after which results are flushed and the clock is checked, so that timers run under load;
also the number of elements of queued inputs after which no further input is passed to queries with
them."""
_BATCH_S = 0.25
"""Upper bound in seconds for one batch of inputs, estimated from the recent cost per task, because a stop
has to wait for a running batch."""
_STATS_BATCH = 512
"""Number of measured task times that are added to the histograms together."""
TASK_WAIT_S = 1.0
"""Seconds that a management call waits for its task. After one call of `Sequencer.inspect` has timed out,
further calls do not wait for this long."""
_INSPECT_WAIT_S, _INSPECT_TRIES = 0.1, 20
_RETRY_S = 0.25
_UNSYNCED_SECONDS = 0.05
"""Seconds after which the engine's thread syncs journal records that no client waits for."""


@dataclass(slots=True, eq=False)
class Sequencer:
    """Executes tasks in the engine's thread or, without such a thread, in the thread that enqueues them."""

    tasks: TaskQueue
    _router: Router
    _attachments: Attachments
    _statics: TableRegistry
    _views: ViewRegistry
    _outbox: Outbox
    threads: Threads
    # No task is executed while a thread holds this lock to read the engine's state between two tasks.
    paused: threading.RLock = field(default_factory=threading.RLock)
    # The id of the thread that executes tasks, None if no thread does; and executed tasks that wait for the
    # jobs of lagging readers.
    _worker: int | None = None
    _unfinished: list[Task] = field(default_factory=list)
    _last_timeout: float = 0.0
    _pace: float = 0.0  # Seconds per task in the last batch of tasks.

    # --- execution ------------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """True if the caller's thread is the one that executes tasks."""
        return self._worker == threading.get_ident()

    def execute_queued(self, seconds: float) -> bool:
        """Wait for a task in the engine's thread and execute a batch; return False if the engine stops."""
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
        """Run one slice of a lagging reader and flush its results."""
        with self.paused:
            self._router.shares.serve_next()
        self._complete([])

    def catch_up_or_fail(self, seconds: float, reason: str, limit: int) -> None:
        """Run only lagging readers for some seconds; if any still lag, fail the one that lagged longest."""
        shares, until = self._router.shares, time.monotonic() + seconds
        with self.paused:
            while shares.backlogs and time.monotonic() < until:
                shares.serve_next()
            if shares.backlogs:
                self._router.laggards.end_oldest(reason, limit)
        self._complete([])

    def _abandon_backlogs(self) -> None:
        """Discard the backlogs of lagging readers; the next start replays the jobs from the journal."""
        self._router.shares.abandon()
        self._complete([], EngineStoppedError("the engine is stopped"))

    def catch_up_readers(self, stopped: Callable[[], Collection[str]]) -> None:
        """Run all backlogs to their end; cancel those of queries that the function ``stopped`` returns."""
        shares = self._router.shares
        while shares.backlogs:
            for name in stopped() if self.threads.threaded else ():
                self._router.laggards.cancel(name)
            shares.serve_next()

    def drain(self) -> None:
        """Execute all queued tasks in the calling thread, if the engine has no thread; else do nothing."""
        if self.threads.threaded:
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
        """Wait until a task is executed and durable; return its result, or None at once within a task.

        Raises:
            TimeoutError: the task was not executed within ``timeout`` seconds.
            StoreUnwritableError: the task is executed, but becomes durable only when the disk has space
            again.
            Exception: the error that the task raised.
        """
        self.drain()
        if self.inside:
            # A task cannot wait for another task, because the same thread executes both.
            return None
        result = self.tasks.wait(task, timeout)
        if self.tasks.journal is not None:
            self.tasks.journal.log.wait(self.tasks.journal.log.last)
        return result

    def perform(self, task: Task, kind: str, **members: Any) -> None:
        """Append a task's record to the journal, enqueue the task and wait for it; see `finish`.

        After `TASK_WAIT_S` seconds the call returns although the task is still queued.
        """
        self.tasks.follow_commits()
        with contextlib.suppress(TimeoutError):
            self.finish(self.tasks.submit(task, kind, **members), TASK_WAIT_S)

    def inspect(self, at: Callable[[], T]) -> T:
        """Call ``at`` between two tasks, or concurrently with a task that takes longer than 100 ms.

        The function ``at`` reads engine state. A read of engine state during a task is
        repeated if the engine changed a dictionary during the read. After one reader of engine state has
        waited 100 ms in vain, readers within the next second do not wait.
        """
        recently = time.monotonic() - self._last_timeout < TASK_WAIT_S
        acquired = self.paused.acquire(timeout=0 if recently else _INSPECT_WAIT_S)
        try:
            if acquired:
                return at()
            self._last_timeout = self._last_timeout if recently else time.monotonic()
            for _ in range(_INSPECT_TRIES):
                try:
                    return at()
                except RuntimeError:  # The engine's thread changed a dictionary during the concurrent read.
                    time.sleep(_INSPECT_WAIT_S / _INSPECT_TRIES)
            return at()
        finally:
            if acquired:
                self.paused.release()

    def call(self, work: Callable[[], Any], timeout: float | None = None) -> Any:
        """Call ``work`` between two tasks and return its result.

        Raises:
            TimeoutError: the engine did not call ``work`` within ``timeout`` seconds.
            EngineStoppedError: the engine is stopped.
            Exception: the error that ``work`` raised.
        """
        return self._queue(kinds.CallTask(work), timeout)

    def _queue(self, task: Task, timeout: float | None) -> Any:
        self.tasks.follow_commits()
        self.tasks.put(task)
        self.drain()
        return self.tasks.wait(task, timeout)

    def wait_for_all(self, timeout: float | None = None) -> None:
        """Wait until all tasks enqueued so far are executed; raises TimeoutError as `call`."""
        if not self.inside:
            self._queue(Task(), timeout)

    def _execute_batch(self, task: Task | None) -> None:
        """Execute a task and some of the tasks after it, consecutive inputs together, and flush once."""
        done, batch, following = list[Task](), list[Task](), None
        dequeue, empty = self.tasks.dequeue, self.tasks.waiting.empty
        try:
            while task is not None:
                batch, size, pace, following = [task], task.weight, self._pace, None
                while (
                    type(task) is InputTask and size < _BATCH and len(batch) * pace < _BATCH_S and not empty()
                ):
                    following = dequeue()
                    if type(following) is not InputTask:
                        break
                    batch.append(following)
                    size, following = size + following.weight, None
                with self.paused:
                    self.execute(*batch)
                done += batch
                task = following or (dequeue() if len(done) < _BATCH and not empty() else None)
        # The process is being interrupted, so callers must not wait for the dequeued tasks any longer.
        except BaseException:
            self._complete(
                [*batch, following] if following else batch, EngineStoppedError("the engine was interrupted")
            )
            raise
        finally:
            self._complete(done)

    def execute(self, *run: Task) -> None:
        """Execute one task, or several stream inputs together; store errors in the tasks."""
        tasks, stages, first, last = self.tasks, self.tasks.stages, run[0], run[-1]
        began, events = time.perf_counter(), []
        for task in run:
            if task.since:
                stages.queue.noted.append(began - task.since)
            if type(task) is InputTask:
                events.append(task.event)
        # Journal records about inputs of one batch have the number of the first input, because no other task
        # comes between them.
        tasks.number, tasks.at = first.number, last.at
        shares = self._router.shares
        # The place object of the new task is created only if a reader gets a backlog.
        shares.frontier.place += 1
        shares.place = None
        if tasks.journal is not None and tasks.journal.on_step is not None:
            tasks.journal.on_step("before-apply")
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
        """Let tasks wait until lagging readers have done their jobs of these tasks."""
        shares = self._router.shares
        for task in run:
            task.remaining_work = shares.barrier() if type(task) is Task else shares.place

    def _execute_other(self, task: Task) -> Any:
        """Execute a task that is not a stream input."""
        router, attachments, statics = self._router, self._attachments, self._statics
        match task:
            case kinds.CommitTask(commit=commit):
                self.tasks.version = max(self.tasks.version, commit.version)
                self._views.after_commit(commit)
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
            case kinds.FailTask():
                attachments.fail(task.running, task.reason)
            case kinds.SettingsTask():
                attachments.change(task.running, task.registration)
            case kinds.AttachTask():
                return attachments.attach(task)
            case kinds.CallTask():
                return task.work()
        return None

    # --- flushing -------------------------------------------------------------------------------

    def _complete(self, done: list[Task], failure: Exception | None = None) -> None:
        """Flush the results of some tasks, let views follow, and wake the threads that wait for the tasks."""
        try:
            self.flush()
            if self._views.by_name:
                self._views.enqueue_writes()
        except Exception as error:
            failure = error
            log.warning("The results of executed tasks could not be flushed: %s", error)
        if self._unfinished:
            done, self._unfinished = [*self._unfinished, *done], []
        written, durations = time.perf_counter(), self.tasks.stages.total.noted
        for task in done:
            if task.remaining_work is not None and task.remaining_work.jobs_left and failure is None:
                self._unfinished.append(task)
                continue
            task.error = task.error or failure
            task.done = True
            if type(task) is InputTask and task.since and failure is None:
                durations.append(written - task.since)
            if task.waiter is not None:
                task.waiter.set()

    def flush(self, *, wait_for_space: bool = True) -> None:
        """Write buffered events to the result log, then publish the events; wait while the disk is full.

        Raises:
            StoreUnwritableError: the disk is full and the engine stops, ``wait_for_space`` is False, or the
                engine has no thread.
        """
        outbox, tasks = self._outbox, self.tasks
        while outbox.feeds or outbox.waits:
            began = time.perf_counter()
            try:
                outbox.write(tasks.needed)
            except StoreUnwritableError as error:
                if tasks.write_error is None:
                    log.error("Results cannot be written; the engine waits for disk space: %s", error.message)
                tasks.write_error = error.message
                if tasks.closed or not self.threads.threaded or not wait_for_space:
                    raise
                time.sleep(_RETRY_S)
            else:
                if tasks.write_error is not None:
                    log.warning("Results can be written again")
                    tasks.write_error = None
                self.tasks.stages.results.noted.append(time.perf_counter() - began)
                return

    def affects_queries(self, commit: Commit) -> bool:
        """Return True if a commit's task has to do more than store the commit's version."""
        views = bool(self._views.by_name) and not commit.exact
        return views or commit.version in self._statics.commits.due or bool(self._router.commit_readers)

    def write_unsynced_records(self) -> None:
        """Sync journal records that no client waits for, and check whether a full disk has space again."""
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
                log.error("The input log cannot be written: %s", error.message)
            return
        if failed:
            log.warning("the input log can be written again")

    def run_due(self, every_ms: int) -> float:
        """Do the work that is due by the clock; return the seconds until more work is due."""
        # The check for delayed tasks does not take the queue's lock, so that this thread and pushing threads
        # do not wait for each other.
        if self.tasks.delayed:
            self.tasks.put(Task())
        with self.paused:
            self.write_unsynced_records()
            self._router.timetable.run_due(every_ms)
            return self._router.timetable.wait_ms(every_ms) / 1000
