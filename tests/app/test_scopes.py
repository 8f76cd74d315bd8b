"""The rules about names that Oxigraph does not check are told at their place, in queries and updates."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from quadrill.app.evaluation import query_faults
from quadrill.app.evaluation.where_parts import ServerWherePart
from quadrill.continuous.analysis.prepared import prepared
from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QueryTextError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.skeletons import split_constants
from quadrill.store.sparql.update_plan import UpdateRequest

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


def refuse_unchecked(text: str) -> None:
    query_faults.refuse_unchecked(text, "http://b/", prepared(text, split_constants(text)))


@pytest.fixture
def store() -> QuadStore:
    return QuadStore.open(None)


@pytest.mark.parametrize("text", REFUSED)
def test_what_breaks_a_rule_is_refused_at_its_place_as_in_continuous_queries(text: str) -> None:
    with pytest.raises(QueryTextError) as ours:
        parse(text, dialect="sparql", base_iri="http://b/")
    with pytest.raises(QueryTextError) as found:
        refuse_unchecked(text)
    assert found.value.hint
    assert found.value.excerpt is not None
    assert (found.value.line, found.value.column) == (ours.value.line, ours.value.column)
    if (place := REFUSED[text]) is not None:
        assert (found.value.line, found.value.column) == place


@pytest.mark.parametrize("text", RIGHT)
def test_what_breaks_none_is_answered(text: str, store: QuadStore) -> None:
    refuse_unchecked(text)
    with store.reader.query(text):
        pass


@pytest.mark.parametrize("text", REFUSED)
def test_the_where_part_of_an_update_has_the_same_rules(text: str, store: QuadStore) -> None:
    update = f"INSERT DATA {{ <a:a> <a:b> 1 }} ;\nINSERT {{ ?a ?b ?s }} WHERE {{\n{{ {text} }} }}"
    with pytest.raises(QueryTextError) as found:
        store.writer.update(UpdateRequest(update, where_parts=ServerWherePart))
    if (place := REFUSED[text]) is not None:
        assert (found.value.line, found.value.column) == (place[0] + 2, place[1] + 2 * (place[0] == 1))
    assert store.reader.version == 0


def test_constants_change_nothing_of_the_place() -> None:
    for iri in ("<urn:a>", "<http://example.org/a/longer/one>"):
        text = f"SELECT (MAX(?t) AS ?t) {{ {iri} ?p ?t }}"
        with pytest.raises(QueryTextError) as found:
            refuse_unchecked(text)
        assert (found.value.line, found.value.column) == (1, 20)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (COUNT(*) AS ?n) (SUM(?x) AS ?m) "
        + "{" * 300
        + "".join(f"?v{at} ?p ?n ." for at in range(300))
        + "}" * 300,
        f"SELECT {''.join(f'(SUM(?y) AS ?v{at})' for at in range(1_000))} {{ ?x ?y ?v999 }}",
        "(" * 20_000 + "COUNT(" * 2_000,
        "{" + "_:a ?p ?o BIND(1 AS ?x)" * 1_500,
    ],
)
def test_long_texts_are_read_in_a_moment(text: str) -> None:
    began = time.process_time()
    with suppress(QueryTextError):
        refuse_unchecked(text)
    assert time.process_time() - began < 5
