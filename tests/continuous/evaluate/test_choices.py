"""What SPARQL leaves open and we fix: order, ties, aggregates, NOW and random values."""

from __future__ import annotations

import pytest

from quadrill.store.errors import QueryTextError, UnsupportedError
from tests.continuous.whole_contents import recomputed

from .helpers import answer, background, content, evaluator, lines, rows, table

STREAM = "STREAM :s [NOW]"


def test_order_by_sorts_and_ties_go_by_the_remaining_columns() -> None:
    data = ":b :v 1 . :a :v 1 . :c :v 0 . :d :v 2 ."
    found = answer(f"SELECT ?x ?v {{ {STREAM} {{ ?x :v ?v }} }} ORDER BY DESC(?v)", data)
    assert found.ordered
    assert lines(found) == ["d 2", "a 1", "b 1", "c 0"]


def test_equal_values_of_different_types_tie() -> None:
    data = ":b :v 1.0 . :a :v 1 . :c :v 1e0 ."
    assert lines(answer(f"SELECT ?x {{ {STREAM} {{ ?x :v ?v }} }} ORDER BY ?v ?x", data)) == ["a", "b", "c"]


def test_limit_without_order_by_takes_the_first_rows_in_term_order() -> None:
    found = answer(f"SELECT ?x ?v {{ {STREAM} {{ ?x :v ?v }} }} LIMIT 2", ":c :v 1 . :a :v 10 . :a :v 9 .")
    assert found.ordered
    assert lines(found) == ["a 9", "a 10"]


def test_limit_in_a_sub_query_is_fixed_too() -> None:
    text = f"SELECT ?x {{ {{ SELECT ?x {{ {STREAM} {{ ?x :v ?v }} }} ORDER BY ?v LIMIT 2 }} ?x :ok true }}"
    data = ":a :ok true . :b :ok true . :c :ok true ."
    assert table(answer(text, ":c :v 1 . :b :v 1 . :a :v 1 .", data=data)) == rows("a", "b")


def test_limit_in_a_static_sub_query_is_fixed_too() -> None:
    text = f"SELECT ?x ?n {{ {STREAM} {{ ?x :v ?v }} {{ SELECT ?n {{ ?y :name ?n }} LIMIT 1 }} }}"
    assert table(answer(text, ":a :v 1 .", data=':p :name "Zoe" . :q :name "Ann" .')) == rows("a Ann")


@pytest.mark.parametrize("block", [STREAM, ""])
def test_reduced_is_distinct_over_a_window_and_over_the_store(block: str) -> None:
    reduced = f"SELECT REDUCED ?x {{ {block} {{ ?x :v ?v }} }}"
    counted = f"SELECT ?x (COUNT(*) AS ?n) {{ {{ {reduced} }} }} GROUP BY ?x"
    text = f"SELECT ?x ?n {{ STREAM :t [NOW] {{ ?x :ok true }} {{ {counted} }} }}"
    values = ":a :v 1 , 2 . :b :v 1 . :a :v 3 ."
    contents = (":a :ok true .", *([values] if block else []))
    assert table(answer(text, *contents, data="" if block else values)) == rows("a 1")


def test_unbound_sorts_first_then_blank_nodes_iris_literals() -> None:
    text = f"SELECT ?v {{ {STREAM} {{ ?x :v ?n OPTIONAL {{ ?x :w ?v }} }} }} ORDER BY ?v"
    data = ':a :v 1 . :b :v 1 ; :w "text" . :c :v 1 ; :w 7 . :d :v 1 ; :w :iri .'
    assert lines(answer(text, data)) == ["-", "iri", "7", "text"]


def test_a_query_without_order_by_or_limit_is_unordered() -> None:
    assert not answer(f"SELECT ?x {{ {STREAM} {{ ?x :v ?v }} }}", ":a :v 1 .").ordered


