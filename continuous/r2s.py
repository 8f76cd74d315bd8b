"""Step 6 of 8: relation to stream. ISTREAM, DSTREAM, RSTREAM and changes over multisets of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .algebra.query import Output

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Emission(Generic[T]):
    """What one evaluation emits. None means nothing of that sign is to be said."""

    delete: Sequence[T] | None = None
    insert: Sequence[T] | None = None
    answer: Sequence[T] | None = None


def difference(rows: Sequence[T], minus: Sequence[T]) -> list[T]:
    """Multiset difference, in the order of ``rows``: without as many copies of each row as ``minus`` has.

    >>> difference(["a", "b", "a"], ["a", "c"])
    ['b', 'a']
    """
    if not minus:
        return list(rows)
    counts = Counter(minus)
    left = []
    for row in rows:
        if counts.get(row, 0):
            counts[row] -= 1
        else:
            left.append(row)
    return left


def emit(output: Output, previous: Sequence[T], current: Sequence[T]) -> Emission[T]:
    """The rows that an evaluation emits, given the answer before it (empty before the first).

    istream   current - previous    dstream  previous - current    changes  both    rstream  current

    Duplicates count, the order is that of the answer that the rows are taken from.
    """
    match output:
        case "rstream":
            return Emission(answer=current)
        case "istream":
            return Emission(insert=difference(current, previous) or None)
        case "dstream":
            return Emission(delete=difference(previous, current) or None)
        case "changes":
            return Emission(
                delete=difference(previous, current) or None, insert=difference(current, previous) or None
            )
