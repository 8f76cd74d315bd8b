"""A commit changes rows that suspended evaluations look into: these keep what they see, and nobody waits."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous import rows as counting
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Registration
from quadrill.continuous.rows import Delta, QueryLimits, merge
from quadrill.continuous.static.shared_rows import SharedArrangement, SharedRows
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.windows.encoded import EngineTerms
from tests.continuous.engines import PREFIX, Bench, S
from tests.continuous.test_recovery import Life

N = "http://example.org/"
STREAM, LABEL = "STREAM :s [RANGE 3s] { ?a :k ?n }", "GRAPH :g { ?n :label ?l }"
TEXTS = {
    "labels": f"SELECT ?a ?l WHERE {{ {STREAM} {LABEL} }}",
    "pairs": f"SELECT ?a ?b ?l WHERE {{ STREAM :s [RANGE 3s] {{ ?a :k ?n . ?b :k ?n }} {LABEL} }}",
    "same": f"SELECT ?a ?l WHERE {{ STREAM :s [RANGE 2s] {{ ?a :k ?n }} {LABEL} }} ORDER BY ?l ?a",
    "none": f"SELECT ?a WHERE {{ {STREAM} FILTER NOT EXISTS {{ GRAPH :g {{ ?n :label 'l1' }} }} }}",
    "also": f"SELECT ?a ?l WHERE {{ {STREAM} OPTIONAL {{ {LABEL} }} }}",
    "one": "SELECT ?a ?l WHERE { STREAM :s [NOW] { ?a :k :v1 } GRAPH :g { :v1 :label ?l } }",
    "two": "SELECT ?a ?l WHERE { STREAM :s [NOW] { ?a :k :v2 } GRAPH :g { :v2 :label ?l } }",
}


def disturb(b: Bench, chance: random.Random, at: int) -> None:
    """A commit, or some elements."""
    if chance.random() < 0.5:
        what, value = chance.choice(["INSERT", "DELETE"]), chance.randrange(1, 4)
        b.store.writer.update(
            PREFIX + f"{what} DATA {{ GRAPH :g {{ :v{value} :label 'l{chance.randrange(4)}' }} }}"
        )
        return
    body = [f"<{N}a{at}{n}> <{N}k> <{N}v{chance.randrange(1, 4)}> ." for n in range(chance.randrange(1, 4))]
    b.engine.streams.push(PushCall(S, "text/turtle", at=at), "\n".join(body).encode())


def run(seed: int, **settings: Any) -> dict[str, list[Any]]:
    """What queries tell of random elements and commits."""
    chance, at = random.Random(seed), 1_000
    b = Bench(threaded=True, **settings)
    b.store.writer.update(PREFIX + "INSERT DATA { GRAPH :g { :v1 :label 'l0', 'l1' . :v2 :label 'l1' } }")
    b.engine.start()
    for name, text in TEXTS.items():
        b.register(name, text)
    for _ in range(8):
        # What is in line together meets the evaluations that the first of it began.
        with b.engine.parts.sequencer.paused:
            for _ in range(5):
                at += chance.randrange(0, 1_000)
                disturb(b, chance, at)
        b.engine.sync()
    told = {
        name: [
            (each.id, each.kind, json.loads(each.data))
            for each in b.engine.queries.feed(name).subscribe(0).take()
        ]
        for name in TEXTS
    }
    b.engine.stop()
    return {name: [(*each[:2], sorted_rows(each[2])) for each in events] for name, events in told.items()}


def sorted_rows(document: Any) -> Any:
    """The document, with rows in one order."""
    if isinstance(document, dict):
        return {key: sorted_rows(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((sorted_rows(each) for each in document), key=json.dumps)
    return document


@pytest.mark.parametrize("seed", range(3))
def test_members_that_leave_a_group_that_is_behind_lose_nothing(seed: int) -> None:
    assert run(seed, slice_ms=0) == run(seed)


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_the_same_where_commits_meet_suspended_evaluations(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, calls = run(seed), []
    monkeypatch.setattr(counting, "CHECK_EVERY", 1)
    real = SharedRows.set_apart
    monkeypatch.setattr(SharedRows, "set_apart", lambda *given: (calls.append(given), real(*given)))
    assert run(seed, slice_ms=0) == expected
    assert any(views for _, views in calls), "no evaluation was suspended over rows that changed"


@pytest.mark.parametrize("seed", range(10))
def test_what_was_handed_out_does_not_change(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadrill.continuous.slices.SLICE.inside", 1)
    chance, shared = random.Random(seed), SharedRows(EngineTerms(), ordered=False)
    first, other = SharedArrangement(shared), SharedArrangement(shared)
    held: list[tuple[Any, dict[Any, Delta]]] = []

    def change() -> Delta:
        delta: Delta = {}
        for row in [(chance.randrange(3), chance.randrange(3)) for _ in range(3)]:
            delta[row] = -shared.rows[row] if row in shared.rows else chance.randrange(1, 3)
        shared.change_by(delta)
        return delta

    def seen(view: Any) -> dict[Any, Delta]:
        return {key: dict(view.get(key)) for key in range(3)}

    change()
    for view in (first, other):
        view.prepare([(0,)])
        view.attach()
    untaken: Delta = {}
    for _ in range(12):
        match chance.randrange(4):
            case 0:
                shared.set_apart([first])
                held.append((index := first.now[(0,)], seen(index)))
            case 1:
                first.rejoin()
                held = []
            case 2 if untaken and not held:
                first.update(untaken)
                untaken = {}
        if not held:
            shared.set_apart([first])
            held.append((index := first.now[(0,)], seen(index)))
        merge(untaken, delta := change())
        other.update(delta)
        assert all(seen(index) == then for index, then in held)
        expected: dict[Any, Delta] = {key: {} for key in range(3)}
        for row, weight in merge(dict(shared.rows), {row: -n for row, n in untaken.items()}).items():
            expected[row[0]][row] = weight
        assert seen(first.now[(0,)]) == expected
        assert dict(first.rows()) == {row: n for each in expected.values() for row, n in each.items()}
        assert seen(other.now[(0,)]) == {
            key: {row: n for row, n in shared.rows.items() if row[0] == key} for key in range(3)
        }
    for view in (first, other):
        view.detach()
    assert shared.indexes == {}


def test_a_commit_does_not_wait_for_a_suspended_evaluation(tmp_path: Path) -> None:
    text = """SELECT (COUNT(*) AS ?n) WHERE {
      STREAM :s [RANGE 10m] { ?a :k ?x . ?b :k ?x . ?c :k ?x } GRAPH :g { ?x :label ?l } }"""
    life = Life(
        tmp_path / "d",
        ManualClock(0),
        threaded=True,
        checkpoint_ms=3_600_000,
        limits=QueryLimits(rows=0, ms=0),
    )
    life.store.writer.update(PREFIX + "INSERT DATA { GRAPH :g { :v1 :label 'a' } }")
    life.engine.queries.register(Registration(name="slow", query=PREFIX + text))
    quick = "SELECT ?l WHERE { GRAPH :g { ?x :label ?l } }"
    life.engine.queries.register(Registration(name="quick", query=PREFIX + quick))
    body = "".join(f"<{N}a{each}> <{N}k> <{N}v1> .\n" for each in range(600)).encode()
    life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), body)
    until = time.monotonic() + 10
    while not any(
        each.fiber is not None and each.fiber.inside
        for each in list(life.engine.parts.router.shares.backlogs.values())
    ):
        assert time.monotonic() < until
        time.sleep(0.001)
    before = life.engine.queries.feed("quick").history.last_id
    life.store.writer.update(PREFIX + "INSERT DATA { GRAPH :g { :v1 :label 'b' } }")
    while life.engine.queries.feed("quick").history.last_id == before:
        assert time.monotonic() < until
        time.sleep(0.001)
    assert describe(life.engine, "slow")["backlog"] is not None, "the commit has waited for the evaluation"
    life.engine.queries.drop("slow")
    life.stop()
