"""Streams and graphs that a query reads and ``quadrill run`` is not given, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyoxigraph import DefaultGraph, NamedNode

from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads.quad_store import QuadStore


def unmatched(
    engine: Engine, store: QuadStore, prepared: PreparedQuery, streams: Sequence[str], static: Sequence[str]
) -> list[str]:
    """Return sentences on streams and graphs that are read but not given, or given but not read.

    Args:
        engine: the engine in which the query is registered.
        store: the store, after the static files were loaded.
        prepared: the query.
        streams: names and IRIs of the given streams.
        static: the given static files, each as ``FILE`` or ``GRAPH=FILE``.
    """
    return [*_of_streams(engine, prepared, streams), *_of_graphs(store, prepared, static)]


def _of_streams(engine: Engine, prepared: PreparedQuery, given: Sequence[str]) -> Iterator[str]:
    known = {name: state.iri for name in given if (state := engine.parts.streams.find(name)) is not None}
    for iri in prepared.streams:
        if iri not in known.values():
            yield f"the query reads the stream <{iri}>, which no --stream gives"
    if not prepared.names_its_streams:
        return
    read = ", ".join(f"<{iri}>" for iri in prepared.streams) or "no stream"
    for name in given:
        if known.get(name) not in prepared.streams:
            yield f"the query does not read the stream {name} of --stream; it reads {read}"


def _of_graphs(store: QuadStore, prepared: PreparedQuery, given: Sequence[str]) -> Iterator[str]:
    reads = prepared.reads()
    fetched = {spec.iri for spec in prepared.source_specs}
    counts = store.reader.graph_counts()
    for iri in sorted(reads.graphs - fetched):
        if not counts.get(NamedNode(iri)):
            yield f"the query reads the graph <{iri}>, which no --static {iri}=FILE gives"
    if reads.default_graph and not counts.get(DefaultGraph()):
        yield "the query reads the default graph, which no --static FILE gives"
    reads_nothing = not (reads.graphs or reads.every or reads.default_graph)
    for each in given:
        graph, _, file = each.rpartition("=")
        kind = guess_rdf_format(file)
        if reads_nothing:
            yield f"no part of the query reads static data, so --static {each} is not used"
        elif graph and not reads.every and graph not in reads.graphs:
            yield f"no part of the query reads the graph <{graph}>, so --static {each} is not used"
        elif not (graph or reads.default_graph) and kind is not None and not kind.format.supports_datasets:
            yield f"no part of the query reads the default graph, so --static {each} is not used"
