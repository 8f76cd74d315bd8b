"""Every syntax test of the W3C suites: positive texts parse, negative ones are refused.

The texts of the evaluation tests must parse as well. Source: tests/w3c/data, the unmodified suites.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, NamedNode, RdfFormat, Store

from quadrill.continuous.language import parse
from quadrill.store.errors import QueryTextError

DATA = Path(__file__).parents[2] / "w3c" / "data"
BASE = "https://w3c.github.io/rdf-tests/"
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QUERY = NamedNode("http://www.w3.org/2001/sw/DataAccess/tests/test-query#query")
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
POSITIVE = {MF + "PositiveSyntaxTest", MF + "PositiveSyntaxTest11", MF + "QueryEvaluationTest"}
NEGATIVE = {MF + "NegativeSyntaxTest", MF + "NegativeSyntaxTest11"}

_ESCAPES = "escapes stand anywhere, as section 19.2 of SPARQL 1.1 has it; SPARQL 1.2 takes that back"
EXCEPTIONS = {
    "sparql/sparql12/codepoint-escapes/codepoint-esc-01-bad.rq": _ESCAPES,
    "sparql/sparql12/codepoint-escapes/codepoint-esc-03-bad.rq": _ESCAPES,
}
"""Test files on which we differ, each with its reason."""


@cache
def cases() -> tuple[tuple[str, bool], ...]:
    """(query file relative to the data, must it parse) of every manifest."""
    found: dict[tuple[str, bool], None] = {}
    for manifest in sorted(DATA.glob("sparql/*/**/manifest*.ttl")):
        store = Store()
        store.load(
            path=str(manifest), format=RdfFormat.TURTLE, base_iri=BASE + manifest.relative_to(DATA).as_posix()
        )
        found.update(dict.fromkeys(entries(store)))
    return tuple(found)


def entries(store: Store) -> Iterator[tuple[str, bool]]:
    for quad in store.quads_for_pattern(None, TYPE, None):
        assert isinstance(quad.object, NamedNode)
        kind = quad.object.value
        if kind not in POSITIVE | NEGATIVE:
            continue
        for action in store.quads_for_pattern(quad.subject, NamedNode(MF + "action"), None):
            node = action.object
            if isinstance(node, BlankNode):
                nodes = [each.object for each in store.quads_for_pattern(node, QUERY, None)]
                node = nodes[0] if nodes else NamedNode("urn:none")
            assert isinstance(node, NamedNode)
            if node.value.endswith(".rq"):
                yield node.value.removeprefix(BASE), kind in POSITIVE


@pytest.mark.parametrize("suite", ["sparql10", "sparql11", "sparql12"])
@pytest.mark.parametrize("positive", [True, False], ids=["positive", "negative"])
def test_the_grammar_agrees_with_the_suite(suite: str, positive: bool) -> None:
    chosen = [name for name, good in cases() if good == positive and name.startswith(f"sparql/{suite}/")]
    assert len(chosen) > {"sparql10": 10, "sparql11": 20, "sparql12": 40}[suite]
    wrong = [name for name in chosen if name not in EXCEPTIONS and accepted(name) != positive]
    assert wrong == []


def accepted(name: str) -> bool:
    # newline="" keeps the carriage returns that some tests are about
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        text = file.read()
    try:
        parse(text, dialect="sparql", base_iri=BASE + name)
    except QueryTextError:
        return False
    return True


def test_refusals_of_plain_queries_have_a_place_and_words() -> None:
    for name, good in cases():
        if good or name in EXCEPTIONS:
            continue
        with (
            (DATA / name).open(encoding="utf-8", newline="") as file,
            pytest.raises(QueryTextError) as caught,
        ):
            parse(file.read(), dialect="sparql")
        error = caught.value
        assert error.line and error.column and error.excerpt and error.excerpt.endswith("^"), name
        assert error.faults and error.faults[0]["line"] == error.line
        assert "Token(" not in error.message and "__" not in error.message, name
