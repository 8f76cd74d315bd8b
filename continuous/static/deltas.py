"""The rows of a pattern that some quads may have changed, evaluated on the store as it is.

For each set of variables that the triggers know (`algebra.triggers`) the pattern is evaluated with their
values as inline data. Evaluated so before a commit and after it, the difference is the change of the whole:
a row that the values do not reach is the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ..algebra.canonical import restrict
from ..algebra.nodes import Term, Values, Var
from ..algebra.static import StaticPattern
from ..algebra.triggers import Key
from ..element import Solution
from .static_evaluator import Reader, StaticEvaluator

KeyValues = Mapping[Key, set[tuple[Term, ...]]]
"""For each set of variables the values that changed rows may have there."""

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


def difference(after: Counter[Solution], before: Counter[Solution]) -> dict[Solution, int]:
    """``after - before`` without zeros."""
    weights = {row: count - before[row] for row, count in after.items() if count != before[row]}
    weights.update((row, -count) for row, count in before.items() if row not in after)
    return weights
