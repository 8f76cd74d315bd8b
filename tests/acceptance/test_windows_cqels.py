"""Section 3 of the semantics, windows of CQELS-QL: what is in them at each instant."""

from __future__ import annotations

from .bench import Bench, dele, ins

SP = "SELECT ?s WHERE { STREAM <%s> %s { ?s :p ?o } }"


def test_now_holds_the_elements_of_the_instant_only(bench: Bench) -> None:
    # event_time  1   2   3   4
    # element     a       b
    # NOW         a   -   b   -
    s = bench.stream()
    q = bench.register(SP % (s, "[NOW]"), output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 3, ":b :p 1 .")
    bench.beat(s, 4)
    assert bench.feed(q) == [ins(1, "a"), dele(2, "a"), ins(3, "b"), dele(4, "b")]


def test_range_holds_from_t_minus_w_to_t_both_included(bench: Bench) -> None:
    # RANGE 2 ms: an element of 0 is in at 0, 1, 2 and leaves at event_time + w + 1 = 3
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 2 ms]"), output="changes")
    bench.push(s, 0, ":a :p 1 .")
    bench.beat(s, 2)
    assert bench.feed(q) == [ins(0, "a")]
    bench.beat(s, 3)
    assert bench.feed(q) == [ins(0, "a"), dele(3, "a")]


def test_range_with_open_closed_bounds_loses_the_oldest_millisecond(bench: Bench) -> None:
    # t-2 < event_time: an element of 0 is in at 0 and 1, and gone at 2
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 2 ms]"), output="changes", bounds="open-closed")
    bench.push(s, 0, ":a :p 1 .")
    bench.beat(s, 2)
    assert bench.feed(q) == [ins(0, "a"), dele(2, "a")]


def test_expiries_between_two_inputs_are_worked_off_in_order_each_with_its_own_at(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 5 ms]"), output="changes")
    bench.push(s, 0, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    bench.push(s, 100, ":c :p 1 .")
    assert bench.feed(q) == [ins(0, "a"), ins(2, "b"), dele(6, "a"), dele(8, "b"), ins(100, "c")]


def test_range_slide_gives_the_last_window_closed_on_the_grid(bench: Bench) -> None:
    # grid of 5, width 10, aligned to the epoch: the first window whose end lies after 12 is [5, 15)
    # element  a@12   b@15   c@24 (inside [15, 25))
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 10 ms SLIDE 5 ms]"), output="changes")
    bench.push(s, 12, ":a :p 1 .")
    assert bench.feed(q) == []
    bench.push(s, 15, ":b :p 1 .")
    # an element at exactly the end closes the window and is not in it
    assert bench.feed(q) == [ins(15, "a")]
    bench.push(s, 24, ":c :p 1 .")
    assert bench.feed(q) == [ins(15, "a"), ins(20, "b")]
    bench.beat(s, 40)
    assert bench.feed(q) == [
        ins(15, "a"),
        ins(20, "b"),
        dele(25, "a"),
        ins(25, "c"),
        dele(30, "b"),
        dele(35, "c"),
    ]


def test_range_slide_of_cqels_emits_istream_by_default(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 10 ms SLIDE 5 ms]"))
    bench.push(s, 12, ":a :p 1 .")
    bench.push(s, 15, ":b :p 1 .")
    bench.beat(s, 60)
    assert bench.feed(q) == [ins(15, "a"), ins(20, "b")]


