"""SELECT * lists its columns in order of first occurrence."""

from __future__ import annotations

import pytest

from quadrill.app.evaluation.columns import with_ordered_columns
from quadrill.continuous.analysis.prepared import prepared
from quadrill.store.sparql.skeletons import split_constants
from tests.app.conftest import Start


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


def test_columns_keep_their_order_in_a_worker_process(start_server: Start) -> None:
    server = start_server()
    server.update("INSERT DATA { <http://e/s> <http://e/p> 1 }")
    text = "SELECT * { { SELECT * { ?s ?p ?o } } ?s ?p ?other }"
    assert prepared(text, split_constants(text)).shape.is_unjudged
    assert server.query(text, "text/csv").text.splitlines()[0] == "s,p,o,other"
