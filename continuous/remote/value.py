"""The content of a remote source: rows or quads in the store's term forms, and their encoding as bytes.

The encoded bytes of a content do not depend on the order of the fetched rows, so equal contents have equal
digests. The label of a blank node from a remote source is the source's label after a prefix for the source:
two sources never share a blank node, and a source that returns equal content again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    QueryResultsFormat,
    QuerySolutions,
    Triple,
    parse_query_results,
)

from quadrill.store.documents.statements import to_lines
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.results import solutions
from quadrill.store.terms import in_store_form

from ..algebra.nodes import Term
from ..rows import Solution
from .spec import SourceSpec

_CELL = NamedNode("urn:quadrill:cell")


@dataclass(frozen=True, slots=True)
class SourceValue:
    """One content of a remote source.

    Attributes:
        number: the refresh version: 1 for the first content, incremented for each different content.
        at_ms: wall-clock time of the fetch.
        digest: the digest of the content's bytes; empty for the placeholder before the first fetch.
        rows: the rows of a SERVICE call, in the columns of the specification, including duplicates.
        quads: the quads of a remote graph, in the graph with the source's IRI.
    """

    number: int
    at_ms: int
    digest: str
    rows: tuple[Solution, ...] = ()
    quads: tuple[Quad, ...] = ()

    @property
    def size(self) -> int:
        """The number of rows or quads of the remote content."""
        return len(self.rows) + len(self.quads)


def absent(spec: SourceSpec) -> SourceValue:
    """Return a source's content before its first fetch: no rows, or an empty solution for SILENT."""
    rows = ((None,) * len(spec.columns),) if spec.silent else ()
    return SourceValue(0, 0, "", rows)


def encode(spec: SourceSpec, content: Sequence[Solution] | Sequence[Quad]) -> bytes:
    """Encode a fetched content as bytes that do not depend on the order of rows."""
    if spec.kind == "graph":
        quads = in_store_form(_graph_quads(spec, content))
        return b"".join(sorted(to_lines(quads).splitlines(keepends=True)))
    rows = _rows_in_store_form(spec, content)
    bindings = sorted(solutions(spec.columns, rows)["results"]["bindings"], key=_json)
    return _json({"head": {"vars": list(spec.columns)}, "results": {"bindings": bindings}}).encode()


def decode(spec: SourceSpec, data: bytes, number: int, at_ms: int, digest: str) -> SourceValue:
    """Decode a content from the bytes that `encode` returned."""
    if spec.kind == "graph":
        return SourceValue(number, at_ms, digest, quads=tuple(parse_stored_quads(data)))
    found = parse_query_results(data, QueryResultsFormat.JSON)
    assert isinstance(found, QuerySolutions)
    return SourceValue(number, at_ms, digest, rows=tuple(tuple(solution) for solution in found))


def _graph_quads(spec: SourceSpec, content: Iterable[object]) -> Iterable[Quad]:
    """Yield a document's default graph as quads in the graph of its IRI; ignore its named graphs."""
    name = NamedNode(spec.iri)
    for each in content:
        assert isinstance(each, Quad)
        if each.graph_name == DefaultGraph():
            triple = _renamed(spec, each.triple)
            assert isinstance(triple, Triple)
            yield Quad(triple.subject, triple.predicate, triple.object, name)


def _rows_in_store_form(spec: SourceSpec, content: Iterable[object]) -> list[Solution]:
    rows = [tuple(None if term is None else _renamed(spec, term) for term in row) for row in content]  # type: ignore[attr-defined]
    terms = list(dict.fromkeys(term for row in rows for term in row if term is not None))
    forms: dict[Term, Term] = {}
    changing = [term for term in terms if isinstance(term, Literal | Triple)]
    cells = [Quad(NamedNode(f"urn:quadrill:row:{place}"), _CELL, term) for place, term in enumerate(changing)]
    for term, cell in zip(changing, in_store_form(cells), strict=True):
        forms[term] = cell.object
    return [tuple(forms.get(term, term) if term is not None else None for term in row) for row in rows]


def _renamed(spec: SourceSpec, term: Term) -> Term:
    match term:
        case BlankNode():
            return BlankNode(f"r{spec.key[:12]}x{_label(term.value)}")
        case Triple():
            subject, object_ = _renamed(spec, term.subject), _renamed(spec, term.object)
            return Triple(subject, term.predicate, object_)  # type: ignore[arg-type]
        case _:
            return term


def _label(text: str) -> str:
    """Return a blank node label of letters and digits, which every RDF syntax accepts."""
    return f"a{text}" if text.isalnum() and text.isascii() else f"h{text.encode().hex()}"


def _json(document: object) -> str:
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
