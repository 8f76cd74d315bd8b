"""Queries: results, parameters, threads, depth, errors."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, QueryResultsFormat, RdfFormat, Triple

from quadrill.store.errors import LimitError, QueryTextError, StoreError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.query import QueryFailedError, QueryRequest
from quadrill.store.sparql.scan import inspect_text

A, P, G, H = (NamedNode(f"http://e/{name}") for name in "apgh")
PREFIX = "PREFIX ex: <http://e/>\n"


@pytest.fixture
def store() -> QuadStore:
    quads = QuadStore.open(None)
    quads.writer.apply(
        add=[
            Quad(A, P, Literal("d")),
            Quad(A, P, Literal("g"), G),
            Quad(A, P, Literal("h"), H),
        ]
    )
    return quads


def found(store: QuadStore, text: str, **parameters: object) -> list[str]:
    rows = store.reader.solutions(QueryRequest(PREFIX + text, **parameters))[1]
    return sorted(row[0].value for row in rows if row[0] is not None)  # type: ignore[union-attr]


def test_the_three_kinds_of_results(store: QuadStore) -> None:
    with store.reader.query("SELECT ?s ?o ?none { ?s ?p ?o }") as result:
        assert (result.kind, result.variables, result.version) == ("solutions", ("s", "o", "none"), 1)
        assert list(result.rows()) == [(A, Literal("d"), None)]
    with store.reader.query("ASK { ?s ?p 'nope' }") as result:
        assert (result.kind, result.boolean) == ("boolean", False)
    with store.reader.query("CONSTRUCT { ?o ?p ?s } WHERE { ?s ?p ?o } ") as result:
        assert (result.kind, list(result.triples())) == ("graph", [])
    with store.reader.query("CONSTRUCT WHERE { ?s ?p ?o }") as result:
        assert list(result.triples()) == [Triple(A, P, Literal("d"))]


def test_dataset_parameters_are_the_whole_dataset(store: QuadStore) -> None:
    both = "SELECT ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
    assert found(store, both) == ["d", "g", "h"]
    assert found(store, both, default_graphs=[G]) == ["g"]
    assert found(store, both, named_graphs=[H]) == ["h"]
    assert found(store, both, default_graphs=[G, DefaultGraph()], named_graphs=[H]) == ["d", "g", "h"]
    assert found(store, both, default_graphs=[]) == []
    assert found(store, "SELECT ?o FROM ex:h { ?s ?p ?o }", default_graphs=[G]) == ["g"]
    assert found(store, "SELECT ?o { ?s ?p ?o }", union=True) == ["d", "g", "h"]


def test_base_prefixes_functions_and_aggregates_may_come_beside_the_text(store: QuadStore) -> None:
    class Join:
        def __init__(self) -> None:
            self.parts: list[str] = []

        def accumulate(self, term: Literal) -> None:
            self.parts.append(term.value)

        def finish(self) -> Literal:
            return Literal("".join(sorted(self.parts)))

    assert found(
        store, "SELECT ?o { GRAPH <g> { <a> x:p ?o } }", base_iri="http://e/", prefixes={"x": "http://e/"}
    ) == ["g"]
    upper = {NamedNode("http://e/upper"): lambda term: Literal(term.value.upper())}
    assert found(store, "SELECT (ex:upper(?o) AS ?u) { ?s ?p ?o }", custom_functions=upper) == ["D"]
    joined = {NamedNode("http://e/joined"): Join}
    text = "SELECT (ex:joined(?o) AS ?all) { GRAPH ?g { ?s ?p ?o } }"
    assert found(store, text, custom_aggregates=joined) == ["gh"]


def test_results_are_written_in_every_format(store: QuadStore) -> None:
    def written(text: str, format: QueryResultsFormat | RdfFormat, **options: object) -> bytes:
        sink = io.BytesIO()
        store.reader.query(text).serialize_to(sink, format, **options)  # type: ignore[arg-type]
        return sink.getvalue()

    select, graph = "SELECT ?o { ?s ?p ?o }", "CONSTRUCT WHERE { ?s ?p ?o }"
    assert written(select, QueryResultsFormat.CSV) == b"o\r\nd\r\n"
    assert b'"boolean":true' in written("ASK {}", QueryResultsFormat.JSON)
    assert written(graph, RdfFormat.N_TRIPLES) == b'<http://e/a> <http://e/p> "d" .\n'
    assert b"e:a e:p" in written(graph, RdfFormat.TURTLE, prefixes={"e": "http://e/"})
    with pytest.raises(StoreError, match="no RDF form"):
        written(select, RdfFormat.TURTLE)
    with pytest.raises(StoreError, match="no results form"):
        written(graph, QueryResultsFormat.JSON)


def test_a_writer_that_fails_stops_the_query(store: QuadStore) -> None:
    class Full(io.BytesIO):
        def write(self, block: object) -> int:
            raise OSError("client gone")

    with pytest.raises(OSError, match="client gone"):
        store.reader.query("SELECT * { ?s ?p ?o }").serialize_to(Full(), QueryResultsFormat.JSON)


def test_a_result_used_in_another_thread_is_refused_and_does_not_end_the_process(store: QuadStore) -> None:
    result = store.reader.query("SELECT * { ?s ?p ?o }")
    errors: list[str] = []

    def use() -> None:
        for work in (
            lambda: list(result.rows()),
            lambda: result.serialize_to(io.BytesIO(), QueryResultsFormat.JSON),
        ):
            try:
                work()
            except StoreError as error:
                errors.append(error.message)
        result.close()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(errors) == 2 and "another thread" in errors[0]
    assert len(list(result.rows())) == 1
    result.close()
    with pytest.raises(StoreError, match="closed"):
        next(result.rows())
    with pytest.raises(StoreError, match="not solutions"):
        next(store.reader.query("CONSTRUCT WHERE { ?s ?p ?o }").rows())
    with pytest.raises(StoreError, match="not a graph"):
        next(store.reader.query("SELECT * { ?s ?p ?o }").triples())


def test_a_result_shows_the_version_it_began_at(store: QuadStore) -> None:
    with store.reader.query("SELECT * { ?s ?p ?o }") as result:
        store.writer.apply(add=[Quad(A, P, Literal("later"))])
        assert (result.version, len(list(result.rows())), store.reader.version) == (1, 1, 2)


@pytest.mark.parametrize(
    ("text", "line", "column", "match"),
    [
        ("SELECT * {\n ?s ?p }", 2, 9, "syntax error"),
        ("SELECT * { ?s foo:p ?o }", 1, 15, "prefix foo: is not declared"),
        ("SELECT * { ?s <p> ?o }", 1, 15, "relative IRI <p>"),
        ("SELECT ?x ?y (COUNT(*) AS ?z) { ?x ?p ?y } GROUP BY ?x", 1, 55, "unbound"),
        ("", 1, 1, "syntax error"),
    ],
)
def test_a_wrong_query_is_told_with_its_place(
    store: QuadStore, text: str, line: int, column: int, match: str
) -> None:
    with pytest.raises(QueryTextError, match=match) as caught:
        store.reader.query(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_an_unknown_function_is_named(store: QuadStore) -> None:
    with pytest.raises(UnsupportedError, match="the function <http://e/f>"):
        store.reader.solutions(PREFIX + "SELECT (ex:f(1) AS ?x) {}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * " + "{" * 3000 + "}" * 3000,
        "SELECT * { ?s ?p ?o FILTER(" + "(" * 5000 + "1" + ")" * 5000 + ") }",
        "ASK { " + "{} UNION " * 3000 + "{} }",
        "ASK { FILTER(" + "true || " * 9500 + "true) }",
        "ASK { FILTER(1" + "+1" * 2500 + " > 0) }",
        "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(" + "!" * 3000 + "true) }",
        "ASK { " + "".join(f"BIND(1 AS ?v{n}) " for n in range(1500)) + "}",
    ],
    ids=["groups", "parentheses", "unions", "ors", "sums", "nots", "binds"],
)
def test_texts_that_overflow_a_small_stack_are_answered(store: QuadStore, text: str) -> None:
    with store.reader.query(text) as result:
        assert result.version == 1
        if result.kind == "solutions":
            assert len(list(result.rows())) == 1
        elif result.kind == "graph":
            assert len(list(result.triples())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * " + "{" * 20_000 + "}" * 20_000,
        "SELECT * " + "{" * 20_000,
        "ASK { FILTER(" + "(" * 100_000,
        "ASK { FILTER(1" + "-1" * 20_000 + " > 0) }",
        "ASK { " + "?s ?p ?o ." * 20_000 + "}",
        "ASK { ?s ?p (" + "1 " * 20_000 + ") }",
        "SELECT * { ?s ?p ?o } #" + "x" * 100 + "\n" + "[" * 20_000,
        "BASE <http://b/> ASK { ?s ?p ( ?x <?'''> ) . "
        + "{" * 20_000
        + "}" * 20_000
        + "?s ?p ( ?x <?'''> ) }",
    ],
    ids=[
        "groups",
        "open groups",
        "parentheses",
        "differences",
        "patterns",
        "collection",
        "brackets",
        "hidden",
    ],
)
def test_texts_beyond_the_limit_are_refused(store: QuadStore, text: str) -> None:
    with pytest.raises(LimitError, match="nests deeper than 10,000 levels"):
        store.reader.query(text)


def test_wide_texts_are_not_high() -> None:
    limits = TextLimits()
    for text in (
        "SELECT * { VALUES (?a ?b) { " + "(1 -1) " * 50_000 + "} }",
        "SELECT * { ?s ?p ?o FILTER(?o IN (" + "1, " * 50_000 + "2)) }",
        "SELECT * { ?s ?p '" + "{" * 50_000 + "' }",
        "SELECT * { ?s ?p ?o } # " + "{" * 50_000,
        "SELECT * { ?s <http://e/" + "(" * 50_000 + "> ?o }",
    ):
        assert inspect_text(text, limits).height < 100


@pytest.mark.process
def test_a_bomb_in_a_process_of_its_own_does_not_end_it() -> None:
    code = """
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
store = QuadStore.open(None)
for opening, closing in (("{", "}"), ("{OPTIONAL{", "}}"), ("{FILTER EXISTS{", "}}"), ("{{SELECT*{", "}}}")):
    for depth in (900, 4_900, 9_900 // len(opening) * 2, 40_000):
        try:
            with store.reader.query("SELECT * {" + opening * depth + closing * depth + "}"):
                pass
        except ReportedError:
            pass
print("alive")
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert child.stdout == "alive\n", (child.returncode, child.stderr[-500:])


def test_a_failing_evaluation_is_an_error_of_ours() -> None:
    assert issubclass(QueryFailedError, StoreError) and QueryFailedError.code == "query-failed"
