"""The query evaluation tests of the W3C suites through Spark: the rows are those of the store.

The store's own answers are compared with the suites' in tests/w3c; what the mirror refuses is listed here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from quadrill.continuous.algebra.columnar import Graphs
from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.language import parse
from quadrill.store.bulk.java import spark_missing
from quadrill.store.errors import UnsupportedError
from tests.continuous.algebra.test_w3c_roundtrip import DIFFERENT_EACH_TIME, evaluation_cases, load
from tests.continuous.spark.comparison import QuadsInMemory, by_spark, by_store
from tests.w3c.manifests import Case, iri_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or ""),
]

REFUSED = {
    "a triple term with variables on the mirror": 17,
    "a sub-query, MINUS or inline data in GRAPH ?variable on the mirror": 10,  # Background writes these out
    "GRAPH around an empty pattern on the mirror": 3,  # the mirror knows no empty graphs
    "EXISTS over a pattern in which the outer row is used below OPTIONAL, MINUS or BIND": 2,
    "FROM several graphs on the mirror": 1,  # of the triples in more than one the store gives all
}
"""What is refused, and how many cases need it."""

QUICK = ("sparql11/aggregates/agg-avg-01", "sparql11/property-path/pp31", "sparql11/negation/subset-03")


def compiled_cases() -> list[Case]:
    """Every case with an algebra whose answer is the same each time."""
    return [
        case
        for case in evaluation_cases()
        if not case.key.startswith("sparql11/entailment/")
        and not any(word in case.key for word in DIFFERENT_EACH_TIME)
    ]


def compare(case: Case, quads: dict[Any, QuadsInMemory], spark: Any) -> None:
    """Assert that Spark gives the rows of the store; raises UnsupportedError for what is refused."""
    assert case.query is not None
    query = parse(case.query.read_text(), dialect="sparql", base_iri=iri_of(case.query))
    if query.form == "describe":
        return
    store = load(case)
    key = tuple(sorted(map(str, store)))
    if key not in quads:
        quads.clear()  # cases over the same data follow one another
        quads[key] = QuadsInMemory(spark, store)
    columns = query.columns or tuple(
        Var(name) for name in sorted(in_scope(query.root)) if not name.startswith("_:")
    )
    default, named = query.dataset.default, query.dataset.named
    clause = bool(default or named)
    dataset = Graphs(tuple(map(str, default)), tuple(map(str, named))) if clause else Graphs()
    rows = by_spark(quads[key], query.root, columns, dataset, query.base_iri)
    assert rows == by_store(
        store,
        query.root,
        columns,
        query.base_iri,
        default if clause else None,
        named if clause else None,
    ), case.key


@pytest.mark.slow
def test_some_cases_give_the_rows_of_the_store(spark: Any) -> None:
    quads: dict[Any, QuadsInMemory] = {}
    chosen = [case for case in compiled_cases() if case.key in QUICK]
    assert len(chosen) == len(QUICK)
    for case in chosen:
        compare(case, quads, spark)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_case_gives_the_rows_of_the_store_or_is_refused_by_name(spark: Any) -> None:
    quads: dict[Any, QuadsInMemory] = {}
    refused: Counter[str] = Counter()
    for case in compiled_cases():
        try:
            compare(case, quads, spark)
        except UnsupportedError as error:
            refused[error.construct] += 1
    assert refused == REFUSED
