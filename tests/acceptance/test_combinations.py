"""Sentences of the semantics that meet: each case alone is elsewhere in this folder."""

from __future__ import annotations

import json

import pytest

from .bench import Bench, ans, dele, ins

XSD = "http://www.w3.org/2001/XMLSchema#"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"


def test_late_elements_and_commits_at_one_instant(bench: Bench) -> None:
    # [RANGE 10] at 20: b@15 comes late and meets the commit; a@9 is too old, b@10 is just in
    s = bench.stream(late="admit")
    text = f"SELECT ?s ?r WHERE {{ STREAM <{s}> [RANGE 10] {{ ?s :p ?o }} ?s :in ?r }}"
    q = bench.register(text, output="changes")
    bench.update("INSERT DATA { :a :in :k . :b :in :k }")
    bench.push(s, 20, ":a :p 1 .")
    bench.push(s, 15, ":b :p 1 .")
    bench.update("DELETE DATA { :b :in :k } ; INSERT DATA { :b :in :m }")
    bench.push(s, 9, ":a :p 2 .")
    bench.push(s, 10, ":b :p 2 .")
    bench.beat(s, 26)
    assert bench.feed(q) == [
        ins(20, "a k"),
        ins(20, "b k"),
        dele(20, "b k"),
        ins(20, "b m"),
        ins(20, "b m"),
        dele(21, "b m"),
        dele(26, "b m"),
    ]


def test_a_late_element_in_overlapping_windows(bench: Bench) -> None:
    # [5,15) and [10,20) are closed when c@13 comes; the newest report is revised
    s = bench.stream(late="admit")
    q = bench.register(
        f"REGISTER RSTREAM :over AS SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10 STEP 5] "
        "WHERE { WINDOW :w { ?s :p ?o } }"
    )
    bench.push(s, 12, ":a :p 1 .")
    bench.push(s, 20, ":b :p 1 .")
    bench.push(s, 13, ":c :p 1 .")
    bench.beat(s, 25)
    assert bench.feed(q) == [ans(15, "a"), ans(20, "a"), ans(20, "a", "c"), ans(25, "b")]
    assert [event.data.get("revises") for event in bench.events(q)] == [None, None, 2, None]


def test_optional_windows_expire_row_by_row(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?v WHERE {{ STREAM <{s}> [RANGE 10] {{ ?s :p ?o }} "
        f"OPTIONAL {{ STREAM <{s}> [RANGE 3] {{ ?s :q ?v }} }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 ; :q 5, 6 .")
    bench.push(s, 3, ":a :q 5 .")
    bench.beat(s, 30)
    assert bench.feed(q) == [
        ins(1, "a 5", "a 6"),
        dele(5, "a 6"),
        dele(7, "a 5"),
        ins(7, "a -"),
        dele(12, "a -"),
    ]


def test_the_condition_of_a_left_join_between_windows(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?v WHERE {{ STREAM <{s}> [RANGE 10] {{ ?s :p ?o }} "
        f"OPTIONAL {{ STREAM <{s}> [RANGE 3] {{ ?s :q ?v FILTER(?v > ?o) }} }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1, 7 ; :q 5 .")
    bench.beat(s, 30)
    assert bench.feed(q) == [ins(1, "a 5", "a -"), dele(5, "a 5"), ins(5, "a -"), dele(12, "a -", "a -")]


def test_every_aggregate_over_a_window_that_empties(bench: Bench) -> None:
    s = bench.stream()
    select = (
        "(COUNT(?o) AS ?n) (SUM(?o) AS ?t) (AVG(?o) AS ?m) (MIN(?o) AS ?l) (SAMPLE(?o) AS ?x) "
        f"(GROUP_CONCAT(STR(?o)) AS ?g) WHERE {{ STREAM <{s}> [RANGE 5] {{ ?s :p ?o }} }}"
    )
    whole = bench.register(f"SELECT {select}", output="changes")
    groups = bench.register(f"SELECT ?s {select} GROUP BY ?s", output="changes")
    empty = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 5] {{ ?s :p ?o }} }} HAVING (COUNT(*) = 0)",
        output="changes",
    )
    bench.push(s, 1, ":a :p 2 .")
    bench.beat(s, 30)
    assert bench.feed(whole) == [ins(1, "1 2 2 2 2 2"), dele(7, "1 2 2 2 2 2"), ins(7, "0 0 0 - - ")]
    assert bench.feed(groups) == [ins(1, "a 1 2 2 2 2 2"), dele(7, "a 1 2 2 2 2 2")]
    assert bench.feed(empty) == [ins(7, "0")]


