"""The resources under /streams: declaring, pushing, how elements and their times are found."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .bench import Bench, ins, nquads, problem

NT = "<http://e/%s> <http://e/p> 1 .\n"
ALL = "SELECT ?s WHERE { STREAM <%s> [RANGE 10h] { ?s :p ?o } }"


def post(bench: Bench, iri: str, body: str | bytes, kind: str | None, **params: Any) -> httpx.Response:
    headers = {"Content-Type": kind} if kind else {}
    return bench.client.post(
        "/streams", params={"iri": iri, "wait": "true", **params}, content=body, headers=headers
    )


# -- declaring --------


def test_declaring_is_201_then_200_when_unchanged(bench: Bench) -> None:
    body = {
        "iri": "http://e/declared",
        "lateness": "2s",
        "late": "drop",
        "idle_timeout": "5s",
        "retention": "1h",
    }
    first = bench.client.put("/streams/declared", json=body)
    assert first.status_code == 201
    second = bench.client.put("/streams/declared", json=body)
    assert second.status_code == 200
    for answer in (first, second):
        assert answer.json()["iri"] == "http://e/declared"
        assert answer.json()["lateness"] == "2s"
        assert answer.json()["retention"] == "1h"


def test_declaring_by_iri(bench: Bench) -> None:
    assert bench.client.put("/streams", params={"iri": "http://e/by-iri"}, json={}).status_code == 201
    assert bench.client.get("/streams/by-iri").json()["iri"] == "http://e/by-iri"


def test_a_declaration_with_an_unknown_member_or_value_is_refused(bench: Bench) -> None:
    for body in (
        {"iri": "http://e/x", "latenes": "2s"},
        {"iri": "http://e/x", "lateness": "soon"},
        {"iri": "http://e/x", "late": "never"},
        {"iri": "not an iri"},
        [],
    ):
        problem(bench.client.put("/streams/x", json=body), 400)
    problem(bench.client.put("/streams/x", content=b"{", headers={"Content-Type": "application/json"}), 400)


def test_the_list_and_one_stream(bench: Bench) -> None:
    s = bench.stream()
    name = s.rsplit("/", 1)[1]
    q = bench.register(ALL % s)
    bench.push(s, 1, ":a :p 1 .")
    listed = bench.client.get("/streams").json()["streams"]
    assert s in [stream["iri"] for stream in listed]
    by_name = bench.client.get(f"/streams/{name}").json()
    by_iri = bench.describe_stream(s)
    for found in (by_name, by_iri):
        assert found["iri"] == s
        assert found["watermark"] == 1
        assert found["idle"] is False
        assert found["readers"] == [q]
        assert "retention" in found
        assert any("late" in member and "lateness" not in member for member in found)


def test_an_unknown_stream_is_404(bench: Bench) -> None:
    problem(bench.client.get("/streams/nothing-here"), 404)
    problem(bench.client.get("/streams", params={"iri": "http://e/nothing-here"}), 404)
    problem(bench.client.delete("/streams/nothing-here"), 404)


def test_a_stream_named_by_a_query_is_declared_by_itself_under_its_last_segment(bench: Bench) -> None:
    bench.register(
        "SELECT ?s WHERE { STREAM <http://x.example/path/Air%20Quality#temp!in> [NOW] { ?s :p ?o } }"
    )
    iri = "http://x.example/path/Air%20Quality#temp!in"
    assert bench.client.get("/streams/temp-in").json()["iri"] == iri


def test_all_of_the_last_segment_makes_the_name(bench: Bench) -> None:
    iri = "http://x.example/path/a:b,c/"
    bench.register(f"SELECT ?s WHERE {{ STREAM <{iri}> [NOW] {{ ?s :p ?o }} }}")
    assert bench.client.get("/streams/a-b-c").json()["iri"] == iri


def test_a_taken_name_gets_a_number(bench: Bench) -> None:
    for host in ("one", "two", "three"):
        assert post(bench, f"http://{host}.example/same", NT % "a", "text/turtle", at=1).status_code == 200
    names = {stream["iri"]: stream["name"] for stream in bench.client.get("/streams").json()["streams"]}
    assert names["http://one.example/same"] == "same"
    assert names["http://two.example/same"] == "same-2"
    assert names["http://three.example/same"] == "same-3"


def test_a_push_to_an_undeclared_name_declares_it_below_base_iri(bench: Bench) -> None:
    answer = bench.client.post(
        "/streams/Taxi?at=1", content=NT % "a", headers={"Content-Type": "text/turtle"}
    )
    assert answer.status_code == 200
    assert answer.json()["stream"] == "http://localhost/Taxi"


def test_a_stream_that_a_query_reads_cannot_be_dropped(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    problem(bench.client.delete("/streams", params={"iri": s}), 409)
    problem(bench.client.delete("/streams/" + s.rsplit("/", 1)[1]), 409)
    bench.drop(q)
    assert bench.client.delete("/streams", params={"iri": s}).status_code == 204
    problem(bench.client.get("/streams", params={"iri": s}), 404)


def test_names_are_checked(bench: Bench) -> None:
    for name in ("-x", ".x", "a b", "ä", "a" * 129):
        answer = bench.client.put(f"/streams/{name}", json={"iri": "http://e/x"})
        problem(answer, 400)
    assert bench.client.put("/streams/" + "a" * 128, json={"iri": "http://e/long"}).status_code == 201


# -- pushing --------


def test_the_answer_of_a_push(bench: Bench) -> None:
    s = bench.stream()
    first = bench.push_lines(s, (1, ":a :p 1"), (2, ":b :p 1"))
    assert first["stream"] == s
    assert (first["accepted"], first["late"]) == (2, 0)
    assert first["last_seq"] == first["first_seq"] + 1
    assert "durable" in first
    second = bench.push(s, 3, ":c :p 1 .")
    assert second["first_seq"] > first["last_seq"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/n-triples", NT.replace("1", '"1"') % "a"),
        ("application/n-quads", NT.replace("1", '"1"') % "a"),
        ("text/turtle", NT % "a"),
        ("application/trig", NT % "a"),
        ("application/ld+json", '{"@id": "http://e/a", "http://e/p": 1}'),
        ("text/turtle; charset=utf-8", NT % "a"),
    ],
)
def test_a_body_without_graphs_is_one_element(bench: Bench, kind: str, body: str) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    assert bench.send(s, body, kind, at=5)["accepted"] == 1
    assert bench.feed(q) == [ins(5, "a")]


def test_ndjson_lines_are_elements_of_nquads_or_jsonld(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    lines = [
        {"at": 1, "data": nquads(":a :p 1")},
        {"at": "1970-01-01T00:00:00.002Z", "data": nquads(":b :p 1")},
        {"at": 3, "jsonld": {"@id": "http://e/c", "http://e/p": 1}},
    ]
    body = "\n".join(json.dumps(line) for line in lines) + "\n"
    assert bench.send(s, body, "application/x-ndjson")["accepted"] == 3
    assert bench.feed(q) == [ins(1, "a"), ins(2, "b"), ins(3, "c")]


def test_an_rdf_message_is_one_element(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    body = (
        'VERSION "1.2-messages"\n'
        "PREFIX : <http://e/>\n"
        "PREFIX prov: <http://www.w3.org/ns/prov#>\n"
        "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
        ':a :p 1 ; prov:generatedAtTime "1970-01-01T00:00:00.001Z"^^xsd:dateTime .\n'
        "MESSAGE\n"
        ':b :p 1 ; prov:generatedAtTime "1970-01-01T00:00:00.002Z"^^xsd:dateTime .\n'
        ":c :p 1 .\n"
    )
    assert bench.send(s, body, "text/turtle; version=1.2-messages")["accepted"] == 2
    assert bench.feed(q) == [ins(1, "a"), ins(2, "b", "c")]


def test_each_triple_makes_one_element_of_each(bench: Bench) -> None:
    s = bench.stream()
    answer = bench.send(s, NT % "a" + NT % "b" + NT % "c", "text/turtle", at=1, each="triple")
    assert answer["accepted"] == 3
    assert answer["last_seq"] - answer["first_seq"] == 2


GRAPHS = """
@prefix : <http://e/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:g2 prov:generatedAtTime "1970-01-01T00:00:00.002Z"^^xsd:dateTime .
:g1 { :a :p 1 }
:g2 { :b :p 1 }
:g1 prov:generatedAtTime "1970-01-01T00:00:00.001Z"^^xsd:dateTime .
"""


def test_in_trig_each_named_graph_is_an_element_with_the_time_on_its_name(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?g ?s ?t WHERE {{ STREAM <{s}> [RANGE 1h] {{ GRAPH ?g {{ ?s :p ?o }} }} }}")
    meta = bench.register(
        "PREFIX prov: <http://www.w3.org/ns/prov#> "
        f"SELECT ?g WHERE {{ STREAM <{s}> [NOW] {{ ?g prov:generatedAtTime ?t . GRAPH ?g {{ ?s :p ?o }} }} }}"
    )
    assert bench.send(s, GRAPHS, "application/trig")["accepted"] == 2
    assert bench.feed(q) == [ins(1, "g1 a -"), ins(2, "g2 b -")]
    # the default-graph triples about a graph belong to that graph's element
    assert bench.feed(meta) == [ins(1, "g1"), ins(2, "g2")]


def test_other_default_graph_triples_form_an_element_of_their_own(bench: Bench) -> None:
    s = bench.stream()
    body = "@prefix : <http://e/> . :g1 { :a :p 1 } :x :p 1 . :y :p 1 . :g2 { :b :p 1 } :g1 :note 5 ."
    q = bench.register(
        f"SELECT ?s ?z FROM NAMED WINDOW :w ON <{s}> [ELEMENTS 1] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}"
    )
    answer = bench.send(s, body, "application/trig", at=1)
    assert answer["accepted"] == 3
    rows = [rows for _, _, rows in bench.feed(q)]
    assert sorted(rows) in ([["a -"], ["b -"], ["x -", "y -"]], [["b -"]])


def test_nquads_graphs_are_elements_in_document_order(bench: Bench) -> None:
    s = bench.stream()
    body = "".join(f'<http://e/{x}> <http://e/p> "1" <http://e/g{x}> .\n' for x in "cab")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [TRIPLES 1] {{ ?s :p ?o }} }}")
    assert bench.send(s, body, "application/n-quads", at=1)["accepted"] == 3
    assert bench.now(q) == ["b"]


def test_the_line_goes_before_the_parameter_and_the_parameter_before_the_property(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    body = "\n".join(
        [json.dumps({"at": 1, "data": nquads(":a :p 1")}), json.dumps({"data": nquads(":b :p 1")})]
    )
    bench.send(s, body, "application/x-ndjson", at=2)
    timed = (
        "<http://e/c> <http://e/p> 1 ; <http://www.w3.org/ns/prov#generatedAtTime> "
        '"1970-01-01T00:00:00.009Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .'
    )
    bench.send(s, timed, "text/turtle", at=3)
    bench.send(s, timed.replace("/c>", "/d>"), "text/turtle")
    assert bench.feed(q) == [ins(1, "a"), ins(2, "b"), ins(3, "c"), ins(9, "d")]


def test_a_stream_may_have_another_timestamp_property(bench: Bench) -> None:
    s = bench.stream(timestamp_property="http://e/when")
    q = bench.register(ALL % s)
    bench.send(
        s,
        '<http://e/c> <http://e/p> 1 ; <http://e/when> "1970-01-01T00:00:00.009Z"^^'
        "<http://www.w3.org/2001/XMLSchema#dateTime> .",
        "text/turtle",
    )
    assert bench.feed(q) == [ins(9, "c")]


def test_a_syntax_error_is_400_with_its_place_and_nothing_is_accepted(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    found = problem(post(bench, s, NT % "a" + "<http://e/b> oops .\n", "text/turtle", at=1), 400)
    assert found["line"] == 2
    assert "column" in found
    lines = json.dumps({"at": 1, "data": nquads(":a :p 1")}) + '\n{"at": 2, "data": "oops"}\n'
    problem(post(bench, s, lines, "application/x-ndjson"), 400)
    bench.settle()
    assert bench.feed(q) == []
    assert bench.describe_stream(s)["accepted"] == 0


def test_partial_accepts_the_good_elements_and_lists_the_bad(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    lines = "\n".join(
        [
            json.dumps({"at": 1, "data": nquads(":a :p 1")}),
            json.dumps({"at": 2, "data": "oops"}),
            "not json",
            json.dumps({"at": 3, "data": nquads(":b :p 1")}),
        ]
    )
    answer = post(bench, s, lines, "application/x-ndjson", partial="true")
    assert answer.status_code == 200
    found = answer.json()
    assert found["accepted"] == 2
    (bad,) = [value for value in found.values() if isinstance(value, list)]
    assert len(bad) == 2
    assert bench.feed(q) == [ins(1, "a"), ins(3, "b")]


def test_an_idempotency_key_makes_a_repeated_push_safe(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s, output="changes")
    key = {"Idempotency-Key": "one", "Content-Type": "text/turtle"}

    def push(body: str) -> httpx.Response:
        return bench.client.post(
            "/streams", params={"iri": s, "at": 1, "wait": "true"}, content=body, headers=key
        )

    first, again = push(NT % "a"), push(NT % "a")
    assert first.status_code == again.status_code == 200
    assert first.json()["first_seq"] == again.json()["first_seq"]
    assert bench.describe_stream(s)["accepted"] == 1
    problem(push(NT % "b"), 422)
    assert bench.feed(q) == [ins(1, "a")]


def test_an_unknown_type_is_415(bench: Bench) -> None:
    s = bench.stream()
    problem(post(bench, s, "x", "application/pdf", at=1), 415)
    problem(post(bench, s, "x", None, at=1), 415)


def test_a_heartbeat_needs_a_time(bench: Bench) -> None:
    s = bench.stream()
    problem(bench.client.post("/streams:heartbeat", params={"iri": s}), 400)
    problem(bench.client.post("/streams:heartbeat", params={"iri": s, "at": "soon"}), 400)


def test_an_empty_body_moves_nothing(bench: Bench) -> None:
    s = bench.stream()
    answer = post(bench, s, "", "text/turtle", at=1)
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert answer.json()["accepted"] == 0


def test_wait_answers_once_every_result_is_in_the_feeds(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALL % s)
    for at in range(20):
        bench.push(s, at, f":a{at} :p 1 .")
        assert len(bench.now(q)) == at + 1


def test_a_gzipped_push(bench: Bench) -> None:
    import gzip

    s = bench.stream()
    q = bench.register(ALL % s)
    answer = bench.client.post(
        "/streams",
        params={"iri": s, "at": 1, "wait": "true"},
        content=gzip.compress((NT % "a").encode()),
        headers={"Content-Type": "text/turtle", "Content-Encoding": "gzip"},
    )
    assert answer.status_code == 200, answer.text
    assert bench.feed(q) == [ins(1, "a")]
