"""Section 5 and the choices of section 1: dialects, datasets, aliases, parameters, triple terms, scope."""

from __future__ import annotations

import pytest

from .bench import Bench, ans, ins, problem, rows_of

XSD = "http://www.w3.org/2001/XMLSchema#"
DATA = "INSERT DATA { :d :in :default . GRAPH :g1 { :x1 :in :g1 } GRAPH :g2 { :x2 :in :g2 } }"
DEFAULT = "?s :in ?o"
NAMED = "GRAPH ?g { ?s :in ?o }"


def static(bench: Bench, clauses: str, body: str, **options: object) -> list[str]:
    q = bench.register(f"SELECT ?s {clauses} WHERE {{ {body} }}", **options)
    bench.settle()
    found = bench.now(q)
    bench.drop(q)
    return found


def test_with_no_clause_the_dataset_is_the_store(bench: Bench) -> None:
    bench.update(DATA)
    for dialect in ("cqels", "rspql", "csparql", "sparql"):
        assert static(bench, "", DEFAULT, dialect=dialect) == ["d"]
        assert static(bench, "", NAMED, dialect=dialect) == ["x1", "x2"]


def test_cqels_from_named_without_from_leaves_the_default_graph_in_place(bench: Bench) -> None:
    bench.update(DATA)
    assert static(bench, "FROM NAMED :g1", DEFAULT, dialect="cqels") == ["d"]
    assert static(bench, "FROM NAMED :g1", NAMED, dialect="cqels") == ["x1"]


def test_cqels_from_without_from_named_leaves_the_named_graphs_in_place(bench: Bench) -> None:
    bench.update(DATA)
    assert static(bench, "FROM :g1", DEFAULT, dialect="cqels") == ["x1"]
    assert static(bench, "FROM :g1", NAMED, dialect="cqels") == ["x1", "x2"]


def test_strict_dataset_gives_the_rule_of_sparql(bench: Bench) -> None:
    bench.update(DATA)
    strict = {"dialect": "cqels", "strict_dataset": True}
    assert static(bench, "FROM NAMED :g1", DEFAULT, **strict) == []
    assert static(bench, "FROM :g1", NAMED, **strict) == []
    assert static(bench, "FROM :g1", DEFAULT, **strict) == ["x1"]


@pytest.mark.parametrize("dialect", ["rspql", "csparql", "sparql"])
def test_other_dialects_follow_sparql(bench: Bench, dialect: str) -> None:
    bench.update(DATA)
    assert static(bench, "FROM NAMED :g1", DEFAULT, dialect=dialect) == []
    assert static(bench, "FROM NAMED :g1", NAMED, dialect=dialect) == ["x1"]
    assert static(bench, "FROM :g1", NAMED, dialect=dialect) == []
    assert static(bench, "FROM :g1 FROM :g2", DEFAULT, dialect=dialect) == ["x1", "x2"]


