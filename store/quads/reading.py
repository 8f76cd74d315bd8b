"""The reader of the store: queries, graphs, dumps, and several reads of one version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TypeVar

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, Store, serialize

from ..changes.commit import GraphName
from ..documents.serialising import serialising
from ..errors import StoreError
from ..sparql.query import Querier, QueryRequest, QueryResult, drain
from ..terms import Solution
from .committer import Committer
from .read_write_lock import ReadWriteLock

T = TypeVar("T")


class StoreReader:
    """Reads the newest visible version of the dataset. Single queries of the store never wait for writers.

    Attributes:
        querier: evaluates query texts; None once the store is closed.
    """

    def __init__(self, querier: Querier, committer: Committer, gate: ReadWriteLock) -> None:
        self.querier: Querier | None = querier
        self._committer = committer
        self._gate = gate

    @property
    def version(self) -> int:
        """The version that readers see; each commit that changes the dataset increments the version."""
        return self._committer.version

    def query(self, request: QueryRequest | str) -> QueryResult:
        """Evaluate a SPARQL query; ``request`` is a text, or a text with parameters.

        The result of a query reads one snapshot; only the calling thread may use and close the result. The
        result's ``version`` is the version of the snapshot, or a lower bound if commits become visible during
        three attempts (inside `snapshot_read` the version is always exact).

        Raises:
            QueryTextError, UnsupportedError, LimitError, NetworkRefusedError, QueryFailedError: see
                `sparql.Querier.evaluate`.
        """
        if isinstance(request, str):
            request = QueryRequest(request)
        querier, gate = self.querier or self._open_querier(), self._gate
        for _ in range(3):
            sequence, version = gate.sequence, self._committer.version
            result = querier.evaluate(request, version)
            if sequence == gate.sequence and sequence % 2 == 0:
                break
        return result

    def read_at_once(self, read: Callable[[Store], T]) -> tuple[T, int] | None:
        """Call ``read`` with the Oxigraph store; return its value and the version of the data.

        Return None if commits became visible during all three attempts to read.
        """
        gate = self._gate
        for _ in range(3):
            sequence, version = gate.sequence, self._committer.version
            value = read(self.database())
            if sequence == gate.sequence and sequence % 2 == 0:
                return value, version
        return None

    def solutions(self, request: QueryRequest | str) -> tuple[list[str], list[Solution]]:
        """Return the variables and all solutions of a SELECT query."""
        with self.query(request) as result:
            return drain(result)

    @contextmanager
    def snapshot_read(self) -> Iterator[StoreReader]:
        """Allow several reads of one version: no commit becomes visible inside the block.

        Writers wait for the end of the block of `snapshot_read`, so keep it short and acquire no lock inside
        that a writer may hold. Blocks of `snapshot_read` may nest within a thread; a write inside the block
        raises StoreError.
        """
        self._open_querier()
        with self._gate.reading():
            yield self

    def graph_counts(self) -> dict[GraphName, int]:
        """Return the numbers of quads of the default graph and all named graphs, without a scan."""
        return self._committer.counts.copy()

    def size_of_graph(self, name: str) -> int | None:
        """Return the number of quads of the graph ``name``; None if there is no such graph."""
        try:
            return self._committer.counts.get(NamedNode(name))
        except ValueError:
            return None

    @property
    def quad_count(self) -> int:
        """The number of quads in the store."""
        return sum(self._committer.counts.copy().values())

    def graph_names(self) -> list[NamedNode | BlankNode]:
        """Return the names of all graphs in the list of graphs, including empty graphs."""
        return [name for name in self._committer.counts.copy() if not isinstance(name, DefaultGraph)]

    def graph_exists(self, name: GraphName) -> bool:
        """Return True if the graph is in the list of graphs; the default graph always is."""
        return isinstance(name, DefaultGraph) or self.database().contains_named_graph(name)

    def has_predicate(self, name: NamedNode) -> bool:
        """Return True if a quad of any graph has this predicate."""
        return next(iter(self.database().quads_for_pattern(None, name, None, None)), None) is not None

    def quads_for_pattern(
        self,
        subject: Any = None,
        predicate: NamedNode | None = None,
        object: Any = None,
        graph: GraphName | None = None,
    ) -> list[Quad]:
        """Return the quads that match a pattern of terms; None is a wildcard, also for the graph."""
        return list(self.database().quads_for_pattern(subject, predicate, object, graph))

    def dump(
        self,
        writer: IO[bytes],
        format: RdfFormat,
        *,
        graph: GraphName | None = None,
        without: frozenset[GraphName] = frozenset(),
        prefixes: Mapping[str, str] | None = None,
        started: Callable[[int], None] | None = None,
    ) -> int:
        """Serialise one graph, or the whole dataset in a quads format, in blocks of some kilobytes.

        Args:
            writer: any object with ``write(bytes)``.
            format: the RDF format.
            graph: the graph to write; None for the dataset.
            without: the graphs of the dataset that are left out.
            prefixes: prefixes for formats that have prefixes.
            started: called with the version of the dump before the first block is written.

        Returns:
            The version of the store that was written.
        """
        gated = _GatedWriter(writer, self._gate, lambda: self.version, started)
        store, declared = self.database(), dict(prefixes) if prefixes else None
        with gated, serialising():
            if graph is None and any(map(store.contains_named_graph, without)):
                quads = store.quads_for_pattern(None, None, None, None)
                kept = (quad for quad in quads if quad.graph_name not in without)
                serialize(kept, gated, format, prefixes=declared)  # type: ignore[arg-type]
            else:
                store.dump(gated, format, from_graph=graph, prefixes=declared)  # type: ignore[arg-type]
        return gated.version

    def _open_querier(self) -> Querier:
        querier = self.querier
        if querier is None:
            raise StoreError("the store is closed")
        return querier

    def database(self) -> Store:
        """Return the Oxigraph store, or raise an error if the quad store is closed.

        Raises: StoreError if the quad store is closed.
        """
        self._open_querier()
        return self._committer.store


class _GatedWriter:
    """A writer that delays commits until the first block of a dump, when the dump has its snapshot."""

    def __init__(
        self,
        writer: IO[bytes],
        gate: ReadWriteLock,
        version: Callable[[], int],
        started: Callable[[int], None] | None,
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
        """Do nothing, because `write` passes each block of the dump on at once."""

    def _release(self) -> None:
        if self._open:
            self._open = False
            self._reading.__exit__(None, None, None)
            if self._started is not None:
                self._started(self.version)
