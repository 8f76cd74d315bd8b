"""The SPARQL 1.1 entailment tests of the W3C for RDFS and OWL RDF-Based semantics, with the built-in sets.

Each query reads the data and the inferred triples. Tests of other regimes (RDF, D, RIF, OWL Direct) are
omitted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad, QuerySolutions, Store

from quadrill.continuous.rules.built_in import built_in_rules
from tests.w3c.compare import Solutions, expected_results, read_graph, solutions_equal
from tests.w3c.manifests import Case, cases, iri_of

from .rule_store import RuleStore

MANIFEST = "sparql11/entailment/manifest.ttl"
_SD = "http://www.w3.org/ns/sparql-service-description#"
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_REGIME = "http://www.w3.org/ns/entailment/"
FAILURES = {
    "paper-sparqldl-Q1-rdfs": "a class is a subclass of itself: rdfs10 is not in the set",
    "rdfs11": "a property is a subproperty of itself: rdfs6 is not in the set",
    "sparqldl-10": "each term is the same as itself: eq-ref is not in the set",
    "sparqldl-11": "not in the profile OWL 2 RL: a range that follows from the domain of the inverse",
    "sparqldl-12": "not in the profile OWL 2 RL: the expected answer leaves out a class without a name",
}


def regimes(case: Case) -> set[str]:
    action = case.graph.one(case.node, _MF + "action")
    found = set()
    for value in case.graph.all(action, _SD + "entailmentRegime"):
        for each in [value] if isinstance(value, NamedNode) else case.graph.members(value):
            assert isinstance(each, NamedNode)
            found.add(each.value.removeprefix(_REGIME))
    return found


def selected() -> list[object]:
    marked = []
    for case in cases(MANIFEST):
        found = regimes(case)
        include = "owl2-rl" if "OWL-RDF-Based" in found else "rdfs" if "RDFS" in found else None
        if include is None:
            continue
        name = case.key.rsplit("/", 1)[-1]
        marks = [pytest.mark.xfail(strict=True, reason=FAILURES[name])] if name in FAILURES else []
        marked.append(pytest.param(case, include, id=name, marks=marks))
    return marked


def test_the_page_says_how_many_pass() -> None:
    total = len(selected())
    page = (Path(__file__).parents[3] / "docs" / "semantics.md").read_text("utf-8")
    assert f" pass, {total - len(FAILURES)} of {total};" in page


@pytest.mark.parametrize(("case", "include"), selected())
def test_query_over_inferred_triples_gives_the_expected_answer(case: Case, include: str) -> None:
    assert case.query is not None and case.result is not None
    rules = RuleStore(built_in_rules([include]))
    data = [Quad(*quad.triple) for file in case.data for quad in read_graph(file.path)]
    rules.commit(data, [])
    assert rules.inferred() == rules.recomputed()
    store = Store()
    store.extend(Quad(*quad.triple, DefaultGraph()) for quad in rules.store)
    answer = store.query(case.query.read_text("utf-8"), base_iri=iri_of(case.query))
    expected = expected_results(case.result)
    if isinstance(expected, bool):
        assert bool(answer) is expected
        return
    assert isinstance(answer, QuerySolutions) and isinstance(expected, Solutions)
    names = [variable.value for variable in answer.variables]
    rows = tuple({name: row[name] for name in names if row[name] is not None} for row in answer)
    assert solutions_equal(Solutions(rows), expected, ordered=False), f"{rows}\n{expected.rows}"
