"""What an engine is made of: its queue, its streams, its queries, and the one order of everything."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import GoneError
from quadrill.store.payloads import Payloads
from quadrill.store.quads.rates import ChangeRates
from quadrill.store.remote import RemoteClient
from quadrill.store.shelf import Shelf

from .clock import Clock
from .durable.journal import Journal
from .errors import EngineStoppedError
from .evaluate.evaluator import Evaluator
from .inputs import StreamInput
from .meters import Stages
from .output.view_registry import ViewRegistry
from .queries.catalogue import Entry, QueryCatalogue
from .queries.evaluator_choice import EvaluatorChoice
from .queries.prepare import PreparedQuery
from .queries.running import RunningQuery
from .remote.source_registry import SourceRegistry
from .scheduler.loop import Ticket, WorkLoop
from .scheduler.router import Router
from .scheduler.sequencer import Sequencer
from .settings import EngineSettings
from .static.budget import StaticBudget
from .static.kept import KeptTables
from .static.recompute import Swap
from .streams.accept import Acceptor
from .streams.registry import StreamRegistry
from .streams.stream import StreamState

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore
    from quadrill.store.registry import Registry

_LOOK_S = 0.01

MakeEvaluator = Callable[["PreparedQuery", "QuadStore", frozenset[NamedNode]], Evaluator]


_RATED_COMMITS = 200
"""How many commits of the change log the rates of graphs begin with at a start."""


class EngineParts:
    """The parts, connected; nothing runs yet.

    Attributes:
        turns: the order of everything that moves a query, and its journal.
        acceptor: decides what enters a stream; its lock guards streams and order.
        streams: the registry of streams.
        catalogue: the registered queries.
        statics: the tables of their static parts.
        dispatcher: gives inputs to the queries that read them.
        sources: what queries read from other servers.
        rates: how often each graph of the store changes.
        views: graphs of the store that are kept equal to answers.
        loop: the queue and its thread.
        stages: how long inputs wait and take.
        admin: held while something is registered, dropped or declared: these come one at a time.
        failed: queries that failed and are to begin anew.
        on_tick: called in the loop between inputs, before the clock is looked at.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        clock: Clock,
        settings: EngineSettings,
        make_evaluator: MakeEvaluator | None,
        journal: Journal | None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        choice = EvaluatorChoice(store, settings.columnar)
        self.make_evaluator: MakeEvaluator = make_evaluator or choice
        self.statics = choice.statics
        self.statics.budget = StaticBudget(settings.static_rows, settings.static_rows_per_query)
        self.statics.groups.factor = settings.static_group_factor
        self.statics.recomputer.threaded = settings.threaded
        self.statics.on_fresh = self._swap_later
        if journal is not None and not store.in_memory:
            shelf = Shelf(journal.folder / "tables.sqlite", journal.reached)
            self.statics.kept = KeptTables(shelf, store, choice.terms, threaded=settings.threaded)
        self.rates = ChangeRates()
        self.views = ViewRegistry(store, threaded=settings.threaded)
        self.sequencer = turns = Sequencer(clock, journal)
        self.stages = turns.stages = Stages()
        self.loop = WorkLoop(
            threaded=settings.threaded, tick=self._tick, settle=self._settle, stages=self.stages
        )
        self.acceptor = Acceptor(clock, settings, self._enqueue, lambda: self.loop.weight, journal)
        turns.connect(self.loop, self.acceptor)
        self.streams = StreamRegistry(registry, clock, settings, self.acceptor.lock)
        self.acceptor.on_stamped = self.streams.stamp
        self.catalogue = QueryCatalogue(registry, clock, settings)
        self.router = Router(
            self.acceptor,
            self.streams,
            turns,
            self._query_failed,
            self._refresh_timed,
            templates=settings.templates,
            when_shown=turns.when_shown,
        )
        remote = settings.remote
        self.sources = SourceRegistry(
            RemoteClient(store.allowed_hosts, timeout_s=remote.timeout_ms / 1000, max_bytes=remote.max_bytes),
            Payloads(None if journal is None else journal.folder / "sources"),
            clock,
            remote,
            threaded=settings.threaded,
            turn=lambda members, work: turns.call("source", members, work),
            changed=self.router.sources_changed,
        )
        self.statics.on_behind = turns.note_behind
        self.admin = threading.RLock()
        self.failed: deque[Entry] = deque()
        self.on_tick: Callable[[], None] = lambda: None
        self._unsubscribe: Callable[[], None] | None = None

    # --- life -----------------------------------------------------------------------------------

    @property
    def listening(self) -> bool:
        """True while commits of the store are inputs."""
        return self._unsubscribe is not None

    def listen(self) -> None:
        """From now on commits of the store are inputs."""
        with contextlib.suppress(GoneError):
            self.rates.take(self.store.commits_after(max(0, self.store.version - _RATED_COMMITS)))
        self._unsubscribe = self.store.subscribe(self._on_commit)

    def deafen(self) -> None:
        """Commits are no inputs any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    @property
    def running(self) -> bool:
        """True while inputs are worked off."""
        return self.listening and self.loop.alive

    def require_running(self) -> None:
        """Raise EngineStoppedError while they are not."""
        if not self.running:
            raise EngineStoppedError("the engine is not running")

    # --- what takes its turn --------------------------------------------------------------------

    def commit(self, commit: Commit) -> None:
        """In its turn: the store has a new version."""
        self.sequencer.version = max(self.sequencer.version, commit.version)
        self.views.committed(commit)
        self.statics.advance(commit.version)
        self.router.commit(commit, self.statics.take_moved())

    def begin_at(self, version: int) -> None:
        """The queries that are made next reflect a version of the store."""
        self.sequencer.version = version
        self.statics.begin_at(version)

    def moved(self) -> None:
        """In its turn: the rows of static parts that were read anew have taken the place of older ones."""
        self.router.step(self.statics.take_moved())

    def _swap_later(self, swap: Swap) -> None:
        """Called by the thread that reads static parts anew: the rows take their turn as an input."""
        members = {"tables": [each.name for each in swap.table.told], "version": swap.version}

        def work() -> None:
            self.statics.swap(swap)
            self.moved()

        try:
            self.sequencer.submit("swap", members, work)
        except EngineStoppedError:
            return

    def tell_new_stream(self, state: StreamState) -> None:
        """Queries whose windows read every stream get a new one in its turn."""
        members = {"stream": state.iri, "created": state.record.created_ms}
        self.sequencer.submit("stream", members, lambda: self.router.new_stream(state.iri))

    def wait_for_pending(self, stream: str, timeout: float | None) -> None:
        """Return when no query that reads a stream waits for its static parts any more.

        Raises:
            TimeoutError: that takes longer than ``timeout`` seconds.
        """
        until = time.monotonic() + (3600.0 if timeout is None else timeout)
        if not self.router.is_awaited(stream):
            return
        while self.router.is_awaited(stream):
            if time.monotonic() > until:
                raise TimeoutError(f"static parts of queries that read it are still read after {timeout} s")
            time.sleep(_LOOK_S)
        # What began may still be working off what was kept for it.
        self.loop.call(lambda: None, timeout)

    def wait_durable(self) -> None:
        """Return when everything accepted so far is in the journal."""
        if self.sequencer.journal is not None:
            began = time.perf_counter()
            self.sequencer.journal.wait()
            self.stages.log.observe(time.perf_counter() - began)

    def require_room(self) -> None:
        """Raise BackPressureError while too much waits for the engine."""
        self.acceptor.require_room(1)

    def _on_commit(self, commit: Commit) -> None:
        """Called by the store in a writer's thread: the commit takes its turn as an input."""
        self.rates.take([commit])
        members = {"version": commit.version, "at": commit.at_ms}
        try:
            self.sequencer.submit("commit", members, lambda: self.commit(commit))
        except EngineStoppedError:
            return

    def _enqueue(self, event: StreamInput, order: int) -> Ticket[None]:
        elements = getattr(event, "elements", ())
        at = self.clock.now_ms()
        return self.loop.submit(
            lambda: self.sequencer.run(order, at, lambda: self.router.dispatch(event)),
            weight=max(1, len(elements)),
        )

    def _refresh_timed(self, running: RunningQuery) -> None:
        members = {"name": running.name, "cause": "timer"}
        self.sequencer.submit("refresh", members, lambda: self.router.refresh(running.name, "timer"))

    def _query_failed(self, running: RunningQuery) -> None:
        entry = self.catalogue.find(running.name)
        if entry is not None:
            self.catalogue.set_state(entry, "failed", running.error)
            if self.settings.restart_failed:
                self.failed.append(entry)

    def _settle(self) -> None:
        """What some turns caused is written and told; then views may follow."""
        self.sequencer.settle()
        self.views.settled()

    def _tick(self) -> float:
        """Look at the clock; the seconds until the next look is due. Called by the loop."""
        self.sequencer.write_what_waits()
        self.on_tick()
        self.router.look_at_clock(self.settings.tick_ms)
        return self.router.wait_ms(self.settings.tick_ms) / 1000
