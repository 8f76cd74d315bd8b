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
_LINE_S = 0.25
"""Inputs that take longer together, by the pace of those before, are not given so: a stop waits for them."""
_NOTED = 512
"""Times of turns that are counted together."""
PATIENCE_S = 1.0
"""So long who manages queries waits for a turn, and nobody waits again to look at what is at work."""
_MOMENT_S, _TRIES = 0.1, 20
_RETRY_SECONDS = 0.25
_NEGLECTED_SECONDS = 0.05
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
    _open: list[Task] = field(default_factory=list)
    _missed: float = 0.0
    _pace: float = 0.0  # seconds that each of the turns worked off last took

    # --- working off ----------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """True when the caller is the engine's thread, or works turns off itself."""
        return self._worker == threading.get_ident()

    def work(self, seconds: float) -> bool:
        """In the engine's thread: wait for turns and work some off; False when none will come any more."""
        self._worker = threading.get_ident()
        tasks, shares = self.tasks, self._router.shares
        self._work_off(tasks.take(0.0 if shares.behind else seconds))
        if shares.behind:
            self._serve()
        if tasks.closed and tasks.waiting.empty() and (not shares.behind or time.monotonic() > tasks.until):
            self._worker = None
            self._leave_rest()
            return False
        return True

    def _serve(self) -> None:
        """Give a slice to a reader that is behind."""
        with self.paused:
            self._router.shares.serve()
        self._settle([])

    def catch_up_or_fail(self, seconds: float, reason: str, limit: int) -> None:
        """Give readers that are behind some time for themselves; else the oldest of them fails."""
        shares, until = self._router.shares, time.monotonic() + seconds
        with self.paused:
            while shares.behind and time.monotonic() < until:
                shares.serve()
            if shares.behind:
                self._router.laggards.end_oldest(reason, limit)
        self._settle([])

    def _leave_rest(self) -> None:
        """What readers have not done is left to the next start, which finds it in the journal."""
        self._router.shares.abandon()
        self._settle([], EngineStoppedError("the engine is stopped"))

    def catch_up(self, stopped: Callable[[], Collection[str]]) -> None:
        """Let all readers do everything, but for the queries that somebody has ``stopped`` meanwhile."""
        shares = self._router.shares
        while shares.behind:
            for name in stopped() if self.threads.beside else ():
                self._router.laggards.call_off(name)
            shares.serve()

    def drain(self) -> None:
        """Without a thread of its own: work off everything that waits; with one nothing is to be done."""
        if self.threads.beside:
            return
        with self.paused:
            if self._worker is not None:
                return
            self._worker = threading.get_ident()
            try:
                while not self.tasks.waiting.empty() or self._router.shares.behind:
                    if not self.tasks.waiting.empty():
                        self._work_off(self.tasks.take())
                    if self._router.shares.behind:
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
            self.finish(self.tasks.submit(task, kind, **members), PATIENCE_S)

    def look(self, at: Callable[[], T]) -> T:
        """What is found between two turns, or while one is at work that takes longer than a moment.

        Once in a second somebody waits for that moment.
        """
        recently = time.monotonic() - self._missed < PATIENCE_S
        held = self.paused.acquire(timeout=0 if recently else _MOMENT_S)
        try:
            if held:
                return at()
            self._missed = self._missed if recently else time.monotonic()
            for _ in range(_TRIES):
                try:
                    return at()
                except RuntimeError:  # a dictionary that changed while it was read
                    time.sleep(_MOMENT_S / _TRIES)
            return at()
        finally:
            if held:
                self.paused.release()

    def call(self, work: Callable[[], Any], timeout: float | None = None) -> Any:
        """Do some work between two turns and return what it gives.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        return self._queue(kinds.BetweenTasks(work), timeout)

    def _queue(self, task: Task, timeout: float | None) -> Any:
        self.tasks.follow_commits()
        self.tasks.put(task)
        self.drain()
        return self.tasks.wait(task, timeout)

    def wait_for_all(self, timeout: float | None = None) -> None:
        """Return when everything accepted so far is worked off; TimeoutError as from `call`."""
        if not self.inside:
            self._queue(Task(), timeout)

    def _work_off(self, task: Task | None) -> None:
        """Work off a turn and some of those behind it, inputs in line together, and settle them together."""
        done, run, following = list[Task](), list[Task](), None
        take, empty = self.tasks.take, self.tasks.waiting.empty
        try:
            while task is not None:
                run, size, pace, following = [task], task.weight, self._pace, None
                while type(task) is InputTask and size < _BATCH and len(run) * pace < _LINE_S and not empty():
                    following = take()
                    if type(following) is not InputTask:
                        break
                    run.append(following)
                    size, following = size + following.weight, None
                with self.paused:
                    self.run(*run)
                done += run
                task = following or (take() if len(done) < _BATCH and not empty() else None)
        except BaseException:  # somebody stops the program: nobody is to wait for what was in hand
            self._settle([*run, following] if following else run, EngineStoppedError("it was interrupted"))
            raise
        finally:
            self._settle(done)

    def run(self, *run: Task) -> None:
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
                first.result = self._do(first)
        except Exception as error:
            for task in run:
                task.error = error
        finally:
            if shares.behind:
                self._keep_open(run)
            tasks.number = 0
            tasks.processed = max(tasks.processed, last.number)
            tasks.needed = max(tasks.needed, last.number)
        if first.since:
            self._pace = (time.perf_counter() - began) / len(run)
            stages.process.noted += [self._pace] * len(run)
            if len(stages.process.noted) >= _NOTED:
                stages.count_noted()

    def _keep_open(self, run: Sequence[Task]) -> None:
        """Tasks with work that is left to readers are done when that is."""
        shares = self._router.shares
        for task in run:
            task.place = shares.barrier() if type(task) is Task else shares.place

    def _do(self, task: Task) -> Any:
        """Do what a turn that is no input says."""
        router, attachments, statics = self._router, self._attachments, self._statics
        match task:
            case kinds.CommitTask(commit=commit):
                self.tasks.version = max(self.tasks.version, commit.version)
                self._views.committed(commit)
                if router.shares.behind:
                    router.shares.keep_rows_of_suspended(statics.commits.due.get(commit.version, ()))
                statics.advance(commit.version)
                router.moves.commit(commit, statics.take_moved())
            case ReloadTask():
                router.shares.keep_rows_of_suspended([each.table for each in task.fresh])
                statics.swap(task)
                router.moves.step(statics.take_moved())
                attachments.begin_ready()
            case SourceTask():
                if task.put():
                    router.moves.sources_changed(task.source.spec.key)
            case kinds.RefreshTask():
                router.moves.refresh(task.name, task.cause)
            case kinds.PauseTask():
                router.set_state(task.running, task.state)
            case kinds.SettingsTask():
                attachments.change(task.running, task.registration)
            case kinds.AttachTask():
                return attachments.attach(task)
            case kinds.BetweenTasks():
                return task.work()
        return None

    # --- settling -------------------------------------------------------------------------------

    def _settle(self, done: list[Task], failure: Exception | None = None) -> None:
        """Write and tell what some turns caused; then views may follow, and those who wait go on."""
        try:
            self.settle()
            if self._views.by_name:
                self._views.settled()
        except Exception as error:
            failure = error
            log.warning("what was worked off could not be settled: %s", error)
        if self._open:
            done, self._open = [*self._open, *done], []
        for task in done:
            if task.place is not None and task.place.left and failure is None:
                self._open.append(task)
                continue
            task.error = task.error or failure
            task.done = True
            if task.waiter is not None:
                task.waiter.set()

    def settle(self, *, patient: bool = True) -> None:
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
                if tasks.trouble is None:
                    log.error("results wait: %s", error.message)
                tasks.trouble = error.message
                if tasks.closed or not self.threads.beside or not patient:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                if tasks.trouble is not None:
                    log.warning("results are written again")
                    tasks.trouble = None
                self.tasks.stages.results.noted.append(time.perf_counter() - began)
                return

    def is_moved_by(self, commit: Commit) -> bool:
        """True when the turn of a commit, which is made, has more to do than to note its version."""
        views = bool(self._views.by_name) and not commit.exact
        return views or commit.version in self._statics.commits.due or bool(self._router.unfollowing)

    def write_what_waits(self) -> None:
        """Write records that nobody waits for, and see whether there is space again after a full disk."""
        journal = self.tasks.journal
        if journal is None:
            return
        failed = journal.log.failure is not None
        if not failed and not journal.log.neglected(_NEGLECTED_SECONDS):
            return
        try:
            journal.log.wait(journal.log.last)
        except StoreUnwritableError as error:
            if not failed:
                log.error("inputs wait: %s", error.message)
            return
        if failed:
            log.warning("the input log can be written again")

    def look_at_clock(self, every_ms: int) -> float:
        """Do what is due; the seconds until the next look."""
        if self.tasks.kept_back:  # without the lock of those who push: both would wait for each other
            self.tasks.put(Task())
        with self.paused:
            self.write_what_waits()
            self._router.timetable.look(every_ms)
            return self._router.timetable.wait_ms(every_ms) / 1000
