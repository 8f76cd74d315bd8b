# ruff: noqa: E501  # tables of query texts, one a line
"""The rules of SPARQL 1.1 section 18.2 where they are easily got wrong, parameters, terms and limits."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Triple

from quadrill.continuous.algebra import nodes as a
from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.language import LanguageLimits, parse
from quadrill.continuous.language.terms import resolve
from quadrill.store.errors import QueryTextError, UnsupportedError

X = "http://www.w3.org/2001/XMLSchema#"


def where(text: str, **options: Any) -> Any:
    root = parse(f"SELECT * WHERE {{ {text} }}", dialect="sparql", **options).root
    assert isinstance(root, a.Project)
    return root.input


def test_filters_of_a_group_apply_to_the_whole_group() -> None:
    node = where("?a <p> ?b FILTER(?c > 1) ?b <q> ?c")
    assert isinstance(node, a.Filter) and isinstance(node.input, a.Bgp) and len(node.input.patterns) == 2


def test_the_filter_of_an_optional_is_its_condition() -> None:
    node = where("?a <p> ?b OPTIONAL { ?b <q> ?c FILTER(?c > ?a) }")
    assert (
        isinstance(node, a.LeftJoin) and isinstance(node.condition, a.Call) and isinstance(node.right, a.Bgp)
    )


def test_a_filter_in_braces_of_its_own_is_not_the_condition_of_the_optional() -> None:
    node = where("?a <p> ?b OPTIONAL { { ?b <q> ?c FILTER(?c > ?a) } }")
    assert isinstance(node, a.LeftJoin) and node.condition is None and isinstance(node.right, a.Filter)


def test_bind_ends_a_basic_graph_pattern() -> None:
    node = where("?a <p> ?b BIND(?b + 1 AS ?c) ?c <q> ?d")
    assert isinstance(node, a.Join) and isinstance(node.left, a.Extend) and isinstance(node.right, a.Bgp)


def test_paths_become_triples_where_they_can() -> None:
    node = where("?a ^<p>/<q> ?b")
    assert isinstance(node, a.Bgp)
    first, second = node.patterns
    assert first.object == Var("a") and first.subject == second.subject and second.object == Var("b")
    assert isinstance(first.subject, Var) and first.subject.hidden
    assert isinstance(where("?a <p>+|!(<q>|^<r>) ?b"), a.Path)


def test_having_without_group_by_is_one_group() -> None:
    root = parse("SELECT (COUNT(?x) AS ?n) { ?a <p> ?x } HAVING (COUNT(?x) > 3)", dialect="sparql").root
    group = root.input.input.input  # type: ignore[union-attr]
    assert isinstance(group, a.Group) and group.keys == () and len(group.aggregates) == 1


def test_trailing_values_join_behind_the_grouping() -> None:
    root = parse("SELECT ?a { ?a <p> ?b } GROUP BY ?a VALUES ?a { <x:1> }", dialect="sparql").root
    assert isinstance(root.input, a.Join) and isinstance(root.input.left, a.Group)  # type: ignore[union-attr]


def test_select_star_leaves_blank_nodes_out() -> None:
    query = parse("SELECT * { [] <p> ?a . _:x <q> ?b . ?c <r> ( ?d ) }", dialect="sparql")
    assert [var.name for var in query.columns] == ["a", "b", "c", "d"]


def test_order_by_may_use_what_is_not_projected() -> None:
    root = parse("SELECT DISTINCT ?a { ?a <p> ?b } ORDER BY DESC(?b) LIMIT 2 OFFSET 1", dialect="sparql").root
    assert isinstance(root, a.Slice) and (root.offset, root.limit) == (1, 2)
    assert isinstance(root.input, a.Distinct) and isinstance(root.input.input, a.Project)
    assert isinstance(root.input.input.input, a.OrderBy)


def test_annotations_reify_the_triple_they_follow() -> None:
    node = where("?s <p> ?o ~ <r> {| <q> 1 |} {| <q> 2 |}")
    term = a.TripleTerm(Var("s"), NamedNode("http://localhost/p"), Var("o"))
    reifies = [pattern for pattern in node.patterns if pattern.object == term]
    assert len(node.patterns) == 5 and len(reifies) == 2
    assert reifies[0].subject == NamedNode("http://localhost/r")
    assert isinstance(reifies[1].subject, Var) and reifies[1].subject.hidden


def test_a_ground_triple_term_is_an_rdf_term() -> None:
    node = where("?r <p> <<( <a> <b> 1 )>>")
    triple = Triple(
        NamedNode("http://localhost/a"),
        NamedNode("http://localhost/b"),
        Literal("1", datatype=NamedNode(X + "integer")),
    )
    assert node.patterns[0].object == triple


def test_template_blank_nodes_are_not_those_of_the_pattern() -> None:
    query = parse("CONSTRUCT { _:x <p> ?a . _:x <q> [] } { _:x <p> ?a }", dialect="sparql")
    first, second = (quad.triple for quad in query.template)
    assert first.subject == second.subject
    assert isinstance(first.subject, Var) and first.subject.hidden
    assert first.subject != query.root.patterns[0].subject  # type: ignore[union-attr]


def test_the_short_construct_form_is_pattern_and_template() -> None:
    query = parse("CONSTRUCT WHERE { ?a <p> ?b }", dialect="sparql")
    assert tuple(quad.triple for quad in query.template) == query.root.patterns  # type: ignore[union-attr]


def test_describe_and_ask_have_no_projection() -> None:
    described = parse("DESCRIBE <x:a> ?b { ?b <p> ?c }", dialect="sparql")
    assert described.describe == (NamedNode("x:a"), Var("b")) and described.columns == ()
    assert isinstance(parse("ASK { ?a ?b ?c }", dialect="sparql").root, a.Bgp)


def test_dataset_clauses_are_kept_apart_from_windows() -> None:
    query = parse("SELECT * FROM <d> FROM NAMED <n> FROM NAMED <s> [NOW] AS ?v { GRAPH ?v { ?a ?b ?c } }")
    assert query.dataset.default == (NamedNode("http://localhost/d"),)
    assert query.dataset.named == (NamedNode("http://localhost/n"),)


# --- terms


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("1", Literal("1", datatype=NamedNode(X + "integer"))),
        ("+1.50", Literal("+1.50", datatype=NamedNode(X + "decimal"))),
        ("-.5E-3", Literal("-.5E-3", datatype=NamedNode(X + "double"))),
        ("TRUE", Literal("true", datatype=NamedNode(X + "boolean"))),
        ("'a\\n\\u0062\\U00000063\\\\'", Literal("a\nbc\\")),
        ('"""a"b""c"""', Literal('a"b""c')),
        ("'x'@en-GB", Literal("x", language="en-gb")),
        ("'1'^^<x:t>", Literal("1", datatype=NamedNode("x:t"))),
        ("<\\u0061>", NamedNode("http://localhost/a")),
        ("p:a\\~b%20c", NamedNode("http://p/a~b%20c")),
        ("<été>", NamedNode("http://localhost/été")),
        ("p:été", NamedNode("http://p/été")),
    ],
)
def test_terms_are_read_exactly(text: str, term: object) -> None:
    query = parse(f"PREFIX p: <http://p/> SELECT * {{ ?a <q> {text} }}", dialect="sparql")
    assert query.root.input.patterns[0].object == term  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reference", "iri"),
    [
        ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("/g", "http://a/g"), ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"), ("#", "http://a/b/c/d;p?q#"), ("", "http://a/b/c/d;p?q"), ("..", "http://a/b/"),
        ("../../../g", "http://a/g"), ("g/../h", "http://a/b/c/h"), ("urn:x", "urn:x"),
    ],
)  # fmt: skip
def test_references_resolve_as_rfc_3986_says(reference: str, iri: str) -> None:
    assert resolve("http://a/b/c/d;p?q", reference) == iri


