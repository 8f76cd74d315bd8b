"""Custom functions and aggregates in one-shot queries and updates: those of Quadrill and of extensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra.build import children, with_children
from quadrill.continuous.algebra.corrected_patterns import IsNode
from quadrill.continuous.algebra.extension_calls import is_extension_aggregate
from quadrill.continuous.algebra.nodes import Aggregate, Algebra, Call, Constant, Group
from quadrill.continuous.algebra.set_functions import (
    AGGREGATE_NAMESPACE,
    FUNCTIONS,
    STATISTICAL,
    CustomAccumulator,
)
from quadrill.continuous.algebra.volatile import UNBOUND
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.analysis.growth import counted
from quadrill.continuous.expressions.correcting import CORRECTING_FUNCTIONS
from quadrill.continuous.uncertainty import (
    NAMESPACE,
    custom_aggregates,
    custom_functions,
)
from quadrill.store.errors import LimitError, ReportedError

from .named import may_call_aggregate, may_call_function, names_aggregate

_AGGREGATE_MARK = AGGREGATE_NAMESPACE.rstrip(":")


FOR_WORKERS = f"{__name__}:extended"
"""Import path of the function that adds custom functions to a query text in a worker process."""
FOR_UPDATES = f"{__name__}:as_updated"
"""Import path of the function that adds custom functions to an update in a worker process."""
FOR_CORRECTED = f"{__name__}:as_corrected"
"""Import path of the function that adds functions to a corrected query text in a worker process."""
FOR_MERGED = f"{__name__}:extended_over_merged"
"""Import path of `extended_over_merged`, which worker processes call for merged default graphs."""


class Extended(NamedTuple):
    """A query text with its custom functions and aggregates, and the check that may stop the evaluation."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]] | None = None
    aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None
    check: Callable[[], None] | None = None


class WorkerQuery(NamedTuple):
    """A query for a worker process: a text, and the import path of the function that extends the text."""

    text: str
    extension: str | None


def is_extended(text: str) -> bool:
    """Return True if a text may call functions or aggregates that SPARQL does not have."""
    return calls_function(text) or calls_aggregate(text)


def calls_function(text: str) -> bool:
    """Return True when a text may call a function that SPARQL does not have."""
    return NAMESPACE in text or may_call_function(text)


def calls_aggregate(text: str) -> bool:
    """Return True when a text may call an aggregate that SPARQL does not have."""
    return _AGGREGATE_MARK in text or may_call_aggregate(text)


def _surely_calls_aggregate(text: str) -> bool:
    return _AGGREGATE_MARK in text or names_aggregate(text)


def functions_of(text: str) -> dict[NamedNode, Callable[..., Any]] | None:
    """Return the custom functions that an update may call; None if its text names none."""
    return dict(custom_functions()) if calls_function(text) else None


def aggregates_of(text: str) -> dict[NamedNode, Callable[[], Any]] | None:
    """Return the aggregates of extensions that an update may call; None if its text names none."""
    return _outside_aggregates() if may_call_aggregate(text) else None


def as_updated(text: str, base_iri: str) -> Extended:
    """Return the unchanged text of an update with the custom functions and aggregates that it may call."""
    return Extended(text, functions_of(text), aggregates_of(text))


def as_corrected(text: str, base_iri: str) -> Extended:
    """Return a corrected query text with the custom functions and aggregates that it may call."""
    return Extended(text, {**custom_functions(), **CORRECTING_FUNCTIONS}, dict(custom_aggregates()))


def _outside_aggregates() -> dict[NamedNode, Callable[[], Any]]:
    """Return the aggregates of extensions by IRI, and their DISTINCT forms by separate IRIs."""
    return {
        iri: partial(
            CustomAccumulator,
            name,
            distinct=distinct,
            skip=UNBOUND if function.passes_over_errors else None,
        )
        for name, function in FUNCTIONS.items()
        if is_extension_aggregate(name)
        for distinct, iri in ((False, NamedNode(name[1:-1])), (True, _distinct_iri(name)))
    }


def _distinct_iri(name: str) -> NamedNode:
    return NamedNode(f"{AGGREGATE_NAMESPACE}distinct:{name[1:-1]}")


