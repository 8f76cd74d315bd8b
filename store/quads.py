"""QuadStore: the named-graph store, its versions and its change sets.

The background dataset D of docs/semantics.md. Every change is one atomic commit with an exact change set and
the next version; every read is a snapshot of one version. Reads never wait for writers; writes wait in line.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, Store

from .apply import Functions
from .big_stack import with_big_stack
from .changes import Commit, GraphName
from .dispatch import Dispatcher
from .errors import (
    NotFoundError,
    StoreError,
    StoreFormatError,
    StoreLockedError,
    StoreUnwritableError,
    UnsupportedError,
)
from .folder import DataFolder, write_format
from .formats import RdfType, parse_rdf, rdf_error
from .gate import Gate
from .guard import AllowedHosts, Limits
from .logs.change_log import ChangeLog, Retention, SqliteChangeLog
from .logs.memory_log import MemoryChangeLog
from .pending import Pending, quads_in_graph
from .remote import Fetcher, fetch_rdf, http_fetcher
from .scratch import in_store_form
from .sparql import Querier, QueryRequest, QueryResult, Solution, drain
from .update import UpdateRequest, check_syntax, derive_update, plan_update
from .writer import Writer


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing(point: str) -> None:
    """The default of ``reached``: tests of crashes put something else here."""


class QuadStore:
    """Named graphs over Oxigraph, on disk or in memory. Thread-safe; one process per folder."""

    def __init__(
        self,
        store: Store,
        log: ChangeLog,
        folder: DataFolder | None,
        *,
        clock_ms: Callable[[], int],
        limits: Limits,
        hosts: AllowedHosts,
        fetcher: Fetcher,
        reached: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._log = log
        self._gate = Gate()
        self._dispatcher = Dispatcher()
        self._hosts = hosts
        self._limits = limits
        self._fetcher = fetcher
        self._writer = Writer(store, log, self._dispatcher, self._gate, clock_ms=clock_ms, reached=reached)
        self._querier: Querier | None = Querier(store, limits, hosts)

    @classmethod
    def open(
        cls,
        folder: Path | str | None,
        *,
        durable: bool = True,
        clock_ms: Callable[[], int] | None = None,
        limits: Limits | None = None,
        retention: Retention | None = None,
        allowed_hosts: Iterable[str] = (),
        fetcher: Fetcher | None = None,
        reached: Callable[[str], None] = _nothing,
    ) -> QuadStore:
        """Open or make a store, and finish what a crash cut off.

        Args:
            folder: the data folder; None keeps everything in memory.
            durable: acknowledged commits survive a power failure (one fsync per group of commits); without it
                they survive a killed process.
            clock_ms: the wall clock, for the time of commits and the age of history.
            limits: on the size and nesting of texts.
            retention: how much history of changes is kept.
            allowed_hosts: hosts that SERVICE and LOAD may reach; none by default.
            fetcher: fetches documents for LOAD; by default over HTTP from the allowed hosts.
            reached: told the name of each step of a commit; for tests of crashes.

        Raises:
            StoreLockedError: another process holds the folder.
            StoreUnwritableError: the folder cannot be made or written.
            StoreFormatError: the folder is damaged, not ours or of a newer version.
        """
        hosts = AllowedHosts(allowed_hosts)
        retention = retention or Retention()
        options: dict[str, Any] = {
            "clock_ms": clock_ms or _system_ms,
            "limits": limits or Limits(),
            "hosts": hosts,
            "fetcher": fetcher or http_fetcher(hosts),
            "reached": reached,
        }
        if folder is None:
            return cls(Store(), MemoryChangeLog(retention), None, **options)
        held = DataFolder.open(Path(folder))
        log: SqliteChangeLog | None = None
        try:
            log = SqliteChangeLog(held.changes, durable=durable, retention=retention)
            return cls(_open_quads(held), log, held, **options)
        except BaseException:
            if log is not None:
                log.close()
            held.close()
            raise

    # --- versions and subscribers -------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version that readers see; it grows by one with every commit that changed something."""
        return self._writer.version

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """The hosts that SERVICE and LOAD may reach."""
        return self._hosts

    def subscribe(
        self,
        callback: Callable[[Commit], None],
        *,
        graphs: Iterable[GraphName] | None = None,
        predicates: Iterable[NamedNode] | None = None,
    ) -> Callable[[], None]:
        """Call ``callback`` once for each later commit, in order, after it is durable and visible.

        It runs in the thread of a writer, outside the writer lock: it may read and write the store, but while
        it runs no other commit is handed over. Errors it raises are logged.

        Args:
            callback: called with the commit.
            graphs: only commits that touch one of these graphs.
            predicates: only commits that add or remove a quad with one of these predicates (in ``graphs``).

        Returns:
            A function that ends the subscription.
        """
        return self._dispatcher.subscribe(callback, graphs, predicates)

    def wait_delivered(self, version: int, timeout_s: float = 10.0) -> bool:
        """Wait until subscribers were called for every commit up to ``version``; False after the time-out."""
        return self._dispatcher.wait_delivered(version, timeout_s)

    def commits_after(self, version: int, limit: int | None = None) -> Iterator[Commit]:
        """The commits after ``version`` that readers see by now, oldest first, from the change log.

        Raises:
            GoneError: the log does not reach back so far, or ``version`` lies ahead of the store.
        """
        visible = self.version
        return takewhile(lambda commit: commit.version <= visible, self._log.after(version, limit))

    def graph_counts(self) -> dict[GraphName, int]:
        """How many quads each listed graph holds, the default graph always among them; kept, not counted."""
        return dict(self._writer.counts)

    @property
    def quad_count(self) -> int:
        """How many quads the store holds."""
        return sum(self._writer.counts.values())

    # --- reading ------------------------------------------------------------------------------

    def query(
        self,
        text: str,
        *,
        base_iri: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        default_graphs: Sequence[NamedNode | BlankNode | DefaultGraph] | None = None,
        named_graphs: Sequence[NamedNode | BlankNode] | None = None,
        union: bool = False,
        custom_functions: Mapping[NamedNode, Callable[..., Any]] | None = None,
        custom_aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None,
    ) -> QueryResult:
        """Ask a query; the result reads one snapshot and is used and closed in this thread.

        Its ``version`` is the snapshot's, or a lower bound while commits land all the time
        (`snapshot_read` is exact always). For the parameters see `sparql.QueryRequest`.

        Raises:
            QueryTextError, UnsupportedError, LimitError, NetworkRefusedError, QueryFailedError: see
                `sparql.Querier.evaluate`.
        """
        request = QueryRequest(
            text, base_iri, prefixes, default_graphs, named_graphs, union, custom_functions, custom_aggregates
        )
        querier, writer = self._open_querier(), self._writer
        for _ in range(3):
            turn, version = writer.turn, writer.version
            result = querier.evaluate(request, version)
            if turn == writer.turn and turn % 2 == 0:
                break
        return result

    def solutions(self, text: str, **parameters: Any) -> tuple[list[str], list[Solution]]:
        """Variables and all solutions of a SELECT; parameters as for `query`."""
        with self.query(text, **parameters) as result:
            return drain(result)

    @contextmanager
    def snapshot_read(self) -> Iterator[SnapshotReader]:
        """Several reads of one version: no commit becomes visible inside. Keep it short, writers wait.

        Snapshots nest within a thread; writing inside one is refused.
        """
        self._open_querier()
        with self._gate.reading():
            yield SnapshotReader(self)

    def contains(self, quad: Quad) -> bool:
        """True when the quad (in the store's own form) is there."""
        return quad in self._database()

    def graph_names(self) -> list[NamedNode | BlankNode]:
        """The listed graph names, empty graphs among them."""
        return [name for name in self._writer.counts if not isinstance(name, DefaultGraph)]

    def graph_exists(self, name: GraphName) -> bool:
        """True when the graph is listed; the default graph always is."""
        return isinstance(name, DefaultGraph) or self._database().contains_named_graph(name)

    def graph_quads(self, name: GraphName) -> list[Quad]:
        """All quads of one graph."""
        return list(self._database().quads_for_pattern(None, None, None, name))

    def quads_for_pattern(
        self,
        subject: Any = None,
        predicate: NamedNode | None = None,
        object: Any = None,
        graph: GraphName | None = None,
    ) -> list[Quad]:
        """The quads that match; None is a wildcard, also for the graph."""
        return list(self._database().quads_for_pattern(subject, predicate, object, graph))

    def dump(
        self,
        writer: IO[bytes],
        format: RdfFormat,
        *,
        graph: GraphName | None = None,
        prefixes: Mapping[str, str] | None = None,
        started: Callable[[int], None] | None = None,
    ) -> int:
        """Write one graph, or the whole dataset in a quads format, in blocks of some kilobytes.

        Args:
            writer: any object with ``write(bytes)``.
            format: the RDF format.
            graph: the graph, None for the dataset.
            prefixes: used where the format has prefixes.
            started: called with the version before the first block.

        Returns:
            The version written.
        """
        gated = _GatedWriter(writer, self._gate, lambda: self.version, started)
        store = self._database()
        with gated:
            store.dump(gated, format, from_graph=graph, prefixes=dict(prefixes) if prefixes else None)  # type: ignore[arg-type]
        return gated.version

    # --- writing ------------------------------------------------------------------------------

    def update(
        self,
        text: str,
        *,
        base_iri: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        using_graphs: Sequence[NamedNode] | None = None,
        using_named_graphs: Sequence[NamedNode] | None = None,
        custom_functions: Functions | None = None,
        cause: str | None = "update",
        expected: int | None = None,
    ) -> Commit:
        """Run a SPARQL update: all its operations are one atomic commit.

        Args:
            text: SPARQL Update.
            base_iri: resolves relative IRIs where the text has no BASE.
            prefixes: declared before the text's own.
            using_graphs: ``using-graph-uri`` of the protocol.
            using_named_graphs: ``using-named-graph-uri`` of the protocol.
            custom_functions: extension functions for WHERE parts.
            cause: goes into the commit.
            expected: refuse unless the dataset is at this version (If-Match).

        Returns:
            The commit; ``changed`` is False when the update had no effect.

        Raises:
            QueryTextError: the text is wrong, with its place.
            UpdateError: an operation failed; nothing was applied.
            LimitError, UnsupportedError, NetworkRefusedError: see `update.plan_update`.
            PreconditionError: the dataset is not at ``expected``.
        """
        request = UpdateRequest(text, base_iri, prefixes, using_graphs, using_named_graphs, custom_functions)
        plan = plan_update(request, self._limits, self._hosts)
        deep = plan.height > self._limits.inline_height
        if deep:
            with_big_stack(lambda: check_syntax(plan))
        else:
            check_syntax(plan)

        def derive(pending: Pending) -> None:
            if deep:
                with_big_stack(lambda: derive_update(plan, self._writer.store, pending, self._fetcher))
            else:
                derive_update(plan, self._writer.store, pending, self._fetcher)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def apply(
        self,
        *,
        add: Iterable[Quad] = (),
        remove: Iterable[Quad] = (),
        create: Iterable[NamedNode | BlankNode] = (),
        drop: Iterable[NamedNode | BlankNode] = (),
        cause: str | None = None,
        expected: int | None = None,
    ) -> Commit:
        """Change quads and graph names as one atomic commit: drop, remove, create, add, in this order.

        Blank nodes are the store's own nodes of the same label. Quads that are there already are not added.
        """
        added, removed = in_store_form(add), in_store_form(remove)
        created, dropped = list(create), list(drop)

        def derive(pending: Pending) -> None:
            for name in dropped:
                pending.drop(name)
            for quad in removed:
                pending.remove(quad)
            for name in created:
                pending.create(name)
            for quad in added:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def put_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "put",
        expected: int | None = None,
    ) -> Commit:
        """Replace the content of one graph; the graph is listed afterwards, also when it is empty.

        Triples without a graph go into ``name``. The graph was new when the commit's ``created`` has it.
        """
        wanted = in_store_form(quads_in_graph(quads, name))

        def derive(pending: Pending) -> None:
            if not isinstance(name, DefaultGraph):
                pending.create(name)
            kept = set(wanted)
            for quad in list(pending.quads_of(name)):
                if quad not in kept:
                    pending.remove(quad)
            for quad in wanted:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def post_graph(
        self,
        name: GraphName,
        quads: Iterable[Quad],
        *,
        cause: str | None = "post",
        expected: int | None = None,
    ) -> Commit:
        """Add quads to one graph; the graph is listed afterwards, also when it is empty."""
        created = () if isinstance(name, DefaultGraph) else (name,)
        return self.apply(add=quads_in_graph(quads, name), create=created, cause=cause, expected=expected)

    def delete_graph(
        self, name: GraphName, *, cause: str | None = "delete", expected: int | None = None
    ) -> Commit:
        """Drop one graph; the default graph is emptied.

        Raises:
            NotFoundError: there is no such graph.
        """

        def derive(pending: Pending) -> None:
            if isinstance(name, DefaultGraph):
                pending.clear(name)
            elif not pending.has_graph(name):
                raise NotFoundError(f"there is no graph {name}", graph=str(name))
            else:
                pending.drop(name)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def replace_dataset(
        self, quads: Iterable[Quad], *, cause: str | None = "put", expected: int | None = None
    ) -> Commit:
        """Replace the whole dataset: afterwards the graphs of ``quads`` are the graphs there are."""
        wanted = in_store_form(quads)

        def derive(pending: Pending) -> None:
            kept = set(wanted)
            names = {quad.graph_name for quad in wanted}
            for name in list(pending.graph_names()):
                if name not in names:
                    pending.drop(name)
            for graph in (DefaultGraph(), *names):
                for quad in list(pending.quads_of(graph)):
                    if quad not in kept:
                        pending.remove(quad)
            for quad in wanted:
                pending.add(quad)

        return self._writer.submit(derive, cause=cause, expected=expected)

    def clear(self, *, cause: str | None = "delete", expected: int | None = None) -> Commit:
        """Remove every quad and every graph name."""
        return self.replace_dataset((), cause=cause, expected=expected)

    def load(
        self,
        body: bytes,
        kind: RdfType,
        *,
        graph: GraphName | None = None,
        base_iri: str | None = None,
        cause: str | None = "load",
        expected: int | None = None,
    ) -> Commit:
        """Add a document, all or nothing; its blank nodes become new ones.

        Args:
            body: the document.
            kind: its format.
            graph: where triples without a graph go; by default the default graph.
            base_iri: resolves relative IRIs.
            cause: goes into the commit.
            expected: refuse unless the dataset is at this version.

        Raises:
            RdfSyntaxError: malformed, with its place; nothing was added.
        """
        quads = quads_in_graph(parse_rdf(body, kind, base_iri=base_iri), graph or DefaultGraph())
        return self.apply(add=quads, cause=cause, expected=expected)

    def bulk_load(
        self,
        source: Path | bytes,
        kind: RdfType,
        *,
        graph: GraphName | None = None,
        base_iri: str | None = None,
        cause: str | None = "bulk load",
    ) -> Commit:
        """Load a large document fast: one commit whose quads are counted, not listed (``exact`` False).

        The document is loaded whole or not at all. Readers of the dataset as a whole must read it anew.

        Raises:
            RdfSyntaxError: malformed.
            StoreUnwritableError: the source cannot be read or the store cannot be written.
        """

        def load(store: Store) -> None:
            options: dict[str, Any] = {"path": str(source)} if isinstance(source, Path) else {"input": source}
            if graph is not None:
                options["to_graph"] = graph
            try:
                store.bulk_load(format=kind.format, base_iri=base_iri, **options)
            except SyntaxError as error:
                raise rdf_error(error, kind) from error
            except OSError as error:
                raise StoreUnwritableError(f"the bulk load failed: {error}") from error

        return self._writer.bulk(load, cause=cause)

    def fetch(self, iri: str) -> list[Quad]:
        """Fetch and parse an RDF document from an allowed host; nothing is stored.

        Raises:
            NetworkRefusedError: the host is not allowed.
            FetchError, RdfSyntaxError: it cannot be fetched or read.
        """
        return fetch_rdf(self._fetcher, iri)

    # --- upkeep -------------------------------------------------------------------------------

    def backup(self, target: Path | str) -> int:
        """Write a data folder that can be opened as it is, while the store runs.

        Args:
            target: a folder that does not exist or is empty; on the same disk the database files are linked,
                not copied.

        Returns:
            The version in the backup.

        Raises:
            UnsupportedError: the store is in memory.
            StoreUnwritableError: the folder is not empty or cannot be written.
        """
        log, path = self._log, Path(target)
        if not isinstance(log, SqliteChangeLog):
            raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")

        def copy() -> None:
            try:
                path.mkdir(parents=True, exist_ok=True)
                if any(path.iterdir()):
                    raise StoreUnwritableError(
                        f"the backup folder {path} is not empty", hint="give a new folder"
                    )
                self._writer.store.backup(path / "quads")
                log.backup(path / "changes.sqlite")
            except OSError as error:
                raise StoreUnwritableError(f"the backup to {path} failed: {error}") from error
            write_format(path)  # last: a folder without it is not taken for a backup

        self._writer.exclusively(copy)
        return self.version

    def checkpoint_quads(self, target: Path | str) -> int:
        """Write a copy of the database alone, for read-only use by a worker process; returns its version.

        Raises:
            UnsupportedError: the store is in memory.
        """
        if self._folder is None:
            raise UnsupportedError("a checkpoint of a store in memory")
        version = 0

        def copy() -> None:
            nonlocal version
            self._writer.store.backup(str(target))
            version = self.version

        self._writer.exclusively(copy)
        return version

    def optimize(self) -> None:
        """Compact the database files; readers and writers go on."""
        self._database().optimize()

    def flush(self) -> None:
        """Write the quads through to disk and checkpoint the log."""
        self._writer.checkpoint()

    @property
    def in_memory(self) -> bool:
        """True for a store without a folder."""
        return self._folder is None

    def close(self) -> None:
        """Finish the present commit, checkpoint, and let the folder go. Safe to call twice."""
        if self._querier is None:
            return
        self._querier = None
        try:
            self._writer.close()
        finally:
            # The database lets its folder go with its last reference, which may sit in a cycle of frames.
            del self._writer.store
            gc.collect()
            if self._folder is not None:
                self._folder.close()

    def __enter__(self) -> QuadStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_querier(self) -> Querier:
        querier = self._querier
        if querier is None:
            raise StoreError("the store is closed")
        return querier

    def _database(self) -> Store:
        self._open_querier()
        return self._writer.store