def test_base_iri_is_what_relative_iris_resolve_against_without_base() -> None:
    query = parse("SELECT * { ?a <warning/tvs> ?b }", base_iri="https://e.org/x/")
    assert query.root.input.patterns[0].predicate == NamedNode("https://e.org/x/warning/tvs")  # type: ignore[union-attr]
    assert query.base_iri == "https://e.org/x/"


# --- parameters


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("x", Literal("x")),
        (3, Literal("3", datatype=NamedNode(X + "integer"))),
        (1.5, Literal("1.5", datatype=NamedNode(X + "double"))),
        (True, Literal("true", datatype=NamedNode(X + "boolean"))),
        ({"type": "uri", "value": "x:a"}, NamedNode("x:a")),
        ({"type": "literal", "value": "a", "xml:lang": "en"}, Literal("a", language="en")),
        (
            {"type": "literal", "value": "1", "datatype": X + "byte"},
            Literal("1", datatype=NamedNode(X + "byte")),
        ),
        ('"; DROP', Literal('"; DROP')),
    ],
)
def test_a_parameter_is_a_term_and_never_text(value: object, term: object) -> None:
    query = parse('SELECT * { STREAM <s> [NOW] { ?a <p> "$ the Name $" } }', parameters={"the Name": value})
    assert query.root.input.input.patterns[0].object == term  # type: ignore[union-attr]
    assert query.parameters == ("the Name",)


@pytest.mark.parametrize(
    "value", [None, [1], {"type": "bnode", "value": "b"}, {"type": "uri", "value": "no iri"}, {"value": "x"}]
)
def test_what_is_no_term_is_refused_as_a_parameter(value: object) -> None:
    with pytest.raises(QueryTextError, match="the value of the parameter P"):
        parse('SELECT * { STREAM <s> [NOW] { ?a <p> "$P$" } }', parameters={"P": value})


