"""Queries that are right and may not be meant are told so."""

from __future__ import annotations

import pytest

from quadrill.continuous.language import parse

from .test_documentation import EXAMPLES


def products(text: str) -> list[str]:
    return [warning for warning in parse(text).warnings if warning.startswith("Nothing connects")]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("?a <p> ?b . ?x <q> ?y", "?a, ?b with ?x, ?y"),
        ("STREAM <s> [NOW] { ?a <p> ?b } STREAM <t> [NOW] { ?x <q> ?y }", "?a, ?b with ?x, ?y"),
        ("STREAM <s> [NOW] { ?a <p> ?b } OPTIONAL { ?x <q> ?y }", "?a, ?b with ?x, ?y"),
        ("STREAM <s> [NOW] { ?a <p> ?b } { SELECT ?x { ?x <q> ?y } }", "?a, ?b with ?x"),
        ("?a <p> ?b . VALUES ?x { 1 2 }", "?a, ?b with ?x"),
        ("GRAPH ?g { ?a <p> ?b } GRAPH ?h { ?x <q> ?y }", "?a, ?b, ?g with ?h, ?x, ?y"),
        ("?a <p> ?b . BIND(?b + 1 AS ?c) ?x <q> ?y . ?x <r> ?z . ?z <r> ?v", "?a, ?b, ?c with ?v, ?x, ?y, …"),
        ("{ ?a <p> ?b . ?x <q> ?y } UNION { ?a <p> 1 }", "?a, ?b with ?x, ?y"),
    ],
)
def test_parts_that_share_no_variable_are_named(pattern: str, parts: str) -> None:
    (warning,) = products(f"SELECT * WHERE {{ {pattern} }}")
    assert warning == f"Nothing connects {parts}: each row of one is combined with each row of the other."


@pytest.mark.parametrize(
    "pattern",
    [
        "?a <p> ?b . ?b <q> ?c",
        "?a <p> ?b . ?x <q> ?y FILTER(?b < ?y)",
        "?a <p> ?b . BIND(?b AS ?x) ?x <q> ?y",
        "?a <p> ?b OPTIONAL { ?a <q> ?c . ?b <r> ?d }",
        "?a <p> ?b { ?a <q> ?c . ?b <r> ?d } UNION { ?a <q> ?d }",
        "?a <p> ?b MINUS { ?x <q> ?y }",
        "?a <p> ?b . <x> <q> <y>",
        "?a <p> ?b . VALUES ?x { 1 }",
        "?a <p> ?b { SELECT (COUNT(*) AS ?n) { ?x <q> ?y } }",
        "GRAPH ?g { ?a <p> ?b . ?x <q> ?y }",
        "?a <p> ?b FILTER NOT EXISTS { ?a <q> ?x . ?b <q> ?y }",
        "_:x <p> ?b . _:x <q> ?y",
    ],
)
def test_connected_parts_and_single_rows_are_no_product(pattern: str) -> None:
    assert products(f"SELECT * WHERE {{ {pattern} }}") == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (COUNT(?a) AS ?n) (MAX(?b) AS ?most) { ?a <p> ?b }",
        "SELECT (COUNT(?a) AS ?n) (MAX(?b) AS ?most) { ?a <p> ?b } ORDER BY ?n LIMIT 1",
        "SELECT * { { SELECT (COUNT(?a) AS ?n) (MAX(?b) AS ?most) { ?a <p> ?b } } ?x <q> ?y }",
    ],
)
def test_aggregates_of_a_query_without_groups_are_one_row(text: str) -> None:
    assert products(text) == []


def test_a_sub_query_is_looked_at_for_itself() -> None:
    inner = "SELECT ?x (COUNT(*) AS ?n) { ?x <q> ?y . ?v <r> ?w } GROUP BY ?x"
    assert len(products(f"SELECT ?a {{ ?a <p> ?x {{ {inner} }} }}")) == 1


def test_a_window_without_an_end_is_named_once() -> None:
    query = parse("SELECT * { STREAM <s> [ALL] { ?a <p> ?b } }")
    assert query.warnings == (
        "The window [ALL] on <http://localhost/s> keeps everything: its state is unbounded.",
    )


@pytest.mark.parametrize(("dialect", "parameters", "text"), EXAMPLES)
def test_no_example_of_the_reference_multiplies(dialect: str, parameters: str, text: str) -> None:
    found = [w for w in parse(text, parameters={"Name": "x"}).warnings if w.startswith("Nothing connects")]
    assert found == []
