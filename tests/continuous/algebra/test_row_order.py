"""Only the query's own ORDER BY, LIMIT or OFFSET orders its solutions."""

from __future__ import annotations

import pytest

from quadrill.continuous.algebra.rewrites import has_order
from quadrill.continuous.language.parser import parse


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("SELECT ?s { ?s ?p ?o }", False),
        ("SELECT ?s { ?s ?p ?o } ORDER BY ?o", True),
        ("SELECT DISTINCT ?s { ?s ?p ?o } ORDER BY ?s", True),
        ("SELECT ?s { ?s ?p ?o } LIMIT 3", True),
        ("SELECT ?s { ?s ?p ?o } OFFSET 3", True),
        ("SELECT ?s { { SELECT ?s { ?s ?p ?o } ORDER BY ?o } }", False),
        ("SELECT ?s { { SELECT ?s { ?s ?p ?o } LIMIT 3 } }", False),
        ("SELECT DISTINCT ?s { { SELECT ?s { ?s ?p ?o } LIMIT 3 } }", False),
    ],
)
def test_the_order_of_a_query_is_its_own(text: str, ordered: bool) -> None:
    assert has_order(parse(text).root) is ordered