def test_window_clauses_are_never_dataset_clauses(bench: Bench) -> None:
    s = bench.stream()
    bench.update(DATA)
    q = bench.register(
        f"SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10] WHERE {{ WINDOW :w {{ ?x :p ?y }} {DEFAULT} }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.now(q) == ["d"]


# -- aliases of the papers --------

ALIASES = (
    "SELECT ?g (?o + 1 AS ?v) (COUNT(?s) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o ; :g ?g }} }} "
    "GROUP BY ?g ?v HAVING (?n > 1) ORDER BY DESC(?n)"
)


def test_group_by_having_and_order_by_may_name_aliases(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(ALIASES.format(s=s))
    bench.push(s, 1, ":a :p 1 ; :g :x . :b :p 1 ; :g :x . :c :p 5 ; :g :x .")
    assert bench.feed(q) == [ins(1, "x 2 2")]


@pytest.mark.parametrize(
    "text",
    [
        "REGISTER ISTREAM :out AS SELECT ?g (COUNT(?s) AS ?n) FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE {{ WINDOW :w {{ ?s :g ?g }} }} GROUP BY ?g HAVING(?n > 1) ORDER BY DESC(?n)",
        "REGISTER QUERY out AS SELECT ?g (COUNT(?s) AS ?n) FROM STREAM <{s}> [RANGE 10ms STEP 10ms] "
        "WHERE {{ ?s :g ?g }} GROUP BY ?g HAVING(?n > 1) ORDER BY DESC(?n)",
        "SELECT ?g ?n WHERE {{ {{ SELECT ?g (COUNT(?s) AS ?n) WHERE {{ STREAM <{s}> [RANGE 10 SLIDE 10] "
        "{{ ?s :g ?g }} }} GROUP BY ?g HAVING(?n > 1) }} FILTER(?n < 9) }}",
    ],
)
def test_every_dialect_names_aliases_in_having_and_order_by(bench: Bench, text: str) -> None:
    s = bench.stream()
    q = bench.register(text.format(s=s))
    bench.push(s, 1, ":a :g :x . :b :g :x . :c :g :y .")
    bench.beat(s, 10)
    assert bench.now(q) == ["x 2"]


def test_a_query_without_windows_names_aliases_in_having(bench: Bench) -> None:
    q = bench.register("SELECT ?g (COUNT(?s) AS ?n) WHERE { ?s :g ?g } GROUP BY ?g HAVING (?n > 1)")
    bench.update("INSERT DATA { :a :g :x . :b :g :x . :c :g :y }")
    assert bench.now(q) == ["x 2"]


def test_an_aggregate_alias_needs_no_parentheses(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?o COUNT(?s) AS ?n WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} GROUP BY ?o"
    )
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    assert bench.feed(q) == [ins(1, "1 2")]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(?s) AS ?n WHERE { ?s :p ?o }",
        "SELECT (?o + 1 AS ?v) (COUNT(?s) AS ?n) WHERE { ?s :p ?o } GROUP BY ?v",
        "SELECT ?o (COUNT(?s) AS ?n) WHERE { ?s :p ?o } GROUP BY ?o HAVING (?n > 1)",
        "SELECT * WHERE { SELECT ?o (COUNT(?s) AS ?n) { ?s :p ?o } GROUP BY ?o having(?n > 1 || ?o = 1) }",
    ],
)
def test_the_query_endpoint_refuses_these_as_sparql_does(bench: Bench, text: str) -> None:
    problem(bench.query(text), 400)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s WHERE { STREAM <x> [NOW] { ?s :p “a” } }",
        "SELECT ?s WHERE { STREAM <x> [NOW] { s :p ?o } }",
        "SELECT ?s WHERE { STREAM <x> [NOW] { ?s :p ?o ?s :q ?z } }",
    ],
)
def test_other_slips_of_the_listings_get_a_precise_error(bench: Bench, text: str) -> None:
    found = bench.refused(400, text)
    assert found["line"] == 2  # below the PREFIX line
    assert found["column"] > 30
    assert found["excerpt"]


def test_a_literal_between_dollar_signs_is_a_parameter(bench: Bench) -> None:
    s = bench.stream()
    for name in ("Name", "Full Name"):
        q = bench.register(
            f'SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :name "${name}$" }} }}',
            parameters={name: "Ann"},
        )
        at = (bench.describe_stream(s)["watermark"] or 0) + 1
        bench.push(s, at, ':a :name "Ann" . :b :name "Bob" .')
        assert bench.feed(q) == [ins(at, "a")]


def test_spaces_inside_the_dollar_signs_are_allowed(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f'SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :name "$ Name $" }} }}', parameters={"Name": "Ann"}
    )
    bench.push(s, 1, ':a :name "Ann" .')
    assert bench.feed(q) == [ins(1, "a")]


def test_a_parameter_without_a_value_is_refused(bench: Bench) -> None:
    found = bench.refused(400, 'SELECT ?s WHERE { STREAM <x> [NOW] { ?s :name "$Name$" } }')
    assert "Name" in found["detail"]


# -- where SPARQL leaves a choice --------


def test_limit_without_order_by_is_as_if_ordered_by_all_columns(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s ?o WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} LIMIT 2")
    bench.push(s, 1, ":c :p 1 . :b :p 2 . :a :p 3 .")
    assert bench.now(q) == ["a 3", "b 2"]


def test_sample_is_the_least_term_and_group_concat_is_in_term_order(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f'SELECT (SAMPLE(?s) AS ?least) (GROUP_CONCAT(?o; SEPARATOR=",") AS ?all) '
        f"WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}"
    )
    bench.push(s, 1, ':c :p "z" . :b :p "a" . :d :p "m" .')
    assert bench.now(q) == ["b a,m,z"]


