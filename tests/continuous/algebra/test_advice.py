"""Names of variables that are right and may not be meant."""

from __future__ import annotations

import pytest

from quadrill.continuous.algebra.query_advice import variable_advice
from quadrill.continuous.language import parse

W = "STREAM <s> [NOW] { ?x <p> ?value }"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT ?x { %s }", ["?value occurs only once: is the name right? Write []"]),
        ("SELECT ?x ?value { %s }", []),
        ("SELECT * { %s }", []),
        ("SELECT DISTINCT * { %s }", []),
        ("SELECT ?x { %s FILTER(?value > 3) }", []),
        ("SELECT ?x ?valeu { %s FILTER(?value > 3) }", ["?valeu is never bound: is ?value meant?"]),
        ("SELECT ?x ?value { %s FILTER(?vlaue > 3) }", ["?vlaue is never bound: is ?value meant?"]),
        ("SELECT ?x ?value ?other { %s }", ["?other is never bound: no pattern has it."]),
        ("SELECT ?x ?value { %s ?x <q> ?valu }", ["?valu occurs only once: is ?value meant?"]),
        ("SELECT ?x ?value { %s GRAPH ?g { ?x <q> ?x } }", []),
        ("SELECT ?x { %s } GROUP BY ?x HAVING(COUNT(?value) > 1)", []),
        ("SELECT ?x (COUNT(?value) AS ?n) { %s } GROUP BY ?x", []),
        ("SELECT ?x (COUNT(*) AS ?n) { %s } GROUP BY ?x ORDER BY ?n", ["?value occurs only once"]),
        ("SELECT ?x ?value ?n { %s BIND(?value + 1 AS ?n) }", []),
        ("SELECT ?x ?value { %s FILTER NOT EXISTS { ?x <q> ?gone } }", ["?gone occurs only once"]),
        ("SELECT ?x ?value { %s OPTIONAL { ?x <q> [] } }", []),
        ("CONSTRUCT { ?x <q> ?value } { %s }", []),
        ("CONSTRUCT { ?x <q> ?valeu } { %s }", ["?valeu is never bound: is ?value", "?value occurs"]),
        ("SELECT ?x ?value { %s } # ?comment", []),
        ("SELECT ?x ?value { %s FILTER(?value != '?text') }", []),
        ("SELECT ?x ?value { %s { SELECT * { ?x <q> ?all } } }", []),
        ("SELECT ?x ?value { %s VALUES ?x { <a> } }", []),
        ("SELECT ?x ?value ?n { %s ?other <q> ?x ; <r> ?n }", []),
        ("SELECT ?x ?value { %s ?other <q> ?x }", ["?other occurs only once"]),
    ],
)  # fmt: skip
def test_variables_that_are_used_once_or_never_bound(text: str, told: list[str]) -> None:
    found = variable_advice(parse(text % W))
    assert len(found) == len(told) and all(map(str.startswith, found, told)), found


def test_parameters_are_no_variables() -> None:
    text = 'SELECT ?x { STREAM <s> [NOW] { ?x <p> "$Name$" } }'
    assert variable_advice(parse(text, parameters={"Name": "n"})) == []


def test_a_window_variable_may_stand_alone() -> None:
    text = (
        "SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT1S STEP PT1S] "
        "WHERE { WINDOW ?w { ?x <p> ?x } }"
    )  # fmt: skip
    assert variable_advice(parse(text)) == []
