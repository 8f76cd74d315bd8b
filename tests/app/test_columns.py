"""SELECT * lists its columns in order of first occurrence."""

from __future__ import annotations

import pytest

from quadrill.app.columns import with_ordered_columns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * { ?s ?p ?o }", "SELECT ?s ?p ?o { ?s ?p ?o }"),
        ("select distinct * where { ?z :p ?a }", "select distinct * where { ?z :p ?a }"),
        (
            "PREFIX : <urn:> select distinct * where { ?z :p ?a }",
            "PREFIX : <urn:> select distinct ?z ?a where { ?z :p ?a }",
        ),
        ("# SELECT *\nSELECT * { ?b <urn:p> ?a }", "# SELECT *\nSELECT ?b ?a { ?b <urn:p> ?a }"),
        ("SELECT ?a { { SELECT * { ?b ?a ?c } } }", "SELECT ?a { { SELECT * { ?b ?a ?c } } }"),
        ("SELECT * { <urn:a> <urn:b> <urn:c> }", "SELECT * { <urn:a> <urn:b> <urn:c> }"),
        ("SELECT (1*2 AS ?x) { }", "SELECT (1*2 AS ?x) { }"),
        ("SELECT * { ?s ?p }", "SELECT * { ?s ?p }"),
    ],
)
def test_the_outermost_star_is_written_out(text: str, expected: str) -> None:
    assert with_ordered_columns(text) == expected
