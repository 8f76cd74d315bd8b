"""What is known of a skeleton holds for all of its texts; what depends on constants is decided for each."""

from __future__ import annotations

import time
from functools import partial

import pytest

from quadrill.app.evaluation import where_parts
from quadrill.app.evaluation.admission import is_light
from quadrill.app.evaluation.where_parts import BufferLimits, ServerWherePart
from quadrill.continuous.analysis import prepared as module
from quadrill.continuous.analysis.prepared import MOST_PARSED, Prepared, prepared
from quadrill.continuous.analysis.update import analyse_update
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.skeletons import SplitText, split_constants
from quadrill.store.sparql.update_plan import UpdateRequest
from tests.app.conftest import Start, problem_of


def known_of(text: str) -> Prepared:
    return prepared(text, split_constants(text))


def test_a_skeleton_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    own = module.parsed

    def noted(text: str, base_iri: str) -> object:
        parsed.append(text)
        return own(text, base_iri)

    monkeypatch.setattr(module, "parsed", noted)
    for number in range(3):
        known = known_of(f'SELECT * {{ ?once <urn:{number}> ?b , "{number}" , {number} }} LIMIT {number + 5}')
        assert known.columns == ("once", "b")
        rows = " ".join(f"(<urn:{n}> {n})" for n in range(number + 1))
        assert known_of(f"SELECT * {{ VALUES (?twice ?b) {{ {rows} }} }}").columns == ("twice", "b")
    assert len(parsed) == 2


def test_the_sizes_of_graphs_are_those_of_each_text() -> None:
    sizes = {"http://e/few": 20, "http://e/many": 1_000_000}
    for graph in ("<http://e/{}>", "e:{}"):
        for name, light in (("few", True), ("many", False), ("few", True), ("none", False)):
            text = "PREFIX e: <http://e/> SELECT * { GRAPH G { ?s e:p ?v } ?s e:in ?r }"
            text = text.replace("GRAPH G", f"GRAPH {graph.format(name)}")
            parts = split_constants(text)
            assert is_light(prepared(text, parts).shape, parts.constants, 100_000, sizes.get) is light


@pytest.mark.parametrize("counts", [(3, 1), (1, 3)])
def test_rows_before_a_graph_do_not_take_its_name(counts: tuple[int, int]) -> None:
    for count in counts:
        rows = " ".join(f'"{number}"' for number in range(count))
        text = f"SELECT * {{ VALUES ?first{counts[0]} {{ {rows} }} GRAPH <urn:g{count}> {{ ?s ?p ?o }} }}"
        graphs = {graph for graph in known_of(text).shape.graphs if graph is not None}
        assert [module.constant_named(graph, split_constants(text).constants) for graph in graphs] == [
            f"urn:g{count}"
        ]


def test_equal_constants_are_not_taken_for_one() -> None:
    known_of("SELECT * { GRAPH <urn:a> { ?s ?p ?o } GRAPH <urn:a> { ?a ?b ?c } }")
    text = "SELECT * { GRAPH <urn:a> { ?s ?p ?o } GRAPH <urn:b> { ?a ?b ?c } }"
    graphs = [graph for graph in known_of(text).shape.graphs if graph is not None]
    found = [module.constant_named(graph, split_constants(text).constants) for graph in graphs]
    assert found == ["urn:a", "urn:b"]


def test_nothing_is_known_of_texts_that_are_too_long_or_that_our_parser_does_not_read() -> None:
    for text in ("SELECT * { ?s ?p ?o }" + " " * MOST_PARSED, "SELECT * { ?s ?p", "nonsense"):
        assert known_of(text) == Prepared()


def test_an_allowed_and_a_refused_host_stand_in_one_skeleton(start_server: Start) -> None:
    server = start_server(workers=0, remote_hosts=("127.0.0.1:9",))
    update = {"Content-Type": "application/sparql-update"}
    for host, refused in (("127.0.0.1:9", False), ("127.0.0.2:9", True)) * 2:
        queried = server.query(f"SELECT * {{ SERVICE <http://{host}/x> {{ ?s ?p ?o }} }}")
        loaded = server.client.post("/update", content=f"LOAD <http://{host}/x>", headers=update)
        for answer in (queried, loaded):
            assert (problem_of(answer, answer.status_code)["code"] == "host-not-allowed") is refused
    modify = "INSERT { ?s ?p 1 } WHERE { SERVICE <http://HOST/x> { ?s ?p ?o } }"
    where = modify[modify.index("WHERE") + 6 :].replace("HOST", "127.0.0.1:9")
    ServerWherePart("", where).require_valid(modify, 0)
    refused_update = modify.replace("HOST", "127.0.0.2:9")
    answer = server.client.post("/update", content=refused_update, headers=update)
    assert problem_of(answer, 403)["code"] == "host-not-allowed"


@pytest.mark.parametrize(
    "text",
    [
        'SELECT ?o { <http://e/a> <http://e/b> ?o, "c", "d"@en, "5"^^<http://e/int> }',
        "SELECT ?o { <http://e/a#b> ?p ?o } # a comment with <http://e/x>",
        "SELECT ?o { ?s ?p ?o FILTER(?o < 3 && ?s > ?p) }",
        "SELECT ?o { ?s ?p ?o FILTER(?a<?b&&?c>?d) }",
        'SELECT ?o { ?s ?p """a "quoted" <http://e/x> text""" }',
        'SELECT ?o { ?s ?p "an escape \\" and <http://e/x>" . ?o ?p ?s }',
        'SELECT ?o { ?s ?p \'single " quoted\' . ?o ?p "x" }',
        'SELECT ?o { ?s <http://e/p>+ ?o . "a <b" ?p "c> d" }',
        f"SELECT ?o {{ {'?a ?b ?c . ' * 900} }}",
        f"SELECT ?o {{ ?s ?p <http://e/{'x' * 50_000}> }}",
    ],
)
def test_a_skeleton_has_the_shape_of_its_text(text: str) -> None:
    alone = prepared(text, SplitText("", text, ())).shape
    assert known_of(text).shape._replace(graphs=()) == alone._replace(graphs=())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "".join(f"(1 AS ?a{n}) " for n in range(700)) + "{}",
        "SELECT * { ?a " + "<urn:b>/" * 1_500 + "<urn:b> ?c }",
        "SELECT * {" + "OPTIONAL { ?a ?b ?c } " * 400 + "}",
        "SELECT * { FILTER(" + "?a || " * 1_500 + "?a) }",
        "SELECT * {" + "VALUES ?x { " * 800,
        "SELECT * {" + "?a ?b . " * 1_200 + "}",
        "(" * 10_000,
    ],
)
def test_a_hostile_text_is_known_in_a_moment(text: str) -> None:
    began = time.process_time()
    known_of(text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("where", ["{ <urn:a> <urn:n> ?o }", "{ ?s <urn:n> ?o FILTER(?o > 0) }"])
def test_a_where_part_is_cut_once(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    known: list[str] = []
    monkeypatch.setattr(
        where_parts, "split_constants", lambda text: known.append(text) or split_constants(text)
    )
    with QuadStore.open(None, StoreOptions(analyse_update=analyse_update)) as store:
        for number in range(4):  # with and without a shape
            text = f"INSERT {{ <urn:{number}> <urn:m> ?o }} WHERE {where}"
            store.writer.update(
                UpdateRequest(text, where_parts=partial(ServerWherePart, room=BufferLimits(lambda: 0)))
            )
    assert known == [f"SELECT * {where}"] * 4
