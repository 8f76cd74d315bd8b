"""The engine: an object that holds streams, registered queries and their feeds.

Every input that can change a query's answer (elements, heartbeats, ticks, commits) becomes a task in one
order of the engine. The engine executes the tasks in their one order, one after the other, so results are a
function of the accepted inputs.

    lifecycle/stream_service, query_service   the operations of the engine
    lifecycle/parts                           the objects that make up an engine
    scheduler/sequencer                       the execution of tasks
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import GoneError
from quadrill.store.logs.journal import Journal
from quadrill.store.logs.pinned_files import PinnedFiles
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

from .clock import Clock
from .errors import EngineStoppedError
from .expressions.interpreter import require_sound_jit
from .language.registration import Registration
from .lifecycle.lifecycle import QueryLifecycle
from .lifecycle.parts import EngineParts, MakeEvaluator
from .lifecycle.query_service import QueryService
from .lifecycle.rule_queries import follow_rule_sets
from .lifecycle.stream_service import StreamService
from .recovery.recovery import Recovery
from .scheduler.task_kinds import CommitTask
from .settings import EngineSettings

log = logging.getLogger("quadrill.continuous")


_LAST_TASK_S = 0.5
"""Seconds that a stop still waits for the running task after ``stop_wait_ms`` has passed."""
_RATED_COMMITS = 200
"""Number of newest commits of the change log from which a start computes the change rates of graphs."""


class Engine:
    """An engine, which runs continuous queries over streams and a quad store.

    Any thread may call any method of the engine.

    Attributes:
        streams: the operations on streams, for example a push.
        queries: the operations on queries, for example a registration.
        rates: how often each graph of the store changes.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        clock: Clock,
        settings: EngineSettings | None = None,
        make_evaluator: MakeEvaluator | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Create an engine without starting it.

        Args:
            store: the background dataset; each commit is an input of the engine.
            registry: the database that stores queries and streams across restarts; with None both are in
                memory only.
            clock: the clock for arrival stamps, idle time-outs and timers; no operator reads it.
            settings: limits and defaults.
            make_evaluator: the function that creates the evaluator of a query; by default queries use the
                native evaluator, or the reference evaluator if the native one does not support the query.
            journal: stores inputs, windows and feeds across restarts and crashes; the engine closes the
                journal.

        Raises:
            UnsupportedError: the JIT compiler of this Python interpreter computes wrong results.
        """
        require_sound_jit()
        self.settings = settings or EngineSettings()
        self.clock = clock
        self.parts = EngineParts(store, registry, clock, self.settings, make_evaluator, journal)
        self.lifecycle = QueryLifecycle(self.parts)
        self.streams = StreamService(self.parts, self.lifecycle)
        self.queries = QueryService(self.parts, self.lifecycle)
        self.recovery = None if journal is None else Recovery(self.parts, self.lifecycle, journal)
        self.rates = self.parts.rates
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Recover the engine's state from journal or registry and start the engine's thread.

        Raises:
            EngineStoppedError: the start was cancelled, see `StartupState`.
            OlderFormatError, StoreFormatError: for the reasons given in `Recovery.recover`.
        """
        parts = self.parts
        if parts.tasks.open:
            return
        parts.starting.begin()
        if self.recovery is not None:
            self.recovery.recover()
        with suppress(GoneError):
            rated = max(0, parts.store.reader.version - _RATED_COMMITS)
            parts.rates.count_commits(parts.store.commits_after(rated, listed=False))
        self._unsubscribe = parts.store.subscribers.subscribe(self._on_commit)
        parts.tasks.open = True
        if parts.threads.threaded:
            self._thread = threading.Thread(target=self._run, name="quadrill-engine", daemon=True)
            self._thread.start()
        with parts.admin:
            if self.recovery is not None:
                self.recovery.reconcile()
                parts.sequencer.call(self.recovery.checkpoints.after_start)
            else:
                parts.begin_at(parts.store.reader.version)
                parts.streams.restore()
                for record in parts.catalogue.stored():
                    self.lifecycle.restore(record)
        follow_rule_sets(parts)
        parts.texts.forget()
        parts.sources.start()
        parts.views.start()
        parts.sequencer.wait_for_all()
        stopped = parts.starting.end()
        if stopped and self.recovery is not None:
            with parts.admin:
                self.recovery.follow_registry(stopped)

    def _on_commit(self, commit: Commit) -> None:
        """Enqueue a task for a commit; the store calls this in the thread of the writer."""
        self.parts.rates.count_commits([commit])
        with suppress(EngineStoppedError):
            task = CommitTask(commit)
            task.deferrable = self.parts.threads.threaded and not self.parts.sequencer.affects_queries(commit)
            self.parts.tasks.submit(task, "commit", version=commit.version, at=commit.at_ms)
            self.parts.sequencer.drain()

    def _run(self) -> None:
        """Run the engine's thread: alternate between due work and queued tasks until the engine stops."""
        try:
            while self.parts.sequencer.execute_queued(self._run_due()):
                pass
        finally:
            self.parts.tasks.open = False

    def _run_due(self) -> float:
        """Between two tasks, do the work that is due by the clock; return the seconds until the next work."""
        parts = self.parts
        if parts.tasks.closed:
            # The engine's thread executes the queued tasks; none are added after the queue was closed.
            return 0.0
        try:
            with parts.sequencer.paused:
                self.lifecycle.restart_failed()
                if self.recovery is not None:
                    self.recovery.checkpoints.write_if_due()
            return parts.sequencer.run_due(self.settings.tick_ms)
        except EngineStoppedError:
            return 0.0  # The queue of tasks was closed while the due work ran.
        except Exception:
            log.exception("The work that is due by the clock failed; the engine tries again in a second")
            return 1.0

    def stop(self, *, at_once: bool = False) -> bool:
        """Execute the queued tasks, for at most ``stop_wait_ms``, close the feeds and stop the engine.

        Tasks that are still queued are executed at the next start, from the journal. Returns False if the
        running task does not end in time: that task needs the store until the process ends, and the next
        start executes the task again, as after a crash.
        """
        parts = self.parts
        wait_s = 0.0 if at_once else self.settings.stop_wait_ms / 1000
        until = time.monotonic() + wait_s
        parts.statics.wait_for_reloads(wait_s)
        parts.tasks.open = False
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        pending_queries = [entry.pending for entry in parts.catalogue.entries() if entry.pending is not None]
        for pending in pending_queries:
            pending.cancel()
        wait(
            [query.build for query in pending_queries if query.build is not None],
            max(0.1, until - time.monotonic()),
        )
        parts.sources.stop()
        parts.tasks.close(until)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until - time.monotonic()) + _LAST_TASK_S)
            if self._thread.is_alive():
                log.warning("The running task did not end in time; the next start executes the task again")
                parts.tasks.reject_queued()
                return False
        parts.views.stop()
        if self.recovery is not None:
            self.recovery.close()
        parts.statics.close()
        parts.texts.close()
        for entry in parts.catalogue.entries():
            entry.feed.close()
        return True

    @property
    def running(self) -> bool:
        """True while the engine accepts inputs."""
        return self.parts.tasks.open

    def require_room(self) -> None:
        """Raise BackPressureError if too many elements are queued to accept another commit."""
        self.parts.tasks.require_room(1, self.settings.queue_elements)

    def pin_files(self) -> PinnedFiles | None:
        """Open the engine's files as they are between two tasks, for a backup; None without a journal.

        The engine keeps running while the caller copies the files.

        Raises:
            StoreUnwritableError: results or inputs cannot be written because the disk is full.
        """
        recovery = self.recovery
        if recovery is None:
            return None
        self.parts.tasks.require_writable()
        files: PinnedFiles = self.parts.sequencer.call(recovery.checkpoints.pin_files)
        return files

    def sync(self, timeout: float | None = 30.0) -> None:
        """Wait until all accepted inputs are processed and their results are in the feeds and views.

        Raises:
            TimeoutError: the wait took longer than ``timeout`` seconds, or than an hour if ``timeout`` is
            None.
        """
        parts = self.parts
        deadline = time.monotonic() + (timeout or 3600.0)
        while True:
            seconds_left = max(0.001, deadline - time.monotonic())
            parts.store.subscribers.wait_delivered(parts.store.reader.version, seconds_left)
            parts.sequencer.wait_for_all(seconds_left)
            # The write of a view is a commit, and so an input of the queries that read the view's graph.
            if parts.views.idle:
                return
            if not parts.views.wait(deadline):
                raise TimeoutError(f"views were not written within {timeout} seconds")


__all__ = ["Engine", "EngineSettings", "Registration"]
