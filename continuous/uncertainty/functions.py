"""The ``rspu`` functions and the statistical aggregates as custom functions of Oxigraph.

An ``rspu`` function returns None, which is an error of the SPARQL expression, if an argument is neither a
distribution nor an allowed number, or if the resulting distribution is neither normal nor uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from pyoxigraph import Literal, NamedNode

from ..algebra import scalar_functions
from ..algebra.nodes import Term
from ..algebra.order import XSD
from ..algebra.scalar_functions import Function, ScalarFunction
from ..algebra.set_functions import AGGREGATE_NAMESPACE, STATISTICAL, CustomAccumulator, double_text
from . import probability
from .distributions import NAMESPACE, Distribution, distribution_literal, parse_distribution, parse_operand

_DOUBLE = NamedNode(XSD + "double")
# Number of results that are cached per function: a row that leaves a window, or joins several rows, repeats
# the calls of its insertion.
_REMEMBERED = 16_384


def custom_functions() -> Mapping[NamedNode, Function]:
    """Return all registered extension functions by IRI: the ``rspu`` functions and those of extensions."""
    return scalar_functions.CALLS


def custom_aggregates() -> Mapping[NamedNode, Callable[[], CustomAccumulator]]:
    """Return the statistical aggregates by IRI, for SPARQL texts that Oxigraph evaluates itself."""
    return _AGGREGATES


def _distribution(combine: Callable[[Distribution, Distribution], Distribution | None]) -> Function:
    def function(*args: Term) -> Term | None:
        if len(args) != 2:
            return None
        left, right = parse_distribution(args[0]), parse_operand(args[1])
        if left is None or right is None:
            return None
        result = combine(left, right)
        return None if result is None else distribution_literal(result)

    return function


def _probability(measure: Callable[..., float], operands: int) -> Function:
    def function(*args: Term) -> Term | None:
        if len(args) != operands:
            return None
        values = [parse_distribution(args[0]), *map(parse_operand, args[1:])]
        if any(value is None for value in values):
            return None
        return Literal(double_text(measure(*values)), datatype=_DOUBLE)

    return function


def _less(left: Distribution, right: Distribution) -> float:
    return probability.greater(right, left)


def _less_or_equal(left: Distribution, right: Distribution) -> float:
    return probability.greater_or_equal(right, left)


for _name, _arity, _function in (
    ("add", 2, _distribution(probability.add)),
    ("subtract", 2, _distribution(probability.subtract)),
    ("greaterThan", 2, _probability(probability.greater, 2)),
    ("greaterThanOrEqual", 2, _probability(probability.greater_or_equal, 2)),
    ("lessThan", 2, _probability(_less, 2)),
    ("lessThanOrEqual", 2, _probability(_less_or_equal, 2)),
    ("between", 3, _probability(probability.between, 3)),
):
    scalar_functions.add(
        NamedNode(NAMESPACE + _name),
        ScalarFunction(lru_cache(_REMEMBERED)(_function), (_arity,), is_built_in=True),
    )

_AGGREGATES: Mapping[NamedNode, Callable[[], CustomAccumulator]] = MappingProxyType(
    {
        **{
            NamedNode(AGGREGATE_NAMESPACE + name.lower()): partial(CustomAccumulator, name, distinct=False)
            for name in sorted(STATISTICAL - {"PERCENTILE"})
        },
        **{
            NamedNode(f"{AGGREGATE_NAMESPACE}percentile:{percent}"): partial(
                CustomAccumulator, "PERCENTILE", distinct=False, parameter=float(percent)
            )
            for percent in range(101)
        },
    }
)
