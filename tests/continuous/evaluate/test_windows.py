"""Windows, graphs inside them, and the background: each sees only its own data."""

from __future__ import annotations

import pytest
from pyoxigraph import Literal, Quad

from quadrill.store.errors import QueryTextError, UnsupportedError
from tests.continuous.whole_contents import recomputed

from .helpers import answer, background, content, evaluator, iri, rows, table

TWO_GRAPHS = ":e1 { :a :v 1 . :a :w 2 } :e2 { :b :v 3 . :a :w 4 } :c :v 5 ."


def test_a_window_joins_the_background() -> None:
    found = answer(
        "SELECT ?p ?n { STREAM :s [NOW] { ?p :at ?l } ?p :name ?n }",
        ":a :at :l1 . :b :at :l2 . :z :at :l1 .",
        data=':a :name "A" . :b :name "B" .',
    )
    assert table(found) == rows("a A", "b B")


def test_background_triples_are_not_seen_inside_a_window() -> None:
    found = answer("SELECT ?p { STREAM :s [NOW] { ?p :at ?l } }", ":a :at :l1 .", data=":b :at :l2 .")
    assert table(found) == rows("a")


def test_window_triples_are_not_seen_outside() -> None:
    text = "SELECT ?p ?q ?g { STREAM :s [NOW] { ?p :at ?l } GRAPH ?g { ?q :at ?m } }"
    assert table(answer(text, ":a :at :l1 .", data="")) == rows()
    assert table(answer(text, ":e { :a :at :l1 }", data=":g { :q :at :m }")) == rows("a q g")


def test_patterns_outside_graph_match_the_union_of_the_elements_graphs() -> None:
    text = "SELECT ?x ?v { STREAM :s [NOW] { ?x :v ?v } }"
    assert table(answer(text, TWO_GRAPHS)) == rows("a 1", "b 3", "c 5")


def test_the_default_graph_option_leaves_named_graphs_out() -> None:
    text = "SELECT ?x ?v { STREAM :s [NOW] { ?x :v ?v } }"
    assert table(answer(text, TWO_GRAPHS, window_default_graph="default")) == rows("c 5")


def test_graph_in_a_window_ranges_over_the_elements_graphs_and_binds_their_names() -> None:
    text = "SELECT ?g ?x ?v { STREAM :s [NOW] { GRAPH ?g { ?x :v ?v } } }"
    assert table(answer(text, TWO_GRAPHS, data=":e1 { :z :v 9 }")) == rows("e1 a 1", "e2 b 3")


def test_graph_by_name_in_a_window_reads_that_graph_only() -> None:
    text = "SELECT ?x ?w { STREAM :s [NOW] { GRAPH :e1 { ?x :w ?w } } }"
    assert table(answer(text, TWO_GRAPHS)) == rows("a 2")
    assert table(answer("SELECT ?x { STREAM :s [NOW] { GRAPH :e9 { } } }", TWO_GRAPHS)) == rows()


def test_a_triple_in_two_graphs_is_one_in_the_union_and_two_by_graph() -> None:
    twice = ":e1 { :a :v 1 } :e2 { :a :v 1 }"
    assert table(answer("SELECT ?x { STREAM :s [NOW] { ?x :v 1 } }", twice)) == rows("a")
    by_graph = answer("SELECT ?x ?g { STREAM :s [NOW] { GRAPH ?g { ?x :v 1 } } }", twice)
    assert table(by_graph) == rows("a e1", "a e2")


def test_the_graph_name_joins_what_is_said_about_it() -> None:
    text = "SELECT ?x ?t { STREAM :s [NOW] { ?g :time ?t GRAPH ?g { ?x :v ?v } } }"
    assert table(answer(text, TWO_GRAPHS + " :e2 :time 7 .")) == rows("b 7")


def test_graphs_that_are_blank_nodes_are_ranged_over() -> None:
    found = answer(
        "SELECT ?x { STREAM :s [NOW] { GRAPH ?g { ?x :v 1 } ?g :at :l } }",
        "_:g { :a :v 1 } _:g :at :l .",
    )
    assert table(found) == rows("a")


def test_a_sub_query_in_graph_counts_each_graph_for_itself() -> None:
    text = "SELECT ?g ?n { STREAM :s [NOW] { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?x ?p ?o } } } }"
    assert table(answer(text, TWO_GRAPHS)) == rows("e1 2", "e2 2")