def test_sums_of_doubles_are_correctly_rounded(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (SUM(?o) AS ?sum) (AVG(?o) AS ?avg) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}"
    )
    bench.push(s, 1, ":a :p 1e100 . :b :p 1.0e0 . :c :p -1e100 . :d :p 3.0e0 .")
    total, average = bench.now(q)[0].split()
    assert (float(total), float(average)) == (4.0, 1.0)


def test_sums_of_decimals_are_exact(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (SUM(?o) AS ?sum) (DATATYPE(SUM(?o)) AS ?type) WHERE {{ STREAM <{s}> [RANGE 1h] {{ "
        f"?s :p ?o }} }}"
    )
    bench.push(s, 1, "".join(f":a{i} :p 0.1 . :b{i} :v {i}, 0.2 ; :p 0.{i}1 ." for i in range(1, 10)))
    # 0.1 once per subject a1 … a9, then 0.11 + 0.21 + … + 0.91
    assert bench.now(q) == [f"5.49 {XSD}decimal"]


def test_median(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT (MEDIAN(?o) AS ?m) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p 1 . :b :p 10 . :c :p 3 .")
    assert [float(row) for row in bench.now(q)] == [3.0]


def test_rand_and_uuid_are_repeated_by_equal_queries_at_equal_instants_of_one_name(bench: Bench) -> None:
    # they derive from (query, instant, row): the second registration of the same query repeats them
    text = "SELECT ?s (RAND() AS ?r) (STRUUID() AS ?u) WHERE { STREAM <%s> [RANGE 1h] { ?s :p ?o } }"
    s = bench.stream()
    bench.push(s, 1, ":a :p 1 . :b :p 1 .")
    found = []
    for _ in range(2):
        q = bench.register(text % s, name="random", start={"from": 0})
        bench.settle()
        found.append(bench.feed(q))
        bench.drop(q)
    assert found[0] == found[1]
    rows = found[0][0][2]
    assert len(rows) == 2 and len({row.split()[1] for row in rows}) == 2


# -- triple terms --------


def test_several_annotations_of_one_triple_join(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s ?o ?c ?by FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { << ?s :p ?o >> :conf ?c . << ?s :p ?o >> :by ?by } }"
    )
    bench.push(s, 1, "<< :a :p 1 >> :conf 5 .")
    bench.push(s, 2, "<< :a :p 1 >> :by :me . << :b :p 1 >> :by :you .")
    bench.beat(s, 10)
    assert bench.feed(q) == [ans(10, "a 1 5 me")]


def test_the_quoted_triple_is_not_asserted_unless_the_stream_says_so(bench: Bench) -> None:
    for quoted, expected in ((False, []), (True, ["a"])):
        s = bench.stream(**({"quoted_asserted": True} if quoted else {}))
        q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
        bench.push(s, 1, "<< :a :p 1 >> :conf 5 .")
        assert bench.now(q) == expected


def test_an_explicitly_named_reifier_is_kept(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        "PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "
        f"SELECT ?r ?t ?c WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?r rdf:reifies ?t ; :conf ?c }} }}"
    )
    bench.push(s, 1, "<< :a :p 1 ~ :r >> :conf 5 .")
    assert bench.now(q) == ["r <<a p 1>> 5"]


def test_patterns_nest_in_subject_and_object(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?a ?x ?c ?who WHERE {{ STREAM <{s}> [RANGE 1h] {{ "
        "<< << ?a :p ?x >> :conf ?c >> :by ?who . ?who :said << ?a :p ?x >> } }"
    )
    bench.push(s, 1, "<< << :a :p 1 >> :conf 5 >> :by :me . :me :said << :a :p 1 >> .")
    assert bench.now(q) == ["a 1 5 me"]


def test_variables_bind_triples_which_group_and_serialise(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        "PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> "
        f"SELECT ?t (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?r rdf:reifies ?t ; :by ?w "
        f"}} }} GROUP BY ?t"
    )
    bench.push(s, 1, "<< :a :p 1 ~ :r1 >> :by :x . << :a :p 1 ~ :r2 >> :by :y .")
    (row,) = bench.now(q)
    assert row == "<<a p 1>> 2"
    document = bench.client.get(f"/queries/{q}/results").json()
    term = document["results"]["bindings"][0]["t"]
    assert term["type"] == "triple"
    assert term["value"]["subject"] == {"type": "uri", "value": "http://e/a"}


def test_equal_annotated_triples_are_one(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ << ?s :p ?o >> :conf ?c }} }}"
    )
    bench.push(s, 1, "<< :a :p 1 >> :conf 5 .")
    bench.push(s, 2, "<< :a :p 1 >> :conf 5 .")
    assert bench.now(q) == ["1"]


# -- a FILTER or BIND moves to the nearest enclosing group that binds its variables --------

TWO = (
    "SELECT %s FROM NAMED WINDOW :w1 ON <%s> [RANGE 10] FROM NAMED WINDOW :w2 ON <%s> [RANGE 10] WHERE { %s }"
)


def two_windows(bench: Bench, columns: str, body: str) -> list[str]:
    s = bench.stream()
    q = bench.register(TWO % (columns, s, s, body))
    bench.push(s, 1, ":a :p 1 ; :q 5 . :b :p 7 ; :q 5 .")
    bench.beat(s, 10)
    return bench.now(q)


def test_a_filter_in_a_window_may_use_a_variable_of_another_window(bench: Bench) -> None:
    body = "WINDOW :w1 { ?s :p ?x } WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) }"
    assert two_windows(bench, "?s ?x ?y", body) == ["a 1 5"]


def test_a_filter_inside_optional_becomes_the_condition_of_the_left_join(bench: Bench) -> None:
    body = "WINDOW :w1 { ?s :p ?x } OPTIONAL { WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) } }"
    assert two_windows(bench, "?s ?x ?y", body) == ["a 1 5", "b 7 -"]


def test_a_bind_moves_too(bench: Bench) -> None:
    body = "WINDOW :w1 { ?s :p ?x } WINDOW :w2 { ?s :q ?y BIND(?x + ?y AS ?z) }"
    assert two_windows(bench, "?s ?z", body) == ["a 6", "b 12"]


def test_nothing_moves_out_of_union_branches(bench: Bench) -> None:
    body = (
        "WINDOW :w1 { ?s :p ?x } { { WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) } } "
        "UNION { WINDOW :w2 { ?s :q ?z FILTER(?z > 1) } } }"
    )
    assert two_windows(bench, "?s ?y ?z", body) == ["a - 5", "b - 5"]


def test_nothing_moves_out_of_minus(bench: Bench) -> None:
    # inside MINUS ?x is unbound, so the filter fails and nothing is removed
    body = "WINDOW :w1 { ?s :p ?x } MINUS { WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) } }"
    assert two_windows(bench, "?s", body) == ["a", "b"]


def test_nothing_moves_out_of_subqueries(bench: Bench) -> None:
    body = "WINDOW :w1 { ?s :p ?x } { SELECT ?s WHERE { WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) } } }"
    assert two_windows(bench, "?s", body) == []


def test_a_bind_whose_variable_is_used_in_its_block_cannot_move(bench: Bench) -> None:
    text = TWO % (
        "?s", "x", "x", "WINDOW :w1 { ?s :p ?x } WINDOW :w2 { ?s :q ?y BIND(?x + 1 AS ?z) FILTER(?z > ?y) }"
    )  # fmt: skip
    found = bench.refused(400, text)
    assert "BIND" in found["detail"]


def test_a_variable_bound_nowhere_fails_the_row(bench: Bench) -> None:
    assert two_windows(bench, "?s", "WINDOW :w1 { ?s :p ?x FILTER(?nowhere > 1) }") == []


def test_filters_in_stream_and_graph_blocks_move(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { GRAPH :limits { :a :max 3 . :b :max 3 } }")
    q = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?x FILTER(?x < ?max) }} GRAPH :limits {{ "
        f"?s :max ?max }} }}"
    )
    z = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?x }} GRAPH :limits {{ ?s :max ?max "
        f"FILTER(?x < ?max) }} }}"
    )
    bench.push(s, 1, ":a :p 1 . :b :p 7 .")
    assert (bench.feed(q), bench.feed(z)) == ([ins(1, "a")], [ins(1, "a")])


# -- complete SPARQL over windows --------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("STREAM <%s> [RANGE 1h] { ?s :p/:p ?x }", ["a"]),
        ("STREAM <%s> [RANGE 1h] { ?s :p+ :c }", ["a", "b"]),
        ("STREAM <%s> [RANGE 1h] { ?s :p ?x } MINUS { STREAM <%s> [RANGE 1h] { ?s :q ?y } }", ["a"]),
        (
            "STREAM <%s> [RANGE 1h] { ?s :p ?x } FILTER NOT EXISTS { STREAM <%s> [RANGE 1h] { ?s :q ?y } }",
            ["a"],
        ),
        ("STREAM <%s> [RANGE 1h] { ?s :p ?x FILTER EXISTS { ?s :q 2 } }", ["b"]),
        ("VALUES ?s { :b :z } STREAM <%s> [RANGE 1h] { ?s :p ?x }", ["b"]),
        ("{ SELECT ?s (MAX(?y) AS ?m) WHERE { STREAM <%s> [RANGE 1h] { ?s :q ?y } } GROUP BY ?s }", ["b"]),
        ("STREAM <%s> [RANGE 1h] { ?s :p ?x BIND(STR(?s) AS ?t) FILTER(STRENDS(?t, 'a')) }", ["a"]),
        ("STREAM <%s> [RANGE 1h] { { ?s :q 2 } UNION { ?s :p :b } }", ["a", "b"]),
        ("STREAM <%s> [RANGE 1h] { ?s :p ?x FILTER(?x IN (:b)) }", ["a"]),
    ],
)
def test_sparql_in_windows(bench: Bench, body: str, expected: list[str]) -> None:
    s = bench.stream()
    q = bench.register("SELECT ?s WHERE { " + body.replace("%s", s) + " }")
    bench.push(s, 1, ":a :p :b . :b :p :c ; :q 2 .")
    assert bench.now(q) == expected


def test_blank_nodes_are_scoped_to_their_element(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT (COUNT(DISTINCT ?b) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?b :p ?o }} }}"
    )
    bench.push_lines(s, (1, "_:b :p 1 . _:b :p 2"), (1, "_:b :p 1"))
    assert bench.now(q) == ["2"]


