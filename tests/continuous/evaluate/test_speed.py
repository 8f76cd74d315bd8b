"""Large static tables: the plan looks rows up, it does not scan them at each evaluation.

The bound is ten times and more what a quiet machine needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import recomputed

from .helpers import evaluator, holding, iri

PEOPLE = 40_000


def person(number: int) -> NamedNode:
    return iri(f"person{number}")


@pytest.fixture(scope="module")
def people() -> Iterator[QuadStore]:
    quads = []
    for number in range(PEOPLE):
        quads.append(Quad(person(number), iri("name"), Literal(f"name {number}")))
        quads.append(Quad(person(number), iri("office"), iri(f"office{number % 50}")))
    for office in range(50):
        quads.append(Quad(iri(f"office{office}"), iri("beside"), iri(f"office{(office + 1) % 50}")))
    with holding(quads) as store:
        yield store


def seen(count: int) -> dict[Quad, int]:
    return {Quad(person(number * 7), iri("at"), iri(f"office{number % 50}")): 0 for number in range(count)}


@pytest.mark.always("static first", "not exists", "two windows")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ?p ?n { STREAM :s [NOW] { ?p :at ?l } ?p :name ?n ; :office ?o }", 20),
        ("SELECT ?p ?n { ?p :name ?n . ?p :office ?o STREAM :s [NOW] { ?p :at ?l } }", 20),
        ("SELECT ?p ?n { STREAM :s [NOW] { ?p :at ?l } OPTIONAL { ?p :name ?n } }", 20),
        ("SELECT ?p { STREAM :s [NOW] { ?p :at ?l } MINUS { ?p :office ?l } }", 19),
        ("SELECT ?p { STREAM :s [NOW] { ?p :at ?l } FILTER NOT EXISTS { ?p :office ?l } }", 19),
        (
            "SELECT ?p ?q { STREAM :s [NOW] { ?p ?any ?l } STREAM :s [NOW] { ?q :at ?m }"
            " ?l :beside ?m . ?q :name ?n }",
            19,
        ),
        (
            "SELECT ?p { STREAM :s [NOW] { ?p :at ?l } ?p :name ?n FILTER(STRLEN(?n) > STRLEN(STR(NOW()))) }",
            0,
        ),
    ],
    ids=["join", "static first", "optional", "minus", "not exists", "two windows", "now"],
)
def test_an_answer_over_a_table_of_forty_thousand_rows(text: str, rows: int, people: QuadStore) -> None:
    engine, query = evaluator(text, people)
    contents = {window.name: seen(20) for window in query.windows}
    assert len(recomputed(engine, 0, contents).rows) == rows
    started = time.process_time()
    for _ in range(3):
        recomputed(engine, 0, contents)
    assert (time.process_time() - started) / 3 < 0.1
