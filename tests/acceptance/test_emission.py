"""Section 4: when a query is evaluated and what it emits."""

from __future__ import annotations

import pytest

from .bench import Bench, Sse, ans, dele, ins, rows_of

ROWS = "SELECT ?s ?o WHERE { STREAM <%s> %s { ?s :p ?o } }"


def test_profiles_and_default_outputs(bench: Bench) -> None:
    s = bench.stream()
    for dialect, text, output, report in [
        ("cqels", ROWS % (s, "[NOW]"), "istream", "on-content-change"),
        (
            "rspql",
            f"SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}",
            "rstream",
            "on-window-close",
        ),
        (
            "csparql",
            f"SELECT ?s FROM STREAM <{s}> [RANGE 10ms STEP 5ms] WHERE {{ ?s :p ?o }}",
            "rstream",
            None,
        ),
    ]:
        q = bench.register(text, dialect=dialect)
        found = bench.describe(q)
        assert found["profile"] == dialect
        assert found["output"] == output
        if report is not None:
            assert found["report"] == report


def test_a_fact_seen_again_by_now_at_a_later_instant_is_new_again(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[NOW]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 5, ":a :p 1 .")
    assert bench.feed(q) == [ins(1, "a 1"), ins(5, "a 1")]


def test_at_the_next_millisecond_a_fact_seen_by_now_is_not_new(bench: Bench) -> None:
    # Γ(2) − Γ(1) over discrete instants of 1 ms: the row is in both
    s = bench.stream()
    q = bench.register(ROWS % (s, "[NOW]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":a :p 1 .")
    assert bench.feed(q) == [ins(1, "a 1")]


def test_a_row_that_leaves_a_range_window_and_returns_later_is_new_again(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 2 ms]"))
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 5, ":a :p 1 .")
    assert bench.feed(q) == [ins(1, "a 1"), ins(5, "a 1")]


def test_a_row_that_leaves_and_returns_within_an_instant_is_not_new(bench: Bench) -> None:
    # the element of 1 leaves at 4, where another carries the same triple
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 2 ms]"), output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 4, ":a :p 1 .")
    assert bench.feed(q) == [ins(1, "a 1")]


def test_count_over_a_window_that_empties_goes_to_zero_at_that_instant(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.beat(s, 100)
    assert bench.feed(q) == [ins(1, "2"), ins(4, "0")]


def test_the_first_instant_of_a_count_is_the_first_heartbeat(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?s :p ?o }} }}")
    assert bench.feed(q) == []
    bench.beat(s, 7)
    assert bench.feed(q) == [ins(7, "0")]


def test_istream_and_dstream_are_multiset_differences(bench: Bench) -> None:
    # the projection makes equal rows: two become three, then one
    s = bench.stream()
    text = f"SELECT ?o WHERE {{ STREAM <{s}> [RANGE 10 ms SLIDE 10 ms] {{ ?s :p ?o }} }}"
    came = bench.register(text)
    went = bench.register(text, output="dstream")
    full = bench.register(text, output="rstream")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.push(s, 11, ":a :p 1 . :b :p 1 . :c :p 1 .")
    bench.push(s, 21, ":a :p 1 .")
    bench.beat(s, 30)
    assert bench.feed(came) == [ins(10, "1", "1"), ins(20, "1")]
    assert bench.feed(went) == [dele(30, "1", "1")]
    # the first instant, here an empty one, is an evaluation as well
    assert bench.feed(full) == [ans(1), ans(10, "1", "1"), ans(20, "1", "1", "1"), ans(30, "1")]


