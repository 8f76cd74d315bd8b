"""What a right query may not mean: names of variables that may be slips, and names that nobody has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.advice import predicates_named, variable_advice
from quadrill.continuous.algebra.graphs import graphs_read
from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.store.quads.quad_store import QuadStore

_MOST_ELEMENTS = 1_000
"""So many of the newest elements that a stream retains are looked at."""
_MOST_NAMES = 50
"""So many predicates of a query are looked up."""


def advice(prepared: PreparedQuery, store: QuadStore, engine: Engine) -> list[str]:
    """Sentences for a registration, true at this moment."""
    return [*variable_advice(prepared.query), *_unseen(prepared, store, engine)]


def _unseen(prepared: PreparedQuery, store: QuadStore, engine: Engine) -> Iterator[str]:
    """Predicates and graphs that neither the store nor the streams have.

    A stream that retains nothing has nothing to say: queries are often there before their first element.
    """
    query = prepared.query
    streams = {window.name: window.stream for window in query.windows}
    seen: dict[str, tuple[int, set[NamedNode]]] = {}
    for window, name in islice(dict.fromkeys(predicates_named(query.root)), _MOST_NAMES):
        if store.has_predicate(name):
            continue
        stream = None if window is None else streams.get(window)
        if window is None:
            yield f"No triple of the store has the predicate <{name.value}>."
        elif isinstance(stream, NamedNode):
            if stream.value not in seen:
                newest = engine.newest_elements(stream.value, _MOST_ELEMENTS)
                predicates = {quad.predicate for one in newest for quad in one.quads}
                seen[stream.value] = len(newest), predicates
            elements, predicates = seen[stream.value]
            if elements and name not in predicates:
                shown = "The newest element" if elements == 1 else f"None of the newest {elements} elements"
                verb = "has no triple" if elements == 1 else "has a triple"
                yield f"{shown} of <{stream.value}> {verb} with the predicate <{name.value}>."
    fetched = {spec.iri for spec in prepared.source_specs}
    graphs = [*query.dataset.default, *query.dataset.named, *sorted(graphs_read(query.root).names, key=str)]
    for graph in dict.fromkeys(graphs):
        if graph.value not in fetched and not store.graph_exists(graph):
            yield f"The store has no graph <{graph.value}>."