def aggregate(call: str, data: str) -> str:
    (line,) = lines(answer(f"SELECT ({call} AS ?r) {{ {STREAM} {{ ?x :v ?v }} }}", data))
    return line


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("SUM(?v)", "0"),
        ("AVG(?v)", "0"),
        ("COUNT(?v)", "0"),
        ("COUNT(*)", "0"),
        ("MIN(?v)", "-"),
        ("MAX(?v)", "-"),
        ("SAMPLE(?v)", "-"),
        ("GROUP_CONCAT(?v)", ""),
        ("MEDIAN(?v)", "-"),
        ("STDDEV(?v)", "-"),
        ("PERCENTILE(?v, 5)", "-"),
    ],
)
def test_an_aggregate_over_an_empty_window(call: str, expected: str) -> None:
    assert aggregate(call, "") == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("SUM(?v)", "10"),
        ("AVG(?v)", "2.5"),
        ("MIN(?v)", "1"),
        ("MAX(?v)", "4"),
        ("SAMPLE(?v)", "1"),
        ("MEDIAN(?v)", "2.5"),
        ("VARIANCE(?v)", "1.6666666666666667"),
        ("STDDEV(?v)", "1.2909944487358056"),
        ("PERCENTILE(?v, 0)", "1"),
        ("PERCENTILE(?v, 100)", "4"),
        ("PERCENTILE(?v, 25)", "1.75"),
        ("GROUP_CONCAT(STR(?v); separator='/')", "1/2/3/4"),
        ("COUNT(DISTINCT *)", "4"),
    ],
)
def test_an_aggregate_over_four_integers(call: str, expected: str) -> None:
    assert aggregate(call, ":a :v 3 . :b :v 1 . :c :v 4 . :d :v 2 .") == expected


def test_distinct_aggregates_drop_equal_terms() -> None:
    data = ":a :v 2 . :b :v 2 . :c :v 5 ."
    assert aggregate("SUM(DISTINCT ?v)", data) == "7"
    assert aggregate("MEDIAN(DISTINCT ?v)", data) == "3.5"
    assert aggregate("COUNT(DISTINCT ?v)", data) == "2"


def test_sums_of_doubles_are_correctly_rounded_and_of_decimals_exact() -> None:
    assert aggregate("SUM(?v)", ":a :v 1e16 . :b :v 1e0 . :c :v -1e16 .") == "1"
    assert aggregate("SUM(?v)", ":a :v 0.1 . :b :v 0.2 . :c :v 0.3 .") == "0.6"
    assert aggregate("AVG(?v)", ":a :v 1 . :b :v 1 . :c :v 2 .") == "1.333333333333333333"


def test_an_error_makes_sum_and_min_unbound_but_count_and_sample_pass_over_it() -> None:
    text = "SELECT ({} AS ?r) {{ STREAM :s [NOW] {{ ?x :v ?v OPTIONAL {{ ?x :w ?w }} }} }}"
    data = ":a :v 1 ; :w 5 . :b :v 1 ."
    for call, expected in {
        "SUM(?w)": "-",
        "AVG(?w)": "-",
        "MIN(?w)": "-",
        "MAX(?w)": "-",
        "MEDIAN(?w)": "-",
        "COUNT(?w)": "1",
        "SAMPLE(?w)": "5",
        "GROUP_CONCAT(?w)": "-",
    }.items():
        assert lines(answer(text.format(call), data)) == [expected], call


@pytest.mark.parametrize("block", [STREAM, "GRAPH :g", f"{STREAM} {{ GRAPH ?h", ""])
@pytest.mark.parametrize("call", ["COUNT(?w + 1)", "COUNT(DISTINCT 1 / (?v - 1))", "COUNT(STR(?u)) + 1"])
def test_a_count_passes_over_expressions_that_fail_wherever_it_is_evaluated(block: str, call: str) -> None:
    values = ":a :v 1 ; :w 5 . :b :v 2 ; :w 'text' . :c :v 1 ."
    ends = "} " * block.count("{")
    counted = f"SELECT ({call} AS ?n) {{ {block} {{ ?x :v ?v OPTIONAL {{ ?x :w ?w }} }} {ends} }}"
    text = f"SELECT ?n {{ STREAM :t [NOW] {{ :ok :ok :ok }} {{ {counted} }} }}"
    contents = [f":h {{ {values} }}" if ends else values] if "STREAM" in block else []
    data = "" if contents else f":g {{ {values} }}" if block else values
    assert table(answer(text, ":ok :ok :ok .", *contents, data=data)) == rows("1")


