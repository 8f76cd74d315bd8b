"""Sources that a query names: the SERVICE calls and remote FROM graphs of its text."""

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
    """One thing that is fetched.

    Attributes:
        kind: ``service`` for the solutions of an endpoint, ``graph`` for an RDF document.
        iri: the endpoint or the graph.
        text: the query that is sent to an endpoint.
        columns: its variables in order.
        silent: SERVICE SILENT: a call that never succeeded is one solution without bindings.
        block: the number of equal calls before it in the text of a query.
    """

    kind: OneOf["service", "graph"]
    iri: str
    text: str = ""
    columns: tuple[str, ...] = ()
    silent: bool = False
    block: int = 0

    @property
    def key(self) -> str:
        """The key of a source: equal for all queries that read the same thing."""
        parts = (self.kind, self.iri, self.text, str(self.silent), *([str(self.block)] if self.block else ()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def to_json(self) -> dict[str, Any]:
        """The source as JSON, for the journal and checkpoints."""
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
        """The source that `to_json` wrote."""
        return cls(**{**document, "columns": tuple(document["columns"])})


def service_spec(call: Service, base_iri: str | None = None) -> SourceSpec:
    """The source of a SERVICE call: all solutions of its group, which the query then joins.

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
    """The SERVICE calls of a pattern, those of EXISTS too; not those that are sent inside another."""
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
    """Every source of a query, each once: its SERVICE calls, and the graphs that have to be fetched.

    Args:
        query: the query.
        exists: tells whether the store lists a graph.
        fetched: tells of an IRI of the web whether a graph that is not in the store is one to fetch.
    """
    # Rewriting brings no SERVICE call along.
    calls = next(services_of(query.root), None) is not None
    found = [service_spec(call, query.base_iri) for call in services_of(prepare(query))] if calls else []
    for graph in dict.fromkeys((*query.dataset.default, *query.dataset.named)):
        iri = graph.value
        if iri.startswith(("http://", "https://")) and not exists(graph) and fetched(iri):
            found.append(SourceSpec("graph", iri))
    return tuple(dict.fromkeys(found))
