"""What the rows of the static parts tell, whichever evaluator holds them."""

from __future__ import annotations

from collections.abc import Sequence

from pyoxigraph import NamedNode

from ..algebra.nodes import Var
from ..algebra.query import ContinuousQuery
from ..algebra.static import StaticPattern
from ..element import Row
from ..language.write import write_pattern
from .answer import StaticPart


def described(
    query: ContinuousQuery, parts: Sequence[StaticPattern], rows: Sequence[Sequence[Row]], version: int
) -> list[StaticPart]:
    """What each static part is and how many rows it has; ``rows`` holds those of each part."""
    return [
        StaticPart(
            part.name,
            write_pattern(part.pattern, query.prefixes, query.dialect),
            tuple(var.name for var in part.vars),
            len(held),
            version,
        )
        for part, held in zip(parts, rows, strict=True)
    ]


def streams_of_variable(
    query: ContinuousQuery,
    parts: Sequence[StaticPattern],
    rows: Sequence[Sequence[Row]],
    window_name: NamedNode,
) -> frozenset[NamedNode] | None:
    """The streams to which static data bind a window's variable stream; None when they do not bind it."""
    variable = next((each.stream for each in query.windows if each.name == window_name), None)
    if not isinstance(variable, Var):
        return frozenset() if variable is None else frozenset((variable,))
    found: set[NamedNode] = set()
    bound = False
    for part, held in zip(parts, rows, strict=True):
        if variable in part.vars:
            bound = True
            place = part.vars.index(variable)
            found |= {term for row in held if isinstance(term := row[place], NamedNode)}
    return frozenset(found) if bound else None
