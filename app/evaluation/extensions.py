"""Functions that one-shot queries and updates can call beyond SPARQL: ours, and those of extensions."""

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
"""Where worker processes find `extended`."""
FOR_UPDATES = f"{__name__}:as_updated"
"""Where they find what updates may call."""
FOR_CORRECTED = f"{__name__}:as_corrected"
"""Where they find what corrected texts may call."""
FOR_MERGED = f"{__name__}:extended_over_merged"
"""Where they find `extended` over a merged default graph."""


class Extended(NamedTuple):
    """A query text with what it calls, as the store takes them; ``check`` is that of `QueryRequest`."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]] | None = None
    aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None
    check: Callable[[], None] | None = None


class WorkerQuery(NamedTuple):
    """A query as a worker process gets it: a text, and the function that says what it calls there."""

    text: str
    extension: str | None


def is_extended(text: str) -> bool:
    """True for a text that may call what is ours; any SPARQL processor can evaluate every other one."""
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
    """The functions that an update may call; None when it names none of them."""
    return dict(custom_functions()) if calls_function(text) else None


def aggregates_of(text: str) -> dict[NamedNode, Callable[[], Any]] | None:
    """The aggregates of extensions that an update may call; None when it names none of them."""
    return _outside_aggregates() if may_call_aggregate(text) else None


def as_updated(text: str, base_iri: str) -> Extended:
    """The text of an update as it is, with what it may call."""
    return Extended(text, functions_of(text), aggregates_of(text))


def as_corrected(text: str, base_iri: str) -> Extended:
    """A text that was corrected, with what it may call."""
    return Extended(text, {**custom_functions(), **CORRECTING_FUNCTIONS}, dict(custom_aggregates()))


def _outside_aggregates() -> dict[NamedNode, Callable[[], Any]]:
    """The aggregates of extensions by IRI, and by the IRIs that stand for them with DISTINCT."""
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
    """The text with our functions where it names them; a plain text as it is.

    The store calls custom aggregates with one argument and without DISTINCT: both become part of
    the IRI. That goes through the algebra, never through a change of the text. ``counts``: so do calls
    that could make long values.

    Raises:
        QueryTextError: a text with our aggregates is wrong.
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
    """`extended` for a text whose default graph is merged from several graphs."""
    return extended(text, base_iri, merged=True)


def extended_for(
    text: str, base_iri: str, body: str, *, merged: bool, is_node: IsNode | None, counts: bool
) -> tuple[Extended | None, WorkerQuery]:
    """A query as the store takes it, and as a worker gets it; None for a text that is right as it stands.

    Args:
        text: as it came.
        base_iri: what its relative IRIs resolve against.
        body: what is left of it when it is cut (store/sparql/skeletons.py).
        merged: its default graph, which the request names, is merged from several graphs.
        is_node: tells which constants the graphs surely have.
        counts: its calls that could make long values are to be limited.

    Raises:
        ReportedError: it is wrong, or can not be corrected.
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
    """The pattern with our set functions under IRIs that take one argument, which ``known`` then has."""
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
    """An aggregate of an extension under the IRI that `_outside_aggregates` has."""
    argument = aggregate.expr
    if argument is not None and FUNCTIONS[aggregate.name].passes_over_errors:
        # Oxigraph ends a group at the first error.
        argument = Call("COALESCE", (argument, Constant(UNBOUND)))
    name = str(_distinct_iri(aggregate.name)) if aggregate.distinct else aggregate.name
    return replace(aggregate, name=name, expr=argument, distinct=False)
