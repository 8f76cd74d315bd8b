"""Registry of aggregates, both built-in aggregates and those of extensions (docs/extending.md).

An `Accumulator` maintains the result of one aggregate while values are inserted and retracted. The result of
an accumulator always equals the definition in `algebra.set_functions` over the multiset of values. Fast
accumulators store less than the multiset of a group's values.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyoxigraph import Literal, NamedNode

from quadrill.store.dictionary import integer_id
from quadrill.store.errors import UnsupportedError
from quadrill.store.terms import Term

from ..algebra.nodes import Aggregate
from ..algebra.order import Key
from ..algebra.scalar_functions import guarded
from ..algebra.set_functions import FUNCTIONS, SetFunction, percentile_parameter, set_function
from ..rows import UNLIMITED, Budget, IdRow, add
from .numeric import is_numeric
from .string_growth import LONG, take_text
from .values import (
    DECIMAL_LIMIT,
    DECIMAL_ONE,
    INTEGER_LIMIT,
    Decimal18,
    Float32,
    Maybe,
    OrderKeys,
    ValueTable,
    to_single,
    value_of,
)

_EXACT_BITS = 1074
_EXACT = 1 << _EXACT_BITS
_EXACT_KINDS = (int, Decimal18)


@dataclass(frozen=True, slots=True)
class Tools:
    """Objects of the engine that accumulators use: values, sort keys and terms by term id, and the budget."""

    values: ValueTable
    keys: OrderKeys
    terms: Mapping[int, Term]
    budget: Budget = UNLIMITED


class Accumulator:
    """Base class of accumulators; an accumulator holds one set function over one group.

    In an aggregate, an error counts as a value: while a group has an error, the result of every function
    except COUNT and SAMPLE is an error.
    """

    __slots__ = ()

    by_id = True
    """True if `take` expects a term id (0 is an error), False if `take` expects a value (None is an error).
    """
    counts = False
    """True if only the presence of a value matters, so that `take` accepts any object but None as the value.
    """

    def take(self, value: Any, weight: int) -> None:
        """Insert ``weight`` occurrences of a value into the aggregate, or retract them if negative."""
        raise NotImplementedError

    def result(self) -> Maybe:
        """Return the aggregate's current result; None for an error or no result."""
        raise NotImplementedError

    def result_id(self, values: ValueTable) -> int:
        """Return the term id of the aggregate's result.

        Accumulators whose result is one of the stored ids override `result_id`.
        """
        return values.id_of(self.result())

    def ids(self) -> Iterable[int]:
        """Return the term ids that the accumulator of an aggregate stores."""
        return ()


class Count(Accumulator):
    """COUNT of the values that are not errors."""

    by_id = False
    counts = True
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def take(self, value: Any, weight: int) -> None:
        """Add ``weight`` to the count of COUNT, unless the value is an error."""
        if value is not None:
            self._count += weight

    def result(self) -> Maybe:
        """Return the number of counted values."""
        return self._count

    def result_id(self, values: ValueTable) -> int:
        """Return the term id of the number of counted values."""
        return integer_id(self._count) or values.id_of(self._count)


