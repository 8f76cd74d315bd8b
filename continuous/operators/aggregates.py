"""The registry of aggregates: the built-in ones and those from outside (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError
from quadrill.store.terms import Term

from ..algebra.nodes import Aggregate
from ..algebra.set_functions import FUNCTIONS, SetFunction, percentile_parameter, set_function
from ..expressions.values import (
    ValueTable,
)
from .accumulators import Accumulator, Bag, Count, DistinctRows, DistinctValues, Extreme, Median, Sum
from .ordering import OrderKeys


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools of the engine for accumulators: values and sort keys by term id, and the terms themselves."""

    values: ValueTable
    keys: OrderKeys
    terms: Mapping[int, Term]


NewAccumulator = Callable[[Tools], Accumulator]

_ACCUMULATORS: dict[str, NewAccumulator] = {
    "COUNT": lambda tools: Count(),
    "SUM": lambda tools: Sum(False),
    "AVG": lambda tools: Sum(True),
    "MIN": lambda tools: Extreme(False, True, tools.keys, tools.values),
    "MAX": lambda tools: Extreme(True, True, tools.keys, tools.values),
    "SAMPLE": lambda tools: Extreme(False, False, tools.keys, tools.values),
    "MEDIAN": lambda tools: Median(tools.keys, tools.values, tools.terms),
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
    FUNCTIONS[str(iri)] = SetFunction(value, passes_over_errors)
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
        new: Callable[[], Accumulator] = partial(Bag, value, tools.terms, strict)
    else:
        new = partial(make, tools)
    return (lambda: DistinctValues(new(), tools.values)) if aggregate.distinct else new