class SnapshotReader:
    """Reads of one version; valid inside its `QuadStore.snapshot_read`."""

    def __init__(self, store: QuadStore) -> None:
        self._store = store
        self.version = store.version

    def query(self, text: str, **parameters: Any) -> QueryResult:
        """See `QuadStore.query`; the result's version is exact."""
        return self._store.query(text, **parameters)

    def solutions(self, text: str, **parameters: Any) -> tuple[list[str], list[Solution]]:
        """See `QuadStore.solutions`."""
        return self._store.solutions(text, **parameters)

    def graph_quads(self, name: GraphName) -> list[Quad]:
        """All quads of one graph."""
        return self._store.graph_quads(name)

    def quads_for_pattern(
        self,
        subject: Any = None,
        predicate: NamedNode | None = None,
        object: Any = None,
        graph: GraphName | None = None,
    ) -> list[Quad]:
        """See `QuadStore.quads_for_pattern`."""
        return self._store.quads_for_pattern(subject, predicate, object, graph)


class _GatedWriter:
    """Holds commits back from the start of a dump until its first block: by then its snapshot is taken."""

    def __init__(
        self, writer: IO[bytes], gate: Gate, version: Callable[[], int], started: Callable[[int], None] | None
    ) -> None:
        self._writer = writer
        self._reading = gate.reading()
        self._read_version = version
        self._started = started
        self._open = False
        self.version = 0

    def __enter__(self) -> _GatedWriter:
        self._reading.__enter__()
        self._open = True
        self.version = self._read_version()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def write(self, block: bytes) -> int:
        self._release()
        self._writer.write(block)
        return len(block)

    def flush(self) -> None:
        """Blocks are written at once."""

    def _release(self) -> None:
        if self._open:
            self._open = False
            self._reading.__exit__(None, None, None)
            if self._started is not None:
                self._started(self.version)


def _open_quads(folder: DataFolder) -> Store:
    try:
        return Store(str(folder.quads))
    except RuntimeError as error:
        raise StoreFormatError(
            f"the database {folder.quads} is damaged: {error}", hint="restore the data folder from a backup"
        ) from error
    except OSError as error:
        text = str(error)
        if "lock" in text.lower():
            raise StoreLockedError(
                f"the database {folder.quads} is in use by another process",
                hint="stop the process that uses it",
            ) from error
        raise StoreUnwritableError(
            f"the database {folder.quads} cannot be opened: {text}", hint="check permissions and free space"
        ) from error
