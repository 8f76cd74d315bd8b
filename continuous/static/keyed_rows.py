"""Rows of a static part with given key values, evaluated on the current store.

A commit watch reads the rows that changed quads may affect, and a look-up reads the rows of a static part
with a given key. A key of a static part's rows is a set of variables that one of its triggers binds
(`algebra.triggers`), with values. The pattern of the static part is evaluated with the key values as inline
data (VALUES). The difference of two evaluations for given keys, before and after a commit, is the whole
change of the static part, because the commit changes only rows with one of the keys.
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
"""A map from sets of variables to the values of these variables in the wanted rows."""

TermKey: TypeAlias = tuple[Term | None, ...]

KEY_S = 0.00002
"""Estimated seconds to evaluate a static part for one key, before and after a commit.

The estimate for the changed keys is compared with the time to evaluate all rows of the static part.
"""
AT_ONCE = 500
"""Maximum number of keys in one query text to the store.

Texts with many keys parse slowly, and texts with few keys need more queries to the store.
"""


class TooManyRowsError(Exception):
    """More rows of a static part match the key values than may be read while writers wait."""


def rows_with(
    reader: Reader,
    evaluator: StaticEvaluator,
    part: StaticPattern,
    keys: KeyValues,
    at_most: int | None = None,
) -> Counter[Solution]:
    """Return the rows of a static part that match one of the keys, each with its number of occurrences.

    Raises:
        TooManyRowsError: more than ``at_most`` rows match.
    """
    found: Counter[Solution] = Counter()
    read = 0
    # All key variables become columns of the query, even if the static part does not return them.
    hidden = sorted({name for key in keys for name in key}.difference(each.name for each in part.vars))
    wider = StaticPattern(part.name, part.pattern, part.vars + tuple(map(Var, hidden)))
    places = {each.name: place for place, each in enumerate(wider.vars)}
    earlier: list[tuple[list[int], set[tuple[Term, ...]]]] = []
    for key, values in keys.items():
        for row in _restricted(reader, evaluator, wider, key, values):
            read += 1
            if at_most is not None and read > at_most:
                raise TooManyRowsError
            # A row that also matches an earlier key of other variables has already been counted.
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
    """Return the rows of a static part that have the given values in the columns at ``places``.

    A query text cannot name blank nodes, so rows are read by the other values and then filtered by
    the blank nodes.
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
