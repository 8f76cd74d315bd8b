"""Advice on valid queries: variable names that may be typing errors, predicates and graphs without data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.graphs import graphs_read
from quadrill.continuous.algebra.nodes import MERGED, Var
from quadrill.continuous.algebra.query_advice import predicates_named, variable_advice
from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.store.quads.reading import StoreReader

_MOST_ELEMENTS = 1_000
"""Maximum number of a stream's newest retained elements that are searched for predicates."""
_MOST_NAMES = 50
"""Maximum number of a query's predicates that are looked up."""


def advice(prepared: PreparedQuery, reader: StoreReader, engine: Engine) -> list[str]:
    """Return sentences of advice on a query to be registered, based on the current data."""
    return [*variable_advice(prepared.query), *_unseen(prepared, reader, engine)]


class _Newest:
    """Predicates of the newest retained elements of streams, of which each is searched once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[str, tuple[int, set[NamedNode]]] = {}

    def searched_without(self, name: NamedNode, streams: Iterable[NamedNode | Var]) -> int:
        """Return the number of searched stream elements if none of them has the predicate ``name``.

        The number of searched elements is 0 if an element has the predicate, or if a stream has no elements
        or is a variable.
        """
        elements = 0
        for stream in streams:
            number, predicates = self._of(stream) if isinstance(stream, NamedNode) else (0, set())
            if not number or name in predicates:
                return 0
            elements += number
        return elements

    def _of(self, stream: NamedNode) -> tuple[int, set[NamedNode]]:
        if stream.value not in self._seen:
            newest = self._engine.parts.streams.newest(stream.value, _MOST_ELEMENTS)
            self._seen[stream.value] = len(newest), {quad.predicate for one in newest for quad in one.quads}
        return self._seen[stream.value]


def _unseen(prepared: PreparedQuery, reader: StoreReader, engine: Engine) -> Iterator[str]:
    """Return sentences on a query's predicates and graphs that neither the store nor its streams have.

    The predicates of C-SPARQL patterns, which name no window, are looked up in the store and in all streams
    of the query.

    A stream without retained elements gives no advice, because queries are often registered before the first
    element arrives.
    """
    query = prepared.query
    streams = {window.name: {window.stream} for window in query.windows}
    streams[MERGED] = {window.stream for window in query.windows}
    newest = _Newest(engine)
    for window, name in islice(dict.fromkeys(predicates_named(query.root)), _MOST_NAMES):
        if reader.has_predicate(name):
            continue
        if window is None:
            yield f"No triple of the store has the predicate <{name.value}>."
        elif elements := newest.searched_without(name, streams.get(window, set())):
            shown = "The newest element" if elements == 1 else f"None of the newest {elements} elements"
            verb = "has no triple" if elements == 1 else "has a triple"
            places = " and ".join(sorted(str(stream) for stream in streams[window]))
            yield f"{shown} of {places} {verb} with the predicate <{name.value}>."
    fetched = {spec.iri for spec in prepared.source_specs}
    graphs = [*query.dataset.default, *query.dataset.named, *sorted(graphs_read(query.root).names, key=str)]
    for graph in dict.fromkeys(graphs):
        if graph.value not in fetched and not reader.graph_exists(graph):
            yield f"The store has no graph <{graph.value}>."
