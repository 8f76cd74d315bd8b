"""The graphs that shapes check."""

from __future__ import annotations

from collections.abc import Iterable

from quadrill.store.changes.commit import GraphName
from quadrill.store.changes.owners import Owners

from ..rules.store_facts import InputGraphs
from ..shapes.shape_set import ShapeSet


def holding(sets: Iterable[ShapeSet]) -> frozenset[GraphName]:
    """Return the graphs from which shapes were read."""
    return frozenset(each.definition.graph for each in sets if each.definition.graph is not None)


def inputs_of(shapes: ShapeSet, owned: Owners, with_shapes: frozenset[GraphName]) -> InputGraphs:
    """Return the graphs whose union shapes check.

    Args:
        shapes: the shapes.
        owned: the owners of graphs; shapes without ``data`` do not check graphs with an owner.
        with_shapes: the graphs from which shapes were read; shapes without ``data`` do not check them either.
    """
    if shapes.definition.data is not None:
        return InputGraphs(shapes.definition.data)
    return InputGraphs(None, frozenset(owned) | with_shapes)