def test_a_parameter_that_is_not_used_is_warned_of() -> None:
    assert parse("SELECT * { STREAM <s> [NOW] { ?a ?b ?c } }", parameters={"P": 1}).warnings == (
        "The parameter P is given but does not occur in the query.",
    )


def test_dollar_signs_in_plain_sparql_are_dollar_signs() -> None:
    assert where('?a <p> "$Name$"').patterns[0].object == Literal("$Name$")
    assert where('?a <p> "$Name$"', parameters={"Name": 1}).patterns[0].object.value == "1"
    assert where('?a <p> "$Name$ and more"', parameters={"Name": 1}).patterns[0].object == Literal(
        "$Name$ and more"
    )


# --- functions


def test_extension_aggregates_have_a_name_and_an_iri() -> None:
    named = parse("SELECT (PERCENTILE(DISTINCT ?x, 95) AS ?p) { STREAM <s> [NOW] { ?a ?b ?x } }").root
    by_iri = parse(
        "SELECT (<urn:quadrill:aggregate:percentile>(DISTINCT ?x, 95) AS ?p) { STREAM <s> [NOW] { ?a ?b ?x } }"
    ).root
    assert named == by_iri
    aggregate = named.input.input.aggregates[0][1]  # type: ignore[union-attr]
    assert (aggregate.name, aggregate.expr, aggregate.distinct) == ("PERCENTILE", Var("x"), True)
    assert aggregate.parameter == a.Constant(Literal("95", datatype=NamedNode(X + "integer")))


def test_timestamp_of_csparql_is_a_call() -> None:
    text = "SELECT * FROM STREAM <s> [RANGE 5s STEP 1s] { ?a ?b ?c FILTER(%s(?a) > 3) }"
    first = parse(text % "timestamp").root
    second = parse(text % "<http://larkc.eu/csparql/sparql/jena/ext#timestamp>").root
    assert first == second
    assert first.input.input.condition.args[0] == a.Call("TIMESTAMP", (Var("a"),))  # type: ignore[union-attr]


def test_signs_and_operators_keep_their_meaning_without_spaces() -> None:
    tight, spaced = where("BIND(?a-1*2+?b AS ?c)"), where("BIND(?a + -1 * 2 + ?b AS ?c)")
    assert tight == spaced
    assert where("FILTER(?a<?b)") == where("FILTER(?a < ?b)")


def test_service_inside_a_window_is_unsupported_by_name() -> None:
    with pytest.raises(UnsupportedError, match="SERVICE inside a STREAM block") as caught:
        parse("SELECT * { STREAM <s> [NOW] { ?a ?b ?c SERVICE <e> { ?a ?d ?e } } }")
    assert caught.value.hint


# --- limits


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { " + "{" * 3000 + "}" * 3001,
        "SELECT * { FILTER(" + "(" * 500 + "1" + ")" * 500 + ") }",
        "SELECT * { ?a ?b " + "[ <p> " * 200 + "1" + "]" * 200 + " }",
        "SELECT * { ?a " + "(" * 200 + "<p>" + ")" * 200 + " ?b }",
        "SELECT * { ?a <p> " + "<< " * 100 + "?a <p> ?b" + " >>" * 100 + " }",
        "SELECT * { FILTER(" + "!" * 1000 + "?x) }",
        "SELECT * { FILTER(" + "+".join(["?x"] * 1000) + ") }",
        "SELECT * { " + "OPTIONAL { ?a ?b ?c } " * 500 + "}",
        "SELECT * { " + "?a ?b ?c . " * 6000 + "}",
        "SELECT * { ?a <p> '" + "x" * 200_000 + "' }",
    ],
)
def test_a_text_over_a_limit_is_refused_as_such(text: str) -> None:
    with pytest.raises(QueryTextError) as caught:
        parse(text, dialect="sparql")
    assert caught.value.code == "limit"
    assert caught.value.line and len(caught.value.excerpt or "") < 1000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { " + "{ ?a <p> ?b } UNION " * 800 + "{} }",
        "SELECT * { FILTER(" + " || ".join(["?x = 1"] * 3000) + ") }",
        "SELECT * { " + "{ SELECT ?a { ?a <p> ?b } } " * 800 + "}",
        "SELECT * { ?a " + "/".join(["<p>"] * 2000) + " ?b }",
        "SELECT * { VALUES ?x { " + "1 " * 50_000 + "} }",
        "SELECT * { " + "{" * 60 + "?a ?b ?c" + "}" * 60 + " }",
        "SELECT * { FILTER(" + "!" * 190 + "?x) }",
    ],
)
def test_long_texts_within_the_limits_leave_room_on_the_stack(text: str) -> None:
    frames = 0
    frame: Any = sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + 700)
    try:
        parse(text, dialect="sparql", limits=LanguageLimits())
    finally:
        sys.setrecursionlimit(limit)


def test_half_characters_are_refused() -> None:
    with pytest.raises(QueryTextError, match="half a character"):
        parse("ASK { ?a ?b '\ud800' }")