def test_changes_give_deletes_then_inserts(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 10 ms SLIDE 10 ms]"), output="changes")
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    bench.push(s, 11, ":b :p 1 . :c :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ins(10, "a 1", "b 1"), dele(20, "a 1"), ins(20, "c 1")]


def test_one_event_carries_all_rows_of_one_evaluation_and_sign(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[NOW]"))
    bench.push(s, 1, ":a :p 1, 2, 3 . :b :p 4 .")
    assert bench.feed(q) == [ins(1, "a 1", "a 2", "a 3", "b 4")]


def test_a_push_with_several_event_times_is_that_many_transactions_in_time_order(bench: Bench) -> None:
    s = bench.stream(lateness="10ms")
    q = bench.register(ROWS % (s, "[NOW]"))
    answer = bench.push_lines(s, (3, ":c :p 3"), (1, ":a :p 1"), (3, ":d :p 4"), (2, ":b :p 2"))
    assert answer["accepted"] == 4
    bench.beat(s, 20)
    assert bench.feed(q) == [ins(1, "a 1"), ins(2, "b 2"), ins(3, "c 3", "d 4")]


def test_elements_of_one_push_are_accepted_atomically_before_they_move_the_watermark(bench: Bench) -> None:
    # the push goes back in time within itself: n transactions in time order, none of them late
    s = bench.stream()
    q = bench.register(ROWS % (s, "[NOW]"))
    answer = bench.push_lines(s, (3, ":c :p 3"), (1, ":a :p 1"))
    assert answer["late"] == 0
    assert bench.feed(q) == [ins(1, "a 1"), ins(3, "c 3")]


def test_elements_of_one_push_with_one_time_are_one_transaction(bench: Bench) -> None:
    # a count goes from nothing to 2, never through 1
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}", output="changes"
    )
    bench.push_lines(s, (1, ":a :p 1"), (1, ":b :p 1"))
    assert bench.feed(q) == [ins(1, "2")]


def test_a_later_transaction_of_one_instant_is_compared_with_the_answer_after_the_earlier(
    bench: Bench,
) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}", output="changes"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 1, ":b :p 1 .")
    assert bench.feed(q) == [ins(1, "1"), dele(1, "1"), ins(1, "2")]


def test_a_commit_is_an_input_at_the_current_instant(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s ?l WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?s :p ?o }} ?s :label ?l }}")
    bench.push(s, 5, ":a :p 1 .")
    bench.beat(s, 7)
    version = bench.update("INSERT DATA { :a :label 1 }")
    bench.settle()
    assert bench.feed(q) == [ins(7, "a 1")]
    assert bench.events(q)[0].data["version"] == version


def test_elements_of_the_instant_are_still_in_now_when_a_commit_comes(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?l WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} ?s :label ?l }}", output="changes"
    )
    bench.push(s, 5, ":a :p 1 .")
    bench.update("INSERT DATA { :a :label 1 }")
    bench.update("INSERT DATA { :a :label 2 }")
    bench.update("DELETE DATA { :a :label 1 }")
    bench.settle()
    assert bench.feed(q) == [ins(5, "a 1"), ins(5, "a 2"), dele(5, "a 1")]


def test_one_commit_with_deletes_and_inserts_is_one_transaction(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :a :label 1 }")
    q = bench.register(
        f"SELECT ?s ?l WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} ?s :label ?l }}", output="changes"
    )
    bench.push(s, 5, ":a :p 1 .")
    bench.update("DELETE { ?s :label ?l } INSERT { ?s :label 2 } WHERE { ?s :label ?l }")
    bench.settle()
    assert bench.feed(q) == [ins(5, "a 1"), dele(5, "a 1"), ins(5, "a 2")]


def test_other_queries_read_the_new_version_at_their_next_evaluation(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?l FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} "
        f"?s :label ?l }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    first = bench.update("INSERT DATA { :a :label 1 }")
    bench.settle()
    assert bench.feed(q) == []
    bench.push(s, 11, ":a :p 1 .")
    second = bench.update("INSERT DATA { :a :label 2 }")
    bench.settle()
    assert bench.feed(q) == [ans(10, "a 1")]
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(10, "a 1"), ans(20, "a 1", "a 2")]
    assert [event.data["version"] for event in bench.events(q)] == [first, second]


def test_a_commit_that_cannot_touch_the_static_part_emits_nothing(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s ?l WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?s :p ?o }} ?s :label ?l }}")
    bench.push(s, 5, ":a :p 1 .")
    bench.update("INSERT DATA { :a :other 1 }")
    bench.settle()
    assert bench.feed(q) == []


def test_a_query_without_windows_answers_at_registration_and_changes_at_each_commit(bench: Bench) -> None:
    bench.update("INSERT DATA { :a :p 1 }")
    q = bench.register("SELECT ?s ?o WHERE { ?s :p ?o }", dialect="cqels", output="changes")
    bench.update("INSERT DATA { :b :p 2 }")
    bench.update("DELETE DATA { :a :p 1 }")
    bench.settle()
    found = bench.events(q)
    assert [(event.kind, rows_of(event.data)) for event in found] == [
        ("insert", ["a 1"]),
        ("insert", ["b 2"]),
        ("delete", ["a 1"]),
    ]
    versions = [event.data["version"] for event in found]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]


