"""ORDER BY, MIN and MAX over unlike terms: one order, stated here a second time, in both engines."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.expressions.oxigraph import canonical
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, recomputed

XSD = "http://www.w3.org/2001/XMLSchema#"


def typed(text: str, name: str) -> Literal:
    return Literal(text, datatype=NamedNode(name if ":" in name else XSD + name))


ORDER: list[list[Any]] = [
    [BlankNode("a"), BlankNode("b")],
    [NamedNode("http://e/a"), NamedNode("http://e/b")],
    # numbers by value, NaN behind them
    [typed("-INF", "double"), typed("-3", "integer"), typed("-2.5", "decimal"), typed("0", "integer"),
     typed("2.5", "decimal"), typed("3", "float"), typed("10", "integer"), typed("INF", "double"),
     typed("NaN", "double")],
    # dates and dateTimes by datatype, then by their moment
    [typed("2020-01-02", "date"), typed("2019-12-31T23:00:00Z", "dateTime"),
     typed("2020-01-01T00:00:00Z", "dateTime")],
    [typed("09:00:00", "time"), typed("10:00:00", "time")],
    [typed("PT1H", "dayTimeDuration"), typed("P1D", "dayTimeDuration"), typed("P1M", "yearMonthDuration")],
    [typed("false", "boolean"), typed("true", "boolean")],
    [Literal(""), Literal("10"), Literal("9"), Literal("a"), Literal("ä")],
    # by characters, then by language
    [Literal("a", language="de"), Literal("a", language="en"), Literal("b", language="de")],
    # all others, ill-typed ones too, by datatype and text
    [typed("a", "http://e/t"), typed("b", "http://e/t"), typed("a", "http://e/u"), typed("maybe", "boolean"),
     typed("x", "integer")],
]  # fmt: skip
TERMS = [canonical(term) if isinstance(term, Literal) else term for kind in ORDER for term in kind]
RANK = {term: place for place, term in enumerate(TERMS)}
QUERIES = {
    "SELECT ?v { %s } ORDER BY ?v": lambda terms: sorted(terms, key=RANK.get),
    "SELECT ?v { %s } ORDER BY DESC(?v)": lambda terms: sorted(terms, key=RANK.get, reverse=True),
    "SELECT (MIN(?v) AS ?r) { %s }": lambda terms: [min(terms, key=RANK.get)],
    "SELECT (MAX(?v) AS ?r) { %s }": lambda terms: [max(terms, key=RANK.get)],
    "SELECT ?v { { SELECT ?v { %s } ORDER BY ?v LIMIT 2 } } ORDER BY ?v":
        lambda terms: sorted(terms, key=RANK.get)[:2],
}  # fmt: skip
WINDOW = "STREAM <s> [NOW] { ?x <urn:p> ?v }"


def quads(terms: Iterable[Any]) -> dict[Quad, int]:
    return {Quad(NamedNode(f"urn:{n}"), NamedNode("urn:p"), each): 0 for n, each in enumerate(terms)}


def lists() -> list[list[Any]]:
    chance = random.Random(13)
    pairs = [[a, b] for a, b in product(TERMS, repeat=2) if RANK[a] < RANK[b]]
    return [*pairs, *(chance.sample(TERMS, chance.randrange(3, len(TERMS))) for _ in range(30))]


@pytest.mark.parametrize("text", QUERIES)
def test_unlike_terms_have_one_order_in_both_engines(text: str) -> None:
    query = parse(text % WINDOW, dialect="cqels")
    name = query.windows[0].name
    store = QuadStore.open(None)
    native = NativeEvaluator(query, store, EvaluationOptions(name="q"))
    reference = ReferenceEvaluator(query, store, EvaluationOptions(name="q"))
    for number, terms in enumerate(lists()):
        wanted = [(each,) for each in QUERIES[text](terms)]
        contents = {name: dict.fromkeys(quads(terms), number)}
        assert list(answer_of(native, number, contents).rows) == wanted, "native"
        assert list(recomputed(reference, number, contents).rows) == wanted, "reference"
    native.close()
    store.close()


@pytest.mark.parametrize("text", [each for each in QUERIES if "LIMIT" in each or "(M" in each])
@pytest.mark.parametrize("make", [NativeEvaluator, ReferenceEvaluator])
def test_static_parts_have_that_order_too(make: Any, text: str) -> None:
    columns = "?v" if "LIMIT" in text else "?r"
    window, static = "STREAM <s> [NOW] { ?y <urn:q> ?z }", text % "?x <urn:p> ?v"
    around = f"SELECT {columns} {{ {window} {{ {static} }} }} ORDER BY {columns}"
    query = parse(around, dialect="cqels")
    name = query.windows[0].name
    marks = {Quad(NamedNode("urn:y"), NamedNode("urn:q"), Literal("z")): 0}
    for terms in random.Random(7).sample(lists(), 12):
        # A store gives blank nodes names of its own.
        known = [each for each in terms if not isinstance(each, BlankNode)] or TERMS[2:4]
        store = QuadStore.open(None)
        store.writer.apply(add=list(quads(known)))
        evaluator = make(query, store, EvaluationOptions(name="q"))
        found = (answer_of if make is NativeEvaluator else recomputed)(evaluator, 1, {name: marks})
        assert list(found.rows) == [(each,) for each in QUERIES[text](known)]
        store.close()
