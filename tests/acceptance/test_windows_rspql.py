"""Section 3 and the rspql profile of section 4: grids, closes, empty windows, instants."""

from __future__ import annotations

from .bench import Bench, Sse, ans, dele, ins, rows_of

SELECT = "SELECT ?s FROM NAMED WINDOW :w ON <%s> %s WHERE { WINDOW :w { ?s :p ?o } }"
RSTREAM = "REGISTER RSTREAM :out AS " + SELECT


def test_each_close_is_an_answer_at_its_end_with_the_bounds_of_the_window(bench: Bench) -> None:
    # tumbling 10: a@1 b@9 | c@10 | (empty) | d@30
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE PT0.01S STEP PT0.01S]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 9, ":b :p 1 .")
    bench.push(s, 10, ":c :p 1 .")
    bench.push(s, 30, ":d :p 1 .")
    assert bench.feed(q) == [ans(10, "a", "b"), ans(20, "c"), ans(30)]
    events = bench.events(q)
    assert [event.data["window"] for event in events] == [
        {"open": 0, "close": 10},
        {"open": 10, "close": 20},
        {"open": 20, "close": 30},
    ]
    assert [event.id for event in events] == ["1", "2", "3"]


def test_step_defaults_to_the_width(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    bench.push(s, 3, ":a :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(10, "a"), ans(20)]


def test_sliding_windows_overlap(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10 STEP 4]"))
    bench.push(s, 5, ":a :p 1 .")
    bench.push(s, 9, ":b :p 1 .")
    bench.beat(s, 22)
    # ends are 10 + 4k: [-4,6) [0,10) [4,14) [8,18) [12,22)
    assert bench.feed(q) == [ans(6, "a"), ans(10, "a", "b"), ans(14, "a", "b"), ans(18, "b"), ans(22)]


def test_without_t0_the_grid_is_aligned_to_the_epoch_and_k_may_be_negative(bench: Bench) -> None:
    # k = -1 covers [-7, 3)
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10 STEP 7]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 3)
    assert bench.feed(q) == [ans(3, "a")]
    assert bench.events(q)[0].data["window"] == {"open": -7, "close": 3}


def test_with_t0_the_first_window_starts_there_and_earlier_elements_belong_to_none(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10 STEP 5]"), t0=103)
    bench.push(s, 101, ":early :p 1 .")
    bench.push(s, 103, ":a :p 1 .")
    bench.push(s, 112, ":b :p 1 .")
    bench.beat(s, 118)
    assert bench.feed(q) == [ans(113, "a", "b"), ans(118, "b")]
    assert bench.events(q)[0].data["window"] == {"open": 103, "close": 113}