def test_triples_n_holds_the_newest_n_of_the_stream_counted_before_any_pattern(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[TRIPLES 2]"), output="changes")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    # a triple that matches no pattern takes a place all the same: a is evicted
    bench.push(s, 3, ":x :other 1 .")
    bench.push(s, 4, ":y :other 1 .")
    assert bench.feed(q) == [ins(1, "a"), ins(2, "b"), dele(3, "a"), dele(4, "b")]


def test_triples_n_counts_occurrences_and_holds_their_set(bench: Bench) -> None:
    # TRIPLES 2:  a -> {a};  a a -> {a};  a b -> {a, b};  b b -> {b}
    s = bench.stream()
    q = bench.register(SP % (s, "[TRIPLES 2]"), output="changes")
    for at, name in enumerate("aabb", start=1):
        bench.push(s, at, f":{name} :p 1 .")
    assert bench.feed(q) == [ins(1, "a"), ins(3, "b"), dele(4, "a")]


def test_triples_of_one_element_are_ordered_as_serialised(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[TRIPLES 2]"))
    bench.send(
        s,
        "".join(f'<http://e/{name}> <http://e/p> "1" .\n' for name in "zyxab"),
        "application/n-triples",
        at=1,
    )
    assert bench.feed(q) == [ins(1, "a", "b")]
    bench.push(s, 2, ":c :p 1 . :d :p 1 .")
    assert sorted(bench.now(q)) == ["c", "d"]


def test_triples_needs_at_least_one(bench: Bench) -> None:
    bench.refused(400, SP % ("http://e/s0", "[TRIPLES 0]"))


def test_all_holds_everything_since_registration(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 1, ":before :p 1 .")
    q = bench.register(SP % (s, "[ALL]"), output="changes")
    bench.push(s, 2, ":a :p 1 .")
    bench.push(s, 50_000_000, ":b :p 1 .")
    bench.beat(s, 80_000_000)
    assert bench.feed(q) == [ins(2, "a"), ins(50_000_000, "b")]
    assert bench.now(q) == ["a", "b"]


def test_explain_warns_that_the_state_of_all_is_unbounded(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[ALL]"))
    text = bench.client.get(f"/queries/{q}/explain").text
    assert "unbounded" in text.lower()


def test_the_window_may_stand_before_the_stream(bench: Bench) -> None:
    # `STREAM [w] <s>` as the EBNF of 2011 has it
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM [NOW] <{s}> {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    assert bench.feed(q) == [ins(1, "a")]


def test_from_named_stream_window_as_variable_of_the_report(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s FROM NAMED <{s}> [RANGE 2 ms] AS ?v WHERE {{ GRAPH ?v {{ ?s :p ?o }} }}",
        output="changes",
        dialect="cqels",
    )
    bench.push(s, 0, ":a :p 1 .")
    bench.beat(s, 3)
    assert bench.feed(q) == [ins(0, "a"), dele(3, "a")]


def test_the_stream_may_be_a_variable_bound_by_static_data(bench: Bench) -> None:
    s, other = bench.stream(), bench.stream()
    bench.update(f"INSERT DATA {{ :sensor :stream <{s}> }}")
    q = bench.register("SELECT ?s WHERE { :sensor :stream ?st . STREAM ?st [NOW] { ?s :p ?o } }")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(other, 1, ":b :p 1 .")
    assert bench.feed(q) == [ins(1, "a")]


def test_every_window_of_a_new_query_holds_only_elements_accepted_after_registration(bench: Bench) -> None:
    s = bench.stream()
    old = bench.register(SP % (s, "[RANGE 1h]"))
    bench.push(s, 1, ":a :p 1 .")
    new = bench.register(SP % (s, "[RANGE 1h]"))
    bench.push(s, 2, ":b :p 1 .")
    assert bench.now(old) == ["a", "b"]
    assert bench.now(new) == ["b"]
    assert bench.feed(new) == [ins(2, "b")]


def test_start_from_replays_retained_elements_first(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 2, ":b :p 1 .")
    bench.push(s, 3, ":c :p 1 .")
    q = bench.register(SP % (s, "[RANGE 10 ms]"), start={"from": 2})
    bench.push(s, 4, ":d :p 1 .")
    assert bench.feed(q) == [ins(2, "b"), ins(3, "c"), ins(4, "d")]


def test_a_new_query_inherits_the_watermark_of_its_streams(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 100, ":a :p 1 .")
    bench.register(SP % (s, "[RANGE 1h]"))
    answer = bench.push(s, 50, ":late :p 1 .")
    assert answer["late"] == 1


def test_a_triple_carried_by_two_live_elements_leaves_with_the_last_of_them(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 2 ms]"), output="changes")
    bench.push(s, 0, ":a :p 1 .")
    bench.push(s, 2, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ins(0, "a"), dele(5, "a")]


def test_several_windows_are_taken_at_the_same_instant(bench: Bench) -> None:
    # each gives its latest closed content (grid) or its current content
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a ?b WHERE {{ STREAM <{s}> [NOW] {{ ?a :p ?x }} "
        f"STREAM <{s}> [RANGE 10 ms SLIDE 10 ms] {{ ?b :p ?y }} }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, 12, ":b :p 1 .")
    bench.push(s, 13, ":c :p 1 .")
    assert bench.feed(q) == [ins(12, "b a"), ins(13, "c a")]


def test_durations_of_every_spelling(bench: Bench) -> None:
    s = bench.stream()
    for text, ms in [
        ("1h", 3_600_000),
        ("1m30s", 90_000),
        ("500ms", 500),
        ("2d", 172_800_000),
        ("1000000 ns", 1),
        ("30 seconds", 30_000),
        ("30 minutes", 1_800_000),
        ("PT10S", 10_000),
        ("250", 250),
        ("range 5 s", None),
    ]:
        window = f"[{text}]" if text.startswith("range") else f"[RANGE {text}]"
        q = bench.register(SP % (s, window), output="changes")
        start = bench.describe_stream(s)["watermark"] or 0
        bench.push(s, start, ":a :p 1 .")
        width = ms or 5_000
        bench.beat(s, start + width + 1)
        assert bench.feed(q) == [ins(start, "a"), dele(start + width + 1, "a")], text
        bench.drop(q)


def test_a_duration_below_a_millisecond_is_rounded_up_with_a_warning(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[RANGE 1500000ns]"), output="changes")
    assert any("round" in warning.lower() for warning in map(str, bench.describe(q)["warnings"]))
    bench.push(s, 0, ":a :p 1 .")
    bench.beat(s, 3)
    assert bench.feed(q) == [ins(0, "a"), dele(3, "a")]


def test_keywords_ignore_case(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"select ?s where {{ stream <{s}> [range 2 ms slide 2 MS] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 2)
    assert bench.feed(q) == [ins(2, "a")]


def test_a_window_inside_a_window_is_an_error(bench: Bench) -> None:
    bench.refused(400, "SELECT ?s WHERE { STREAM <a> [NOW] { ?s :p ?o . STREAM <b> [NOW] { ?s :q ?z } } }")


def test_lateness_in_the_brackets_delays_results(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(SP % (s, "[NOW LATENESS 10 ms]"))
    bench.push(s, 100, ":a :p 1 .")
    assert bench.feed(q) == []
    bench.push(s, 95, ":b :p 1 .")
    bench.push(s, 110, ":c :p 1 .")
    assert bench.feed(q) == [ins(95, "b"), ins(100, "a")]
