"""The rows of a static part that have certain values, evaluated on the store as it is.

So the rows are found that some quads may have changed, and those that a look-up asks for. For each set of
variables that the triggers know (`algebra.triggers`) the pattern is evaluated with their values inline.
Evaluated so before a commit and after it, the difference is the change of the whole: a row that the values do
not reach is the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.canonical import restrict
from ..algebra.nodes import FunctionCall, Group, Path, Reduced, Slice, Term, Values, Var
from ..algebra.static import StaticPattern
from ..algebra.triggers import Key, can_be_named, triggers
from ..element import Solution
from .static_evaluator import Reader, StaticEvaluator

KeyValues = Mapping[Key, set[tuple[Term, ...]]]
"""For each set of variables the values that changed rows may have there."""

TermKey: TypeAlias = tuple[Term | None, ...]

_AT_ONCE = 500
"""Keys in one text: more of them make the text slow to read, fewer make more texts."""


class TooManyRowsError(Exception):
    """The values reach more rows than may be looked at while writers wait."""


def rows_with(
    reader: Reader, background: StaticEvaluator, part: StaticPattern, keys: KeyValues, at_most: int | None
) -> Counter[Solution]:
    """The rows of the part that agree with one of the keys, each as often as the part has it.

    Args:
        reader: the store.
        background: evaluates the part over the query's dataset.
        part: the pattern and its columns.
        keys: as `algebra.triggers` find them.
        at_most: how many rows may be read.

    Raises:
        TooManyRowsError: there are more.
    """
    found: Counter[Solution] = Counter()
    read = 0
    earlier: list[tuple[Key, set[tuple[Term, ...]]]] = []
    for key, values in keys.items():
        columns = part.vars + tuple(Var(name) for name in _more(part, [key, *(each for each, _ in earlier)]))
        places = {each.name: place for place, each in enumerate(columns)}
        for row in _restricted(reader, background, part, key, values, columns):
            read += 1
            if at_most is not None and read > at_most:
                raise TooManyRowsError
            # A row that an earlier set of variables reaches too was counted there.
            if not any(_values(row, other, places) in known for other, known in earlier):
                found[row[: len(part.vars)]] += 1
        earlier.append((key, values))
    return found


def _restricted(
    reader: Reader,
    background: StaticEvaluator,
    part: StaticPattern,
    key: Key,
    values: set[tuple[Term, ...]],
    columns: tuple[Var, ...],
) -> Iterator[Solution]:
    names = tuple(map(Var, key))
    waiting = iter(values)
    while chunk := tuple(islice(waiting, _AT_ONCE)):
        pattern = restrict(part.pattern, Values(names, chunk))
        with background.start(reader, StaticPattern(part.name, pattern, columns), chunk) as result:
            for row in result.rows():
                yield row[: len(columns)]


def _more(part: StaticPattern, keys: Sequence[Key]) -> list[str]:
    shown = {each.name for each in part.vars}
    return sorted({name for key in keys for name in key} - shown)


def _values(row: Solution, key: Key, places: Mapping[str, int]) -> tuple[Term | None, ...]:
    return tuple(row[places[name]] for name in key)


def rows_of(
    reader: Reader, background: StaticEvaluator, part: StaticPattern, places: tuple[int, ...], values: TermKey
) -> Mapping[Solution, int]:
    """The rows of a part that have the values at these places.

    No text can name blank nodes: by them rows are chosen from those that agree with the other values.
    """
    named = [
        (part.vars[place].name, value)
        for place, value in zip(places, values, strict=True)
        if value is not None and can_be_named(value)
    ]
    named.sort(key=lambda each: each[0])
    if named:
        keys = {tuple([name for name, _ in named]): {tuple([value for _, value in named])}}
        found: Mapping[Solution, int] = rows_with(reader, background, part, keys, None)
    else:
        width = len(part.vars)
        counted: dict[Solution, int] = {}
        with background.start(reader, part) as result:
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
