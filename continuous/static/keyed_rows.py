"""The rows of a static part that have certain values, read from the store; and which parts can be read so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.nodes import FunctionCall, Group, Path, Reduced, Slice, Term
from ..algebra.static import StaticPattern
from ..algebra.triggers import can_be_named, triggers
from ..element import Solution
from .deltas import rows_with
from .static_evaluator import Reader
from .table import Table

TermKey: TypeAlias = tuple[Term | None, ...]


def rows_of(reader: Reader, table: Table, places: tuple[int, ...], values: TermKey) -> Mapping[Solution, int]:
    """The rows of a part that have the values at these places.

    No text can name blank nodes: by them rows are chosen from those that agree with the other values.
    """
    named = [
        (table.part.vars[place].name, value)
        for place, value in zip(places, values, strict=True)
        if value is not None and can_be_named(value)
    ]
    named.sort(key=lambda each: each[0])
    if named:
        keys = {tuple([name for name, _ in named]): {tuple([value for _, value in named])}}
        found: Mapping[Solution, int] = rows_with(reader, table.background, table.part, keys, None)
    else:
        width = len(table.part.vars)
        counted: dict[Solution, int] = {}
        with table.background.start(reader, table.part) as result:
            for row in result.rows():
                each: Solution = tuple(row[:width])
                counted[each] = counted.get(each, 0) + 1
        found = counted
    if len(named) == len(places):
        return found
    return {
        row: weight
        for row, weight in found.items()
        if all(row[place] == value for place, value in zip(places, values, strict=True))
    }


def unfit(part: StaticPattern) -> str | None:
    """Why the rows of a part cannot be read by key; None when they can.

    A row must not depend on which others are read with it, and the key of a changed row must be known.
    """
    for each in all_nodes(part.pattern):
        if isinstance(each, Slice | Reduced | Group):
            return f"it has {_NAMES[type(each)]}"
        if isinstance(each, Path) and "ZeroOr" in repr(each.path):
            return "it has a path of zero steps"
        for outer in expressions(each):
            if any(isinstance(inner, FunctionCall) for inner in sub_expressions(outer)):
                return "it calls an extension function"
    if not all(each.key for each in triggers(part.pattern) or ()):
        return "some commits change rows that no key tells of"
    return None


_NAMES = {Slice: "LIMIT or OFFSET", Reduced: "REDUCED", Group: "GROUP BY"}