def extended(text: str, base_iri: str, *, merged: bool = False, counts: bool = False) -> Extended:
    """Return a query text with its custom functions; rewrite calls of custom aggregates.

    Oxigraph calls a custom aggregate with one argument and without DISTINCT, so DISTINCT and parameters
    become part of the aggregate's IRI. Custom aggregates are rewritten in the query's algebra, not in its
    text. With ``counts``, calls that could make long values are replaced by functions with a size limit.

    Raises:
        QueryTextError: a query text with custom aggregates is invalid.
        LimitError: a query text with custom aggregates is too long to be rewritten.
    """
    if not calls_aggregate(text):
        return Extended(text, custom_functions(), {}) if calls_function(text) else Extended(text)
    aggregates = {**custom_aggregates(), **_outside_aggregates()}
    needed = counts or _surely_calls_aggregate(text)

    def change(root: Algebra) -> Algebra:
        return called_by_iri(counted(root) if counts else root, aggregates)

    try:
        found = corrected_text(text, base_iri, merged=merged, change=change)
    except ReportedError:
        if needed:
            raise
        found = None
    if found is None:
        if not needed:
            return Extended(text, functions_of(text))
        raise _too_long(text, "use aggregates that SPARQL does not have")
    return Extended(found.with_base, {**custom_functions(), **found.functions}, aggregates)


def _too_long(text: str, what: str) -> LimitError:
    return LimitError(f"a text of {len(text):,} characters may not {what}", hint="Shorten the text.")


def extended_over_merged(text: str, base_iri: str) -> Extended:
    """Return a query text with its custom functions, for a default graph merged from several graphs."""
    return extended(text, base_iri, merged=True)


def extended_for(
    text: str, base_iri: str, body: str, *, merged: bool, is_node: IsNode | None, counts: bool
) -> tuple[Extended | None, WorkerQuery]:
    """Return a query's forms for the server (None if its text needs no change) and for a worker process.

    Args:
        text: the query text of the client.
        base_iri: the base of relative IRIs.
        body: the query text without prologue and constants (store/sparql/skeletons.py).
        merged: True if the request's default graph is a merge of several graphs.
        is_node: returns whether a graph surely contains a constant as a node.
        counts: True to limit the values of calls that could make long values.

    Raises:
        ReportedError: the query text is invalid or cannot be corrected.
    """
    if calls_aggregate(text):
        found = extended(text, base_iri, merged=merged, counts=counts)
        return found, WorkerQuery(text, FOR_MERGED if merged else FOR_WORKERS)
    change = counted if counts else None
    corrected = corrected_text(text, base_iri, body=body, merged=merged, is_node=is_node, change=change)
    if corrected is not None:
        written = corrected.with_base
        functions = {**(functions_of(text) or {}), **corrected.functions}
        return Extended(written, functions, {}), WorkerQuery(written, FOR_CORRECTED)
    if counts:
        raise _too_long(text, "make long values of short ones")
    if calls_function(text):
        return extended(text, base_iri), WorkerQuery(text, FOR_WORKERS)
    return None, WorkerQuery(text, None)


def called_by_iri(node: Algebra, known: dict[NamedNode, Callable[[], Any]]) -> Algebra:
    """Rewrite an algebra's custom aggregates to IRIs with one argument, and add these IRIs to ``known``."""
    if isinstance(node, Group):
        found = tuple((var, _of_one_argument(aggregate, known)) for var, aggregate in node.aggregates)
        node = replace(node, aggregates=found)
    return with_children(node, [called_by_iri(each, known) for each in children(node)])


def _of_one_argument(aggregate: Aggregate, known: dict[NamedNode, Callable[[], Any]]) -> Aggregate:
    parameter = aggregate.parameter
    if is_extension_aggregate(aggregate.name):
        return _of_outside(aggregate)
    if aggregate.name not in STATISTICAL:
        return aggregate
    asked = None
    name = ("distinct:" if aggregate.distinct else "") + aggregate.name.lower()
    if isinstance(parameter, Constant) and isinstance(parameter.term, Literal):
        asked = float(parameter.term.value)
        name += f":{asked}"
    iri = NamedNode(AGGREGATE_NAMESPACE + name)
    known[iri] = partial(CustomAccumulator, aggregate.name, distinct=aggregate.distinct, parameter=asked)
    return replace(aggregate, name=str(iri), distinct=False, parameter=None)


def _of_outside(aggregate: Aggregate) -> Aggregate:
    """Rewrite a call of an extension's aggregate to the IRI by which Oxigraph calls the aggregate."""
    argument = aggregate.expr
    if argument is not None and FUNCTIONS[aggregate.name].passes_over_errors:
        # Oxigraph stops aggregating a group at the first error, so COALESCE replaces an error by a marker
        # value.
        argument = Call("COALESCE", (argument, Constant(UNBOUND)))
    name = str(_distinct_iri(aggregate.name)) if aggregate.distinct else aggregate.name
    return replace(aggregate, name=name, expr=argument, distinct=False)
