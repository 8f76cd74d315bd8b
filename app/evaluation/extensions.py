"""Functions that one-shot queries can call beyond SPARQL: rspu functions and statistical aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra.build import children, with_children
from quadrill.continuous.algebra.nodes import Aggregate, Algebra, Constant, Group
from quadrill.continuous.algebra.set_functions import AGGREGATE_NAMESPACE, STATISTICAL, Accumulator
from quadrill.continuous.language import parse
from quadrill.continuous.language.write import write
from quadrill.continuous.uncertainty import (
    NAMESPACE,
    custom_aggregates,
    custom_functions,
)

_AGGREGATE_MARK = AGGREGATE_NAMESPACE.rstrip(":")


FOR_WORKERS = f"{__name__}:extended"
"""Where worker processes find `extended`."""
FOR_UPDATES = f"{__name__}:as_updated"
"""Where they find what updates may call."""


class Extended(NamedTuple):
    """A query text with what it calls, as the store takes them; ``check`` is that of `QueryRequest`."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]] | None = None
    aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None
    check: Callable[[], None] | None = None


def is_extended(text: str) -> bool:
    """True for a text that may call what is ours; any SPARQL processor can evaluate every other one."""
    return NAMESPACE in text or _AGGREGATE_MARK in text


def functions_of(text: str) -> dict[NamedNode, Callable[..., Any]] | None:
    """The functions that an update may call; None when it names none of them."""
    return dict(custom_functions()) if NAMESPACE in text else None


def as_updated(text: str, base_iri: str) -> Extended:
    """The text of an update as it is, with what it may call."""
    return Extended(text, functions_of(text))


def extended(text: str, base_iri: str) -> Extended:
    """The text with our functions where it names them; a plain text as it is.

    The store calls custom aggregates with one argument and without DISTINCT: both become part of
    the IRI. That goes through the algebra, never through a change of the text.

    Raises:
        QueryTextError: a text with our aggregates is wrong.
    """
    if _AGGREGATE_MARK not in text:
        return Extended(text, custom_functions(), {}) if NAMESPACE in text else Extended(text)
    query = parse(text, dialect="sparql", base_iri=base_iri)
    aggregates = dict(custom_aggregates())
    return Extended(
        write(replace(query, root=_called_by_iri(query.root, aggregates))), custom_functions(), aggregates
    )


def _called_by_iri(node: Algebra, known: dict[NamedNode, Callable[[], Any]]) -> Algebra:
    """The pattern with our set functions under IRIs that take one argument, which ``known`` then has."""
    if isinstance(node, Group):
        found = tuple((var, _of_one_argument(aggregate, known)) for var, aggregate in node.aggregates)
        node = replace(node, aggregates=found)
    return with_children(node, [_called_by_iri(each, known) for each in children(node)])


def _of_one_argument(aggregate: Aggregate, known: dict[NamedNode, Callable[[], Any]]) -> Aggregate:
    parameter = aggregate.parameter
    if aggregate.name not in STATISTICAL or not (aggregate.distinct or parameter):
        return aggregate
    asked = None
    name = ("distinct:" if aggregate.distinct else "") + aggregate.name.lower()
    if isinstance(parameter, Constant) and isinstance(parameter.term, Literal):
        asked = float(parameter.term.value)
        name += f":{asked}"
    iri = NamedNode(AGGREGATE_NAMESPACE + name)
    known[iri] = partial(Accumulator, aggregate.name, distinct=aggregate.distinct, parameter=asked)
    return replace(aggregate, name=str(iri), distinct=False, parameter=None)