def test_aggregates_of_sub_queries_and_static_parts_are_fixed_too() -> None:
    medians = "SELECT ?g (MEDIAN(?c) AS ?m) { ?y :in ?g ; :cost ?c } GROUP BY ?g"
    text = f"SELECT ?x ?m {{ {STREAM} {{ ?x :of ?g }} {{ {medians} }} }}"
    data = ":p :in :g ; :cost 1 . :q :in :g ; :cost 5 . :r :in :g ; :cost 9 ."
    assert table(answer(text, ":a :of :g .", data=data)) == rows("a 5")


def test_group_by_having_and_order_over_a_window() -> None:
    text = (
        f"SELECT ?l (COUNT(?x) AS ?n) {{ {STREAM} {{ ?x :at ?l }} }} GROUP BY ?l HAVING (COUNT(?x) > 1) "
        "ORDER BY DESC(?n) ?l"
    )
    data = ":a :at :l1 . :b :at :l1 . :c :at :l2 . :d :at :l2 . :e :at :l2 . :f :at :l3 ."
    assert lines(answer(text, data)) == ["l2 3", "l1 2"]


QUOTIENTS = {
    "0 / 0.5": "0",
    "0.0 / 0.005986": "0",
    "?v / 0.5": "2",
    "1 / 3": "0.333333333333333333",
    "1000 / 1.234567890123456789": "810.000007290000066347",
    "-1 / 0.3": "-3.333333333333333333",
    "150000000000000000000 / 1.5": "-",
    "15000000000000000000.0 / 1.1": "13636363636363636363.636363636363636363",
    "0.1234567891 * 0.1234567891": "0.015241578774881878",
    "?v / 0": "-",
    "?v / 0e0": "INF",
}


@pytest.mark.parametrize("where", [f"{STREAM} {{ ?x :v ?v }}", "?x :v ?v"], ids=["window", "static"])
@pytest.mark.parametrize(("text", "expected"), QUOTIENTS.items())
def test_products_and_quotients_of_decimals_keep_18_places(text: str, expected: str, where: str) -> None:
    query = f"SELECT ?r {{ {STREAM} {{ ?y :v ?w }} {{ SELECT ({text} AS ?r) {{ {where} }} }} }}"
    (found,) = lines(answer(query, ":a :v 1 .", data=":a :v 1 ."))
    assert found == expected


def test_a_static_part_may_group_by_another_name_of_a_variable() -> None:
    counted = "SELECT ?g (COUNT(*) AS ?n) { ?y :in ?h } GROUP BY (?h AS ?g)"
    text = f"SELECT ?g ?n {{ {STREAM} {{ ?x :of ?g }} {{ {counted} }} }}"
    assert table(answer(text, ":a :of :g .", data=":p :in :g . :q :in :g .")) == rows("g 2")


def test_the_percentile_must_be_a_constant_from_0_to_100() -> None:
    with pytest.raises(QueryTextError):
        aggregate("PERCENTILE(?v, 101)", ":a :v 1 .")


def test_now_is_the_instant_of_the_evaluation() -> None:
    text = f"SELECT (NOW() AS ?t) {{ {STREAM} {{ ?x :v ?v }} }}"
    assert lines(answer(text, ":a :v 1 .", at=1_700_000_000_250)) == ["2023-11-14T22:13:20.25Z"]
    assert lines(answer(text, ":a :v 1 .", at=0)) == ["1970-01-01T00:00:00Z"]