# -- what is refused --------


def test_service_reaches_no_host_by_default(bench: Bench) -> None:
    answer = bench.try_register("SELECT ?s WHERE { SERVICE <http://remote.example/sparql> { ?s :p ?o } }")
    assert answer.status_code in (400, 403)
    problem(answer, answer.status_code)


def test_a_remote_graph_under_a_timer_reaches_no_host_by_default(bench: Bench) -> None:
    bench.refused(
        400, "SELECT ?s FROM <http://remote.example/g> WHERE { ?s :p ?o }", refresh={"every": "30s"}
    )


def test_a_wrong_text_is_400_with_its_place(bench: Bench) -> None:
    found = bench.refused(400, "SELECT ?s WHERE {\n  STREAM <x> [RANGE 5 parsecs] { ?s :p ?o } }")
    assert found["line"] == 3
    assert isinstance(found["column"], int)
    assert "excerpt" in found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s WHERE { STREAM <x> [RANGE 0 ms] { ?s :p ?o } }",
        "SELECT ?s WHERE { STREAM <x> [RANGE 10 ms SLIDE 0 ms] { ?s :p ?o } }",
        "SELECT ?s FROM NAMED WINDOW :w ON :s [RANGE 10] WHERE { WINDOW :other { ?s :p ?o } }",
        "SELECT ?s FROM NAMED WINDOW :w ON :s [RANGE 10] FROM NAMED WINDOW :w ON :s [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }",
        "SELECT ?s WHERE { STREAM <x> [SOMETIMES] { ?s :p ?o } }",
        "SELECT ?s WHERE { ",
        "",
    ],
)
def test_texts_that_are_wrong(bench: Bench, text: str) -> None:
    answer = bench.try_register(text)
    if "RANGE 0 ms" in text:  # t - 0 <= event_time <= t is a window; both answers are right
        assert answer.status_code in (201, 400)
    else:
        problem(answer, 400)


