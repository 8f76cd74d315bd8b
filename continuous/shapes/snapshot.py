"""Snapshots: the triples that shapes read at one version of the dataset, before they are copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.terms import Term

from ..rules.store_facts import InputGraphs

_MOST_GRAPHS = 16
"""Maximum number of graphs without an owner that are listed; if there are more, all quads are filtered."""
_ANY = (None,)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Iterators over the triples of a data graph. Only the thread that made the iterators may use them.

    Attributes:
        by_predicate: predicates, each with iterators over subjects and objects; a triple may repeat.
        quads: iterators over quads, which may have predicates that the shapes do not read.
    """

    by_predicate: Sequence[tuple[NamedNode, Iterable[Sequence[Term]]]] = ()
    quads: Sequence[Iterable[Quad]] = ()


def snapshot(
    view: StoreView | PendingChanges, inputs: InputGraphs, predicates: frozenset[NamedNode] | None
) -> Snapshot:
    """Return the triples of the input graphs at the version of ``view``; ``predicates`` is None for all."""
    graphs = inputs.listed
    if graphs is None and any(
        isinstance(each, NamedNode) and view.has_graph(each) for each in inputs.excluded
    ):
        names = (name for name in chain([DefaultGraph()], view.graph_names()) if name in inputs)
        graphs = tuple(islice(names, _MOST_GRAPHS + 1))
    if predicates is not None and (graphs is inputs.listed or len(graphs or ()) <= _MOST_GRAPHS):
        return Snapshot([(each, view.subjects_and_objects(each, graphs)) for each in predicates])
    found = [view.quads_with(each, graph) for each in predicates or _ANY for graph in inputs.listed or _ANY]
    return Snapshot(quads=[filter(lambda quad: quad.graph_name in inputs, each) for each in found])