def test_t0_may_be_an_xsd_datetime(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"), t0="1970-01-01T00:00:00.103Z")
    bench.push(s, 104, ":a :p 1 .")
    bench.beat(s, 113)
    assert bench.feed(q) == [ans(113, "a")]


def test_bounds_open_closed_take_the_end_and_not_the_start(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"), bounds="open-closed")
    bench.push(s, 11, ":a :p 1 .")
    bench.push(s, 20, ":b :p 1 .")
    bench.push(s, 21, ":c :p 1 .")
    bench.push(s, 31, ":d :p 1 .")
    assert [row for row in bench.feed(q) if row[1] >= 20] == [ans(20, "a", "b"), ans(30, "c")]


def test_the_first_window_is_the_first_that_ends_after_the_first_element(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    bench.push(s, 10, ":a :p 1 .")  # at the end of [0, 10): the first reported is [10, 20)
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(20, "a")]


def test_a_heartbeat_can_be_the_first_instant(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    bench.beat(s, 5)
    bench.push(s, 25, ":a :p 1 .")
    assert bench.feed(q) == [ans(10), ans(20)]


def test_after_a_gap_every_window_that_closed_is_reported_in_order_empty_ones_included(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 51, ":b :p 1 .")
    assert bench.feed(q) == [ans(10, "a"), ans(20), ans(30), ans(40), ans(50)]


def test_non_empty_leaves_the_empty_ones_out(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"), non_empty=True)
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 51, ":b :p 1 .")
    bench.beat(s, 60)
    assert bench.feed(q) == [ans(10, "a"), ans(60, "b")]
    assert [event.id for event in bench.events(q)] == ["1", "2"]


def test_a_thousand_empty_windows_are_reported_one_by_one(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 10_011, ":b :p 1 .")  # windows ending at 20 … 10 010 are empty: 1 000 of them
    found = bench.answers(q)
    assert found[0] == (10, ["a"])
    assert found[1:] == [(at, []) for at in range(20, 10_011, 10)]


def test_a_longer_run_of_empty_windows_is_one_progress_event(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"))
    with Sse(bench.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
        bench.push(s, 1, ":a :p 1 .")
        bench.push(s, 10_021, ":b :p 1 .")  # 20 … 10 020: 1 001 empty windows
        bench.beat(s, 10_030)
        first, progress, last = feed.take(3)
    assert (first.kind, first.id, first.data["at"]) == ("answer", "1", 10)
    assert (progress.kind, progress.id) == ("progress", None)
    assert progress.data["skipped"] == 1001
    assert {"from", "to", "skipped"} <= set(progress.data)
    assert 10 <= progress.data["from"] <= 20
    assert 10_010 <= progress.data["to"] <= 10_020
    assert (last.kind, last.id, last.data["at"], rows_of(last.data)) == ("answer", "2", 10_030, ["b"])


def test_elements_n_step_m_closes_every_m_elements(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[ELEMENTS 3 STEP 2]"))
    for at, name in enumerate("abcde", start=1):
        bench.push(s, at, f":{name} :p 1 . :{name}2 :p 1 .")
    assert bench.feed(q) == [ans(2, "a", "a2", "b", "b2"), ans(4, "b", "b2", "c", "c2", "d", "d2")]


def test_elements_step_defaults_to_one(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[ELEMENTS 2]"))
    for at, name in enumerate("abc", start=1):
        bench.push(s, at, f":{name} :p 1 .")
    assert bench.feed(q) == [ans(1, "a"), ans(2, "a", "b"), ans(3, "b", "c")]


def test_computed_every_evaluates_at_multiples_of_its_duration_only(bench: Bench) -> None:
    # windows [k, k+10) close every ms-grid step of 1; evaluated at 4, 8, 12 …
    s = bench.stream()
    q = bench.register(
        "REGISTER RSTREAM :out COMPUTED EVERY PT0.004S AS " + SELECT % (s, "[RANGE 10 STEP 1]")
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 4, ":b :p 1 .")
    bench.beat(s, 12)
    assert bench.feed(q) == [ans(4, "a"), ans(8, "a", "b"), ans(12, "b")]


def test_a_window_that_ends_exactly_at_the_tick_counts_as_closed(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register("REGISTER RSTREAM :out COMPUTED EVERY 20ms AS " + SELECT % (s, "[RANGE 10]"))
    bench.push(s, 12, ":a :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(20, "a")]


def test_computed_every_counts_from_t0(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register("REGISTER RSTREAM :out COMPUTED EVERY 20ms AS " + SELECT % (s, "[RANGE 10]"), t0=5)
    bench.push(s, 16, ":a :p 1 .")
    bench.beat(s, 60)
    assert bench.feed(q) == [ans(25, "a"), ans(45)]


def test_report_periodic_of_a_registration(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(RSTREAM % (s, "[RANGE 10]"), report={"periodic": "20ms"})
    bench.push(s, 12, ":a :p 1 .")
    bench.beat(s, 45)
    assert bench.feed(q) == [ans(20, "a"), ans(40)]


def test_select_without_register_is_rstream(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SELECT % (s, "[RANGE 10]"))
    assert bench.describe(q)["profile"] == "rspql"
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(10, "a"), ans(20)]


def test_istream_and_dstream_compare_with_the_previous_report(bench: Bench) -> None:
    s = bench.stream()
    text = " :out AS " + SELECT % (s, "[RANGE 10]")
    inserts = bench.register("REGISTER ISTREAM" + text)
    deletes = bench.register("REGISTER DSTREAM" + text, name="gone")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.push(s, 11, ":b :p 1 . :c :p 1 .")
    bench.beat(s, 30)
    assert bench.feed(inserts) == [ins(10, "a", "b"), ins(20, "c")]
    assert bench.feed(deletes) == [dele(20, "a"), dele(30, "b", "c")]


def test_the_prologue_may_stand_after_as(bench: Bench) -> None:
    s = bench.stream()
    answer = bench.client.post(
        "/queries?name=after",
        content="REGISTER RSTREAM <out> AS PREFIX : <http://e/> " + SELECT % (s, "[RANGE 10]"),
        headers={"Content-Type": "text/plain"},
    )
    assert answer.status_code == 201, answer.text
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.feed("after") == [ans(10, "a")]


def test_on_stream_and_the_words_of_kolibrie_are_accepted(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"REGISTER RSTREAM :out AS SELECT ?s FROM NAMED WINDOW :w ON STREAM <{s}> "
        "[RANGE 10 STEP 10 REPORT ON_WINDOW_CLOSE TICK TIME_DRIVEN] WHERE { WINDOW :w { ?s :p ?o } }"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(10, "a")]


def test_window_variables_bind_the_name_of_the_window_and_join(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"REGISTER RSTREAM :out AS SELECT ?w ?s FROM NAMED WINDOW :w1 ON <{s}> [RANGE 10] "
        f"FROM NAMED WINDOW :w2 ON <{z}> [RANGE 10] WHERE {{ WINDOW ?w {{ ?s :p ?o }} }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(z, 1, ":b :p 1 .")
    bench.beat(s, 10)
    bench.beat(z, 10)
    assert bench.feed(q)[-1] == ans(10, "w1 a", "w2 b")


def test_two_windows_close_together_and_join(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"REGISTER RSTREAM :out AS SELECT ?s ?x ?y FROM NAMED WINDOW :w1 ON <{s}> [RANGE 10] "
        f"FROM NAMED WINDOW :w2 ON <{z}> [RANGE 10] "
        "WHERE { WINDOW :w1 { ?s :p ?x } WINDOW :w2 { ?s :q ?y } }"
    )
    bench.push(s, 1, ":a :p 1 . :b :p 2 .")
    bench.push(z, 5, ":a :q 3 .")
    bench.beat(s, 10)
    assert bench.feed(q) == []  # the other stream has not reached 10
    bench.beat(z, 10)
    assert bench.feed(q) == [ans(10, "a 1 3")]


def test_graphs_in_windows(bench: Bench) -> None:
    # patterns outside GRAPH match the union of all graphs; GRAPH ranges over the elements' graph names only
    s = bench.stream()
    bench.update("INSERT DATA { :static :p 9 . GRAPH :g9 { :static :p 9 } }")
    body = "[RANGE 10] WHERE { WINDOW :w { %s } }"
    head = f"SELECT * FROM NAMED WINDOW :w ON <{s}> "
    union = bench.register(head + body % "?s :p ?o", name="union")
    named = bench.register(head + body % "GRAPH ?g { ?s :p ?o }", name="named")
    both = bench.register(head + body % "?s :q ?x . GRAPH ?g { ?s :p ?o }", name="both")
    default = bench.register(head + body % "?s :p ?o", name="default", window_default_graph="default")
    bench.push(s, 1, ":a :p 1 ; :q 5 . :g1 { :a :p 2 } :g2 { :b :p 3 }")
    bench.beat(s, 10)
    assert bench.feed(union) == [ans(10, "a 1", "a 2", "b 3")]
    assert sorted(bench.now(named)) == ["g1 a 2", "g2 b 3"]
    assert bench.now(both) == ["a 5 g1 2"]
    assert bench.now(default) == ["a 1"]


def test_a_graph_name_joins_across_windows_and_static_graphs(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :g1 :title 7 . GRAPH :g1 { :inside :p 9 } }")
    q = bench.register(
        f"SELECT ?g ?s ?x ?title FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { GRAPH ?g { ?s :p ?o } } GRAPH ?g { ?x :p 9 } ?g :title ?title }"
    )
    bench.push(s, 1, ":g1 { :a :p 2 } :g2 { :b :p 3 }")
    bench.beat(s, 10)
    assert bench.now(q) == ["g1 a inside 7"]


def test_window_contents_are_never_visible_outside_windows(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :static :p 9 }")
    q = bench.register(
        f"SELECT ?x FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} ?x :p ?y }}"
    )
    g = bench.register(
        f"SELECT ?g FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } OPTIONAL { GRAPH ?g { ?x :p ?y } } }",
        name="graphs",
    )
    bench.push(s, 1, ":g1 { :a :p 2 }")
    bench.beat(s, 10)
    assert bench.now(q) == ["static"]
    assert bench.now(g) == ["-"]


def test_relative_iris_resolve_against_base_iri(bench: Bench) -> None:
    # the papers' <w1> and <Taxi>, without BASE: http://localhost/
    q = bench.register(
        "REGISTER STREAM <warning/tvs> AS SELECT ?s FROM NAMED WINDOW <w1> ON <Taxi> [RANGE 10] "
        "WHERE { WINDOW <w1> { ?s :p ?o } }",
    )
    assert bench.describe(q)["streams"][0]["iri"] == "http://localhost/Taxi"
    answer = bench.client.post(
        "/streams/Taxi?at=1&wait=true",
        content="<http://e/a> <http://e/p> 1 .",
        headers={"Content-Type": "text/turtle"},
    )
    assert answer.json()["stream"] == "http://localhost/Taxi"
    bench.beat("http://localhost/Taxi", 10)
    assert bench.feed(q) == [ans(10, "a")]


def test_a_registrations_name_defaults_to_the_last_segment_of_its_iri(bench: Bench) -> None:
    s = bench.stream()
    text = "PREFIX : <http://e/> REGISTER RSTREAM <warning/tvs> AS " + SELECT % (s, "[RANGE 10]")
    answer = bench.client.post("/queries", content=text, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "tvs"
    assert answer.headers["Location"].endswith("/queries/tvs")


def test_option_strict_leaves_out_the_window_that_ends_at_the_tick(bench: Bench) -> None:
    # Definition 17 has x < tau: at 20 the latest closed window is [0, 10)
    s = bench.stream()
    q = bench.register(
        "REGISTER RSTREAM :out COMPUTED EVERY 20ms AS " + SELECT % (s, "[RANGE 10]"), strict=True
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 12, ":b :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(20, "a")]


def test_the_union_dataset_may_hold_the_same_triple_once(bench: Bench) -> None:
    # a set of quads: the same triple of two elements is one solution, in two graphs two for GRAPH ?g
    s = bench.stream()
    plain = bench.register(SELECT % (s, "[RANGE 10]"), name="plain")
    graphs = bench.register(
        f"SELECT ?g ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { GRAPH ?g { ?s :p ?o } } }",
        name="graphs",
    )
    bench.push(s, 1, ":g1 { :a :p 1 }")
    bench.push(s, 2, ":g2 { :a :p 1 }")
    bench.push(s, 3, ":g2 { :a :p 1 }")
    bench.beat(s, 10)
    assert bench.now(plain) == ["a"]
    assert bench.now(graphs) == ["g1 a", "g2 a"]
