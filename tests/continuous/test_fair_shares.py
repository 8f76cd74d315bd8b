"""Queries share the engine's time: one that is slow is suspended, and holds neither the others nor a call."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Registration
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from tests.continuous.engines import PREFIX, Bench, S
from tests.continuous.test_recovery import Life, run

N = "http://example.org/"
SLOW = """SELECT ?a ?b ?c WHERE {
  SEQ { STREAM :s { ?a :k 1 } ; STREAM :s { ?b :k 1 } ; STREAM :s { ?c :k 1 } } WITHIN 1h }"""
JOIN = "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [RANGE 10m] { ?a :k ?x . ?b :k ?x . ?c :k ?x } }"
ORDERED = "SELECT ?a ?b WHERE { STREAM :s [RANGE 10m] { ?a :k ?x . ?b :k ?x } } ORDER BY DESC(?b) ?a"
QUICK = "SELECT (COUNT(*) AS ?number) WHERE { STREAM :s [RANGE 10m] { ?a :k ?n } }"
OTHER = "SELECT ?a WHERE { STREAM :t [NOW] { ?a :k ?n } }"
TEXTS = {
    "order": "SELECT ?a ?n WHERE { STREAM :s [RANGE 3s] { ?a :k ?n } } ORDER BY ?n ?a",
    "rows": "SELECT ?a ?n WHERE { STREAM :s [RANGE 3s] { ?a :k ?n } }",
    "sum": "SELECT (SUM(?n) AS ?sum) WHERE { STREAM :s [RANGE 3s] { ?a :k ?n } }",
    "one": "SELECT ?a WHERE { STREAM :s [RANGE 3s] { ?a :k 1 } }",
    "two": "SELECT ?a WHERE { STREAM :s [RANGE 3s] { ?a :k 2 } }",
    "joined": "SELECT ?a ?l WHERE { STREAM :s [RANGE 3s] { ?a :k ?n } GRAPH :g { ?a :label ?l } }",
    "made": "CONSTRUCT { ?a :big ?n } WHERE { STREAM :s [NOW] { ?a :k ?n FILTER(?n > 1) } }",
    "read": "SELECT ?a ?b WHERE { STREAM <%s> [RANGE 2s] { ?a :big ?n } STREAM :s [RANGE 2s] { ?b :k ?n } }",
}


def emitted(b: Bench, name: str) -> list[Any]:
    """The events of a query, in order."""
    return [
        (each.id, each.kind, json.loads(each.data))
        for each in b.engine.queries.feed(name).subscribe(0).take()
    ]


def lines(count: int, value: int = 1, first: int = 0) -> bytes:
    """Triples of one value."""
    return "".join(f"<{N}a{first + each}> <{N}k> {value} .\n" for each in range(count)).encode()


@pytest.mark.parametrize("seed", range(4))
def test_queries_emit_the_same_however_the_time_is_shared(seed: int) -> None:
    found = []
    for slice_ms in (50, 0):
        chance = random.Random(seed)
        b = Bench(slice_ms=slice_ms)
        b.engine.start()
        for name, text in TEXTS.items():
            made = describe(b.engine, "made")["result_stream"] if "%s" in text else ""
            b.register(name, text.replace("%s", made))
        at = 1_000
        for number in range(40):
            match chance.randrange(8):
                case 0:
                    b.store.writer.update(
                        PREFIX + f"INSERT DATA {{ GRAPH :g {{ :a{number} :label '{number}' }} }}"
                    )
                case 1:
                    b.engine.streams.heartbeat(S, at)
                case 2:
                    b.engine.queries.patch("sum", {"state": chance.choice(["paused", "running"])})
                case _:
                    body = lines(chance.randrange(1, 4), chance.randrange(1, 4), number)
                    b.engine.streams.push(PushCall(S, "text/turtle", at=at), body)
            at += chance.randrange(0, 2_000)
        b.engine.sync()
        found.append({name: emitted(b, name) for name in TEXTS})
        b.engine.stop()
    assert found[0] == found[1]
    assert all(found[0][name] for name in ("rows", "sum", "made"))


@pytest.mark.always("0")
@pytest.mark.parametrize("seed", range(2))
def test_crashes_change_nothing_where_every_step_is_suspended(tmp_path: Path, seed: int) -> None:
    for name in ("calm", "stormy"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "calm" / "d", seed, 40, 0)
    sliced = run(tmp_path / "stormy" / "d", seed, 40, 4, slice_ms=0)
    assert sliced[0] == whole[0] and sliced[1] == whole[1]


@contextmanager
def threaded(folder: Path, **settings: Any) -> Iterator[Life]:
    """An engine with a thread of its own."""
    life = Life(folder, ManualClock(0), threaded=True, checkpoint_ms=3_600_000, idle_timeout_ms=0, **settings)
    try:
        yield life
    finally:
        if life.engine.running:
            life.stop()


def latency(life: Life, name: str, stream: str, number: int) -> float:
    """The worst time from a push to its event, of some pushes, in seconds."""
    worst, now = 0.0, 10_000_000
    for each in range(number):
        before, began = life.engine.queries.feed(name).history.last_id, time.monotonic()
        life.engine.streams.push(
            PushCall(stream, "text/turtle", at=now + each), f"<{N}x{each}> <{N}k> 7 .".encode()
        )
        while life.engine.queries.feed(name).history.last_id == before:
            assert time.monotonic() - began < 10
            time.sleep(0.001)
        worst = max(worst, time.monotonic() - began)
        time.sleep(0.02)
    return worst


@pytest.mark.parametrize(("slow", "stream"), [(SLOW, N + "t"), (SLOW, S), (JOIN, S), (ORDERED, S)])
def test_a_slow_query_does_not_hold_others(tmp_path: Path, slow: str, stream: str) -> None:
    """Matches that together are many, and one long evaluation; on the same stream, too."""
    limits = QueryLimits(rows=0, ms=0)
    with threaded(tmp_path / "d", limits=limits) as life:
        life.engine.queries.register(Registration(name="slow", query=PREFIX + slow))
        text = OTHER if stream != S else QUICK
        life.engine.queries.register(Registration(name="quick", query=PREFIX + text))
        body = [(lines(1, 1, each), 1_000 + each) for each in range(300)]
        if slow in (JOIN, ORDERED):
            life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
        else:
            for text_of, at in body:
                life.engine.streams.push(PushCall(S, "text/turtle", at=at), text_of)
        assert latency(life, "quick", stream, 20) < 6.0
        began = time.monotonic()
        life.engine.queries.drop("slow")
        assert time.monotonic() - began < 6.0
        life.engine.sync(5.0)


def test_a_description_tells_how_far_a_query_is_behind(tmp_path: Path) -> None:
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=0)) as life:
        life.engine.queries.register(Registration(name="slow", query=PREFIX + SLOW))
        for each in range(300):
            life.engine.streams.push(PushCall(S, "text/turtle", at=1_000 + each), lines(1, 1, each))
        time.sleep(0.5)
        backlog = describe(life.engine, "slow")["backlog"]
        assert backlog is None or (backlog["tasks"] >= 1 and backlog["elements"] >= 1)
        life.engine.queries.patch("slow", {"state": "paused"})
        assert describe(life.engine, "slow")["state"] == "paused"
        assert describe(life.engine, "slow")["backlog"] is None
        spent = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - spent < 0.2


@pytest.mark.parametrize(
    ("member", "value"),
    [("max_rows_per_minute", 2_000), ("max_cpu_per_minute", "200ms"), ("max_bytes_per_minute", 50_000)],
)
def test_a_query_fails_over_a_budget_of_a_minute_and_does_so_again(
    tmp_path: Path, member: str, value: Any
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000), idle_timeout_ms=0, slice_ms=0)
    members = {"query": PREFIX + SLOW, member: value}
    life.engine.queries.register(Registration.from_json(members, name="slow"))
    life.engine.queries.register(Registration(name="quick", query=PREFIX + QUICK))
    for each in range(120):
        life.clock.advance(20)
        life.engine.streams.push(PushCall(S, "text/turtle", at=1_000 + each), lines(1, 1, each))
    before = describe(life.engine, "slow")
    assert before["state"] == "failed" and member in before["error"]
    letters = life.engine.streams.dead_letters(S)
    assert [each["reason"] for each in letters] == ["budget"]
    told = life.told()
    life = life.crash()
    after = describe(life.engine, "slow")
    assert (after["state"], after["error"]) == ("failed", before["error"])
    assert life.told() == told
    assert describe(life.engine, "quick")["state"] == "running"
    life.stop()
