"""What can wait for LIMIT: computed columns, unless a condition has EXISTS."""

from __future__ import annotations

import pytest

from quadrill.continuous.algebra.sliced import sliced
from quadrill.continuous.language import parse


@pytest.mark.parametrize(
    ("tail", "late"),
    [
        ("LIMIT 2", ["a", "b", "c"]),
        ("ORDER BY ?x LIMIT 2", ["a", "b", "c"]),
        ("ORDER BY DESC(?b) LIMIT 2", ["a", "b", "c"]),
        ("ORDER BY ?x ?c OFFSET 1 LIMIT 2", ["a", "b", "c"]),
        ("ORDER BY ?x", []),
        ("ORDER BY ?x OFFSET 2", []),
        ("ORDER BY EXISTS { ?x <urn:q> ?a } LIMIT 2", []),
    ],
)
def test_columns_wait_also_where_a_condition_asks_for_their_values(tail: str, late: list[str]) -> None:
    text = "SELECT ?x (?x + 1 AS ?a) (?a + 1 AS ?b) (?x + 2 AS ?c) { STREAM <urn:s> [NOW] { ?s <urn:p> ?x } }"
    parts = sliced(parse(text + tail).root).with_deferred_columns()
    assert [each.var.name for each in parts.late] == late
