"""Sort keys of term ids: the orders of algebra/order.py, remembered by id."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache, total_ordering
from typing import Any

from quadrill.store.dictionary import TermDictionary

from ..algebra.order import Key, total_key, value_key


class OrderKeys:
    """Keys by term id under SPARQL's order and under the total order; forgotten with their ids."""

    def __init__(self, terms: TermDictionary) -> None:
        self._terms = terms
        self._value: dict[int, Key] = {}
        self._falling: dict[int, Key] = {}
        self._total: dict[int, Key] = {}
        terms.forget_with(self._value)
        terms.forget_with(self._falling)
        terms.forget_with(self._total)

    def value(self, term_id: int) -> Key:
        """The key of ORDER BY: terms of equal value tie."""
        key = self._value.get(term_id)
        if key is None:
            key = self._value[term_id] = value_key(self._terms.decode(term_id))
        return key

    def falling(self, term_id: int) -> Key:
        """The key of ORDER BY DESC."""
        key = self._falling.get(term_id)
        if key is None:
            key = self._falling[term_id] = falling(self.value(term_id))
        return key

    def total(self, term_id: int) -> Key:
        """The key of the total order: only the same term ties."""
        key = self._total.get(term_id)
        if key is None:
            # Unbound comes first; its key must compare with those of terms.
            key = total_key(self._terms.decode(term_id)) if term_id else (value_key(None), "")
            self._total[term_id] = key
        return key


def falling(key: Key) -> Key:
    """A key that sorts the other way round: numbers change their sign, which compares without any Python.

    Keys differ in length only behind a part in which they differ, so none is the beginning of another.

    >>> sorted([(3, "a"), (3, "b"), (1, "c")], key=falling)
    [(3, 'b'), (3, 'a'), (1, 'c')]
    """
    return tuple([_opposite(part) for part in key])


def _opposite(part: Any) -> Any:
    if isinstance(part, tuple):
        return falling(part)
    if isinstance(part, Decimal):
        # Its sign alone: the operator would round.
        return part.copy_negate()
    return -part if isinstance(part, int) else _descending(part)


@lru_cache(maxsize=4096)
def _descending(text: str) -> Descending:
    """One object for equal texts: names of datatypes are then the same at a glance."""
    return Descending(text)


@total_ordering
class Descending:
    """Part of a key that sorts the other way round: what has no opposite."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Descending) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)
