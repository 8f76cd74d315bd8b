"""The engine: streams, registered queries and their feeds behind one object.

Whatever moves a query (elements, heartbeats, ticks, commits) is accepted in one order and worked off by one
thread in that order, so results are a function of what was accepted. Other threads only accept, ask and wait.

    stream_side, query_side     what can be asked of it        parts        what it is made of, connected
    query_life                  how a query begins and ends    keeper       checkpoints and recovery
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode

from .clock import Clock
from .durable.journal import Journal
from .durable.recovery import Recovery
from .errors import InputError
from .evaluate.evaluator import Evaluator
from .figures import EngineFigures, figures_of
from .parts import EngineParts, MakeEvaluator
from .queries.lifecycle import QueryLifecycle
from .queries.prepare import PreparedQuery
from .queries.registration import Registration
from .query_side import QuerySide
from .settings import EngineSettings
from .stream_side import StreamSide

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore
    from quadrill.store.registry import Registry


def reference_evaluator(
    prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
) -> Evaluator:
    """The evaluator by definition; ``quoted_asserted`` are the streams with that option."""
    from .evaluate.recomputing import ReferenceEvaluator
    from .static.options import EvaluationOptions

    registration = prepared.registration
    options = EvaluationOptions(
        name=prepared.name or "",
        window_default_graph=registration.window_default_graph,
        strict_dataset=registration.strict_dataset,
        quoted_asserted=quoted_asserted,
        base_iri=prepared.query.base_iri,
        sources=prepared.sources,
    )
    return ReferenceEvaluator(prepared.query, store, options)


_SETTLE_S = 10.0
"""How long a stop waits for rows of static parts that are being read."""


class Engine(StreamSide, QuerySide):
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
        self.parts.on_tick = self._between_inputs

    def _between_inputs(self) -> None:
        self.lifecycle.restart_failed()
        if self.recovery is not None:
            self.recovery.checkpoints.when_due()

    def start(self) -> None:
        """Restore streams and queries from the registry and begin to work."""
        parts = self.parts
        if parts.listening:
            return
        if self.recovery is not None:
            self.recovery.recover()
        parts.listen()
        parts.loop.start()
        with parts.admin:
            if self.recovery is not None:
                self.recovery.reconcile()
                parts.loop.call(self.recovery.checkpoints.after_start)
            else:
                parts.begin_at(parts.store.version)
                parts.streams.restore()
                for record in parts.catalogue.stored():
                    self.lifecycle.restore(record)
        parts.sources.start()
        parts.views.start()
        parts.loop.call(lambda: None)

    def stop(self) -> None:
        """Work off what was accepted, end every feed's subscribers, stop."""
        parts = self.parts
        parts.statics.settle(_SETTLE_S)
        parts.deafen()
        for entry in parts.catalogue.entries():
            if entry.pending is not None and entry.pending.making is not None:
                entry.pending.call_off()
                entry.pending.making.wait(_SETTLE_S)
        parts.sources.stop()
        parts.sequencer.stop()
        parts.loop.stop()
        parts.views.stop()
        if self.recovery is not None:
            self.recovery.close()
        parts.statics.close()
        for entry in parts.catalogue.entries():
            entry.feed.close()

    @property
    def running(self) -> bool:
        """True while the engine works."""
        return self.parts.running

    def require_room(self) -> None:
        """Raise BackPressureError while so much waits that commits, which are inputs, should not come."""
        self.parts.require_room()

    def figures(self) -> EngineFigures:
        """What the engine holds and how long its stages take, cheaply."""
        return figures_of(self.parts)

    def journal_state(self) -> dict[str, Any] | None:
        """Size and health of what keeps inputs and feeds; None without.

        ``trouble`` is why nothing is accepted now, None when all is well; ``recovery`` tells of the start.
        """
        journal = self.parts.sequencer.journal
        if journal is None or self.recovery is None:
            return None
        kept = self.parts.statics.kept
        return {
            "records": journal.last,
            "waiting_bytes": journal.log.waiting_bytes,
            "result_bytes": journal.results.size(),
            "checkpoint_bytes": self.recovery.checkpoints.size,
            "tables_bytes": 0 if kept is None else kept.bytes,
            "checkpoint_age_seconds": self.recovery.checkpoints.age_s,
            "earliest": journal.log.earliest,
            "waiting": journal.last - journal.log.durable,
            "bytes": journal.log.size(),
            "trouble": journal.log.failure or self.parts.sequencer.trouble,
            "settle_seconds": self.parts.sequencer.settle_seconds,
            "settles": self.parts.sequencer.settles,
            "checkpoint_seconds": self.recovery.checkpoints.took_s,
            "checkpoint_pause_seconds": self.recovery.checkpoints.stopped_s,
            "recovery": self.recovery.report,
        }

    def sync(self, timeout: float | None = 30.0) -> None:
        """Wait until everything accepted so far is processed, its results in the feeds and views written.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        deadline = time.monotonic() + (timeout or 3600.0)
        while True:
            left = max(0.001, deadline - time.monotonic())
            self.parts.store.wait_delivered(self.parts.store.version, left)
            self.parts.loop.call(lambda: None, left)
            # What a view writes is an input of those who read it.
            if self.parts.views.idle:
                return
            if not self.parts.views.wait(deadline):
                raise TimeoutError(f"views were not written within {timeout} seconds")

    def tick(self) -> None:
        """Look at the clock now: arrival-stamped streams, idle marks, timers. For tests."""
        self.parts.sequencer.write_what_waits()
        self.lifecycle.restart_failed()
        self.parts.sources.run_due()
        self.parts.loop.call(self.parts.router.look_at_clock)
        self.parts.loop.call(lambda: None)


__all__ = ["Engine", "EngineSettings", "InputError", "Registration", "reference_evaluator"]
