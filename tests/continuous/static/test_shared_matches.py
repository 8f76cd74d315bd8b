"""OPTIONAL, MINUS and EXISTS look static parts up in rows that all queries share, and copy none of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, NamedNode, Quad

from ..engines import Bench, E, bench, reference_evaluator

NAMES = "abc"
SHAPES = (
    "OPTIONAL { ?x :label ?l }",
    "OPTIONAL { ?x :label ?l FILTER(?l != :b) }",
    "OPTIONAL { ?y :label ?l }",
    "OPTIONAL { ?x :label ?l } OPTIONAL { ?l :label ?x }",
    "OPTIONAL { ?x :label ?l } ?x :label ?m",
    "MINUS { ?x :label ?l }",
    "MINUS { ?x :label :b }",
    "FILTER EXISTS { ?x :label ?l }",
    "FILTER NOT EXISTS { ?x :label ?l . ?l :label ?m }",
    "BIND(EXISTS { ?x :label ?l } AS ?l2)",
)
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=3)
EVENTS = st.one_of(
    st.tuples(st.just("push"), st.sets(st.sampled_from(NAMES), min_size=1)),
    st.tuples(st.just("commit"), EDGES, EDGES),
)


def quads(edges: list[tuple[str, str]]) -> list[Quad]:
    label = NamedNode(E + "label")
    return [Quad(NamedNode(E + a), label, NamedNode(E + b), DefaultGraph()) for a, b in edges]


def follow(one: Bench, name: str, text: str, events: list[Any], **options: Any) -> list[Any]:
    """What a query tells of some events: rows of each instant, in no order."""
    one.store.writer.apply(add=quads([("a", "b"), ("a", "c"), ("b", "a")]))
    one.register(name, text, output="changes", **options)
    for at, (kind, *what) in enumerate(events, 1):
        if kind == "push":
            one.push(at * 1000, *what[0])
        else:
            one.store.writer.apply(add=quads(what[0]), remove=quads(what[1]))
    told: dict[Any, list[str]] = {}
    for event in one.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        rows = document["results"]["bindings"]
        told.setdefault((event.kind, document["at"], document["version"]), []).extend(
            json.dumps(row, sort_keys=True) for row in rows
        )
    return sorted((*key, sorted(rows)) for key, rows in told.items())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SHAPES), st.lists(EVENTS, max_size=8))
def test_rows_that_are_looked_up_give_what_the_definition_gives(shape: str, events: list[Any]) -> None:
    text = f"SELECT * WHERE {{ STREAM :s [RANGE 3s] {{ ?x :seen ?v }} {shape} }}"
    with bench() as one, bench(static_rows=0) as other:
        other.engine.parts.make_evaluator = reference_evaluator
        assert follow(one, "q", text, events) == follow(other, "q", text, events)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_copies_no_rows_of_its_static_parts(shape: str) -> None:
    with bench() as one:
        one.store.writer.apply(add=quads([("a", "b"), ("a", "c")]))
        one.register("q", f"SELECT * WHERE {{ STREAM :s [RANGE 3s] {{ ?x :seen ?v }} {shape} }}")
        running = one.engine.parts.catalogue.get("q").running
        assert running is not None
        statics = running.evaluator.statics
        assert sorted(statics.arrangements) == list(range(len(statics.parts)))
        assert statics.look_again() == {}


def test_held_steps_are_not_seen_before_they_are_taken() -> None:
    """Refreshed by hand, the query sees the rows of then, though the table has moved on."""
    with bench() as one:
        one.store.writer.apply(add=quads([("a", "b")]))
        text = "SELECT ?x WHERE { STREAM :s [RANGE 9s] { ?x :seen ?v } MINUS { ?x :label ?l } }"
        one.register("q", text, refresh="manual", output="changes")
        one.store.writer.apply(add=quads([("c", "a")]), remove=quads([("a", "b")]))
        one.push(1000, "a", "c")
        assert one.told("q") == [("insert", 1000, "c")]
        one.engine.queries.refresh("q")
        assert one.told("q")[1:] == [("delete", 1000, "c"), ("insert", 1000, "a")]
