"""Rows without an order of their own are told in a fixed one, whatever route led to them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Triple

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.dictionary import TermDictionary
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.results import TermTexts, in_fixed_order, solutions
from quadrill.store.terms import XSD_DECIMAL, Term
from quadrill.store.terms import term_text as term_form

from .engines import PREFIX, E, S, bench, reference_evaluator

ROWS = [
    (NamedNode(f"{E}{name}"), None if number % 3 else Literal(number))
    for number, name in enumerate("cabcbbaa")
]
TEXTS = {
    "istream": ("SELECT ?x ?y { STREAM :s [RANGE 3s] { ?x :p ?v } STREAM :s [RANGE 5s] { ?y :p ?v } }", {}),
    "changes": (
        "SELECT ?x ?n { STREAM :s [RANGE 2s] { ?x :p ?v } OPTIONAL { ?x :name ?n } }",
        {"output": "changes"},
    ),
    "rstream": ("SELECT ?x ?v { STREAM :s [RANGE 3s] { ?x :p ?v } }", {"output": "rstream"}),
    "construct": ("CONSTRUCT { ?x :q ?v . _:b :r ?x } { STREAM :s [RANGE 3s] { ?x :p ?v } }", {}),
}


@pytest.mark.parametrize("seed", range(5))
def test_the_fixed_order_does_not_depend_on_the_order_before(seed: int) -> None:
    mixed = random.Random(seed).sample(ROWS, len(ROWS))
    assert in_fixed_order(mixed) == in_fixed_order(ROWS)
    assert sorted(map(str, mixed)) == sorted(map(str, in_fixed_order(mixed)))


TERMS = [
    NamedNode(E + "a"), NamedNode(E + "é'%20&#"), NamedNode("urn:x"), BlankNode("b"),
    Literal("tab\t\"\\ é\x7f\n"), Literal("a b"),
    Literal("short"), Literal(-7), Literal("1.50", datatype=XSD_DECIMAL), Literal("x", language="en"),
    Literal(2.5), Literal("x", language="ar", direction=BaseDirection.RTL),
    Literal("v", datatype=NamedNode("urn:t")), Triple(NamedNode(E + "a"), NamedNode(E + "b"), Literal('"<< '))
]  # fmt: skip


@given(st.lists(st.tuples(*[st.sampled_from([None, *TERMS])] * 3), min_size=1), st.booleans(), st.booleans())
def test_rows_of_ids_are_listed_as_those_of_terms_are(
    rows: list[tuple[Term | None, ...]], by_text: bool, gap: bool
) -> None:
    dictionary = TermDictionary()
    if by_text:
        for term in TERMS:
            assert dictionary.texts[term_form(term)]
    ids = [tuple(map(dictionary.encode, row)) for row in rows]
    names, places = ("x", 'y"', "z"), (2, -1 if gap else 1, 0)
    told = [(row[2], None if gap else row[1], row[0]) for row in rows]
    found = json.loads("[{" + TermTexts(dictionary).listed(names, places, ids) + "}]")
    assert found == solutions(names, in_fixed_order(told))["results"]["bindings"]


def test_rows_without_columns_are_listed() -> None:
    assert TermTexts(TermDictionary()).listed((), (), [(), ()]) == "},{"


def feeds(make: Callable[..., Any] | None) -> dict[str, list[tuple[Any, ...]]]:
    """What both engines tell of the same pushes: id, kind and line."""
    clock = ManualClock(0)
    store = QuadStore.open(None, StoreOptions(clock_ms=clock.now_ms))
    store.writer.update(f'INSERT DATA {{ <{E}a> <{E}name> "A", "B" . <{E}c> <{E}name> "C" }}')
    engine = Engine(store, None, clock=clock, settings=EngineSettings(threaded=False), make_evaluator=make)
    engine.start()
    for name, (text, options) in TEXTS.items():
        engine.queries.register(Registration.from_json({"query": PREFIX + text, **options}, name=name))
    chance = random.Random(7)
    for at in range(500, 12_000, 500):
        names = chance.sample("abcdefgh", 5)
        body = "".join(f'<{E}{each}> <{E}p> "{chance.randrange(3)}" .\n' for each in names)
        engine.streams.push(PushCall(S, "application/n-triples", at=at), body.encode())
    told = {
        name: [(event.id, event.kind, event.data) for event in engine.queries.feed(name).subscribe(0).take()]
        for name in TEXTS
    }
    engine.stop()
    store.close()
    return told


def test_both_engines_tell_the_same_bytes() -> None:
    native, reference = feeds(None), feeds(reference_evaluator)
    for name in TEXTS:
        assert native[name] == reference[name], name
        assert any(line.count('"x"') > 2 or line.count("<") > 6 for _, _, line in native[name])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { STREAM :s [RANGE 3s] { ?x :p ?v } } LIMIT 1",
        "SELECT ?x { { SELECT ?x { STREAM :s [RANGE 3s] { ?x :p ?v } } LIMIT 1 } ?x :name ?n }",
    ],
)
def test_the_first_rows_without_an_order_are_those_of_the_fixed_one(text: str) -> None:
    with bench() as b:
        b.store.writer.update(f'INSERT DATA {{ <{E}a> <{E}name> "A" . <{E}b> <{E}name> "B" }}')
        b.register("q", text)
        for at, name in enumerate("ba"):
            line = f"<{E}{name}> <{E}p> 1 ."
            b.engine.streams.push(PushCall(S, "text/turtle", at=1000 + at), line.encode())
        (row,) = b.engine.queries.current_answer("q")["results"]["bindings"]
        assert row["x"]["value"] == E + "a"


def test_distinct_rows_are_counted_beside_what_asks_for_the_instant() -> None:
    with bench() as b:
        counted = "(COUNT(DISTINCT *) AS ?n) (COUNT(IF(YEAR(NOW()) > 2000, 0, ?o)) AS ?m)"
        b.register("q", f"SELECT {counted} {{ STREAM <{S}> [RANGE 5s] {{ ?x <{E}p> ?o }} }}")
        for at, name in enumerate("aba"):
            b.engine.streams.push(
                PushCall(S, "text/turtle", at=1000 + at), f"<{E}{name}> <{E}p> 1 .".encode()
            )
        (row,) = b.engine.queries.current_answer("q")["results"]["bindings"]
        assert (row["n"]["value"], row["m"]["value"]) == ("2", "2")
