"""Update evaluation of SPARQL 1.1 and 1.2 over HTTP."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from tests.w3c.compare import graphs_equal, read_graph
from tests.w3c.endpoint import Endpoint, text_of
from tests.w3c.expectations import params
from tests.w3c.manifests import Case, NamedFile, cases

CASES = [
    case
    for suite in ("sparql11/manifest-all.ttl", "sparql12/manifest.ttl")
    for case in cases(suite)
    if case.kind == "UpdateEvaluationTest"
]


def _dataset(files: tuple[NamedFile, ...]) -> set[Quad]:
    quads = set()
    for file in files:
        for quad in read_graph(file.path):
            if file.path.suffix == ".trig":
                quads.add(quad)
            elif file.graph is None:
                quads.add(Quad(quad.subject, quad.predicate, quad.object))
            else:
                quads.add(Quad(quad.subject, quad.predicate, quad.object, NamedNode(file.graph)))
    return quads


@pytest.mark.parametrize("case", params(CASES))
def test_an_update_leaves_the_expected_dataset(case: Case, endpoint: Endpoint) -> None:
    endpoint.reset(case.data)
    answer = endpoint.update(text_of(case))
    assert answer.status_code == 204, answer.text
    actual = set(parse(endpoint.dataset(), format=RdfFormat.N_QUADS))
    assert graphs_equal(actual, _dataset(case.result_data))
