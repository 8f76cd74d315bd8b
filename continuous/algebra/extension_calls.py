"""Calls of functions and aggregates that extensions have registered, in the algebra of a query."""

from __future__ import annotations

from quadrill.store.errors import UnsupportedError

from .nodes import Aggregate, Algebra, FunctionCall
from .print_triples import parts_of
from .scalar_functions import EXTENSION_FUNCTIONS
from .set_functions import FUNCTIONS, STANDARD


def has_extensions() -> bool:
    """Return True if an extension has registered a function or an aggregate."""
    return bool(EXTENSION_FUNCTIONS) or len(FUNCTIONS) > len(STANDARD)


def calls_extensions(root: Algebra) -> bool:
    """Return True if a pattern calls a function or an aggregate of an extension."""
    return has_extensions() and any(
        each.iri in EXTENSION_FUNCTIONS
        if isinstance(each, FunctionCall)
        else is_extension_aggregate(each.name)
        for each in parts_of(root)
        if isinstance(each, (FunctionCall, Aggregate))
    )


def is_extension_aggregate(aggregate: str) -> bool:
    """Return True for the name of an aggregate that an extension has registered."""
    return aggregate in FUNCTIONS and aggregate not in STANDARD


def reject_nondeterministic_calls(root: Algebra) -> None:
    """Reject a continuous query whose answers a replay could not repeat.

    Raises:
        UnsupportedError: the query calls a function that is registered as not deterministic.
    """
    for each in parts_of(root):
        if isinstance(each, FunctionCall) and each.iri in EXTENSION_FUNCTIONS:
            if not EXTENSION_FUNCTIONS[each.iri].is_deterministic:
                raise UnsupportedError(
                    f"the function {each.iri} in a continuous query",
                    f"The function {each.iri} is registered as not deterministic, and a replay could not "
                    "repeat the answers of a continuous query that calls it.",
                    hint="Call it in an update, and read the graph that the update writes.",
                )
