"""The registry of aggregates, built-in and from outside (docs/extending.md), with their running values.

A running value, an `Accumulator`, takes values back and gives at any moment exactly what the definition in
`algebra.set_functions` gives over the whole multiset; the fast ones keep less than the multiset.
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
    """Tools of the engine for accumulators: values and sort keys by term id, the terms themselves, limits."""

    values: ValueTable
    keys: OrderKeys
    terms: Mapping[int, Term]
    budget: Budget = UNLIMITED


class Accumulator:
    """One set function over one group: the base of all running values.

    An error is a value too: it makes every function but COUNT and SAMPLE an error while it is there.
    """

    __slots__ = ()

    by_id = True
    """True when `take` wants the term id (0 is an error), False when it wants the value (None is)."""
    counts = False
    """True when it matters only whether there is a value: any but None will do."""

    def take(self, value: Any, weight: int) -> None:
        """``weight`` occurrences of a value came (negative: went)."""
        raise NotImplementedError

    def result(self) -> Maybe:
        """The value now; None for an error or no value."""
        raise NotImplementedError

    def result_id(self, values: ValueTable) -> int:
        """The id of the result; to be written instead of `result` where the ids held have it."""
        return values.id_of(self.result())

    def ids(self) -> Iterable[int]:
        """The term ids that it holds."""
        return ()


class Count(Accumulator):
    """COUNT of values that are no error."""

    by_id = False
    counts = True
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

    def result_id(self, values: ValueTable) -> int:
        """The id of the number."""
        return integer_id(self._count) or values.id_of(self._count)


class Sum(Accumulator):
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
    """Values in term order; of equal ones the total order decides, never the order of arrival.

    ``_sorted`` are the keys of the values, ``_ids`` their ids. Only where two keys are equal is the total
    order asked, so that most numbers are known by one key.
    """

    __slots__ = ("_errors", "_ids", "_keys", "_sorted")

    def __init__(self, tools: Tools) -> None:
        self._keys = tools.keys
        self._errors = 0
        self._sorted: list[Key] = []
        self._ids: list[int] = []

    def take(self, value: Any, weight: int) -> None:
        """Insert the value, or remove it."""
        if not value:
            self._errors += weight
            return
        ids = self._ids
        if weight < 0:
            # Equal ids stand side by side; among few one is found as fast as a key is made.
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
        """The term ids that it holds."""
        return list(self._ids)


class Extreme(Ordered):
    """MIN, MAX and SAMPLE: the first or the last value."""

    __slots__ = ("_place", "_strict")

    def __init__(self, tools: Tools, place: int, strict: bool = True) -> None:
        """``place``: 0 for the first, -1 for the last; ``strict``: an error makes the result an error."""
        super().__init__(tools)
        self._place = place
        self._strict = strict

    def result_id(self, values: ValueTable) -> int:
        """The id of the result, one of those held."""
        if not self._ids or (self._strict and self._errors):
            return 0
        return self._ids[self._place]


class Median(Ordered):
    """MEDIAN: the middle value, or the mean of the two middle ones."""

    __slots__ = ("_terms", "_values")

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._values = tools.values
        self._terms = tools.terms

    def take(self, value: Any, weight: int) -> None:
        """Insert or remove; what is no number is an error."""
        super().take(value if value and is_numeric(self._values[value]) else 0, weight)

    def result_id(self, values: ValueTable) -> int:
        """The middle one of those held, or the id of the mean."""
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
    """Every other set function, by its definition over the multiset each time it is read."""

    __slots__ = ("_counts", "_errors", "_function", "_strict", "_terms")

    def __init__(
        self, function: Callable[[list[Term]], Term | None], terms: Mapping[int, Term], strict: bool = True
    ) -> None:
        """``strict``: an error makes the result an error."""
        self._function = function
        self._terms = terms
        self._strict = strict
        self._errors = 0
        self._counts: dict[int, int] = {}

    def take(self, value: Any, weight: int) -> None:
        """Count the value."""
        if value:
            add(self._counts, value, weight)
        else:
            self._errors += weight

    def result(self) -> Maybe:
        """The function of all values."""
        if self._errors and self._strict:
            return None
        values = [self._terms[term_id] for term_id, count in self._counts.items() for _ in range(count)]
        return _value(self._function(values))

    def ids(self) -> Iterable[int]:
        """The term ids that it holds."""
        return list(self._counts)


class DistinctValues(Accumulator):
    """DISTINCT inside a set function: only the first occurrence of a value counts."""

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
        add(self._counts, value, weight)
        if (before > 0) != (before + weight > 0):
            self._inner.take(value if self._inner.by_id else self._values[value], 1 if weight > 0 else -1)

    def result_id(self, values: ValueTable) -> int:
        """The result of the inner function."""
        return self._inner.result_id(values)

    def ids(self) -> Iterable[int]:
        """The ids held; the inner function holds no others."""
        return list(self._counts)


class DistinctRows(Accumulator):
    """COUNT(DISTINCT *): how many different rows the group has."""

    __slots__ = ("_weights",)

    def __init__(self) -> None:
        self._weights: dict[IdRow, int] = {}

    def take(self, value: IdRow, weight: int) -> None:
        """Count the row."""
        add(self._weights, value, weight)

    def result(self) -> int:
        """The number of different rows."""
        return len(self._weights)

    def ids(self) -> Iterable[int]:
        """The ids of the rows held."""
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
"""The functions whose running value needs less than their definition over all values at each change."""


def register(
    iri: NamedNode,
    value: Callable[[Sequence[Term]], Term | None],
    *,
    accumulator: NewAccumulator | None = None,
    passes_over_errors: bool = False,
) -> None:
    """Add an aggregate that queries call by its IRI; those that are registered from now on may.

    Args:
        iri: what queries write, as in ``(<urn:example:range>(?x) AS ?range)``.
        value: its definition: the result over all values of a group, None for an error.
        accumulator: makes what keeps its running value; by default the definition is computed anew at each
            change of a group.
        passes_over_errors: an error among the values does not make the result an error.

    Raises:
        ValueError: an aggregate of this IRI is there already.
    """
    if str(iri) in FUNCTIONS:
        raise ValueError(f"an aggregate {iri} is registered already")
    FUNCTIONS[str(iri)] = SetFunction(guarded("aggregate", iri, value), passes_over_errors)
    if accumulator is not None:
        _ACCUMULATORS[str(iri)] = accumulator


def unregister(iri: NamedNode) -> None:
    """Take an aggregate away again; queries that call it must have ended."""
    del FUNCTIONS[str(iri)]
    _ACCUMULATORS.pop(str(iri), None)


def accumulator_factory(aggregate: Aggregate, tools: Tools) -> Callable[[], Accumulator]:
    """A function that makes the accumulator of one group.

    Raises:
        UnsupportedError: the set function is unknown.
        QueryTextError: the parameter of PERCENTILE is no constant number from 0 to 100.
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
    """GROUP_CONCAT of values, unless the text is too long."""
    size = len(" " if separator is None else separator) * (len(values) - 1)
    size += sum(len(term.value) for term in values if isinstance(term, Literal))
    if size > LONG:
        take_text(budget, size, "GROUP_CONCAT")
    return set_function("GROUP_CONCAT", values, separator=separator)


def _bits(number: float) -> int:
    """A finite double times 2^1074, which is an integer."""
    numerator, denominator = number.as_integer_ratio()
    return numerator << (_EXACT_BITS + 1 - denominator.bit_length())


def _decimal(scaled: int) -> Maybe:
    """The decimal; None when it is out of range."""
    return Decimal18(scaled) if abs(scaled) < DECIMAL_LIMIT else None


def _divided(scaled: int, number: int) -> int:
    """Cut off towards zero."""
    return scaled // number if scaled >= 0 else -(-scaled // number)


def _value(term: Term | None) -> Maybe:
    return None if term is None else value_of(term)
