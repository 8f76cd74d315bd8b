"""C-SPARQL: windows, the merge that its patterns see, timestamp()."""

from __future__ import annotations

from .bench import Bench, ans

HEAD = "REGISTER QUERY %s AS PREFIX : <http://e/> SELECT %s FROM STREAM <%s> %s WHERE { %s }"


def register(bench: Bench, name: str, columns: str, s: str, window: str, body: str, **options: object) -> str:
    """A C-SPARQL query whose prologue stands where its papers have it."""
    text = HEAD % (name, columns, s, window, body)
    answer = bench.client.post("/queries", json={"query": text, **options})
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == name
    return name


def test_range_step_is_evaluated_every_step_with_the_full_answer(bench: Bench) -> None:
    s = bench.stream()
    q = register(bench, "Q", "?s", s, "[RANGE 10ms STEP 5ms]", "?s :p ?o")
    bench.push(s, 3, ":a :p 1 .")
    bench.push(s, 7, ":b :p 1 .")
    bench.beat(s, 20)
    assert bench.describe(q)["dialect"] == "csparql"
    assert bench.feed(q) == [ans(5, "a"), ans(10, "a", "b"), ans(15, "b"), ans(20)]


def test_tumbling(bench: Bench) -> None:
    s = bench.stream()
    q = register(bench, "Q", "?s", s, "[RANGE 10ms TUMBLING]", "?s :p ?o")
    bench.push(s, 3, ":a :p 1 .")
    bench.push(s, 17, ":b :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(10, "a"), ans(20, "b")]


def test_range_triples_are_batches_evaluated_at_each_nth_triple(bench: Bench) -> None:
    s = bench.stream()
    q = register(bench, "Q", "?s", s, "[RANGE TRIPLES 2]", "?s :p ?o")
    bench.push(s, 1, ":a :p 1 .")
    assert bench.feed(q) == []
    bench.push(s, 2, ":b :p 1 .")
    bench.push(s, 3, ":c :p 1 .")
    bench.push(s, 3, ":d :p 1 .")
    assert bench.feed(q) == [ans(2, "a", "b"), ans(3, "c", "d")]


def test_one_element_can_fill_several_batches(bench: Bench) -> None:
    s = bench.stream()
    q = register(bench, "Q", "?s", s, "[RANGE TRIPLES 2]", "?s :p ?o")
    lines = "".join(f'<http://e/{name}> <http://e/p> "1" .\n' for name in "edcba")
    bench.send(s, lines, "application/n-triples", at=7)
    assert bench.feed(q) == [ans(7, "d", "e"), ans(7, "b", "c")]


def test_computed_every(bench: Bench) -> None:
    s = bench.stream()
    text = (
        "REGISTER QUERY Q COMPUTED EVERY 20ms AS PREFIX : <http://e/> "
        f"SELECT ?s FROM STREAM <{s}> [RANGE 10ms STEP 5ms] WHERE {{ ?s :p ?o }}"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 12, ":a :p 1 .")
    bench.beat(s, 40)
    assert bench.feed("Q") == [ans(20, "a"), ans(40)]


def test_patterns_see_the_merge_of_all_windows_and_the_default_graph(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    bench.update("INSERT DATA { :a :label 7 . GRAPH :g { :a :label 8 } }")
    text = (
        "REGISTER QUERY Q AS PREFIX : <http://e/> SELECT ?s ?x ?y ?l "
        f"FROM STREAM <{s}> [RANGE 10ms STEP 10ms] FROM STREAM <{z}> [RANGE 10ms STEP 10ms] "
        "WHERE { ?s :p ?x . ?s :q ?y . ?s :label ?l }"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 1, ":a :p 1 .")
    bench.push(z, 2, ":a :q 2 .")
    bench.beat(s, 10)
    bench.beat(z, 10)
    assert bench.feed("Q")[-1] == ans(10, "a 1 2 7")


def test_patterns_see_the_from_graphs_in_place_of_the_default_graph(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :label 7 . GRAPH :g { :a :label 8 } }")
    text = (
        f"REGISTER QUERY Q AS PREFIX : <http://e/> SELECT ?s ?l FROM STREAM <{s}> [RANGE 10ms STEP 10ms] "
        "FROM <http://e/g> WHERE { ?s :p ?x . ?s :label ?l }"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.now("Q") == ["a 8"]


def test_with_several_windows_it_is_evaluated_whenever_one_closes(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    text = (
        "REGISTER QUERY Q AS PREFIX : <http://e/> SELECT ?s "
        f"FROM STREAM <{s}> [RANGE 10ms STEP 10ms] FROM STREAM <{z}> [RANGE 15ms STEP 15ms] "
        "WHERE { ?s :p ?x }"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 1, ":a :p 1 .")
    bench.push(z, 1, ":b :p 1 .")
    bench.beat(s, 30)
    bench.beat(z, 30)
    assert bench.feed("Q") == [ans(10, "a"), ans(15, "a", "b"), ans(20, "b"), ans(30)]


def test_timestamp_is_the_greatest_event_time_of_the_triples_that_bind_the_variable(bench: Bench) -> None:
    s = bench.stream()
    q = register(
        bench,
        "Q",
        "?s ?o (timestamp(?s) AS ?ts) (timestamp(?o) AS ?to)",
        s,
        "[RANGE 10ms STEP 10ms]",
        "?s :p ?o . ?s :q ?z",
    )
    bench.push(s, 1, ":a :p 5 .")
    bench.push(s, 4, ":a :q 6 .")
    bench.push(s, 7, ":b :p 8 ; :q 8 .")
    bench.beat(s, 10)
    # ?o is bound by the :p triple only
    assert bench.now(q) == ["a 5 4 1", "b 8 7 7"]


def test_timestamp_under_its_jena_name_and_in_a_filter(bench: Bench) -> None:
    s = bench.stream()
    text = (
        "REGISTER QUERY Q AS PREFIX : <http://e/> PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> "
        f"SELECT ?a ?b FROM STREAM <{s}> [RANGE 10ms STEP 10ms] "
        "WHERE { ?a :p ?x . ?b :q ?y FILTER(f:timestamp(?x) < f:timestamp(?y)) }"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :q 2 .")
    bench.push(s, 3, ":c :p 3 .")
    bench.beat(s, 10)
    assert bench.now("Q") == ["a b"]


def test_register_stream_makes_a_stream_of_construct(bench: Bench) -> None:
    s = bench.stream()
    text = (
        "REGISTER STREAM Out COMPUTED EVERY 10ms AS PREFIX : <http://e/> CONSTRUCT { ?s :seen ?o } "
        f"FROM STREAM <{s}> [RANGE 10ms STEP 10ms] WHERE {{ ?s :p ?o }}"
    )
    answer = bench.client.post("/queries", json={"query": text})
    assert answer.status_code == 201, answer.text
    bench.push(s, 1, ":a :p :b .")
    bench.beat(s, 10)
    assert bench.feed("Out") == [ans(10, "a seen b")]