class Sum(Accumulator):
    """SUM and AVG: exact for integers and decimals; the exact sum of doubles is rounded once.

    A double is an integer multiple of 2^-1074, so SUM stores a sum of doubles as a big integer, and a
    retraction exactly undoes an insertion. SUM also counts integers and decimals one by one, because each is
    converted to a double before the addition if the group has a double.
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
        """Add the value ``weight`` times to the sum, or subtract it if ``weight`` is negative."""
        kind = type(value)
        if kind not in self._counts:
            self._errors += weight
            return
        self._counts[kind] += weight
        if kind is int or kind is Decimal18:
            scaled, numbers = value * DECIMAL_ONE if kind is int else int(value), self._numbers
            self._scaled += scaled * weight
            numbers[scaled] = number = numbers.get(scaled, 0) + weight
            if not number:
                del numbers[scaled]
        elif math.isfinite(value):
            self._bits += _bits(value) * weight
        else:
            self._infinite[str(float(value))] += weight

    def result(self) -> Maybe:
        """Return the sum or mean of the values; None for an error."""
        counts = self._counts
        if self._errors:
            return None
        if counts[float] or counts[Float32]:
            total = self._float_total()
            mean = total / sum(counts.values()) if self._average else total
            return mean if counts[float] else to_single(mean)
        if self._average:
            number = counts[int] + counts[Decimal18]
            return _decimal(_divided(self._scaled, number)) if number else 0
        if counts[Decimal18]:
            return _decimal(self._scaled)
        whole = self._scaled // DECIMAL_ONE
        return whole if -INTEGER_LIMIT <= whole < INTEGER_LIMIT else None

    def _float_total(self) -> float:
        infinite = self._infinite
        if infinite["nan"] or (infinite["inf"] and infinite["-inf"]):
            return math.nan
        if infinite["inf"] or infinite["-inf"]:
            return math.inf if infinite["inf"] else -math.inf
        exact = (_bits(scaled / DECIMAL_ONE) * count for scaled, count in self._numbers.items())
        bits = sum(exact, self._bits)
        try:
            return bits / _EXACT
        except OverflowError:
            return math.inf if bits > 0 else -math.inf


class Ordered(Accumulator):
    """Base class of accumulators that store values in term order; ties are resolved by the total order.

    ``_sorted`` holds the sort keys of the values, ``_ids`` their term ids, in the same order. The key under
    the total order is computed only if two sort keys are equal, so most numbers need one key.
    """

    __slots__ = ("_errors", "_ids", "_keys", "_sorted")

    def __init__(self, tools: Tools) -> None:
        self._keys = tools.keys
        self._errors = 0
        self._sorted: list[Key] = []
        self._ids: list[int] = []

    def take(self, value: Any, weight: int) -> None:
        """Insert the value into the sorted values, or remove it if ``weight`` is negative."""
        if not value:
            self._errors += weight
            return
        ids = self._ids
        if weight < 0:
            # Equal term ids are adjacent in the sorted list. In a short list a linear search is as fast as
            # computing a sort key.
            begin = 0 if len(ids) < 64 else bisect_left(self._sorted, self._keys.value(value))
            place = ids.index(value, begin)
            del self._sorted[place : place - weight], ids[place : place - weight]
            return
        key = self._keys.value(value)
        place = bisect_right(self._sorted, key)
        while place and ids[place - 1] != value and self._sorted[place - 1] == key:
            if self._keys.total(ids[place - 1]) < self._keys.total(value):
                break
            place -= 1
        self._sorted[place:place] = [key] * weight
        ids[place:place] = [value] * weight

    def ids(self) -> Iterable[int]:
        """Return the term ids that the accumulator stores."""
        return list(self._ids)


class Extreme(Ordered):
    """MIN, MAX and SAMPLE: the first or the last value in term order."""

    __slots__ = ("_place", "_strict")

    def __init__(self, tools: Tools, place: int, strict: bool = True) -> None:
        """``place`` is 0 for the first value in term order (MIN, SAMPLE), -1 for the last (MAX).

        With ``strict``, an error among the values makes the result of the aggregate an error.
        """
        super().__init__(tools)
        self._place = place
        self._strict = strict

    def result_id(self, values: ValueTable) -> int:
        """Return the term id of the first or last value; 0 for an error or an empty group."""
        if not self._ids or (self._strict and self._errors):
            return 0
        return self._ids[self._place]


class Median(Ordered):
    """MEDIAN: the middle value, or the mean of the two middle values."""

    __slots__ = ("_terms", "_values")

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._values = tools.values
        self._terms = tools.terms

    def take(self, value: Any, weight: int) -> None:
        """Insert or remove a value of MEDIAN; a value that is not a number counts as an error."""
        super().take(value if value and is_numeric(self._values[value]) else 0, weight)

    def result_id(self, values: ValueTable) -> int:
        """Return the term id of the middle value or of the mean of the two middle values; 0 for an error."""
        ids = self._ids
        middle, odd = divmod(len(ids), 2)
        if self._errors or not ids:
            return 0
        if odd:
            return ids[middle]
        pair = ids[middle - 1 : middle + 1]
        low: Any = values[pair[0]]
        high: Any = values[pair[1]]
        if type(low) in _EXACT_KINDS and type(high) in _EXACT_KINDS:
            scaled = [int(each) if type(each) is Decimal18 else each * DECIMAL_ONE for each in (low, high)]
            return values.id_of(Decimal18(_divided(sum(scaled), 2)))
        return values.id_of(_value(set_function("MEDIAN", [self._terms[each] for each in pair])))


class Bag(Accumulator):
    """Accumulator of all other set functions: each read applies the function's definition to all values."""

    __slots__ = ("_counts", "_errors", "_function", "_strict", "_terms")

    def __init__(
        self, function: Callable[[list[Term]], Term | None], terms: Mapping[int, Term], strict: bool = True
    ) -> None:
        """With ``strict``, an error among the values makes the result an error."""
        self._function = function
        self._terms = terms
        self._strict = strict
        self._errors = 0
        self._counts: dict[int, int] = {}

    def take(self, value: Any, weight: int) -> None:
        """Change the number of occurrences of the value by ``weight``."""
        if value:
            add(self._counts, value, weight)
        else:
            self._errors += weight

    def result(self) -> Maybe:
        """Apply the set function's definition to all values and return the result."""
        if self._errors and self._strict:
            return None
        values = [self._terms[term_id] for term_id, count in self._counts.items() for _ in range(count)]
        return _value(self._function(values))

    def ids(self) -> Iterable[int]:
        """Return the term ids that the accumulator stores."""
        return list(self._counts)


