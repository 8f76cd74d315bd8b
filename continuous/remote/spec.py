"""Specifications of remote sources: the SERVICE calls and remote FROM graphs of a query text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from ..algebra.build import children, expressions, sub_expressions
from ..algebra.nodes import Algebra, Exists, Service, Var
from ..algebra.query import ContinuousQuery
from ..algebra.rewrites import prepare
from ..algebra.text import SparqlText
from ..algebra.variables import in_scope


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """The specification of one remote source.

    Attributes:
        kind: ``service`` for the solutions of an endpoint, ``graph`` for an RDF document.
        iri: the IRI of the endpoint or graph.
        text: the query text that is sent to an endpoint.
        columns: the variables of that query in order.
        silent: True for SERVICE SILENT: a call that never succeeded yields one solution without bindings.
        block: the number of equal SERVICE calls before this one in the query text.
    """

    kind: OneOf["service", "graph"]
    iri: str
    text: str = ""
    columns: tuple[str, ...] = ()
    silent: bool = False
    block: int = 0

    @property
    def key(self) -> str:
        """The key of the source, equal for all queries that read the same source."""
        parts = (self.kind, self.iri, self.text, str(self.silent), *([str(self.block)] if self.block else ()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def to_json(self) -> dict[str, Any]:
        """Return the specification as JSON for the journal and checkpoints."""
        return {
            "kind": self.kind,
            "iri": self.iri,
            "text": self.text,
            "columns": list(self.columns),
            "silent": self.silent,
            **({"block": self.block} if self.block else {}),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> SourceSpec:
        """Return the specification of a remote source that `to_json` wrote."""
        return cls(**{**document, "columns": tuple(document["columns"])})


def service_spec(call: Service, base_iri: str | None = None) -> SourceSpec:
    """Return the source of a SERVICE call, whose content is all solutions of the call's group pattern.

    Raises:
        UnsupportedError: the endpoint is a variable.
    """
    if isinstance(call.name, Var):
        raise UnsupportedError(
            "SERVICE with a variable",
            hint="name the endpoint, or write one SERVICE block for each endpoint and join them by UNION",
        )
    columns = tuple(sorted(name for name in in_scope(call.input) if not name.startswith("_:")))
    text = SparqlText(call.input, base_iri=base_iri).select(columns or None)
    return SourceSpec("service", call.name.value, text, columns, call.silent, call.block)


def services_of(node: Algebra) -> Iterator[Service]:
    """Yield the SERVICE calls of a pattern and of its EXISTS, without calls inside other SERVICE calls."""
    if isinstance(node, Service):
        yield node
        return
    for expression in expressions(node):
        for each in sub_expressions(expression):
            if isinstance(each, Exists):
                yield from services_of(each.pattern)
    for child in children(node):
        yield from services_of(child)


def specs_of(
    query: ContinuousQuery, exists: Callable[[NamedNode], bool], fetched: Callable[[str], bool]
) -> tuple[SourceSpec, ...]:
    """Return every remote source of a query once: its SERVICE calls and the graphs that must be fetched.

    Args:
        query: the query.
        exists: returns True if the store has a graph of this name.
        fetched: returns True if the graph of this http(s) IRI is to be fetched when the store does not have
            it.
    """
    # Rewriting a query adds no SERVICE calls, so a query without SERVICE calls is not rewritten.
    calls = next(services_of(query.root), None) is not None
    found = [service_spec(call, query.base_iri) for call in services_of(prepare(query))] if calls else []
    for graph in dict.fromkeys((*query.dataset.default, *query.dataset.named)):
        iri = graph.value
        if iri.startswith(("http://", "https://")) and not exists(graph) and fetched(iri):
            found.append(SourceSpec("graph", iri))
    return tuple(dict.fromkeys(found))