def test_inline_data_in_graph_is_repeated_for_each_graph() -> None:
    text = "SELECT ?g ?n { STREAM :s [NOW] { GRAPH ?g { VALUES ?n { 1 2 } } } }"
    assert table(answer(text, TWO_GRAPHS)) == rows("e1 1", "e1 2", "e2 1", "e2 2")


def test_graph_texts_follow_the_graphs_that_come_and_go() -> None:
    with background() as store:
        engine, query = evaluator(
            "SELECT ?g ?n { STREAM :s [NOW] { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?x ?p ?o } } } }", store
        )
        window = query.windows[0].name
        assert table(recomputed(engine, 0, {window: content(":e1 { :a :v 1 }")})) == rows("e1 1")
        assert table(recomputed(engine, 1, {window: content(":e2 { :a :v 1 . :b :v 2 }")})) == rows("e2 2")
        assert table(recomputed(engine, 2, {window: {}})) == rows()


def test_two_windows_without_a_common_variable_give_the_product() -> None:
    text = "SELECT ?x ?y { STREAM :s [NOW] { ?x :v ?a } STREAM :t [RANGE 5s] { ?y :w ?b } }"
    assert table(answer(text, ":a :v 1 . :b :v 1 .", ":c :w 1 . :d :w 2 .")) == rows(
        "a c", "a d", "b c", "b d"
    )


def test_two_windows_join_through_a_static_part() -> None:
    text = "SELECT ?p ?q { STREAM :s [NOW] { ?p :at ?l } STREAM :s [RANGE 3s] { ?q :at ?m } ?l :conn ?m }"
    found = answer(
        text, ":a :at :l1 .", ":a :at :l1 . :b :at :l2 . :c :at :l3 .", data=":l1 :conn :l2 , :l3 ."
    )
    assert table(found) == rows("a b", "a c")


def test_a_window_variable_ranges_over_the_declared_windows_and_is_bound() -> None:
    text = (
        "REGISTER STREAM :o AS SELECT ?w ?x FROM NAMED WINDOW :w1 ON :s [RANGE PT1S STEP PT1S] "
        "FROM NAMED WINDOW :w2 ON :t [RANGE PT1S STEP PT1S] WHERE { WINDOW ?w { ?x :v ?v } }"
    )
    assert table(answer(text, ":a :v 1 .", ":b :v 2 .")) == rows("w1 a", "w2 b")


def test_a_window_variable_joins_what_is_bound_elsewhere() -> None:
    text = (
        "REGISTER STREAM :o AS SELECT ?x FROM NAMED WINDOW :w1 ON :s [RANGE PT1S STEP PT1S] "
        "FROM NAMED WINDOW :w2 ON :t [RANGE PT1S STEP PT1S] WHERE { ?w :use true WINDOW ?w { ?x :v ?v } }"
    )
    assert table(answer(text, ":a :v 1 .", ":b :v 2 .", data=":w2 :use true .")) == rows("b")


def test_a_variable_stream_is_bound_and_joins_static_data() -> None:
    with background(":s1 :of :room1 . :s2 :of :room2 .") as store:
        engine, query = evaluator("SELECT ?s ?r ?v { ?s :of ?r STREAM ?s [NOW] { ?x :v ?v } }", store)
        window = query.windows[0].name
        assert engine.streams_of(window.value) == [iri("s1").value, iri("s2").value]
        contents = {window: {iri("s1"): content(":a :v 1 ."), iri("s3"): content(":a :v 3 .")}}
        assert table(recomputed(engine, 0, contents)) == rows("s1 room1 1")
        contents = {window: {iri("s2"): content(":a :v 2 .")}}
        assert table(recomputed(engine, 1, contents)) == rows("s2 room2 2")


def test_an_empty_window_gives_no_rows_and_a_count_of_zero() -> None:
    assert table(answer("SELECT ?x { STREAM :s [NOW] { ?x :v ?v } }", "")) == rows()
    assert table(answer("SELECT (COUNT(?x) AS ?n) { STREAM :s [NOW] { ?x :v ?v } }", "")) == rows("0")


def test_a_window_that_is_not_given_is_empty() -> None:
    with background() as store:
        engine, query = evaluator("SELECT ?x { STREAM :s [NOW] { ?x :v ?v } }", store)
        assert table(recomputed(engine, 0, {query.windows[0].name: content(":a :v 1 .")})) == rows("a")
        assert table(recomputed(engine, 1, {})) == rows()


