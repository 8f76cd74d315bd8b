"""Which accumulator computes which set function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quadrill.store.dictionary import TermDictionary
from quadrill.store.errors import UnsupportedError
from quadrill.store.terms import Term

from ..algebra.nodes import Aggregate
from ..algebra.set_functions import STATISTICAL, percentile_parameter, set_function
from ..expressions.values import ValueTable
from ..operators.accumulators import Accumulator, Bag, Count, DistinctValues, Extreme, Median, Sum
from ..operators.aggregate import DistinctRows
from ..operators.ordering import OrderKeys


def accumulator_factory(
    aggregate: Aggregate, values: ValueTable, keys: OrderKeys, terms: TermDictionary
) -> Callable[[], Accumulator]:
    """A function that makes the accumulator of one group.

    Raises:
        UnsupportedError: the set function is unknown.
        QueryTextError: the parameter of PERCENTILE is no constant number from 0 to 100.
    """
    if aggregate.expr is None:
        return DistinctRows if aggregate.distinct else Count
    new = _plain(aggregate, values, keys, terms)
    return (lambda: DistinctValues(new(), values)) if aggregate.distinct else new


def _plain(
    aggregate: Aggregate, values: ValueTable, keys: OrderKeys, terms: TermDictionary
) -> Callable[[], Accumulator]:
    match aggregate.name:
        case "COUNT":
            return Count
        case "SUM":
            return partial(Sum, False)
        case "AVG":
            return partial(Sum, True)
        case "MIN":
            return partial(Extreme, False, True, keys, values)
        case "MAX":
            return partial(Extreme, True, True, keys, values)
        case "SAMPLE":
            return partial(Extreme, False, False, keys, values)
        case "MEDIAN":
            return partial(Median, keys, values, terms.terms)
        case "GROUP_CONCAT":
            separator = " " if aggregate.separator is None else aggregate.separator
            return partial(Bag, _concatenation(separator), terms.terms)
        case name if name in STATISTICAL:
            return partial(Bag, _statistic(name, percentile_parameter(aggregate)), terms.terms)
        case name:
            raise UnsupportedError(f"the set function {name}")


def _concatenation(separator: str) -> Callable[[list[Term]], Term | None]:
    return lambda terms: set_function("GROUP_CONCAT", terms, separator=separator)


def _statistic(name: str, percent: float | None) -> Callable[[list[Term]], Term | None]:
    return lambda terms: set_function(name, terms, parameter=percent)
