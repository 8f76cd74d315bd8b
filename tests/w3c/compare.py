"""Exact comparison of answers: solution multisets and graphs up to blank-node names.

Expected terms first pass through a store, because the store keeps numbers, dates and language tags in
canonical form (docs/sparql.md says so); everything else is compared as written.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import (
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    Literal,
    NamedNode,
    Quad,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    RdfFormat,
    Store,
    Triple,
    parse,
    parse_query_results,
)

from tests.w3c.manifests import Graph, iri_of

Term = NamedNode | BlankNode | Literal | Triple
RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
ROW = "urn:row:"


@dataclass(frozen=True)
class Solutions:
    """A table of solutions: one dict of bound terms per row, in order."""

    rows: tuple[dict[str, Term], ...]


def normalised(term: Term) -> Term:
    """The term as the store gives it back."""
    if not isinstance(term, (Literal, Triple)):
        return term
    store = Store()
    store.add(Quad(NamedNode("urn:s"), NamedNode("urn:p"), term))
    return next(iter(store)).object


def read_results(body: bytes, form: QueryResultsFormat) -> bool | Solutions:
    """Parses a SPARQL results document."""
    parsed = parse_query_results(body, format=form)
    if isinstance(parsed, QueryBoolean):
        return bool(parsed)
    assert isinstance(parsed, QuerySolutions)
    names = [v.value for v in parsed.variables]
    return Solutions(tuple({n: row[n] for n in names if row[n] is not None} for row in parsed))


def expected_results(path: Path) -> bool | Solutions | set[Quad]:
    """The answer that a test's result file holds."""
    if path.suffix == ".srx":
        return read_results(path.read_bytes(), QueryResultsFormat.XML)
    if path.suffix == ".srj":
        return read_results(path.read_bytes(), QueryResultsFormat.JSON)
    if path.suffix == ".tsv":
        return read_results(path.read_bytes(), QueryResultsFormat.TSV)
    graph = Graph(path, iri_of(path))
    if graph.subjects.get(RS + "boolean"):
        value = graph.one(graph.subjects[RS + "boolean"][0], RS + "boolean")
        return isinstance(value, Literal) and value.value == "true"
    if graph.subjects.get(RS + "resultVariable"):
        return _result_set(graph)
    return read_graph(path)


def _result_set(graph: Graph) -> Solutions:
    head = graph.subjects[RS + "resultVariable"][0]
    rows: list[tuple[int, dict[str, Term]]] = []
    for solution in graph.all(head, RS + "solution"):
        row: dict[str, Term] = {}
        for binding in graph.all(solution, RS + "binding"):
            name = graph.one(binding, RS + "variable")
            value = graph.one(binding, RS + "value")
            assert isinstance(name, Literal) and value is not None
            row[name.value] = value
        index = graph.one(solution, RS + "index")
        rows.append((int(index.value) if isinstance(index, Literal) else len(rows), row))
    return Solutions(tuple(row for _, row in sorted(rows, key=lambda pair: pair[0])))


def read_graph(path: Path) -> set[Quad]:
    """The quads of a data file, relative IRIs resolved against its published IRI."""
    form = RdfFormat.from_extension(path.suffix.lstrip("."))
    assert form is not None, path
    return set(parse(path=str(path), format=form, base_iri=iri_of(path)))


def graphs_equal(left: set[Quad], right: set[Quad]) -> bool:
    """Isomorphism of two datasets whose literals have passed through a store."""
    return _canonical(_through_store(left)) == _canonical(_through_store(right))


def _through_store(quads: set[Quad]) -> set[Quad]:
    store = Store()
    store.extend(quads)
    return set(store)


def _canonical(quads: set[Quad]) -> set[Quad]:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(dataset)


def solutions_equal(left: Solutions, right: Solutions, *, ordered: bool) -> bool:
    """Equality as multisets (as sequences when ``ordered``), up to blank-node names."""
    if len(left.rows) != len(right.rows):
        return False
    return _canonical(_as_quads(left, ordered)) == _canonical(_as_quads(right, ordered))


def _as_quads(table: Solutions, ordered: bool) -> set[Quad]:
    keyed: Counter[tuple[int, tuple[tuple[str, Term], ...]]] = Counter()
    for index, row in enumerate(table.rows):
        cells = tuple(sorted(((n, normalised(t)) for n, t in row.items()), key=lambda cell: cell[0]))
        keyed[(index if ordered else 0, cells)] += 1
    quads = set()
    for (index, cells), count in keyed.items():
        node = BlankNode()
        quads.add(Quad(node, NamedNode(ROW + "position"), Literal(str(index), datatype=INTEGER)))
        quads.add(Quad(node, NamedNode(ROW + "count"), Literal(str(count), datatype=INTEGER)))
        for name, term in cells:
            quads.add(Quad(node, NamedNode(ROW + "variable:" + name), term))
    return quads


def asks_for_order(text: str) -> bool:
    """True when the outermost query sorts its solutions."""
    return re.search(r"\bORDER\s+BY\b", re.sub(r"\{.*\}", "", text, flags=re.S), re.I) is not None


__all__ = [
    "Solutions",
    "asks_for_order",
    "expected_results",
    "graphs_equal",
    "normalised",
    "read_graph",
    "read_results",
    "solutions_equal",
]
