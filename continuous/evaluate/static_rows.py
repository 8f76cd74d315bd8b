"""Descriptions of static parts, from the rows that an evaluator holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pyoxigraph import NamedNode

from ..algebra.nodes import Var
from ..algebra.query import ContinuousQuery
from ..algebra.static import StaticPattern
from ..element import Solution
from ..language.write import write_pattern
from ..static.facts import StaticPart, TableFacts


class Held(Protocol):
    """The rows of a query's static parts."""

    @property
    def parts(self) -> Sequence[StaticPattern]:
        """The static parts."""
        ...

    def facts(self, place: int) -> TableFacts:
        """What is known of the table of a part."""
        ...


def described(query: ContinuousQuery, held: Held) -> list[StaticPart]:
    """What each static part is, how many rows it has, and with whom it is shared."""
    return [
        StaticPart(
            part.name,
            write_pattern(part.pattern, query.prefixes, query.dialect),
            tuple(sorted(var.name for var in part.vars)),
            held.facts(place),
        )
        for place, part in enumerate(held.parts)
    ]


def streams_of_variable(
    query: ContinuousQuery,
    parts: Sequence[StaticPattern],
    rows_of: Callable[[int], Iterable[Solution]],
    window_name: NamedNode,
) -> frozenset[NamedNode] | None:
    """The streams to which static data bind a window's variable stream; None when they do not bind it."""
    variable = next((each.stream for each in query.windows if each.name == window_name), None)
    if not isinstance(variable, Var):
        return frozenset() if variable is None else frozenset((variable,))
    found: set[NamedNode] = set()
    bound = False
    for number, part in enumerate(parts):
        if variable in part.vars:
            bound = True
            place = part.vars.index(variable)
            found |= {term for row in rows_of(number) if isinstance(term := row[place], NamedNode)}
    return frozenset(found) if bound else None
