"""The rows of a static part that have certain values, evaluated on the store as it is.

So the rows are found that some quads may have changed, and those that a look-up asks for. For each set of
variables that the triggers know (`algebra.triggers`) the pattern is evaluated with their values inline.
Evaluated so before a commit and after it, the difference is the change of the whole: a row that the values do
not reach is the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from ..algebra.canonical import restrict
from ..algebra.nodes import Term, Values, Var
from ..algebra.static import StaticPattern
from ..algebra.triggers import Key, can_be_named
from ..remote.dataset import Reader
from ..rows import Solution
from .static_evaluator import StaticEvaluator

KeyValues = Mapping[Key, set[tuple[Term, ...]]]
"""For each set of variables the values that changed rows may have there."""

TermKey: TypeAlias = tuple[Term | None, ...]

KEY_S = 0.00002
"""Seconds of a key, looked up before a commit and after it; a quick table may be cheaper as a whole."""
AT_ONCE = 500
"""Keys in one text: more of them make the text slow to read, fewer make more texts."""


class TooManyRowsError(Exception):
    """The values reach more rows than may be looked at while writers wait."""


def rows_with(
    reader: Reader,
    evaluator: StaticEvaluator,
    part: StaticPattern,
    keys: KeyValues,
    at_most: int | None = None,
) -> Counter[Solution]:
    """The rows of the part that agree with one of the keys, each as often as the part has it.

    Raises TooManyRowsError when there are more rows than ``at_most``.
    """
    found: Counter[Solution] = Counter()
    read = 0
    # Also columns that the part does not show, where a key has them.
    hidden = sorted({name for key in keys for name in key}.difference(each.name for each in part.vars))
    wider = StaticPattern(part.name, part.pattern, part.vars + tuple(map(Var, hidden)))
    places = {each.name: place for place, each in enumerate(wider.vars)}
    earlier: list[tuple[list[int], set[tuple[Term, ...]]]] = []
    for key, values in keys.items():
        for row in _restricted(reader, evaluator, wider, key, values):
            read += 1
            if at_most is not None and read > at_most:
                raise TooManyRowsError
            # A row that an earlier set of variables reaches too was counted there.
            if not any(tuple([row[each] for each in other]) in known for other, known in earlier):
                found[row[: len(part.vars)]] += 1
        earlier.append(([places[name] for name in key], values))
    return found


def _restricted(
    reader: Reader,
    evaluator: StaticEvaluator,
    part: StaticPattern,
    key: Key,
    values: set[tuple[Term, ...]],
) -> Iterator[Solution]:
    names = tuple(map(Var, key))
    waiting = iter(values)
    while chunk := tuple(islice(waiting, AT_ONCE)):
        pattern = restrict(part.pattern, Values(names, chunk))
        with evaluator.start(reader, StaticPattern(part.name, pattern, part.vars), chunk) as result:
            for row in result.rows():
                yield row[: len(part.vars)]


def rows_of(
    reader: Reader, evaluator: StaticEvaluator, part: StaticPattern, places: tuple[int, ...], values: TermKey
) -> Mapping[Solution, int]:
    """The rows of a part that have the values at these places.

    No text can name blank nodes: by them rows are chosen from those that agree with the other values.
    """
    named = sorted(
        (part.vars[place].name, value)
        for place, value in zip(places, values, strict=True)
        if value is not None and can_be_named(value)
    )
    if named:
        key, value = zip(*named, strict=True)
        found = rows_with(reader, evaluator, part, {key: {value}})
    else:
        found = Counter(evaluator.whole(reader, part))
    if len(named) == len(places):
        return found
    return {
        row: weight
        for row, weight in found.items()
        if all(row[place] == value for place, value in zip(places, values, strict=True))
    }