class DistinctValues(Accumulator):
    """Accumulator for DISTINCT in a set function: repeated occurrences of a value do not count."""

    __slots__ = ("_counts", "_inner", "_values")

    def __init__(self, inner: Accumulator, values: ValueTable) -> None:
        self._inner = inner
        self._values = values
        self._counts: dict[int, int] = {}

    def take(self, value: Any, weight: int) -> None:
        """Pass a value on if it appears or disappears, and pass every error on."""
        if not value:
            self._inner.take(0 if self._inner.by_id else None, weight)
            return
        before = self._counts.get(value, 0)
        add(self._counts, value, weight)
        if (before > 0) != (before + weight > 0):
            self._inner.take(value if self._inner.by_id else self._values[value], 1 if weight > 0 else -1)

    def result_id(self, values: ValueTable) -> int:
        """Return the term id of the inner accumulator's result."""
        return self._inner.result_id(values)

    def ids(self) -> Iterable[int]:
        """Return the term ids that DISTINCT stores; the inner accumulator stores no others."""
        return list(self._counts)


class DistinctRows(Accumulator):
    """COUNT(DISTINCT *): the number of different rows of a group."""

    __slots__ = ("_weights",)

    def __init__(self) -> None:
        self._weights: dict[IdRow, int] = {}

    def take(self, value: IdRow, weight: int) -> None:
        """Change the number of occurrences of the row by ``weight``."""
        add(self._weights, value, weight)

    def result(self) -> int:
        """Return the number of different rows of the group."""
        return len(self._weights)

    def ids(self) -> Iterable[int]:
        """Return the term ids of all stored rows."""
        return [term_id for row in self._weights for term_id in row]


NewAccumulator = Callable[[Tools], Accumulator]

