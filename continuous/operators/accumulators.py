"""The running values of set functions, with retraction.

Each gives at any moment exactly what the definition in `algebra.set_functions` gives over the whole multiset;
the fast ones keep less than the multiset. An error is a value that is None: it makes every function but COUNT
and SAMPLE an error while it is there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from quadrill.store.terms import Term

from ..algebra.order import Key
from ..algebra.set_functions import set_function
from ..expressions.numeric import is_numeric
from ..expressions.values import (
    DECIMAL_LIMIT,
    DECIMAL_ONE,
    INTEGER_LIMIT,
    Decimal18,
    Float32,
    Maybe,
    ValueTable,
    to_single,
    value_of,
)
from ..rows import Delta, IdRow, add
from .ordering import OrderKeys

_EXACT_BITS = 1074
_EXACT = 1 << _EXACT_BITS
_EXACT_KINDS = (int, Decimal18)


class Accumulator(Protocol):
    """One set function over one group."""

    by_id: bool
    """True when `take` wants the term id (0 is an error), False when it wants the value (None is)."""

    def take(self, value: Any, weight: int) -> None:
        """``weight`` occurrences of a value came (negative: went)."""
        ...

    def result(self) -> Maybe:
        """The value now; None for an error or no value."""
        ...

    def result_id(self, values: ValueTable) -> int:
        """The id of `result`."""
        ...


class ByValue:
    """An accumulator whose result is a value, for which it asks the id."""

    __slots__ = ()

    def result(self) -> Maybe:
        """See `Accumulator`."""
        raise NotImplementedError

    def result_id(self, values: ValueTable) -> int:
        """The id of `result`."""
        return values.id_of(self.result())


class Count(ByValue):
    """COUNT of values that are no error."""

    by_id = False
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def take(self, value: Any, weight: int) -> None:
        """Errors do not count."""
        if value is not None:
            self._count += weight

    def result(self) -> Maybe:
        """The number of values."""
        return self._count


class Sum(ByValue):
    """SUM and AVG: integers and decimals exact, doubles as the exact sum rounded once.

    A double is an integer multiple of 2^-1074, so a sum of doubles is a big integer and subtraction undoes
    addition: no drift. Integers and decimals are also kept one by one: should a double join them, each has to
    become a double before it is added.
    """

    by_id = False
    __slots__ = ("_average", "_bits", "_counts", "_errors", "_infinite", "_numbers", "_scaled")

    def __init__(self, average: bool) -> None:
        self._average = average
        self._errors = 0
        self._scaled = 0
        self._bits = 0
        self._counts = {int: 0, Decimal18: 0, float: 0, Float32: 0}
        self._numbers: dict[int, int] = {}
        self._infinite = {"inf": 0, "-inf": 0, "nan": 0}

    def take(self, value: Any, weight: int) -> None:
        """Add or take back."""
        kind = type(value)
        if kind not in self._counts:
            self._errors += weight
            return
        self._counts[kind] += weight
        if kind is int or kind is Decimal18:
            scaled = _scaled(value)
            self._scaled += scaled * weight
            count = self._numbers.get(scaled, 0) + weight
            if count:
                self._numbers[scaled] = count
            else:
                del self._numbers[scaled]
        elif math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self._bits += (numerator << (_EXACT_BITS + 1 - denominator.bit_length())) * weight
        else:
            self._infinite[str(float(value))] += weight

    def result(self) -> Maybe:
        """The sum or mean; None for an error."""
        counts = self._counts
        if self._errors:
            return None
        if counts[float] or counts[Float32]:
            total = self._float_total()
            mean = total / sum(counts.values()) if self._average else total
            return mean if counts[float] else to_single(mean)
        if self._average:
            number = counts[int] + counts[Decimal18]
            return self._decimal(_divided(self._scaled, number)) if number else 0
        if counts[Decimal18]:
            return self._decimal(self._scaled)
        whole = self._scaled // DECIMAL_ONE
        return whole if -INTEGER_LIMIT <= whole < INTEGER_LIMIT else None

    @staticmethod
    def _decimal(scaled: int) -> Maybe:
        return Decimal18(scaled) if abs(scaled) < DECIMAL_LIMIT else None

    def _float_total(self) -> float:
        infinite = self._infinite
        if infinite["nan"] or (infinite["inf"] and infinite["-inf"]):
            return math.nan
        if infinite["inf"] or infinite["-inf"]:
            return math.inf if infinite["inf"] else -math.inf
        bits = self._bits
        for scaled, count in self._numbers.items():
            numerator, denominator = (scaled / DECIMAL_ONE).as_integer_ratio()
            bits += (numerator << (_EXACT_BITS + 1 - denominator.bit_length())) * count
        try:
            return bits / _EXACT
        except OverflowError:
            return math.inf if bits > 0 else -math.inf


class Extreme:
    """MIN, MAX and SAMPLE: the values in term order, the first or last of them.

    Of values of equal value the total order decides, so the result does not depend on the order of arrival.
    """

    by_id = True
    __slots__ = ("_errors", "_keys", "_last", "_sorted", "_strict", "_values")

    def __init__(self, last: bool, strict: bool, keys: OrderKeys, values: ValueTable) -> None:
        """``strict``: an error makes the result an error."""
        self._last = last
        self._strict = strict
        self._keys = keys
        self._values = values
        self._errors = 0
        self._sorted: list[tuple[Key, int]] = []

    def take(self, value: Any, weight: int) -> None:
        """Insert the value, or remove it."""
        if value:
            _insert(self._sorted, (self._keys.total(value), value), weight)
        else:
            self._errors += weight

    def result(self) -> Maybe:
        """The least or greatest value."""
        return self._values[self.result_id(self._values)]

    def result_id(self, values: ValueTable) -> int:
        """The id of the result, one of those held."""
        if not self._sorted or (self._strict and self._errors):
            return 0
        return self._sorted[-1 if self._last else 0][1]

    def ids(self) -> list[int]:
        """The term ids that it holds."""
        return [term_id for _, term_id in self._sorted]


class Median:
    """MEDIAN: one sorted list, of which only the middle is read."""

    by_id = True
    __slots__ = ("_errors", "_keys", "_sorted", "_terms", "_values")

    def __init__(self, keys: OrderKeys, values: ValueTable, terms: Mapping[int, Term]) -> None:
        self._keys = keys
        self._values = values
        self._terms = terms
        self._errors = 0
        self._sorted: list[tuple[Key, int]] = []

    def take(self, value: Any, weight: int) -> None:
        """Insert or remove; what is no number is an error."""
        if value and is_numeric(self._values[value]):
            _insert(self._sorted, (self._keys.total(value), value), weight)
        else:
            self._errors += weight

    def result(self) -> Maybe:
        """The middle value, or the mean of the two middle ones."""
        number = len(self._sorted)
        if self._errors or not number:
            return None
        middle = number // 2
        if number % 2:
            return self._values[self._sorted[middle][1]]
        low, high = (self._values[term_id] for _, term_id in self._sorted[middle - 1 : middle + 1])
        if type(low) in _EXACT_KINDS and type(high) in _EXACT_KINDS:
            return Decimal18(_divided(_scaled(low) + _scaled(high), 2))
        pair = [self._terms[term_id] for _, term_id in self._sorted[middle - 1 : middle + 1]]
        return _value(set_function("MEDIAN", pair))

    def result_id(self, values: ValueTable) -> int:
        """The middle one of those held, or the id of the mean."""
        number = len(self._sorted)
        if number % 2 and not self._errors:
            return self._sorted[number // 2][1]
        return values.id_of(self.result())

    def ids(self) -> list[int]:
        """The term ids that it holds."""
        return [term_id for _, term_id in self._sorted]


class Bag(ByValue):
    """Every other set function, by its definition over the multiset each time it is read."""

    by_id = True
    __slots__ = ("_counts", "_errors", "_function", "_strict", "_terms")

    def __init__(
        self, function: Callable[[list[Term]], Term | None], terms: Mapping[int, Term], strict: bool = True
    ) -> None:
        """``strict``: an error makes the result an error."""
        self._strict = strict
        self._function = function
        self._terms = terms
        self._errors = 0
        self._counts: dict[int, int] = {}

    def take(self, value: Any, weight: int) -> None:
        """Count the value."""
        if value:
            _count(self._counts, value, weight)
        else:
            self._errors += weight

    def result(self) -> Maybe:
        """The function of all values."""
        if self._errors and self._strict:
            return None
        values = [self._terms[term_id] for term_id, count in self._counts.items() for _ in range(count)]
        return _value(self._function(values))

    def ids(self) -> list[int]:
        """The term ids that it holds."""
        return list(self._counts)


class DistinctValues:
    """DISTINCT inside a set function: only the first occurrence of a value counts."""

    by_id = True
    __slots__ = ("_counts", "_inner", "_values")

    def __init__(self, inner: Accumulator, values: ValueTable) -> None:
        self._inner = inner
        self._values = values
        self._counts: dict[int, int] = {}

    def take(self, value: Any, weight: int) -> None:
        """Pass on what becomes present or absent; errors are passed on one by one."""
        if not value:
            self._inner.take(0 if self._inner.by_id else None, weight)
            return
        before = self._counts.get(value, 0)
        _count(self._counts, value, weight)
        if (before > 0) != (before + weight > 0):
            self._inner.take(value if self._inner.by_id else self._values[value], 1 if weight > 0 else -1)

    def result(self) -> Maybe:
        """The result of the inner function."""
        return self._inner.result()

    def result_id(self, values: ValueTable) -> int:
        """The result of the inner function."""
        return self._inner.result_id(values)

    def ids(self) -> list[int]:
        """The ids held; the inner function holds no others."""
        return list(self._counts)


class DistinctRows(ByValue):
    """COUNT(DISTINCT *): how many different rows the group has."""

    by_id = True

    def __init__(self) -> None:
        self._weights: Delta = {}

    def take(self, value: IdRow, weight: int) -> None:
        """Count the row."""
        add(self._weights, value, weight)

    def result(self) -> int:
        """The number of different rows."""
        return len(self._weights)

    def ids(self) -> list[int]:
        """The ids of the rows held."""
        return [term_id for row in self._weights for term_id in row]


def _count(counts: dict[int, int], value: int, weight: int) -> None:
    total = counts.get(value, 0) + weight
    if total:
        counts[value] = total
    else:
        del counts[value]


def _insert(ordered: list[tuple[Key, int]], entry: tuple[Key, int], weight: int) -> None:
    if weight > 0:
        for _ in range(weight):
            insort(ordered, entry)
    else:
        place = bisect_left(ordered, entry)
        del ordered[place : place - weight]


def _scaled(value: Any) -> int:
    """An integer or decimal times 10^18."""
    return int(value) if type(value) is Decimal18 else value * DECIMAL_ONE


def _divided(scaled: int, number: int) -> int:
    """Cut off towards zero."""
    return scaled // number if scaled >= 0 else -(-scaled // number)


def _value(term: Term | None) -> Maybe:
    return None if term is None else value_of(term)
