"""Conditions whose functions may cost more than the joins around them, such as those of distributions."""

from __future__ import annotations

from .build import all_nodes, conditions_of, sub_expressions
from .nodes import Algebra, Expr, Filter, FunctionCall
from .scalar_functions import is_costly

NAMESPACE = "http://w3id.org/rsp/rspu#"
"""Prefix of the IRIs of the uncertainty functions and of the datatype of distributions."""


def is_uncertain(condition: Expr) -> bool:
    """Return True if a condition itself calls an uncertainty function, or one registered as costly."""
    return any(
        isinstance(each, FunctionCall) and (each.iri.value.startswith(NAMESPACE) or is_costly(each.iri))
        for each in sub_expressions(condition)
    )


def has_uncertain_filters(root: Algebra) -> bool:
    """Return True if a FILTER of the query calls an uncertainty function."""
    return any(isinstance(each, Filter) and is_uncertain(each.condition) for each in all_nodes(root))


def divided(condition: Expr) -> tuple[list[Expr], list[Expr]]:
    """Split a conjunction into conditions without uncertainty functions and the other conditions."""
    parts = conditions_of(condition)
    return [each for each in parts if not is_uncertain(each)], [each for each in parts if is_uncertain(each)]
