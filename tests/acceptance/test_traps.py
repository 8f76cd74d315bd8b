"""Section 7: the traps that are known, each under its name."""

from __future__ import annotations

import pytest

from .bench import Bench, ans, dele, ins

PLAN = "INSERT DATA { GRAPH :plan { :r1 :conn :r2, :r3 . :r2 :conn :r1 . :r3 :conn :r1 } }"
ISTREAM_BODY = (
    "WHERE {{ STREAM <{s}> [NOW] {{ ?person1 :detectedAt ?loc1 }} "
    "STREAM <{s}> [RANGE 2 ms] {{ ?person2 :detectedAt ?loc2 }} "
    "GRAPH :plan {{ ?loc1 :conn ?loc2 }} }}"
)


def test_one_event_that_enters_two_windows_joins_itself_exactly_once(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a ?b WHERE {{ STREAM <{s}> [NOW] {{ ?a :p ?x }} STREAM <{s}> [RANGE 1h] {{ ?b :p ?y }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 1, ":b :p 1 .")
    bench.push(s, 5, ":c :p 1 .")
    assert bench.feed(q) == [
        ins(1, "a a"),
        ins(1, "a b", "b a", "b b"),
        dele(2, "a a", "a b", "b a", "b b"),
        ins(5, "c a", "c b", "c c"),
    ]


def test_one_event_in_three_windows(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?a :p ?x }} "
        f"STREAM <{s}> [RANGE 2h] {{ ?b :p ?y }} STREAM <{s}> [RANGE 3h] {{ ?c :p ?z }} }}"
    )
    for at in (1, 2, 3):
        bench.push(s, at, f":a{at} :p 1 .")
    assert bench.feed(q) == [ins(1, "1"), ins(2, "8"), ins(3, "27")]


@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        ("FILTER NOT EXISTS {{ STREAM <{s}> [RANGE 2 ms] {{ ?a :q ?y }} }}", [], [ins(5, "a -")]),
        ("OPTIONAL {{ STREAM <{s}> [RANGE 2 ms] {{ ?a :q ?y }} }}", [ins(2, "a 7")], [ins(5, "a -")]),
        ("MINUS {{ STREAM <{s}> [RANGE 2 ms] {{ ?a :q ?y }} }}", [], [ins(5, "a -")]),
    ],
)
def test_a_row_may_appear_because_something_leaves(
    bench: Bench, body: str, before: list[object], after: list[object]
) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a ?y WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?a :p ?x }} " + body.format(s=s) + " }"
    )
    bench.push(s, 2, ":a :p 1 ; :q 7 .")
    bench.beat(s, 100)
    assert bench.feed(q) == before + after


def test_an_aggregate_row_appears_because_something_leaves(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT (MAX(?x) AS ?m) WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?a :p ?x }} }}")
    bench.push(s, 1, ":a :p 9 .")
    bench.push(s, 2, ":b :p 5 .")
    bench.beat(s, 4)
    assert bench.feed(q) == [ins(1, "9"), ins(4, "5")]


def test_minus_keeps_match_counts(bench: Bench) -> None:
    # two blockers: the row comes back when the second has left, not the first
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?a :p ?x }} MINUS {{ STREAM <{s}> [RANGE 2 "
        f"ms] {{ ?a :q ?y }} }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":a :q 1 .")
    bench.push(s, 3, ":a :q 2 .")
    bench.beat(s, 100)
    assert bench.feed(q) == [ins(1, "a"), dele(2, "a"), ins(6, "a")]


def test_not_exists_with_an_inequality_inside(bench: Bench) -> None:
    # the newest ride of each taxi: no later one in the window
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a ?t WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?a :at ?t }} "
        f"FILTER NOT EXISTS {{ STREAM <{s}> [RANGE 10 ms] {{ ?a :at ?later FILTER(?later > ?t) }} }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :at 5 .")
    bench.push(s, 2, ":a :at 3 .")
    bench.push(s, 3, ":a :at 8 .")
    bench.beat(s, 12)
    assert bench.feed(q) == [ins(1, "a 5"), dele(3, "a 5"), ins(3, "a 8")]


