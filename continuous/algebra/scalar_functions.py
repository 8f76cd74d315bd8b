"""The registry of scalar functions outside SPARQL, built-in and of extensions (docs/extending.md).

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
"""The classes of RDF terms; a function result of any other class is an error."""


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function that expressions call by IRI.

    Attributes:
        call: computes the result from terms; a result of None is an error of the expression. The function
            ``call`` raises no exception but MemoryError.
        arities: the allowed numbers of arguments.
        is_deterministic: equal arguments always give equal results.
        is_costly: one call may take longer than a millisecond.
        is_built_in: the function is part of Quadrill, not of an extension; its results need no length limit.
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
"""All registered scalar functions by IRI."""
CALLS: Mapping[NamedNode, Function] = MappingProxyType(_CALLS)
"""The callables of all scalar functions by IRI, in the form of Oxigraph's ``custom_functions``."""
EXTENSION_FUNCTIONS: Mapping[NamedNode, ScalarFunction] = MappingProxyType(_OUTSIDE)
"""The scalar functions by IRI that extensions have registered."""


def register(
    iri: NamedNode,
    function: Function,
    *,
    arity: int | Sequence[int] = 1,
    deterministic: bool = True,
    costly: bool = False,
) -> None:
    """Register a function that queries and updates call by its IRI.

    Args:
        iri: the IRI in query texts, as in ``BIND(<urn:example:double>(?x) AS ?y)``.
        function: returns the result for RDF terms. A result of None and an exception of the function are
            errors of the expression.
        arity: the number of arguments, or all allowed numbers.
        deterministic: equal arguments always give equal results. Continuous queries reject functions that are
            not deterministic, because a replay could not repeat their answers.
        costly: a call may take longer than a millisecond. Queries that call a costly function are evaluated
            in a worker process, and conditions that call it may be evaluated after the joins
            (``uncertain_filters``).

    Raises:
        ValueError: a function with this IRI is registered already, or the IRI is reserved for Quadrill.
    """
    if iri in _FUNCTIONS:
        raise ValueError(f"a function {iri} is registered already")
    if iri.value.startswith(_RESERVED):
        raise ValueError(f"the IRI {iri} is reserved: names must not begin with {', '.join(_RESERVED)}")
    arities = (arity,) if isinstance(arity, int) else tuple(arity)
    call = _of_arities(guarded("function", iri, function), arities)
    add(iri, ScalarFunction(call, arities, deterministic, costly))


def add(iri: NamedNode, function: ScalarFunction) -> None:
    """Register a scalar function whose ``call`` checks its arguments and raises no errors.

    Packages of Quadrill call `add`; extensions call `register`, which adds these checks.
    """
    _FUNCTIONS[iri] = function
    _CALLS[iri] = function.call
    if not function.is_built_in:
        _OUTSIDE[iri] = function


def unregister(iri: NamedNode) -> None:
    """Remove a scalar function; no query that calls it may be running."""
    del _FUNCTIONS[iri], _CALLS[iri]
    _OUTSIDE.pop(iri, None)


def is_costly(iri: NamedNode) -> bool:
    """Return True for an extension function whose calls may take longer than a millisecond."""
    function = _OUTSIDE.get(iri)
    return function is not None and function.is_costly


def signatures() -> list[tuple[str, tuple[int, ...], bool, bool]]:
    """Return the signatures of all extension functions in a fixed order, as a part of cache keys."""
    found = _OUTSIDE.items()
    return sorted((i.value, (*f.arities,), f.is_deterministic, f.is_costly) for i, f in found)


_RESERVED = ("urn:quadrill:", "http://www.w3.org/2001/XMLSchema#")


def guarded(what: str, iri: NamedNode, function: Function) -> Function:
    """Wrap an extension's callable so that its exceptions become errors of the expression.

    The first exception of a function is logged for the author of the function; NotNumericError is an ordinary
    error and is not logged.
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
