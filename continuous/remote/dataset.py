"""A dataset of which some graphs are remote: a throw-away store of what one static part may look into.

The remote graphs are there whole; of the store's graphs come the quads with the predicates that the part can
match, so that the evaluation there is the evaluation over the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from quadrill.store.errors import LimitError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.quads.reading import StoreReads
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.query import Querier, QueryRequest, QueryResult

from ..algebra.build import all_nodes
from ..algebra.graphs import graphs_read, predicates_of
from ..algebra.nodes import Algebra
from .query import QuerySources

Name = NamedNode | BlankNode | DefaultGraph
_MOST = 2_000_000


class ScratchReader:
    """Asks queries of a throw-away store as a snapshot of the quad store is asked."""

    def __init__(self, store: Store, version: int) -> None:
        self._querier = Querier(store, TextLimits(), AllowedHosts())
        self.version = version

    def query(self, text: str, **parameters: Any) -> QueryResult:
        """See `quadrill.store.quads.reading.StoreReads.query`."""
        return self._querier.evaluate(QueryRequest(text, **parameters), self.version)


def reads_remote(
    pattern: Algebra, sources: QuerySources, default: Sequence[Name], named: Sequence[Name]
) -> bool:
    """True when a pattern looks into a remote graph of a dataset."""
    return not sources.remote_graphs.isdisjoint(_looked_into(pattern, default, named))


def with_remote(
    snapshot: StoreReads,
    pattern: Algebra,
    sources: QuerySources,
    default: Sequence[Name],
    named: Sequence[Name],
) -> ScratchReader:
    """The dataset of one static part.

    Args:
        snapshot: the store at one version.
        pattern: the part.
        sources: the remote graphs' contents.
        default: the graphs of the dataset's default graph.
        named: the dataset's named graphs.

    Raises:
        LimitError: too many quads of the store would have to be copied.
    """
    store = Store()
    graphs = _looked_into(pattern, default, named)
    store.extend(sources.quads(graphs))
    for name in named:
        if not isinstance(name, DefaultGraph) and (name in sources.remote_graphs or _exists(snapshot, name)):
            store.add_graph(name)
    predicates = predicates_of(all_nodes(pattern))
    copied = 0
    for graph in graphs:
        if graph in sources.remote_graphs:
            continue
        for predicate in [None] if predicates is None else sorted(predicates, key=str):
            quads: list[Quad] = snapshot.quads_for_pattern(None, predicate, None, graph)
            copied += len(quads)
            if copied > _MOST:
                raise LimitError(
                    f"more than {_MOST:,} stored quads would have to be joined with a remote graph",
                    hint="load the remote graph into the store, or split the query so that the stored data "
                    "is matched in a GRAPH block of its own",
                    limit=_MOST,
                )
            store.extend(quads)
    return ScratchReader(store, snapshot.version)


def _looked_into(pattern: Algebra, default: Sequence[Name], named: Sequence[Name]) -> list[Name]:
    reads = graphs_read(pattern)
    graphs: dict[Name, None] = {}
    if reads.default:
        graphs.update(dict.fromkeys(default))
    graphs.update(dict.fromkeys(name for name in named if reads.every or name in reads.names))
    return list(graphs)


def _exists(snapshot: StoreReads, name: NamedNode | BlankNode) -> bool:
    return bool(snapshot.graph_exists(name))
