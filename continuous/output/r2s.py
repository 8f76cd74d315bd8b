"""Step 6 of 8: relation to stream. ISTREAM, DSTREAM, RSTREAM and changes over multisets of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..algebra.query import Output

T = TypeVar("T", bound=Hashable)
T_co = TypeVar("T_co", bound=Hashable, covariant=True)


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


class _Changed(Protocol[T_co]):
    @property
    def deleted(self) -> Sequence[T_co]: ...
    @property
    def inserted(self) -> Sequence[T_co]: ...
    @property
    def rows(self) -> Sequence[T_co]: ...


def emit_change(output: Output, change: _Changed[T]) -> Emission[T]:
    """`emit` where the change of the answer is known: nothing is compared."""
    match output:
        case "rstream":
            return Emission(answer=change.rows)
        case "istream":
            return Emission(insert=change.inserted or None)
        case "dstream":
            return Emission(delete=change.deleted or None)
        case "changes":
            return Emission(delete=change.deleted or None, insert=change.inserted or None)


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