def test_duplicates_in_an_element_in_two_elements_and_under_distinct(bench: Bench) -> None:
    s = bench.stream()
    body = f"?s WHERE {{ STREAM <{s}> [RANGE 5] {{ ?s :p ?o }} }}"
    every = bench.register(f"SELECT {body}", output="changes")
    distinct = bench.register(f"SELECT DISTINCT {body}", output="changes")
    bench.push(s, 1, ":a :p 2 , 3 , 2 .")
    bench.push(s, 3, ":a :p 3 , 4 .")
    bench.beat(s, 30)
    assert bench.feed(every) == [ins(1, "a", "a"), ins(3, "a"), dele(7, "a"), dele(9, "a", "a")]
    assert bench.feed(distinct) == [ins(1, "a"), dele(9, "a")]


@pytest.mark.parametrize(
    ("streamed", "stored"),
    [
        (f'"01"^^<{XSD}integer>', "1"),
        (f'"+1"^^<{XSD}integer>', "1"),
        (f'"001"^^<{XSD}int>', "1"),
        (f'"1.00"^^<{XSD}decimal>', "1.0"),
        (f'"1"^^<{XSD}double>', "1e0"),
        (f'"1"^^<{XSD}boolean>', "true"),
        ('"x"@EN-gb', '"x"@en-GB'),
        (f'"2020-01-01T00:00:00.000Z"^^<{XSD}dateTime>', f'"2020-01-01T00:00:00Z"^^<{XSD}dateTime>'),
    ],
)
def test_a_literal_in_another_spelling_joins_with_the_stored_one(
    bench: Bench, streamed: str, stored: str
) -> None:
    s = bench.stream()
    bench.update(f"INSERT DATA {{ :k :v {stored} }}")
    q = bench.register(f"SELECT ?k WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} ?k :v ?o }}")
    line = {"at": 1, "data": f"<http://e/a> <http://e/p> {streamed} ."}
    bench.send(s, json.dumps(line), "application/x-ndjson")
    assert bench.feed(q) == [ins(1, "k")]


def test_a_blank_node_is_one_in_its_element_only(bench: Bench) -> None:
    # the graph :g1 is one element although it is written twice; :g2 has another _:b
    s = bench.stream()
    joined = bench.register(f"SELECT ?x WHERE {{ STREAM <{s}> [RANGE 50] {{ ?b :p ?o . ?b :q ?x }} }}")
    counted = bench.register(
        f"SELECT (COUNT(DISTINCT ?b) AS ?n) WHERE {{ STREAM <{s}> [RANGE 50] {{ ?b :p ?o }} }}"
    )
    trig = "@prefix : <http://e/> . :g1 { _:b :p 1 } :g2 { _:b :q 2 } :g1 { _:b :q 3 }"
    bench.send(s, trig, "application/trig", at=1)
    bench.push(s, 2, "_:b :p 1 .")
    two = '_:b <http://e/p> "1" .\n_:b <http://e/q> "9" .'
    bench.send(s, two, "application/n-triples", at=2, each="triple")
    assert bench.feed(joined) == [ins(1, "3")]
    assert bench.feed(counted)[-1] == ins(2, "3")


def test_triple_terms_of_a_stream_join_with_stored_ones(bench: Bench) -> None:
    s = bench.stream()
    bench.update(f"INSERT DATA {{ << :a :knows :b >> :src :w . :r {REIFIES} <<( :a :knows :c )>> }}")
    q = bench.register(
        f"SELECT ?t ?src WHERE {{ STREAM <{s}> [NOW] {{ ?m :about ?t }} "
        f"?r {REIFIES} ?t . OPTIONAL {{ ?r :src ?src }} }}"
    )
    triples = " . ".join(f":m{name} :about <<( :a :knows :{name} )>>" for name in "bcd")
    bench.push(s, 1, f"{triples} .")
    assert bench.feed(q) == [ins(1, "<<a knows b>> w", "<<a knows c>> -")]


