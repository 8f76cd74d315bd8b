"""The objects that make up an engine, created layer by layer from the lowest to the highest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from pyoxigraph import NamedNode

from quadrill.store.blobs.blob_store import BlobStore
from quadrill.store.blobs.kept_rows import KeptRows
from quadrill.store.errors import ReportedError
from quadrill.store.feeds.feed import Outbox
from quadrill.store.logs.journal import Journal
from quadrill.store.payloads import Payloads
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.rates import ChangeRates
from quadrill.store.quads.views import View, ViewRegistry
from quadrill.store.registry import Registry
from quadrill.store.remote import RemoteClient
from quadrill.store.threads import Threads

from ..clock import Clock
from ..durable.tasks import TaskQueue
from ..evaluate.evaluator import Evaluator
from ..language.analysis import KeptAnalyses
from ..queries.catalogue import QueryCatalogue
from ..queries.prepare import EvaluatorChoice, PreparedQuery
from ..queries.running import RunningQuery
from ..remote.source_registry import SourceRegistry
from ..scheduler.attachments import Attachments
from ..scheduler.router import Router
from ..scheduler.sequencer import Sequencer
from ..scheduler.task_kinds import FailTask
from ..settings import EngineSettings
from ..static.stored_tables import KeptTables
from ..static.table_reading import StaticBudget
from ..static.table_registry import TableRegistry
from ..streams.accept import Acceptor
from ..streams.derived import DerivedStreams
from ..streams.registry import StreamRegistry
from ..windows.encoded import EngineTerms
from .starting import StartupState

MakeEvaluator = Callable[[PreparedQuery, QuadStore, frozenset[NamedNode]], Evaluator]


class EngineParts:
    """The objects that make up one engine.

    Attributes:
        tasks: the queue of tasks; its lock also guards streams.
        texts: a cache of the analyses of query texts.
        outbox: the events that are not flushed yet.
        threads: starts background threads.
        starting: the progress of the start.
        admin: a lock under which queries and streams are registered, changed and dropped, one at a time.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        clock: Clock,
        settings: EngineSettings,
        make_evaluator: MakeEvaluator | None,
        journal: Journal | None,
    ) -> None:
        remote = settings.remote
        self.threads = threads = Threads(threaded=settings.threaded)
        self.store = store
        self.clock = clock
        self.settings = settings
        self.admin = threading.RLock()
        self.starting = StartupState(registry)
        self.tasks = TaskQueue(clock, journal, store.subscribers)
        self.rates = ChangeRates()
        terms = EngineTerms()
        path = None if journal is None else journal.folder / "analyses"
        self.texts = KeptAnalyses(path, threads.background("quadrill-analyses"))
        kept: KeptTables | None = None
        if journal is not None and store.folder is not None:
            shelf = BlobStore(journal.folder / "tables.sqlite", journal.reached)
            limits, background = settings.static_limits, threads.background("quadrill-kept")
            rows = KeptRows(shelf, store, terms.dictionary, background, limits.kept_pauses)
            kept = KeptTables(rows, store, limits)
        budget = StaticBudget(settings.static_rows, settings.static_rows_per_query)
        self.statics = TableRegistry(store, terms, self.tasks, budget, kept, settings.static_limits, threads)
        self.statics.commits.definition_of = settings.definition_of_set
        self.make_evaluator: MakeEvaluator = make_evaluator or EvaluatorChoice(self.statics, settings.engines)
        client = RemoteClient(
            store.allowed_hosts, timeout_s=remote.timeout_ms / 1000, max_bytes=remote.max_bytes
        )
        payloads = Payloads(None if journal is None else journal.folder / "sources")
        self.sources = SourceRegistry(client, payloads, clock, remote, self.tasks, threads)
        self.views = ViewRegistry(store, threads.background("quadrill-views"), self._view_refused)
        self.outbox = Outbox(journal)
        self.streams = StreamRegistry(registry, clock, settings, self.tasks.lock)
        self.acceptor = Acceptor(self.tasks, settings, self.streams.stamp)
        self.derived = DerivedStreams(self.tasks)
        self.catalogue = QueryCatalogue(registry, clock, settings)
        self.router = Router(
            self.tasks,
            self.acceptor,
            self.derived,
            self.streams,
            self.catalogue,
            settings,
            self.outbox,
            self.statics.task,
        )
        self.attachments = Attachments(
            store,
            self.tasks,
            self.router,
            self.streams,
            self.catalogue,
            self.sources,
            self.views,
            self.outbox,
            settings,
        )
        self.sequencer = Sequencer(
            self.tasks,
            self.router,
            self.attachments,
            self.statics,
            self.views,
            self.outbox,
            threads,
        )

    def _view_refused(self, view: View, error: ReportedError) -> None:
        """Let the query of a view fail; called in the thread that writes views."""
        entry = self.catalogue.find(view.name)
        running = None if entry is None else entry.running
        if running is None or running.view is not view:
            return  # the query was dropped or has restarted
        message, code = f"the view {view.graph.value} was refused: {error.message}", error.code
        task = FailTask(running, ReportedError(message, code=code))
        # The journal may have no space, and the server may be stopping: the next start writes the view again.
        with suppress(ReportedError):
            self.tasks.submit(task, "refused", name=view.name, error=message, code=code)

    def running(self) -> list[RunningQuery]:
        """Return the attached queries, also paused and failed ones, in the order in which they last began."""
        return [each.running for each in self.catalogue.entries() if each.running is not None]

    def begin_epoch(self, epoch: int) -> None:
        """Let feed ids and sequence numbers of streams continue after ``epoch``; see `QuadStore.epoch`."""
        self.tasks.epoch = epoch
        for entry in self.catalogue.entries():
            entry.feed.begin_epoch(epoch)
        for stream in self.streams:
            stream.next_seq = max(stream.next_seq, epoch + 1)

    def begin_at(self, version: int) -> None:
        """Set the store version that queries created from now on reflect."""
        self.tasks.version = version
        self.statics.begin_at(version)