def test_order_by_a_maximum_puts_the_most_recent_first_and_the_window_is_open_closed(bench: Bench) -> None:
    # the challenge of 2015: descending by frequency, ties most recent first, (now - w, now]
    s = bench.stream()
    q = bench.register(
        f"SELECT ?route (COUNT(?trip) AS ?freq) WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?trip :route "
        f"?route ; :time ?time }} }} "
        "GROUP BY ?route ORDER BY DESC(?freq) DESC(MAX(?time)) LIMIT 2",
        output="rstream",
        bounds="open-closed",
    )
    bench.push(s, 1, ":t1 :route :x ; :time 1 .")
    bench.push(s, 2, ":t2 :route :y ; :time 2 .")
    bench.push(s, 3, ":t3 :route :z ; :time 3 .")
    bench.push(s, 4, ":t4 :route :x ; :time 4 .")
    last = bench.client.get(f"/queries/{q}/results").json()
    routes = [row["route"]["value"].rsplit("/", 1)[1] for row in last["results"]["bindings"]]
    assert routes == ["x", "z"]
    bench.beat(s, 11)  # the trip of 1 has left: now - 10 = 1 is outside
    last = bench.client.get(f"/queries/{q}/results").json()
    routes = [row["route"]["value"].rsplit("/", 1)[1] for row in last["results"]["bindings"]]
    assert routes == ["x", "z"]
    assert last["results"]["bindings"][0]["freq"]["value"] == "1"


def test_table_1_of_2011_with_its_own_template_follows_the_formula(bench: Bench) -> None:
    # instants 0-3 ms, RANGE 2 ms: at 3 the element of 1 is still in (its table forgets it)
    #   t  NOW    RANGE              loc1 conn loc2
    #   0  m0@r1  m0@r1              -
    #   1  m1@r2  m0@r1 m1@r2        m1 with m0
    #   2  m2@r1  m0@r1 m1@r2 m2@r1  m2 with m1
    #   3  m3@r2  m1@r2 m2@r1 m3@r2  m3 with m2
    s = bench.stream()
    bench.update(PLAN)
    table = bench.register("CONSTRUCT { ?person2 :reaches ?person1 } " + ISTREAM_BODY.format(s=s))
    listing = bench.register("CONSTRUCT { ?person1 :reachable ?person2 } " + ISTREAM_BODY.format(s=s))
    for at, room in enumerate(("r1", "r2", "r1", "r2")):
        bench.push(s, at, f":m{at} :detectedAt :{room} .")
    assert bench.feed(table) == [
        ins(1, "m0 reaches m1"),
        ins(2, "m1 reaches m2"),
        ins(3, "m2 reaches m3"),
    ]
    assert bench.feed(listing) == [
        ins(1, "m1 reachable m0"),
        ins(2, "m2 reachable m1"),
        ins(3, "m3 reachable m2"),
    ]


def test_the_range_window_of_table_1_by_its_formula(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?p WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?p :detectedAt ?l }} }}", output="rstream"
    )
    for at, room in enumerate(("r1", "r2", "r1", "r2")):
        bench.push(s, at, f":m{at} :detectedAt :{room} .")
    assert bench.feed(q) == [
        ans(0, "m0"),
        ans(1, "m0", "m1"),
        ans(2, "m0", "m1", "m2"),
        ans(3, "m1", "m2", "m3"),
    ]


def test_triples_of_two_instants_join(bench: Bench) -> None:
    # the report's rule 7 would match a pattern only inside one instant
    s = bench.stream()
    q = bench.register(f"SELECT ?a ?c WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?a :p ?b . ?b :q ?c }} }}")
    bench.push(s, 1, ":a :p :b .")
    bench.push(s, 3, ":b :q :c .")
    assert bench.feed(q) == [ins(3, "a c")]