def test_annotations_of_one_triple_in_two_elements_and_two_spellings_join(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?c ?d WHERE {{ STREAM <{s}> [RANGE 5] {{ << ?x :t ?v >> :c ?c ; :d ?d }} }}")
    bench.push(s, 1, "<< :a :t 1 >> :c 0.9 .")
    bench.push(s, 2, "<< :a :t 01 >> :d 5 .")
    bench.push(s, 2, ":a :t 1 {| :d 6 |} .")
    assert bench.feed(q) == [ins(2, "0.9 5"), ins(2, "0.9 6")]


def test_lateness_of_one_of_two_streams_holds_the_other_back(bench: Bench) -> None:
    a, b = bench.stream(lateness="5ms"), bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{a}> [RANGE 3] {{ ?s :p ?o }} STREAM <{b}> [RANGE 3] {{ ?s :q ?v }} }}",
        output="changes",
    )
    bench.push(b, 10, ":x :q 1 .")
    bench.push(a, 12, ":x :p 1 .")
    bench.push(a, 11, ":x :p 2 .")
    bench.push(a, 17, ":y :p 2 .")
    assert bench.feed(q) == []
    bench.beat(b, 17)
    assert bench.feed(q) == [ins(11, "x"), ins(12, "x")]
    bench.beat(a, 30)
    bench.beat(b, 30)
    assert bench.feed(q)[2:] == [dele(14, "x", "x")]


def test_grids_of_different_slides_report_whenever_one_closes(bench: Bench) -> None:
    a, b = bench.stream(), bench.stream()
    q = bench.register(
        f"REGISTER RSTREAM :slides AS SELECT ?s ?t FROM NAMED WINDOW :w ON <{a}> [RANGE 10 STEP 5] "
        f"FROM NAMED WINDOW :v ON <{b}> [RANGE 4 STEP 4] "
        "WHERE { WINDOW :w { ?s :p ?o } OPTIONAL { WINDOW :v { ?t :p ?o } } }"
    )
    bench.push(a, 3, ":a :p 1 .")
    bench.push(b, 3, ":b :p 1 .")
    bench.beat(a, 12)
    bench.beat(b, 12)
    assert bench.feed(q) == [ans(4), ans(5, "a b"), ans(8, "a -"), ans(10, "a -"), ans(12, "a -")]


def test_istream_over_a_grid_and_a_store_that_changed_between_two_closes(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :in :k }")
    q = bench.register(
        f"REGISTER ISTREAM :between AS SELECT ?s ?r FROM NAMED WINDOW :w ON <{s}> [RANGE 10 STEP 5] "
        "WHERE { WINDOW :w { ?s :p ?o } ?s :in ?r }"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 5)
    version = bench.update("DELETE DATA { :a :in :k } ; INSERT DATA { :a :in :l }")
    bench.beat(s, 10)
    assert bench.feed(q) == [ins(5, "a k"), ins(10, "a l")]
    assert bench.events(q)[-1].data["version"] == version


def test_a_commit_between_two_closes_of_a_cqels_grid_tells_at_once(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 10 SLIDE 10] {{ ?s :p ?o }} ?s :in ?r }}", output="changes"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 14, ":b :p 1 .")
    bench.update("INSERT DATA { :a :in :k . :b :in :k }")
    bench.beat(s, 25)
    assert bench.feed(q) == [ins(14, "a"), dele(20, "a"), ins(20, "b")]


