"""The rules about scopes that Oxigraph does not check, against our own parser, which checks them all."""

from __future__ import annotations

import time

import pytest

from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QueryTextError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.scopes import check_scopes, may_break_scopes

REFUSED = {
    "SELECT (MAX(?t) AS ?t) { ?s ?p ?t }": (1, 20),
    "SELECT (SUM(?o)AS?o) { ?a ?p ?o }": (1, 18),
    "SELECT (COUNT(*) AS ?g) { ?s ?p ?o } GROUP BY (?s AS ?g)": (1, 21),
    "SELECT (COUNT(*) AS ?n)\n{ GRAPH ?n { ?a ?b ?c } }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { ?a ?b (1 ?n) }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { ?a ?b << ?a ?b ?n >> }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c OPTIONAL { ?a ?b ?n } }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c BIND((?c + 1) AS ?n) }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { VALUES (?a ?n) { (1 2) } }": (1, 21),
    "SELECT (COUNT(*) AS ?n) { { SELECT * { ?a ?b ?n } } }": (1, 21),
    "SELECT ?x { ?x ?p ?o\n{ SELECT (MAX(?o) AS ?o) { ?x ?p ?o } } }": (2, 22),
    "SELECT (COUNT(COUNT(?x)) AS ?y) { ?x ?p ?o }": (1, 15),
    "SELECT (SUM(1+MAX(?x)) AS ?y) { ?x ?p ?o }": (1, 15),
    "SELECT (COUNT(CONCAT(')', STR(MAX(?x)))) AS ?y) { ?x ?p ?o }": (1, 31),
    "SELECT ?z { ?x ?p ?o } GROUP BY (STR(?x) AS ?z) (1 AS ?z)": (1, 55),
    "SELECT ?o { ?x ?p ?o } GROUP BY (STR(?x) AS ?o)": (1, 45),
    "SELECT ?x { _:a ?p ?o BIND(1 AS ?y) _:a ?q ?x }": (1, 37),
    "SELECT ?x { _:a ?p ?o VALUES ?y {1} ?z ?q (_:a) }": None,
}
RIGHT = [
    "SELECT (COUNT(*) AS ?n) (MAX(?x) AS ?m) { ?a ?p ?x FILTER EXISTS { ?n ?y ?m } MINUS { ?n ?m ?n } }",
    "SELECT (COUNT(*) AS ?n) (MAX(?c) AS ?m) { ?a ?p ?c FILTER(?n > 1 && (?m > 2)) }",
    "SELECT (COUNT(*) AS ?n) { { SELECT (COUNT(*) AS ?m) { { SELECT (COUNT(*) AS ?n) { ?a ?b ?c } } } } }",
    "SELECT ?n (COUNT(*) AS ?c) { { SELECT ?a (COUNT(*) AS ?n) { ?a ?b ?c } GROUP BY ?a } } GROUP BY ?n"
    " ORDER BY ?c ?n",
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c BIND(?n AS ?d) }",
    "SELECT ?a (COUNT(*) AS ?n) (COUNT(DISTINCT ?c) AS ?m) FROM <http://n/> WHERE { ?a ?b ?c } GROUP BY ?a"
    " HAVING (COUNT(*) > 1) ORDER BY ?n DESC(?m) LIMIT 1 OFFSET 2",
    "SELECT (SUM(IF(EXISTS{ {SELECT (COUNT(*) AS ?z) {?a ?b ?c}} }, 1, 0)) AS ?n) { ?a ?b ?c }",
    "SELECT (AVG(?c) AS ?m) { ?a ?b ?c . _:x ?b ?c FILTER(?c > 1) _:x ?d ?e BIND(1 AS ?y) VALUES ?w {1} }",
    "SELECT (GROUP_CONCAT(DISTINCT STR(?c); SEPARATOR=' AS ?c ') AS ?n) (COUNT(?c) AS ?k) { ?a ?b ?c }",
    "SELECT (SUM(?o) AS ?x) { ?a ?p ?o } ORDER BY ?x",
    "SELECT ?a (SUM(?o) AS ?x) { ?a ?x ?o } GROUP BY ?a",
    "SELECT * { { SELECT ?o (COUNT(*) AS ?x) { ?a ?p ?o } GROUP BY ?o } } VALUES ?o { 1 }",
    "CONSTRUCT { _:a ?p ?o } { _:b ?p ?o BIND(1 AS ?x) VALUES ?y { 2 } }",
]


@pytest.fixture
def store() -> QuadStore:
    return QuadStore.open(None)


@pytest.mark.parametrize("text", REFUSED)
def test_what_breaks_a_rule_is_refused_at_its_place_as_in_continuous_queries(
    text: str,
) -> None:
    with pytest.raises(QueryTextError) as ours:
        parse(text, dialect="sparql", base_iri="http://b/")
    with pytest.raises(QueryTextError) as found:
        check_scopes(text)
    assert found.value.hint
    assert found.value.excerpt is not None
    if (place := REFUSED[text]) is not None:
        assert (found.value.line, found.value.column) == (ours.value.line, ours.value.column) == place


@pytest.mark.parametrize("text", RIGHT)
def test_what_breaks_none_is_answered(text: str, store: QuadStore) -> None:
    check_scopes(text)
    with store.query(text):
        pass


def test_the_where_part_of_an_update_has_the_same_rules(store: QuadStore) -> None:
    text = (
        "INSERT DATA { <a:a> <a:b> 1 } ;\n"
        "INSERT { ?a ?b ?t } WHERE { ?a ?b ?c { SELECT (MAX(?t) AS ?t) {?s ?p ?t} } }"
    )
    with pytest.raises(QueryTextError) as found:
        store.update(text)
    assert (found.value.line, found.value.column) == (2, 59)
    assert store.version == 0


def test_small_queries_without_a_name_said_twice_are_not_read() -> None:
    assert not may_break_scopes("SELECT ?s { ?s ?p ?o } LIMIT 10")
    assert not may_break_scopes("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n)")
    assert not may_break_scopes("SELECT (MIN(?o) AS ?a) (MAX(?o) AS ?b) { ?s ?p ?o }")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (COUNT(*) AS ?n) (SUM(?x) AS ?m) "
        + "{" * 9000
        + "".join(f"?v{at} ?p ?n ." for at in range(9000))
        + "}" * 9000,
        f"SELECT {''.join(f'(SUM(?y) AS ?v{at})' for at in range(9000))} {{ ?x ?y ?v8999 }}",
        "(" * 100_000 + "COUNT(" * 8_000,
        "{" + "_:a ?p ?o BIND(1 AS ?x)" * 8_000,
    ],
)
def test_the_longest_texts_are_read_in_a_moment(text: str) -> None:
    began = time.process_time()
    with pytest.raises(QueryTextError):
        check_scopes(text)
    assert time.process_time() - began < 5
