"""The written text of a query has the answer of the query: on Oxigraph, for every evaluation test of the W3C suites.

DESCRIBE and dataset clauses are part of the text here; `tests/continuous/algebra/test_w3c_roundtrip.py` compares the
text of the algebra alone.
"""  # noqa: E501

from __future__ import annotations

import pytest
from pyoxigraph import Quad, QueryBoolean, QuerySolutions, QueryTriples, Store

from quadrill.continuous.language import parse
from quadrill.continuous.language.write import write
from tests.continuous.algebra.test_w3c_roundtrip import (
    DIFFERENT_EACH_TIME,
    REFUSED_BY_OXIGRAPH,
    canonical,
    evaluation_cases,
    load,
    rows_of,
)
from tests.w3c.manifests import Case, iri_of

CASES = [case for case in evaluation_cases() if case.key not in REFUSED_BY_OXIGRAPH]

DESCRIPTIONS = (
    "DESCRIBE :a",
    "DESCRIBE :a :c",
    "DESCRIBE ?x WHERE { ?x :p ?y }",
    "DESCRIBE * WHERE { ?x :p ?y }",
    "DESCRIBE ?x FROM :g WHERE { ?x :p ?y }",
    "DESCRIBE ?x :a WHERE { ?x :p ?y } ORDER BY ?y LIMIT 1",
    "DESCRIBE ?x WHERE { { SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x } FILTER(?n > 1) }",
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_the_written_text_means_what_the_text_means(case: Case) -> None:
    assert case.query is not None
    text, base = case.query.read_text(), iri_of(case.query)
    written = write(parse(text, dialect="sparql", base_iri=base))
    compare(load(case), text, written, base, exact=not any(word in case.key for word in DIFFERENT_EACH_TIME))


@pytest.mark.parametrize("text", DESCRIPTIONS)
def test_a_written_description_describes_the_same(text: str) -> None:
    store = Store()
    data = ":a :p 1, 2 ; :q :b . :b :p 3 . :c :r 4 . GRAPH :g { :c :p 5 }"
    store.update(f"PREFIX : <http://e/> INSERT DATA {{ {data} }}")
    text = f"PREFIX : <http://e/> {text}"
    described = store.query(text)
    assert isinstance(described, QueryTriples)
    assert list(described), "a description of nothing would agree with any"
    compare(store, text, write(parse(text, dialect="sparql")), "http://localhost/")


def compare(store: Store, text: str, written: str, base: str, *, exact: bool = True) -> None:
    original, again = store.query(text, base_iri=base), store.query(written, base_iri=base)
    if isinstance(original, QueryBoolean):
        assert bool(again) == bool(original), written
    elif isinstance(original, QueryTriples):
        assert isinstance(again, QueryTriples)
        assert canonical([Quad(*each) for each in again]) == canonical([Quad(*each) for each in original])
    else:
        assert isinstance(original, QuerySolutions) and isinstance(again, QuerySolutions)
        assert set(again.variables) == set(original.variables)  # Oxigraph sorts those of SELECT *
        found, expected = rows_of(again), rows_of(original)
        assert (found == expected) if exact else (found.total() == expected.total()), written
