"""The order of shapes: shapes that read a report come after the shapes that write it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from quadrill.store.changes.commit import GraphName
from quadrill.store.errors import InputError

from .shape_set import ShapeSet


def _sorter(sets: Iterable[ShapeSet]) -> TopologicalSorter[ShapeSet]:
    listed = list(sets)
    by_graph: dict[GraphName, list[ShapeSet]] = {}
    for each in listed:
        if each.definition.into is not None:
            by_graph.setdefault(each.definition.into, []).append(each)
    order = TopologicalSorter[ShapeSet]()
    for each in listed:
        read = each.definition.data or ()
        order.add(each, *(other for graph in read for other in by_graph.get(graph, ())))
    return order


def in_order(sets: Iterable[ShapeSet]) -> Sequence[ShapeSet]:
    """Return shapes in an order in which each comes after the shapes whose reports it reads."""
    return list(_sorter(sets).static_order())


def require_no_cycle(sets: Iterable[ShapeSet]) -> None:
    """Check that no shapes read their own report, directly or through the reports of other shapes.

    Raises:
        InputError: the code is ``cycle``, and the member ``cycle`` has the names of the shapes.
    """
    try:
        _sorter(sets).prepare()
    except CycleError as error:
        names = list(dict.fromkeys(each.name for each in error.args[1]))
        raise InputError(
            f"the shapes {', '.join(names)} would read one another's reports",
            code="cycle",
            hint="leave the graph of the other report out of data",
            cycle=names,
        ) from error