@pytest.mark.parametrize("dialect", ["cqels", "rspql", "csparql", "sparql"])
def test_a_query_without_windows_is_legal_in_every_dialect(bench: Bench, dialect: str) -> None:
    bench.update("INSERT DATA { :a :p 1 }")
    q = bench.register("SELECT ?s WHERE { ?s :p ?o }", dialect=dialect)
    bench.settle()
    assert bench.now(q) == ["a"]


def test_a_row_of_an_aggregation_changes_like_any_other(bench: Bench) -> None:
    s = bench.stream()
    text = f"SELECT ?o (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} GROUP BY ?o"
    q = bench.register(text)
    both = bench.register(text, output="changes")
    bench.push(s, 1, ":a :p :x . :b :p :y .")
    bench.push(s, 2, ":c :p :x .")
    assert bench.feed(q) == [ins(1, "x 1", "y 1"), ins(2, "x 2")]
    assert bench.feed(both) == [ins(1, "x 1", "y 1"), dele(2, "x 1"), ins(2, "x 2")]


def test_a_row_of_order_by_limit_changes_like_any_other(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?o WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} ORDER BY DESC(?o) LIMIT 2",
        output="changes",
    )
    bench.push(s, 1, ":a :p 1 . :b :p 2 .")
    bench.push(s, 2, ":c :p 3 .")
    bench.push(s, 3, ":d :p 0 .")
    assert bench.feed(q) == [ins(1, "a 1", "b 2"), dele(2, "a 1"), ins(2, "c 3")]


def test_bindings_keep_order_by(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?o FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} }} "
        "ORDER BY DESC(?o)"
    )
    bench.push(s, 1, ":a :p 1 . :c :p 3 . :b :p 2 . :b2 :p 2 .")
    bench.beat(s, 10)
    # ties by the remaining columns in term order
    assert rows_of(bench.events(q)[0].data) == ["c 3", "b 2", "b2 2", "a 1"]


def test_construct_instantiates_the_rows_emitted(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"CONSTRUCT {{ ?s :was ?o }} WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p :x . :b :p :y .")
    bench.push(s, 2, ":b :p :y . :c :p :z .")
    assert bench.feed(q) == [ins(1, "a was x", "b was y"), ins(2, "c was z")]
    data = bench.events(q)[0].data
    assert set(data) >= {"at", "version", "quads"}
    assert "<http://e/a> <http://e/was> <http://e/x> .\n" in data["quads"] + "\n"


def test_construct_under_changes_deletes_a_triple_when_no_solution_yields_it_any_more(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"CONSTRUCT {{ :all :have ?o }} WHERE {{ STREAM <{s}> [RANGE 2 ms] {{ ?s :p ?o }} }}",
        output="changes",
    )
    bench.push(s, 1, ":a :p :x .")
    bench.push(s, 2, ":b :p :x .")
    bench.beat(s, 100)
    assert bench.feed(q) == [ins(1, "all have x"), dele(5, "all have x")]


@pytest.mark.parametrize("output", ["changes", "dstream"])
def test_construct_with_blank_nodes_is_refused_under_changes_and_dstream(bench: Bench, output: str) -> None:
    text = "CONSTRUCT { ?s :was [ :x ?o ] } WHERE { STREAM <http://e/zz> [NOW] { ?s :p ?o } }"
    assert "blank" in bench.refused(501, text, output=output)["detail"].lower()


def test_construct_with_blank_nodes_makes_fresh_ones_for_each_solution(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"CONSTRUCT {{ _:b :of ?s ; :o ?o }} WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p :x . :b :p :y .")
    (event,) = bench.events(q)
    lines = event.data["quads"].split("\n")
    subjects = {line.split()[0] for line in lines if line}
    assert len([line for line in lines if line]) == 4
    assert len(subjects) == 2 and all(subject.startswith("_:") for subject in subjects)