def test_graph_and_minus_of_the_store_under_drops_and_replaced_graphs(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?g ?r WHERE {{ STREAM <{s}> [RANGE 10] {{ ?s :p ?o }} "
        "GRAPH ?g { ?s :in ?r } MINUS { GRAPH :ban { ?s :in ?x } } }",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.update("INSERT DATA { GRAPH :g1 { :a :in :k } GRAPH :g2 { :a :in :k } }")
    bench.update("INSERT DATA { GRAPH :ban { :a :in :k } }")
    bench.update("DROP GRAPH :ban ; DROP GRAPH :g1")
    turtle = {"Content-Type": "text/turtle"}
    body = "<http://e/a> <http://e/in> <http://e/z> ."
    bench.client.put("/store", params={"graph": "http://e/g2"}, content=body, headers=turtle)
    bench.settle()
    assert bench.feed(q) == [
        ins(1, "g1 k", "g2 k"),
        dele(1, "g1 k", "g2 k"),
        ins(1, "g2 k"),
        dele(1, "g2 k"),
        ins(1, "g2 z"),
    ]


def test_a_derived_stream_is_counted_expires_and_begins_with_its_first_tick(bench: Bench) -> None:
    s = bench.stream()
    bench.register(
        f"REGISTER STREAM :hot AS CONSTRUCT {{ ?s :hot true }} FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }"
    )
    count = "SELECT (COUNT(*) AS ?n) WHERE { STREAM :hot [RANGE 10] { ?s :hot true } }"
    q = bench.register(count, output="istream")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 10, ":b :p 1 .")
    bench.beat(s, 40)
    found = [(at, rows) for _, at, rows in bench.feed(q)]
    assert found == [(1, ["0"]), (10, ["1"]), (20, ["2"]), (21, ["1"]), (31, ["0"])]


def test_retained_elements_fill_sliding_and_grid_windows_of_a_new_query(bench: Bench) -> None:
    s = bench.stream(retention="1h")
    for at in (1, 5, 9, 14):
        bench.push(s, at, f":x{at} :p 1 .")
    sliding = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 5] {{ ?s :p ?o }} }}", start={"from": 5}, output="changes"
    )
    grid = bench.register(
        f"SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}",
        start={"from": "1970-01-01T00:00:00.005Z"},
    )
    bench.beat(s, 20)
    assert bench.feed(sliding) == [
        ins(5, "x5"),
        ins(9, "x9"),
        dele(11, "x5"),
        ins(14, "x14"),
        dele(15, "x9"),
        dele(20, "x14"),
    ]
    assert bench.feed(grid) == [ans(10, "x5", "x9"), ans(20, "x14")]


def test_a_query_that_runs_again_after_a_pause_tells_the_difference(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 10] {{ ?s :p ?o }} }}", output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.client.patch(f"/queries/{q}", json={"state": "paused"})
    bench.push(s, 5, ":b :p 1 .")
    bench.push(s, 13, ":c :p 1 .")
    assert bench.feed(q) == [ins(1, "a")]
    bench.client.patch(f"/queries/{q}", json={"state": "running"})
    assert bench.feed(q)[1:] == [dele(13, "a"), ins(13, "b", "c")]


def test_two_csparql_streams_with_steps_of_their_own(bench: Bench) -> None:
    a, b = bench.stream(), bench.stream()
    q = bench.register(
        f"REGISTER QUERY own AS SELECT ?s ?o ?v FROM STREAM <{a}> [RANGE 10ms STEP 5ms] "
        f"FROM STREAM <{b}> [RANGE 10ms TUMBLING] WHERE {{ ?s :p ?o . ?s :q ?v }}"
    )
    bench.push(a, 1, ":x :p 1 .")
    bench.push(b, 2, ":x :q 2 .")
    bench.beat(a, 20)
    bench.beat(b, 20)
    assert bench.feed(q) == [ans(5), ans(10, "x 1 2"), ans(15), ans(20)]


def test_manual_parts_of_every_kind_stay_under_commits(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :in :k }")
    parts = ("?s :in ?r", "OPTIONAL { ?s :in ?r }", "FILTER NOT EXISTS { ?s :in :z }", "?s :in* ?r")
    names = [
        bench.register(
            f"SELECT ?s ?r FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
            f"WHERE {{ WINDOW :w {{ ?s :p ?o }} {part} }}",
            refresh="manual",
        )
        for part in parts
    ]
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.beat(s, 10)
    bench.update("INSERT DATA { :b :in :k . :a :in :z }")
    bench.push(s, 11, ":a :p 1 . :b :p 1 .")
    bench.beat(s, 20)
    for name in names:
        (_, before), (_, after) = bench.answers(name)
        assert before == after
        assert len({event.data["version"] for event in bench.events(name)}) == 1
