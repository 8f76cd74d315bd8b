"""Validation of a whole data graph."""

from __future__ import annotations

from collections.abc import Iterable

from .data_graph import DataGraph
from .result import Result
from .shape import Shape


def validate(shapes: Iterable[Shape], data: DataGraph) -> list[Result]:
    """Return the results of all focus nodes of shapes: a multiset in no particular order.

    Raises:
        ShapesBudgetError: the validation exceeds the budget of ``data``.
    """
    found: list[Result] = []
    for shape in shapes:
        for focus in shape.focus_nodes(data):
            for result in shape.results(focus, data):
                found.append(result)
                data.budget.check_results(len(found))
    return found
