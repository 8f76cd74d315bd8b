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
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from .clock import Clock
from .durable.journal import Journal
from .errors import InputError
from .lifecycle.figures import EngineFigures, figures_of
from .lifecycle.lifecycle import QueryLifecycle
from .lifecycle.parts import EngineParts, MakeEvaluator
from .lifecycle.query_service import QueryService
from .lifecycle.stream_service import StreamService
from .queries.registration import Registration
from .recovery.recovery import Recovery
from .settings import EngineSettings

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore
    from quadrill.store.registry import Registry

log = logging.getLogger("quadrill.continuous")


_SETTLE_S = 10.0
"""How long a stop waits for rows of static parts that are being read."""


class Engine(StreamService, QueryService):
    """Runs continuous queries over streams and a quad store. Every method may be called from any thread."""

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
        """
        self.settings = settings or EngineSettings()
        self.parts = EngineParts(
            store,
            registry,
            clock=clock,
            settings=self.settings,
            make_evaluator=make_evaluator,
            journal=journal,
        )
        self.lifecycle = QueryLifecycle(self.parts)
        self.recovery = None if journal is None else Recovery(self.parts, self.lifecycle, journal)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Restore streams and queries from the registry and begin to work."""
        parts = self.parts
        if parts.turns.open:
            return
        if self.recovery is not None:
            self.recovery.recover()
        parts.listen()
        parts.turns.open = True
        if parts.sequencer.threaded:
            self._thread = threading.Thread(target=self._run, name="quadrill-engine", daemon=True)
            self._thread.start()
        with parts.admin:
            if self.recovery is not None:
                self.recovery.reconcile()
                parts.sequencer.call(self.recovery.checkpoints.write_news)
            else:
                parts.begin_at(parts.store.version)
                parts.streams.restore()
                for record in parts.catalogue.stored():
                    self.lifecycle.restore(record)
        parts.sources.start()
        parts.views.start()
        parts.sequencer.wait_for_all()

    def _run(self) -> None:
        """The engine's thread: looks at the clock, then works turns off, until the stop."""
        try:
            while self.parts.sequencer.work(self._look()):
                pass
        finally:
            self.parts.turns.open = False

    def _look(self) -> float:
        """Between turns: what is due is done; the seconds until something is due again."""
        parts = self.parts
        try:
            with parts.sequencer.paused:
                self.lifecycle.restart_failed()
                if self.recovery is not None:
                    self.recovery.checkpoints.when_due()
            return parts.sequencer.look_at_clock(self.settings.tick_ms)
        except Exception:
            log.exception("a tick of the engine failed")
            return 1.0

    def tick(self) -> None:
        """Look at the clock now: arrival-stamped streams, idle marks, timers. For tests."""
        parts = self.parts
        parts.sequencer.write_what_waits()
        self.lifecycle.restart_failed()
        parts.sources.run_due()
        with parts.sequencer.paused:
            parts.router.timetable.look()
        parts.sequencer.wait_for_all()

    def stop(self) -> None:
        """Work off what was accepted, end every feed's subscribers, stop."""
        parts = self.parts
        parts.statics.settle(_SETTLE_S)
        parts.deafen()
        for entry in parts.catalogue.entries():
            if entry.pending is not None and entry.pending.making is not None:
                entry.pending.call_off()
                wait([entry.pending.making.evaluator], _SETTLE_S)
        parts.sources.stop()
        parts.sequencer.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        parts.views.stop()
        if self.recovery is not None:
            self.recovery.close()
        parts.statics.close()
        for entry in parts.catalogue.entries():
            entry.feed.close()

    @property
    def running(self) -> bool:
        """True while the engine works."""
        return self.parts.turns.open

    def require_room(self) -> None:
        """Raise BackPressureError while so much waits that commits, which are inputs, should not come."""
        self.parts.turns.require_room(1, self.settings.queue_elements)

    def figures(self) -> EngineFigures:
        """What the engine holds and how long its stages take, cheaply."""
        return figures_of(self.parts)

    def journal_state(self) -> dict[str, Any] | None:
        """Size and health of what keeps inputs and feeds; None without.

        ``trouble`` is why nothing is accepted now, None when all is well; ``recovery`` tells of the start.
        """
        journal, sequencer = self.parts.turns.journal, self.parts.sequencer
        if journal is None or self.recovery is None:
            return None
        kept, checkpoints = self.parts.statics.kept, self.recovery.checkpoints
        return {
            "records": journal.last,
            "waiting_bytes": journal.log.waiting_bytes,
            "result_bytes": journal.results.size(),
            "checkpoint_bytes": checkpoints.size,
            "tables_bytes": 0 if kept is None else kept.bytes,
            "checkpoint_age_seconds": checkpoints.age_s,
            "earliest": journal.log.earliest,
            "waiting": journal.last - journal.log.durable,
            "bytes": journal.log.size(),
            "trouble": journal.log.failure or self.parts.turns.trouble,
            "settle_seconds": sequencer.settle_seconds,
            "settles": sequencer.settles,
            "checkpoint_seconds": checkpoints.took_s,
            "checkpoint_pause_seconds": checkpoints.stopped_s,
            "recovery": self.recovery.report,
        }

    def sync(self, timeout: float | None = 30.0) -> None:
        """Wait until everything accepted so far is processed, its results in the feeds and views written.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        parts = self.parts
        deadline = time.monotonic() + (timeout or 3600.0)
        while True:
            left = max(0.001, deadline - time.monotonic())
            parts.store.wait_delivered(parts.store.version, left)
            parts.sequencer.wait_for_all(left)
            # What a view writes is an input of those who read it.
            if parts.views.idle:
                return
            if not parts.views.wait(deadline):
                raise TimeoutError(f"views were not written within {timeout} seconds")


__all__ = ["Engine", "EngineSettings", "InputError", "Registration"]
