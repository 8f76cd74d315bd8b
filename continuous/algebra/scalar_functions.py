"""The registry of scalar functions that are not SPARQL's own, built-in and from outside (docs/extending.md).

A function is an IRI and a Python callable over RDF terms. Every evaluator reads this registry: Oxigraph for
queries, updates, static parts and recomputed answers, and the generated code of the native engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from .nodes import Term
from .set_functions import NotNumericError

Function = Callable[..., Term | None]

log = logging.getLogger("quadrill.extensions")

TERMS = (NamedNode, BlankNode, Literal, Triple)
"""The classes of RDF terms; any other result of a function is an error."""


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One function.

    Attributes:
        call: takes terms; None is an error of the expression. It never raises, except for want of memory.
        arities: the numbers of arguments that it takes.
        is_deterministic: equal arguments always give equal results.
        is_costly: one call may take longer than a millisecond.
        is_built_in: part of Quadrill, not of an extension; the length of its results needs no limit.
    """

    call: Function
    arities: Sequence[int]
    is_deterministic: bool = True
    is_costly: bool = False
    is_built_in: bool = False


_FUNCTIONS: dict[NamedNode, ScalarFunction] = {}
_CALLS: dict[NamedNode, Function] = {}
_OUTSIDE: dict[NamedNode, ScalarFunction] = {}

FUNCTIONS: Mapping[NamedNode, ScalarFunction] = MappingProxyType(_FUNCTIONS)
"""All functions by IRI."""
CALLS: Mapping[NamedNode, Function] = MappingProxyType(_CALLS)
"""Their callables, as Oxigraph's ``custom_functions`` takes them."""
EXTENSION_FUNCTIONS: Mapping[NamedNode, ScalarFunction] = MappingProxyType(_OUTSIDE)
"""Those of them that extensions have registered."""


def register(
    iri: NamedNode,
    function: Function,
    *,
    arity: int | Sequence[int] = 1,
    deterministic: bool = True,
    costly: bool = False,
) -> None:
    """Add a function that queries and updates call by its IRI.

    Args:
        iri: what texts write, as in ``BIND(<urn:example:double>(?x) AS ?y)``.
        function: gives the result for RDF terms. None, and an exception, are errors of the expression.
        arity: the number of arguments, or all numbers that are allowed.
        deterministic: equal arguments always give equal results. Continuous queries refuse other functions,
            because a replay could not repeat their answers.
        costly: a call may take longer than a millisecond. Queries that call it are evaluated in a worker
            process, and conditions that call it may be evaluated after the joins (``uncertain_filters``).

    Raises:
        ValueError: a function of this IRI is registered already, or Quadrill uses the IRI itself.
    """
    if iri in _FUNCTIONS:
        raise ValueError(f"a function {iri} is registered already")
    if iri.value.startswith(_RESERVED):
        raise ValueError(f"the IRI {iri} is reserved: names must not begin with {', '.join(_RESERVED)}")
    arities = (arity,) if isinstance(arity, int) else tuple(arity)
    call = _of_arities(guarded("function", iri, function), arities)
    add(iri, ScalarFunction(call, arities, deterministic, costly))


def add(iri: NamedNode, function: ScalarFunction) -> None:
    """Add a function whose ``call`` keeps the rules already; built-in packages use this."""
    _FUNCTIONS[iri] = function
    _CALLS[iri] = function.call
    if not function.is_built_in:
        _OUTSIDE[iri] = function


def unregister(iri: NamedNode) -> None:
    """Remove a function; queries that call it must have ended."""
    del _FUNCTIONS[iri], _CALLS[iri]
    _OUTSIDE.pop(iri, None)


def is_costly(iri: NamedNode) -> bool:
    """Return True for a registered function whose calls may take long."""
    function = _OUTSIDE.get(iri)
    return function is not None and function.is_costly


def signatures() -> list[tuple[str, tuple[int, ...], bool, bool]]:
    """What texts that call functions from outside mean depends on these; plain values in a fixed order."""
    found = _OUTSIDE.items()
    return sorted((i.value, (*f.arities,), f.is_deterministic, f.is_costly) for i, f in found)


_RESERVED = ("urn:quadrill:", "http://www.w3.org/2001/XMLSchema#")


def guarded(what: str, iri: NamedNode, function: Function) -> Function:
    """A callable from outside whose exceptions are errors of the expression.

    The first exception is logged, so that its author sees it; what is no number is an ordinary error.
    """
    logged = False

    def call(*args: Any) -> Term | None:
        nonlocal logged
        try:
            result = function(*args)
        except MemoryError:
            raise
        except NotNumericError:
            return None
        except Exception as error:
            if not logged:
                logged = True
                log.warning("The %s %s failed; its result is unbound.", what, iri, exc_info=error)
            return None
        return result if isinstance(result, TERMS) else None

    return call


def _of_arities(function: Function, arities: Sequence[int]) -> Function:
    def call(*terms: Term) -> Term | None:
        return function(*terms) if len(terms) in arities else None

    return call