def test_contents_that_the_caller_changes_afterwards_do_no_harm() -> None:
    with background() as store:
        engine, query = evaluator("SELECT ?x { STREAM :s [NOW] { ?x :v ?v } }", store)
        window, changing = query.windows[0].name, content(":a :v 1 .")
        recomputed(engine, 0, {window: changing})
        changing[Quad(iri("b"), iri("v"), Literal("x"))] = 1
        assert table(recomputed(engine, 1, {window: changing})) == rows("a", "b")
        changing.clear()
        assert table(recomputed(engine, 2, {window: changing})) == rows()


def test_not_exists_over_a_window_lets_a_row_appear_when_something_leaves() -> None:
    text = "SELECT ?x { STREAM :s [RANGE 9s] {?x :in ?t} FILTER NOT EXISTS { STREAM :t [NOW] {?x :out ?u} } }"
    assert table(answer(text, ":a :in 1 . :b :in 1 .", ":a :out 2 .")) == rows("b")
    assert table(answer(text, ":a :in 1 . :b :in 1 .", "")) == rows("a", "b")


def test_not_exists_with_an_inequality_to_the_outer_row() -> None:
    text = (
        "SELECT ?x { STREAM :s [RANGE 9s] { ?x :drop ?d } FILTER NOT EXISTS { STREAM :s [RANGE 9s] "
        "{ ?x :pick ?p } FILTER(?p > ?d) } }"
    )
    data = ":a :drop 5 ; :pick 7 . :b :drop 5 ; :pick 3 ."
    assert table(answer(text, data)) == rows("b")


def test_optional_and_minus_between_windows_and_static_data() -> None:
    optional = "SELECT ?x ?n { STREAM :s [NOW] { ?x :v ?v } OPTIONAL { ?x :name ?n } }"
    assert table(answer(optional, ":a :v 1 . :b :v 1 .", data=':a :name "A" .')) == rows("a A", "b -")
    minus = "SELECT ?x { STREAM :s [NOW] { ?x :v ?v } MINUS { ?x :banned ?y } }"
    assert table(answer(minus, ":a :v 1 . :b :v 1 .", data=":a :banned true .")) == rows("b")
    turned = "SELECT ?x { ?x :name ?n MINUS { STREAM :s [NOW] { ?x :v ?v } } }"
    assert table(answer(turned, ":a :v 1 .", data=':a :name "A" . :b :name "B" .')) == rows("b")


def test_minus_without_a_common_variable_removes_nothing() -> None:
    text = "SELECT ?x { STREAM :s [NOW] { ?x :v ?v } MINUS { ?y :banned ?z } }"
    assert table(answer(text, ":a :v 1 .", data=":q :banned true .")) == rows("a")


def test_duplicates_of_static_rows_are_kept() -> None:
    text = "SELECT ?x { STREAM :s [NOW] { ?x :v ?v } ?x :likes ?anything }"
    assert table(answer(text, ":a :v 1 .", data=":a :likes :p , :q , :r .")) == rows("a", "a", "a")


def test_a_ground_static_pattern_decides_over_all_rows() -> None:
    text = "SELECT ?x { STREAM :s [NOW] { ?x :v ?v } :switch :is :on }"
    assert table(answer(text, ":a :v 1 .", data=":switch :is :on .")) == rows("a")
    assert table(answer(text, ":a :v 1 .", data=":switch :is :off .")) == rows()


def test_the_evaluation_store_stays_right_over_many_turnovers() -> None:
    with background(':a0 :name "zero" .') as store:
        engine, query = evaluator("SELECT ?x ?n { STREAM :s [NOW] { ?x :v ?v } ?x :name ?n }", store)
        window = query.windows[0].name
        for task in range(60):
            many = {
                Quad(iri(f"a{number}"), iri("v"), Literal(str(task * 1000 + number))): task
                for number in range(700)
            }
            assert table(recomputed(engine, task, {window: many})) == rows("a0 zero")


def test_a_window_inside_a_window_is_an_error() -> None:
    with pytest.raises(QueryTextError, match="inside"):
        answer("SELECT ?x { STREAM :s [NOW] { ?x :v ?v STREAM :t [NOW] { ?x :w ?z } } }", "", "")


def test_describe_is_not_supported_as_a_continuous_query() -> None:
    with pytest.raises(UnsupportedError, match="DESCRIBE"), background() as store:
        evaluator("DESCRIBE ?x { STREAM :s [NOW] { ?x :v ?v } }", store)


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(UnsupportedError, match="http://x/nope"):
        answer("SELECT (:nope(?x) AS ?y) { STREAM :s [NOW] { ?x :v ?v } }", ":a :v 1 .")
