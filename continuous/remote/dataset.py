"""The dataset of a static part: named graphs of a reader, and a temporary store that includes remote graphs.

The temporary store contains the quads that one static part may read: all quads of the remote graphs, and the
store's quads with predicates that the part can match. An evaluation over the temporary store therefore gives
the same rows as an evaluation over the whole dataset.
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
"""A reader of the current store, of one version of the store, or of a copy, which may have remote graphs."""


def graphs_of(reader: Reader, dataset: Dataset) -> list[NamedNode | BlankNode]:
    """Return the named graphs that GRAPH ?variable ranges over, sorted."""
    request = QueryRequest(_ALL_GRAPHS, default_graphs=dataset.default, named_graphs=dataset.named)
    with reader.query(request) as result:
        rows = list(result.rows())
    return sorted((row[0] for row in rows if isinstance(row[0], (NamedNode, BlankNode))), key=str)


def nameable(reader: Reader, dataset: Dataset) -> list[NamedNode]:
    """Return the named graphs by IRI; raises UnsupportedError for a graph with a blank name."""
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
    """Return True if a pattern reads a remote graph of the dataset."""
    remote = sources.remote_graphs
    return bool(remote) and not remote.isdisjoint(
        _looked_into(pattern, dataset.default or (), dataset.named or ())
    )


def with_remote(
    snapshot: StoreReader, pattern: Algebra, sources: QuerySources, dataset: Dataset
) -> FrozenReader:
    """Return a reader of a temporary store with all quads that one static part may read.

    Args:
        snapshot: the store at one version.
        pattern: the pattern of the static part.
        sources: the contents of the remote graphs.
        dataset: the graphs that the query reads.

    Raises:
        LimitError: more than `_MOST` quads of the store would have to be copied.
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