def test_now_in_a_filter_over_static_data_follows_the_instant() -> None:
    text = f"SELECT ?x {{ {STREAM} {{ ?x :v ?v }} ?x :until ?t FILTER(?t > NOW()) }}"
    data = ':a :until "1970-01-01T00:00:05Z"^^xsd:dateTime .'
    assert table(answer(text, ":a :v 1 .", data=data, at=4000)) == rows("a")
    assert table(answer(text, ":a :v 1 .", data=data, at=6000)) == rows()


CALLS = "(RAND() AS ?r) (RAND() AS ?q) (UUID() AS ?u) (STRUUID() AS ?t)"
RANDOM = f"SELECT ?x {CALLS} {{ {STREAM} {{ ?x :v ?v }} }}"


def test_random_values_are_repeated_by_a_replay_and_differ_otherwise() -> None:
    data = ":a :v 1 . :b :v 1 ."
    first = answer(RANDOM, data, at=5, name="q")
    assert table(first) == table(answer(RANDOM, data, at=5, name="q"))
    assert table(first) != table(answer(RANDOM, data, at=6, name="q"))
    assert table(first) != table(answer(RANDOM, data, at=5, name="other"))
    values = [line.split()[1:] for line in lines(first)]
    assert len({value for row in values for value in row}) == 8
    assert all(0 <= float(number) < 1 for row in values for number in row[:2])


def test_equal_rows_get_different_random_values() -> None:
    text = f"SELECT (RAND() AS ?r) {{ {STREAM} {{ ?x :v ?v }} ?x :likes ?y }}"
    assert len(table(answer(text, ":a :v 1 .", data=":a :likes :p , :q ."))) == 2


def test_bnode_with_a_label_is_the_same_within_a_row() -> None:
    text = (
        f"SELECT ?x ?same ?other {{ {STREAM} {{ ?x :v ?v }} BIND(BNODE('k') AS ?p) BIND(BNODE('k') AS ?q) "
        "BIND(BNODE('m') AS ?r) BIND(?p = ?q AS ?same) BIND(?p = ?r AS ?other) }"
    )
    assert table(answer(text, ":a :v 1 .")) == rows("a true false")


def test_now_inside_service_is_named_as_missing() -> None:
    with pytest.raises(UnsupportedError, match="SERVICE"), background() as store:
        evaluator(
            f"SELECT ?x {{ {STREAM} {{ ?x :v ?v }} SERVICE <http://h/> {{ ?x :p ?t FILTER(?t < NOW()) }} }}",
            store,
        )


def test_construct_instantiates_rows_with_fresh_repeatable_blank_nodes() -> None:
    with background() as store:
        engine, query = evaluator(
            "CONSTRUCT { ?x :seen _:e . _:e :value ?v . ?v :is :literal } { STREAM :s [NOW] { ?x :v ?v } }",
            store,
            name="q",
        )
        found = recomputed(engine, 3, {query.windows[0].name: content(":a :v 1 . :b :v 2 .")})
        quads = engine.construct(found.rows, 3)
        assert len(quads) == 4
        assert len({quad.subject for quad in quads}) == 4
        assert engine.construct(found.rows, 3) == quads
        assert set(engine.construct(found.rows, 4)).isdisjoint(quads)


def test_construct_leaves_out_triples_with_unbound_variables() -> None:
    with background() as store:
        engine, query = evaluator(
            "CONSTRUCT { ?x :w ?w . ?x :v ?v } { STREAM :s [NOW] { ?x :v ?v OPTIONAL { ?x :w ?w } } }", store
        )
        found = recomputed(engine, 0, {query.windows[0].name: content(":a :v 1 .")})
        assert found.vars == ("v", "w", "x")
        assert [quad.predicate.value for quad in engine.construct(found.rows, 0)] == ["http://x/v"]


def test_ask_gives_a_boolean() -> None:
    assert answer("ASK { STREAM :s [NOW] { ?x :v 1 } }", ":a :v 1 .").boolean is True
    assert answer("ASK { STREAM :s [NOW] { ?x :v 2 } }", ":a :v 1 .").boolean is False