_ACCUMULATORS: dict[str, NewAccumulator] = {
    "COUNT": lambda tools: Count(),
    "SUM": lambda tools: Sum(average=False),
    "AVG": lambda tools: Sum(average=True),
    "MIN": lambda tools: Extreme(tools, 0),
    "MAX": lambda tools: Extreme(tools, -1),
    "SAMPLE": lambda tools: Extreme(tools, 0, strict=False),
    "MEDIAN": Median,
}
"""The set functions whose accumulator does not recompute the definition at each change."""


def register(
    iri: NamedNode,
    value: Callable[[Sequence[Term]], Term | None],
    *,
    accumulator: NewAccumulator | None = None,
    passes_over_errors: bool = False,
) -> None:
    """Register an aggregate, which queries registered afterwards can call by its IRI.

    Args:
        iri: the IRI of the aggregate, as in ``(<urn:example:range>(?x) AS ?range)``.
        value: the definition: a function from all values of a group to the result, None for an error.
        accumulator: a factory of accumulators for incremental evaluation; by default each change of a group
            evaluates the definition again.
        passes_over_errors: True if an error among the values does not make the result an error.

    Raises:
        ValueError: an aggregate with this IRI is already registered.
    """
    if str(iri) in FUNCTIONS:
        raise ValueError(f"an aggregate {iri} is registered already")
    FUNCTIONS[str(iri)] = SetFunction(guarded("aggregate", iri, value), passes_over_errors)
    if accumulator is not None:
        _ACCUMULATORS[str(iri)] = accumulator


def unregister(iri: NamedNode) -> None:
    """Remove a registered aggregate; all queries that call the aggregate must have ended."""
    del FUNCTIONS[str(iri)]
    _ACCUMULATORS.pop(str(iri), None)


def accumulator_factory(aggregate: Aggregate, tools: Tools) -> Callable[[], Accumulator]:
    """Return a factory for accumulators of one aggregate; each group of a query has one accumulator.

    Raises:
        UnsupportedError: the set function is unknown.
        QueryTextError: the parameter of PERCENTILE is not a constant number from 0 to 100.
    """
    if aggregate.expr is None:
        return DistinctRows if aggregate.distinct else Count
    parameter = percentile_parameter(aggregate)
    make = _ACCUMULATORS.get(aggregate.name)
    if make is None:
        if aggregate.name not in FUNCTIONS:
            raise UnsupportedError(f"the set function {aggregate.name}")
        strict = not FUNCTIONS[aggregate.name].passes_over_errors
        value = partial(set_function, aggregate.name, separator=aggregate.separator, parameter=parameter)
        if aggregate.name == "GROUP_CONCAT":
            value = partial(_concatenated, tools.budget, aggregate.separator)
        new: Callable[[], Accumulator] = partial(Bag, value, tools.terms, strict)
    else:
        new = partial(make, tools)
    return (lambda: DistinctValues(new(), tools.values)) if aggregate.distinct else new


def _concatenated(budget: Budget, separator: str | None, values: Sequence[Term]) -> Term | None:
    """Compute GROUP_CONCAT; raise BudgetError before a text that would be too long is built."""
    size = len(" " if separator is None else separator) * (len(values) - 1)
    size += sum(len(term.value) for term in values if isinstance(term, Literal))
    if size > LONG:
        take_text(budget, size, "GROUP_CONCAT")
    return set_function("GROUP_CONCAT", values, separator=separator)


def _bits(number: float) -> int:
    """Return a finite double times 2^1074, which is always an integer."""
    numerator, denominator = number.as_integer_ratio()
    return numerator << (_EXACT_BITS + 1 - denominator.bit_length())


def _decimal(scaled: int) -> Maybe:
    """Return a number scaled by 10^18 as a decimal; None if it is out of range."""
    return Decimal18(scaled) if abs(scaled) < DECIMAL_LIMIT else None


def _divided(scaled: int, number: int) -> int:
    """Return the quotient ``scaled`` / ``number``, rounded towards zero."""
    return scaled // number if scaled >= 0 else -(-scaled // number)


def _value(term: Term | None) -> Maybe:
    return None if term is None else value_of(term)