def test_ask_emits_at_the_first_evaluation_and_whenever_the_boolean_changes(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"ASK {{ STREAM <{s}> [RANGE 2 ms] {{ ?s :p ?o }} }}")
    bench.beat(s, 1)
    bench.push(s, 5, ":a :p 1 .")
    bench.push(s, 6, ":b :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(1, "false"), ans(5, "true"), ans(9, "false")]
    data = bench.events(q)[0].data
    assert data["boolean"] is False


def test_ask_on_a_grid_emits_changes_only(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"ASK FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 11, ":a :p 1 .")
    bench.beat(s, 40)
    assert bench.feed(q) == [ans(10, "true"), ans(30, "false")]


def test_construct_output_forms_a_stream_with_the_time_of_its_instant(bench: Bench) -> None:
    s = bench.stream()
    bench.register(
        f"REGISTER STREAM :derived AS CONSTRUCT {{ ?s :seen ?o }} FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }",
        output="rstream",
    )
    reader = bench.register(
        "SELECT ?s ?o WHERE { STREAM :derived [RANGE 5 ms] { ?s :seen ?o } }", output="changes"
    )
    bench.push(s, 1, ":a :p :x . :b :p :y .")
    bench.beat(s, 10)
    bench.settle()
    assert bench.feed(reader) == [ins(10, "a x", "b y")]
    # one element per evaluation; its watermark follows the query's
    bench.beat(s, 20)
    bench.settle()
    assert bench.feed(reader) == [ins(10, "a x", "b y"), dele(16, "a x", "b y")]
    assert bench.describe_stream("http://e/derived")["watermark"] == 20


def test_a_derived_stream_may_be_named_by_the_registration(bench: Bench) -> None:
    s = bench.stream()
    bench.register(
        f"CONSTRUCT {{ ?s :seen ?o }} WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}",
        result_iri="http://e/named",
    )
    reader = bench.register("SELECT ?s WHERE { STREAM :named [NOW] { ?s :seen ?o } }")
    bench.push(s, 1, ":a :p :x .")
    bench.settle()
    assert bench.feed(reader) == [ins(1, "a")]


def test_cycles_of_derived_streams_are_refused_at_registration(bench: Bench) -> None:
    bench.refused(
        400, "REGISTER STREAM :loop AS CONSTRUCT { ?s :x ?o } FROM NAMED WINDOW :w ON :loop [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }",
    )  # fmt: skip


def test_a_cycle_through_two_queries_is_refused(bench: Bench) -> None:
    text = (
        "REGISTER STREAM :%s AS CONSTRUCT { ?s :x ?o } FROM NAMED WINDOW :w ON :%s [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }"
    )
    bench.register(text % ("one", "two"))
    bench.refused(400, text % ("two", "one"))


def test_register_stream_as_select_makes_a_feed_which_no_window_may_read(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"REGISTER STREAM :solutions AS SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(10, "a")]
    found = bench.refused(400, "SELECT ?s WHERE { STREAM :solutions [NOW] { ?s :p ?o } }")
    assert "CONSTRUCT" in found["detail"] + found.get("hint", "")


def test_events_say_at_version_head_and_bindings(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[NOW]"))
    bench.push(s, 1, ':a :p "x"@en .')
    with Sse(bench.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
        event = feed.one()
    assert event.data == {
        "at": 1,
        "version": bench.update("INSERT DATA { :x :y :z }") - 1,
        "head": {"vars": ["s", "o"]},
        "results": {
            "bindings": [
                {
                    "s": {"type": "uri", "value": "http://e/a"},
                    "o": {"type": "literal", "value": "x", "xml:lang": "en"},
                }
            ]
        },
    }


def test_a_registration_may_override_report(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 10 ms SLIDE 5 ms]"), report="on-window-close", output="rstream")
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 20)
    assert bench.feed(q) == [ans(5, "a 1"), ans(10, "a 1"), ans(15), ans(20)]


def test_a_cqels_query_may_report_every_second(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 1500 ms]"), report={"periodic": "1s"}, output="rstream")
    bench.push(s, 400, ":a :p 1 .")
    bench.push(s, 1900, ":b :p 1 .")
    bench.beat(s, 3000)
    assert bench.feed(q) == [ans(1000, "a 1"), ans(2000, "b 1"), ans(3000, "b 1")]


def test_windows_of_two_kinds_in_one_rspql_like_query(bench: Bench) -> None:
    # rstream of on-content-change: one answer per instant at which a window's content changes
    s = bench.stream()
    q = bench.register(ROWS % (s, "[RANGE 2 ms]"), output="rstream")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(1, "a 1"), ans(2, "a 1", "b 1"), ans(4, "b 1"), ans(5)]