def test_rstream_of_the_first_row_in_document_order(bench: Bench) -> None:
    # a SELECT * lists the variables of windows and static parts
    s = bench.stream()
    bench.update("INSERT DATA { :a :label 7 }")
    q = bench.register(f"SELECT * WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} ?s :label ?l }}")
    bench.push(s, 1, ":a :p 1 .")
    (event,) = bench.events(q)
    assert set(event.data["head"]["vars"]) == {"s", "o", "l"}
    assert sorted(rows_of(event.data)[0].split()) == ["1", "7", "a"]


def test_a_union_of_windows_and_static_data(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { :d :in :static }")
    q = bench.register(
        f"SELECT ?s WHERE {{ {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} UNION {{ ?s :in ?x }} }}"
    )
    bench.push(s, 1, ":a :p 1 .")
    assert bench.now(q) == ["a", "d"]


def test_exists_is_correlated(bench: Bench) -> None:
    body = "WINDOW :w1 { ?s :p ?x } FILTER EXISTS { WINDOW :w2 { ?s :q ?y FILTER(?y > ?x) } }"
    assert two_windows(bench, "?s", body) == ["a"]


def test_a_window_inside_graph_or_graph_of_the_store_inside_a_window(bench: Bench) -> None:
    # GRAPH inside a window ranges over the elements' graphs, never over the store's
    s = bench.stream()
    bench.update("INSERT DATA { GRAPH :g { :x :p 1 } }")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ GRAPH :g {{ ?s :p ?o }} }} }}")
    bench.push(s, 1, ":h { :a :p 1 }")
    assert bench.now(q) == []
    bench.push(s, 2, ":g { :b :p 1 }")
    assert bench.now(q) == ["b"]


