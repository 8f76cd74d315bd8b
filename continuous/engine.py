"""The engine: streams, registered queries and their feeds behind one object.

Whatever moves a query (elements, heartbeats, ticks, commits) is accepted in one order and worked off in that
order, one turn after the other, so results are a function of what was accepted.

    lifecycle/stream_service, query_service   what can be asked of it
    lifecycle/parts                           what it is made of
    scheduler/sequencer                       what a turn does
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
from .lifecycle.stream_service import StreamService
from .recovery.recovery import Recovery
from .scheduler.task_kinds import CommitTask
from .settings import EngineSettings

log = logging.getLogger("quadrill.continuous")


_LAST_TASK_S = 0.5
"""So much longer a stop waits for the turn that is at work when its time is over."""
_RATED_COMMITS = 200
"""How many commits of the change log the rates of graphs begin with at a start."""


class Engine:
    """Runs continuous queries over streams and a quad store. Every method may be called from any thread.

    Attributes:
        streams: the operations on streams, a push for instance.
        queries: the operations on queries, a registration for instance.
        rates: how often the graphs of the store change.
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
        """Make an engine that is not running yet.

        Args:
            store: the background dataset; its commits are inputs.
            registry: where queries and streams are kept over restarts; None keeps them in memory only.
            clock: read for arrival stamps, idle time-outs and timers, never by an operator.
            settings: limits and defaults.
            make_evaluator: gives a query its evaluator; by default the native one where it can serve.
            journal: keeps inputs, windows and feeds over restarts and crashes; the engine closes it.

        Raises:
            UnsupportedError: this Python gives wrong answers.
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
        """Restore streams and queries from the registry and begin to work.

        Raises:
            EngineStoppedError: the start was called off, see `Starting`.
        """
        parts = self.parts
        if parts.tasks.open:
            return
        parts.starting.begin()
        if self.recovery is not None:
            self.recovery.recover()
        with suppress(GoneError):
            rated = max(0, parts.store.reader.version - _RATED_COMMITS)
            parts.rates.take(parts.store.commits_after(rated, listed=False))
        self._unsubscribe = parts.store.subscribers.subscribe(self._on_commit)
        parts.tasks.open = True
        if parts.threads.beside:
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
        parts.texts.forget()
        parts.sources.start()
        parts.views.start()
        parts.sequencer.wait_for_all()
        stopped = parts.starting.end()
        if stopped and self.recovery is not None:
            with parts.admin:
                self.recovery.follow_registry(stopped)

    def _on_commit(self, commit: Commit) -> None:
        """Called by the store in a writer's thread: the commit takes its turn as an input."""
        self.parts.rates.take([commit])
        with suppress(EngineStoppedError):
            task = CommitTask(commit)
            task.deferrable = self.parts.threads.beside and not self.parts.sequencer.affects_queries(commit)
            self.parts.tasks.submit(task, "commit", version=commit.version, at=commit.at_ms)
            self.parts.sequencer.drain()

    def _run(self) -> None:
        """The engine's thread: looks at the clock, then works turns off, until the stop."""
        try:
            while self.parts.sequencer.execute_queued(self._run_due()):
                pass
        finally:
            self.parts.tasks.open = False

    def _run_due(self) -> float:
        """Between turns: what is due is done; the seconds until something is due again."""
        parts = self.parts
        if parts.tasks.closed:
            return 0.0  # what is in line is worked off, nothing more gets there
        try:
            with parts.sequencer.paused:
                self.lifecycle.restart_failed()
                if self.recovery is not None:
                    self.recovery.checkpoints.write_if_due()
            return parts.sequencer.run_due(self.settings.tick_ms)
        except EngineStoppedError:
            return 0.0  # closed since it was looked at
        except Exception:
            log.exception("a tick of the engine failed")
            return 1.0

    def stop(self, *, at_once: bool = False) -> bool:
        """Work off what was accepted, for ``stop_wait_ms`` at most, end every feed's subscribers, stop.

        The rest takes its turns at the next start. False where the turn at work does not end: it needs the
        store until the process ends, and is taken again, as after a crash.
        """
        parts = self.parts
        wait_s = 0.0 if at_once else self.settings.stop_wait_ms / 1000
        until = time.monotonic() + wait_s
        parts.statics.settle(wait_s)
        parts.tasks.open = False
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        waiting = [entry.pending for entry in parts.catalogue.entries() if entry.pending is not None]
        for pending in waiting:
            pending.cancel()
        wait([each.build for each in waiting if each.build is not None], max(0.1, until - time.monotonic()))
        parts.sources.stop()
        parts.tasks.close(until)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until - time.monotonic()) + _LAST_TASK_S)
            if self._thread.is_alive():
                log.warning("the turn at work is left, too, and taken again at the next start")
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
        """True while the engine works."""
        return self.parts.tasks.open

    def require_room(self) -> None:
        """Raise BackPressureError while so much waits that commits, which are inputs, should not come."""
        self.parts.tasks.require_room(1, self.settings.queue_elements)

    def pin_files(self) -> PinnedFiles | None:
        """The engine's files of a moment, for a backup; None in memory. It goes on while they are copied.

        Raises:
            StoreUnwritableError: results or inputs wait for space.
        """
        recovery = self.recovery
        if recovery is None:
            return None
        self.parts.tasks.require_writable()
        held: PinnedFiles = self.parts.sequencer.call(recovery.checkpoints.pin_files)
        return held

    def sync(self, timeout: float | None = 30.0) -> None:
        """Wait until everything accepted so far is processed, its results in the feeds and views written.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        parts = self.parts
        deadline = time.monotonic() + (timeout or 3600.0)
        while True:
            left = max(0.001, deadline - time.monotonic())
            parts.store.subscribers.wait_delivered(parts.store.reader.version, left)
            parts.sequencer.wait_for_all(left)
            # What a view writes is an input of those who read it.
            if parts.views.idle:
                return
            if not parts.views.wait(deadline):
                raise TimeoutError(f"views were not written within {timeout} seconds")


__all__ = ["Engine", "EngineSettings", "Registration"]