def test_a_triple_alive_twice_counts_once(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?a :p ?b }} }}")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 3, ":a :p 1 .")
    bench.push(s, 4, ":b :p 1 .")
    assert bench.feed(q) == [ins(1, "1"), ins(4, "2")]


def test_filter_with_a_disjunction_does_not_double_rows(bench: Bench) -> None:
    # FDecompII: a row that satisfies both disjuncts is there once; an error in one does not hide the other
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?a :p ?x OPTIONAL { ?a :q ?y } FILTER(?y > 3 || ?x > 3) } }"
    )
    bench.push(s, 1, ":a :p 5 ; :q 5 . :b :p 5 . :c :p 1 ; :q 9 . :d :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(10, "a", "b", "c")]


def test_duplicate_solutions_survive_istream_and_dstream(bench: Bench) -> None:
    s = bench.stream()
    text = f"SELECT ?o WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?s :p ?o }} }}"
    came, went = bench.register(text), bench.register(text, output="dstream")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.push(s, 2, ":c :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(came) == [ins(1, "1", "1"), ins(2, "1")]
    assert bench.feed(went) == [dele(4, "1", "1"), dele(5, "1")]


def test_a_window_gap_loses_nothing(bench: Bench) -> None:
    # windows of 10 every 25 leave gaps between them; what lies in a window is reported whole
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10 STEP 25] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}"
    )
    for at in (0, 9, 10, 24, 25, 34, 35, 60):
        bench.push(s, at, f":e{at} :p 1 .")
    assert bench.feed(q) == [ans(10, "e0", "e9"), ans(35, "e25", "e34"), ans(60)]
    q2_events = bench.events(q)
    assert [event.data["window"] for event in q2_events][1] == {"open": 25, "close": 35}


def test_triples_n_evicts(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [TRIPLES 1] {{ ?s :p ?o }} }}", output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    assert bench.feed(q) == [ins(1, "a"), dele(2, "a"), ins(2, "b")]


def test_range_1h_parses(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}", output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 3_600_001)
    assert bench.feed(q) == [ins(1, "a")]
    bench.beat(s, 3_600_002)
    assert bench.feed(q) == [ins(1, "a"), dele(3_600_002, "a")]


def test_count_without_group_by_over_an_empty_window_is_zero(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s "
        f":p ?o }} }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(10, "1"), ans(20, "0")]


def test_two_windows_with_no_shared_variable_give_the_product(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"SELECT ?a ?b WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?a :p ?x }} STREAM <{z}> [RANGE 1h] {{ "
        f"?b :p ?y }} }}"
    )
    bench.push(s, 1, ":a1 :p 1 . :a2 :p 1 .")
    bench.push(z, 1, ":b1 :p 1 . :b2 :p 1 .")
    assert bench.feed(q) == [ins(1, "a1 b1", "a1 b2", "a2 b1", "a2 b2")]


def test_n_of_mean_and_variance_takes_the_variance(bench: Bench) -> None:
    # N(0, 4) has the standard deviation 2: P(X < 2) = Φ(1) = 0.8413, not Φ(0.5) = 0.6915
    s = bench.stream()
    answer = bench.try_register(
        "PREFIX rspu: <http://w3id.org/rsp/rspu#> "
        f"SELECT (rspu:lessThan(?d, 2) AS ?p) WHERE {{ STREAM <{s}> [NOW] {{ ?s :d ?d }} }}"
    )
    if answer.status_code == 501:
        pytest.xfail("the functions on uncertain values are not there yet; refused by name")
    assert answer.status_code == 201, answer.text
    bench.push(s, 1, ':a :d "N(0,4)"^^<http://w3id.org/rsp/rspu#distribution> .')
    (row,) = bench.now(answer.json()["name"])
    assert float(row) == pytest.approx(0.8413, abs=1e-3)