def test_a_variable_stream_is_bound_for_the_row(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    bench.update(f"INSERT DATA {{ :one :stream <{s}> . :two :stream <{z}> }}")
    q = bench.register("SELECT ?sensor ?s WHERE { ?sensor :stream ?st . STREAM ?st [RANGE 1h] { ?s :p ?o } }")
    bench.push(s, 1, ":a :p 1 .")
    bench.push(z, 1, ":b :p 1 .")
    bench.beat(s, 2)
    bench.beat(z, 2)
    assert bench.now(q) == ["one a", "two b"]


def test_a_csparql_graph_pattern_ranges_over_the_store(bench: Bench) -> None:
    s = bench.stream()
    bench.update("INSERT DATA { GRAPH :g { :a :label 7 } }")
    text = (
        f"REGISTER QUERY Q AS PREFIX : <http://e/> SELECT ?s ?l FROM STREAM <{s}> [RANGE 10ms STEP 10ms] "
        "WHERE { ?s :p ?x . GRAPH :g { ?s :label ?l } }"
    )
    assert bench.client.post("/queries", json={"query": text}).status_code == 201
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.now("Q") == ["a 7"]


def test_having_in_a_subquery_over_a_window(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?o ?n WHERE {{ {{ SELECT ?o (COUNT(?s) AS ?n) WHERE {{ STREAM <{s}> [RANGE 1h] {{ "
        f"?s :p ?o }} }} "
        "GROUP BY ?o HAVING (COUNT(?s) > 1) } }",
        output="changes",
    )
    bench.push(s, 1, ":a :p :x . :b :p :y .")
    bench.push(s, 2, ":c :p :x .")
    assert bench.feed(q) == [ins(2, "x 2")]


def test_distinct(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT DISTINCT ?o WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 1, ":a :p :x . :b :p :x .")
    bench.push(s, 2, ":c :p :x . :d :p :y .")
    assert bench.feed(q) == [ins(1, "x"), ins(2, "y")]


def test_offset_and_limit_over_a_window(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }} ORDER BY ?o OFFSET 1 LIMIT 2",
        output="rstream",
    )
    bench.push(s, 1, ":a :p 3 . :b :p 1 . :c :p 2 . :d :p 4 .")
    (event,) = bench.events(q)
    assert rows_of(event.data) == ["c", "a"]


def test_construct_of_an_rspql_query_gives_the_full_graph_at_each_close(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(
        f"REGISTER RSTREAM :out AS CONSTRUCT {{ ?s :seen ?o }} FROM NAMED WINDOW :w ON <{s}> [RANGE 10] "
        "WHERE { WINDOW :w { ?s :p ?o } }"
    )
    bench.push(s, 1, ":a :p :b .")
    bench.push(s, 11, ":a :p :b .")
    bench.beat(s, 30)
    assert bench.feed(q) == [ans(10, "a seen b"), ans(20, "a seen b"), ans(30)]


def test_a_query_text_whose_dialect_is_told_wrongly_is_400(bench: Bench) -> None:
    found = bench.refused(400, "SELECT ?s WHERE { STREAM <x> [NOW] { ?s :p ?o } }", dialect="rspql")
    assert found["detail"]
    bench.refused(400, "SELECT ?s WHERE { STREAM <x> [NOW] { ?s :p ?o } }", dialect="sparql")
