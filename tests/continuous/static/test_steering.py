"""How often graphs change decides whether a commit is taken as deltas or the rows are read anew."""

from __future__ import annotations

import json

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.continuous.static import commit_delta as limits

from ..engines import Bench, E, bench

NAMED = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } GRAPH :g { ?x :label ?l } }"
ANY = NAMED.replace("GRAPH :g", "GRAPH ?g")
PLAIN = NAMED.replace("GRAPH :g {", "{")


def commit(one: Bench, number: int, graph: str | None = "g") -> None:
    name = DefaultGraph() if graph is None else NamedNode(E + graph)
    one.clock.advance(100)
    label = NamedNode(f"{E}l{number}")
    one.store.apply(add=[Quad(NamedNode(f"{E}x{n}"), NamedNode(E + "label"), label, name) for n in range(5)])


@pytest.fixture(autouse=True)
def keys_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    # Five keys take half a second; 60 commits in the least age of a graph, a minute, are one a second.
    monkeypatch.setattr(limits, "KEY_S", 0.1)
    monkeypatch.setattr(limits, "QUICK_S", -1.0)


def slow(one: Bench) -> None:
    """The tables there are take a second to read."""
    for table in one.engine.parts.statics.tables():
        table.took_s = 1.0


@pytest.mark.parametrize("text", [NAMED, ANY, PLAIN])
def test_a_graph_that_changes_too_often_for_deltas_is_read_anew(text: str) -> None:
    graph = None if text is PLAIN else "g"
    with bench(static_delta_share=0.5) as one:
        one.register("q", text, output="changes")
        one.push(1, "x1")
        for number in range(50):
            slow(one)
            commit(one, number, graph)
        (part,) = one.engine.describe("q")["static_parts"]
        assert part["anew_because"] is None
        for number in range(50, 100):
            slow(one)
            commit(one, number, graph)
        (part,) = one.engine.describe("q")["static_parts"]
        assert "5 keys at " in part["anew_because"]
        assert part["anew_because"].endswith("of the writers' time, the limit is 0.5")
        assert f"last read anew: {part['anew_because']}" in str(one.engine.explain("q"))
        told = [json.loads(event.data)["version"] for event in one.engine.feed("q").subscribe(0).take()]
        assert told == list(range(1, 101)), "what is told is the same"


def test_other_graphs_and_no_limit_change_nothing() -> None:
    for share, graph in ((0.5, "other"), (0.0, "g")):
        with bench(static_delta_share=share) as one:
            one.register("q", NAMED)
            for number in range(120):
                slow(one)
                commit(one, number, graph)
            slow(one)
            commit(one, 120)
            assert one.engine.describe("q")["static_parts"][0]["anew_because"] is None


def test_a_large_commit_says_why_rows_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_KEYS", 3)
    with bench() as one:
        one.register("q", NAMED)
        commit(one, 1)
        (part,) = one.engine.describe("q")["static_parts"]
        assert part["anew_because"] == "version 1 changed 5 keys, the limit is 3"
