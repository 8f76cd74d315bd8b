"""Query evaluation of SPARQL 1.0, 1.1 and 1.2, and the CSV and TSV results, over HTTP.

Left out are the entailment regimes, which tests/continuous/rules/test_w3c_entailment.py has, and the
federated queries, which need seven foreign endpoints to answer.
"""

from __future__ import annotations

import csv
import io
from collections import Counter

import pytest
from pyoxigraph import QueryResultsFormat, RdfFormat, parse

from tests.w3c.compare import (
    Solutions,
    asks_for_order,
    expected_results,
    graphs_equal,
    read_results,
    solutions_equal,
)
from tests.w3c.endpoint import Endpoint, data_of, text_of
from tests.w3c.expectations import expected_failures, params
from tests.w3c.manifests import Case, cases

SUITES = ("sparql10/manifest.ttl", "sparql11/manifest-all.ttl", "sparql12/manifest.ttl")
LEFT_OUT = ("sparql11/entailment/", "sparql11/service/")


def _evaluation_cases() -> list[Case]:
    return [
        case
        for suite in SUITES
        for case in cases(suite)
        if case.kind in ("QueryEvaluationTest", "CSVResultFormatTest") and not case.key.startswith(LEFT_OUT)
    ]


@pytest.mark.parametrize("case", params(_evaluation_cases()))
def test_a_query_gives_the_expected_answer(case: Case, endpoint: Endpoint) -> None:
    assert case.result is not None
    endpoint.reset(data_of(case))
    if case.kind == "CSVResultFormatTest":
        _compare_csv(case, endpoint)
        return
    expected = expected_results(case.result)
    if isinstance(expected, set):
        answer = endpoint.query(text_of(case), "application/n-triples")
        assert answer.status_code == 200, answer.text
        assert graphs_equal(set(parse(answer.content, format=RdfFormat.N_TRIPLES)), expected)
        return
    tsv = case.result.suffix == ".tsv"
    media_type = "text/tab-separated-values" if tsv else "application/sparql-results+json"
    answer = endpoint.query(text_of(case), media_type)
    assert answer.status_code == 200, answer.text
    actual = read_results(answer.content, QueryResultsFormat.TSV if tsv else QueryResultsFormat.JSON)
    if isinstance(expected, bool) or isinstance(actual, bool):
        assert actual is expected
        return
    assert isinstance(actual, Solutions)
    ordered = asks_for_order(text_of(case))
    assert solutions_equal(actual, expected, ordered=ordered), f"got {actual.rows}, expected {expected.rows}"


def _compare_csv(case: Case, endpoint: Endpoint) -> None:
    assert case.result is not None
    answer = endpoint.query(text_of(case), "text/csv")
    assert answer.status_code == 200, answer.text
    expected = list(csv.reader(io.StringIO(case.result.read_text("utf-8"))))
    actual = list(csv.reader(io.StringIO(answer.text)))
    assert actual[0] == expected[0]
    assert sorted(_without_labels(actual[1:])) == sorted(_without_labels(expected[1:]))


def _without_labels(rows: list[list[str]]) -> list[list[str]]:
    names: dict[str, str] = {}
    return [
        [names.setdefault(c, f"_:{len(names)}") if c.startswith("_:") else c for c in row] for row in rows
    ]


def test_the_list_of_expected_failures_names_only_cases_that_exist() -> None:
    known = {case.key for suite in SUITES for case in cases(suite)}
    assert set(expected_failures()) <= known


def test_the_suites_have_the_sizes_that_are_reported() -> None:
    sizes = Counter((case.key.split("/")[0], case.kind) for case in _evaluation_cases())
    assert sizes == {
        ("sparql10", "QueryEvaluationTest"): 283,
        ("sparql11", "QueryEvaluationTest"): 232,
        ("sparql11", "CSVResultFormatTest"): 3,
        ("sparql12", "QueryEvaluationTest"): 63,
    }
