"""Windows of one shape on a stream are one buffer for all queries, and nobody can tell from the answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.app.describing.queries import describe
from quadrill.continuous.groups.registry import GroupRegistry
from quadrill.continuous.queries.running import RunningQuery
from tests.examples import examples

from .engines import Bench, E, S, bench, sweep_always

TEXTS = (
    "SELECT ?x WHERE { STREAM :s [RANGE 7ms] { ?x :seen ?v } }",
    "SELECT ?x (COUNT(?v) AS ?n) WHERE { STREAM :s [RANGE 7ms] { ?x :seen ?v } } GROUP BY ?x",
    "SELECT ?x ?y WHERE { STREAM :s [NOW] { ?x :seen ?v } STREAM :s [RANGE 7ms] { ?y :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [TRIPLES 3] { ?x :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [ALL] { ?x :seen ?v } }",
    "ASK { STREAM :s [RANGE 7ms] { :a :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [RANGE 6ms SLIDE 3ms] { ?x :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [RANGE 6ms SLIDE 3ms] { ?x :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [RANGE 2ms SLIDE 5ms] { ?x :seen ?v } }",
    "SELECT ?x WHERE { STREAM :s [RANGE 2ms SLIDE 5ms] { ?x :seen ?v } }",
)
HOW: dict[int, Any] = {
    7: {"report": "on-window-close"},
    8: {"report": "on-window-close", "non_empty": True},
    9: {"report": {"periodic": "4ms"}},
}
"""When those texts are evaluated, where it is not whenever the content changes."""
NAMES = st.lists(st.sampled_from("abc"), unique=True, min_size=1, max_size=2)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(-3, 9), NAMES),
        st.tuples(st.just("pushes"), st.integers(0, 5), NAMES),
        st.tuples(st.just("beat"), st.integers(0, 9), st.none()),
        st.tuples(st.just("register"), st.integers(0, 9), st.sampled_from(["istream", "changes", "rstream"])),
        st.tuples(st.just("register"), st.integers(0, 1), st.just("changes")),
        st.tuples(st.just("drop"), st.integers(0, 9), st.none()),
        st.tuples(st.just("pause"), st.integers(0, 9), st.none()),
    ),
    min_size=8,
    max_size=40,
)


def run(events: list[Any], late: str, lateness: int) -> tuple[list[Any], int]:
    """What all feeds told, and how many windows were shared at most."""
    with bench() as b:
        b.engine.streams.declare(E + "s", name="s", late=late, lateness=lateness)
        b.push(0, "z")
        names = ["one", "two"]
        for text, name in zip(TEXTS, names, strict=False):
            b.register(name, text, output="changes")
        feeds, at, most = [b.engine.queries.feed(name) for name in names], 0, 0
        for number, (kind, value, more) in enumerate(events):
            if kind == "push":
                at = max(at, at + value)
                b.push(max(0, at if value >= 0 else at + value), *more)
            elif kind == "pushes":
                b.lines(*((at + value + step, name) for step, name in enumerate(more)))
                at += value + len(more) - 1
            elif kind == "beat":
                at += value
                b.engine.streams.heartbeat(E + "s", at)
            elif kind == "register":
                names.append(f"q{number}")
                output = {} if value == 5 else {"output": more}
                b.register(names[-1], TEXTS[value], **output, **HOW.get(value, {}))
                feeds.append(b.engine.queries.feed(names[-1]))
            elif names and kind == "drop" and value % 3 == 0:
                b.engine.queries.drop(names.pop(value % len(names)))
            elif names and kind == "pause":
                name = names[value % len(names)]
                state = "running" if describe(b.engine, name)["state"] == "paused" else "paused"
                b.engine.queries.patch(name, {"state": state})
            most = max(most, shared(b))
        told = [[(event.id, event.kind, event.data) for event in feed.subscribe(0).take()] for feed in feeds]
        return told, most


def sharing(b: Bench) -> list[RunningQuery]:
    """The queries that are in groups."""
    running = [entry.running for entry in b.engine.parts.catalogue.entries() if entry.running is not None]
    return [each for each in running if each.group.siblings is not None]


def shared(b: Bench) -> int:
    """How many queries are in groups."""
    return len(sharing(b))


def test_feeds_are_those_of_queries_that_share_nothing() -> None:
    most = 0

    @settings(max_examples=examples(20), deadline=None)
    @given(EVENTS, st.sampled_from(["drop", "admit"]), st.sampled_from([0, 4]))
    def law(events: list[Any], late: str, lateness: int) -> None:
        nonlocal most
        together, number = run(events, late, lateness)
        with patch.object(GroupRegistry, "enter", lambda self, running: []):
            apart, none = run(events, late, lateness)
        assert together == apart and none == 0
        most = max(most, number)

    law()
    assert most >= 2


@settings(max_examples=examples(15), deadline=None)
@given(EVENTS, st.sampled_from(["drop", "admit"]), st.sampled_from([1, 4, 20]))
def test_terms_that_are_forgotten_in_slices_change_nothing(events: list[Any], late: str, ids: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        sweep_always(patched, ids)
        swept = run(events, late, 4)
    assert swept == run(events, late, 4)


def test_a_new_query_joins_when_nothing_older_than_itself_is_left_in_the_window() -> None:
    with bench() as b:
        b.register("old", TEXTS[0])
        b.push(1, "a")
        b.register("new", TEXTS[1])
        b.push(3, "b")
        assert describe(b.engine, "new")["sharing_group"] is None
        assert [event.data.count("/a") for event in b.engine.queries.feed("new").subscribe(0).take()] == [0]
        b.push(8, "c")
        assert describe(b.engine, "new")["sharing_group"] is None
        b.push(9, "d")
        assert describe(b.engine, "new")["sharing_group"] == ["new", "old"]
        assert describe(b.engine, "old")["sharing_group"] == ["new", "old"]


@pytest.mark.parametrize("later", [(2, 3), (101, 150), (10, 20, 30), (20, 60, 95, 98)])
def test_a_new_query_of_partitions_that_catch_up_tells_what_it_tells_alone(later: tuple[int, ...]) -> None:
    """Elements of one partition wait for another; a query that comes then has not been given them."""

    def told(*, apart: bool) -> list[Any]:
        with pytest.MonkeyPatch.context() as patched, bench() as b:
            if apart:
                patched.setattr(GroupRegistry, "enter", lambda self, running: [])
            b.engine.streams.declare_partitions(S, "k", {"0": True, "1": True})
            b.register("old", TEXTS[0])
            b.push(1, "z", partition="k/1")
            b.push(100, "a", partition="k/0")
            b.register("new", TEXTS[1])
            for at in later:
                b.push(at, f"b{at}", partition="k/1")
                b.push(100 + at, f"c{at}", partition="k/0")
            b.push(1_000, "d", partition="k/0")
            b.push(1_000, "e", partition="k/1")
            return [
                [each.data for each in b.engine.queries.feed(name).subscribe(0).take()]
                for name in ("old", "new")
            ]

    assert told(apart=False) == told(apart=True)


def test_the_content_of_a_shared_window_is_there_once() -> None:
    with bench(templates=False) as b:
        for number in range(5):
            b.register(f"q{number}", TEXTS[number % 2])
        for at in range(5):
            b.push(at, "a", "b")
        (timeline,) = {running.timeline for running in sharing(b)}
        (window,) = timeline.windows.operators.values()
        assert len(window.live.content) == 2 and shared(b) == 5
        b.engine.queries.drop("q0")
        b.push(20, "c")
        assert b.told("q1")[-1] == ("insert", 20, "c") and shared(b) == 4
        assert describe(b.engine, "q1")["state_size"] == 1


def test_a_query_that_fails_does_not_hold_the_shared_window_back() -> None:
    with bench() as b:
        b.register("one", TEXTS[0])
        b.register("two", TEXTS[0], output="changes")
        b.register("three", TEXTS[1])
        b.push(0, "a")
        failing = b.engine.parts.catalogue.get("one").running
        assert failing is not None
        failing.evaluator.advance = lambda at, contents: 1 / 0  # type: ignore[attr-defined]
        for at in range(1, 200):
            b.push(at, f"n{at}")
        assert describe(b.engine, "one")["state"] == "failed"
        assert describe(b.engine, "three")["sharing_group"] == ["three", "two"]
        assert b.told("two")[-1] == ("insert", 199, "n199") and b.told("three")[-1] == ("insert", 199, "n199")


@pytest.mark.parametrize("events", [((1, "a"), (9, "bcde")), ((1, "abcd"), (9, "e"))])
def test_a_memory_limit_is_for_what_the_query_itself_has_seen(events: Any) -> None:
    def told(*, together: bool) -> Any:
        with bench(templates=False) as b:
            if together:
                b.register("others", TEXTS[1])
            b.register("limited", TEXTS[0], memory=3)
            b.push(0, "a")
            # Within one push the first reader is through before the second one begins.
            b.lines(*((at, name) for at, names in events for name in names))
            return describe(b.engine, "limited")["error"], b.engine.queries.feed("limited").subscribe(
                0
            ).take()

    found = told(together=True)
    assert found == told(together=False)
    assert "hold 4 quads" in found[0]
