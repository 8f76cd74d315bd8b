"""The dataset that a static part is evaluated over, as a reader shows it, and one with remote graphs.

That is a throw-away store of what one part may look into. The remote graphs are there whole; of the store's
graphs come the quads with the predicates that the part can match, so that the evaluation there is the
evaluation over the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from quadrill.store.errors import LimitError, UnsupportedError
from quadrill.store.hosts import NO_HOSTS
from quadrill.store.quads.frozen import FrozenReader
from quadrill.store.quads.reading import StoreReader
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.query import Querier, QueryRequest

from ..algebra.build import all_nodes
from ..algebra.graphs import Dataset, graphs_read, predicates_of
from ..algebra.nodes import Algebra
from .query import QuerySources

Name = NamedNode | BlankNode | DefaultGraph
_MOST = 2_000_000
_ALL_GRAPHS = "SELECT ?g WHERE { GRAPH ?g { } }"


Reader: TypeAlias = StoreReader | FrozenReader
"""The store as it is, one version of it, or a copy, which may have remote graphs."""


def graphs_of(reader: Reader, dataset: Dataset) -> list[NamedNode | BlankNode]:
    """The named graphs that GRAPH ranges over."""
    request = QueryRequest(_ALL_GRAPHS, default_graphs=dataset.default, named_graphs=dataset.named)
    with reader.query(request) as result:
        rows = list(result.rows())
    return sorted((row[0] for row in rows if isinstance(row[0], (NamedNode, BlankNode))), key=str)


def nameable(reader: Reader, dataset: Dataset) -> list[NamedNode]:
    """The named graphs for a text that lists them, which it can only by IRI."""
    names: list[NamedNode] = []
    for name in graphs_of(reader, dataset):
        if isinstance(name, BlankNode):
            raise UnsupportedError(
                "a sub-query inside GRAPH ?variable over graphs with blank names",
                hint="give the graphs IRIs, or name the graph in the query",
            )
        names.append(name)
    return names


def reads_remote(pattern: Algebra, sources: QuerySources, dataset: Dataset) -> bool:
    """True when a pattern looks into a graph of a dataset that is fetched."""
    remote = sources.remote_graphs
    return bool(remote) and not remote.isdisjoint(
        _looked_into(pattern, dataset.default or (), dataset.named or ())
    )


def with_remote(
    snapshot: StoreReader, pattern: Algebra, sources: QuerySources, dataset: Dataset
) -> FrozenReader:
    """The dataset of one static part.

    Args:
        snapshot: the store at one version.
        pattern: the part.
        sources: the remote graphs' contents.
        dataset: the graphs of the query.

    Raises:
        LimitError: too many quads of the store would have to be copied.
    """
    store, default, named = Store(), dataset.default or (), dataset.named or ()
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
    return FrozenReader(Querier(store, TextLimits(), NO_HOSTS), snapshot.version)


def _looked_into(pattern: Algebra, default: Sequence[Name], named: Sequence[Name]) -> list[Name]:
    reads = graphs_read(pattern)
    graphs: dict[Name, None] = {}
    if reads.default:
        graphs.update(dict.fromkeys(default))
    graphs.update(dict.fromkeys(name for name in named if reads.every or name in reads.names))
    return list(graphs)


def _exists(snapshot: StoreReader, name: NamedNode | BlankNode) -> bool:
    return bool(snapshot.graph_exists(name))
