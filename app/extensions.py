"""What one-shot queries can call beyond SPARQL: the rspu functions and the aggregates for measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra.build import all_nodes
from quadrill.continuous.algebra.nodes import Constant, Group
from quadrill.continuous.algebra.set_functions import Accumulator
from quadrill.continuous.language import parse
from quadrill.continuous.language.expressions import percentile_iri
from quadrill.continuous.language.write import write
from quadrill.continuous.uncertainty import (
    AGGREGATE_NAMESPACE,
    NAMESPACE,
    custom_aggregates,
    custom_functions,
)

_AGGREGATE_MARK = AGGREGATE_NAMESPACE.rstrip(":")


@dataclass(frozen=True, slots=True)
class Extended:
    """A query text with what it calls, as the store takes them."""

    text: str
    functions: Mapping[NamedNode, Callable[..., Any]] | None = None
    aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None

    @property
    def plain(self) -> bool:
        """True when any SPARQL processor, so also a worker process, can evaluate the text."""
        return self.functions is None


def extended(text: str, base_iri: str) -> Extended:
    """The text with our functions where it names them; a plain text as it is.

    The store's own aggregates take one argument, so percentiles with two are written with the percentile in
    their IRI. That goes through the algebra, never through a change of the text.

    Raises:
        QueryTextError: a text with our aggregates is wrong.
    """
    if _AGGREGATE_MARK not in text:
        return Extended(text, custom_functions(), {}) if NAMESPACE in text else Extended(text)
    query = parse(text, dialect="sparql", base_iri=base_iri)
    aggregates = dict(custom_aggregates())
    for node in all_nodes(query.root):
        for _, aggregate in node.aggregates if isinstance(node, Group) else ():
            parameter = aggregate.parameter
            iri = None if parameter is None else percentile_iri(parameter)
            if iri is not None and isinstance(parameter, Constant) and isinstance(parameter.term, Literal):
                asked = float(parameter.term.value)
                aggregates[iri] = partial(Accumulator, "PERCENTILE", distinct=False, parameter=asked)
    return Extended(write(query), custom_functions(), aggregates)
