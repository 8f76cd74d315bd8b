"""Test whether a constant is a node of a graph; zero-length paths from nodes need no correction."""

from __future__ import annotations

from functools import partial

from pyoxigraph import DefaultGraph, Literal, NamedNode, Store

from quadrill.continuous.algebra.nodes import Term, TermPattern
from quadrill.store.quads.reading import StoreReader


def is_node(reader: StoreReader, term: Term, graph: TermPattern | None) -> bool:
    """Return True if the default graph (None) or a named graph is known to have a triple with the term."""
    if graph is not None and not isinstance(graph, NamedNode):
        return False
    found = reader.read_at_once(partial(has_node, term, graph or DefaultGraph()))
    return found is not None and found[0]


def has_node(term: Term, graph: NamedNode | DefaultGraph, store: Store) -> bool:
    """Return True if a graph of the store has a triple with the term as subject or object."""
    if not isinstance(term, Literal) and not _is_empty(store, term, None, graph):
        return True
    return not _is_empty(store, None, term, graph)


def _is_empty(
    store: Store, subject: Term | None, value: Term | None, graph: NamedNode | DefaultGraph
) -> bool:
    return next(iter(store.quads_for_pattern(subject, None, value, graph)), None) is None  # type: ignore[arg-type]
