"""Streams that queries make: idle with the streams that their query reads, and after its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import ConflictError

from .engines import Bench, E, bench, tick
from .test_recovery import Life

S, T, D, F = E + "s", E + "t", E + "d", E + "f"
MADE = "CONSTRUCT { ?x :seen ?v } WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } }"
NEXT = "CONSTRUCT { ?x :seen ?v } WHERE { STREAM :d [RANGE 1h] { ?x :seen ?v } }"
READER = "SELECT ?x WHERE { STREAM :%s [NOW] { ?x :seen ?v } STREAM :t [RANGE 1h] { ?y :seen ?v } }"


def _bench(b: Bench, *, chain: bool = False) -> str:
    """Two streams, a query that makes a third (and one that makes a fourth of it), a reader of the last."""
    b.engine.streams.declare(S, idle_timeout="1s")
    b.engine.streams.declare(T, idle_timeout="1h")
    b.register("a", MADE, result_iri=D)
    if chain:
        b.register("b", NEXT, result_iri=F)
    b.register("reader", READER % ("f" if chain else "d"))
    b.push(10_000, "x")
    b.push(10_000, "y", stream=T)
    b.push(12_000, "z", stream=T)
    return "f" if chain else "d"


def _reasons(b: Bench, name: str) -> list[tuple[str, Any]]:
    return [(each.word, each.stream) for each in waiting_for(describe(b.engine, name))]


def _idle(b: Bench | Life, iri: str) -> bool:
    state = b.engine.parts.streams.find(iri)
    assert state is not None
    return state.idle


@pytest.mark.parametrize("chain", [False, True])
def test_a_derived_stream_is_idle_with_its_inputs(chain: bool) -> None:
    with bench() as b:
        made = E + _bench(b, chain=chain)
        assert describe(b.engine, "reader")["watermark"] == 10_000
        assert ("watermark", made) in _reasons(b, "reader")
        b.clock.advance(2000)
        tick(b.engine)
        assert _idle(b, S) and _idle(b, D) and _idle(b, made)
        assert describe(b.engine, "reader")["watermark"] == 12_000
        assert "watermark" not in [word for word, _ in _reasons(b, "reader")]
        b.push(13_000, "x")
        assert not _idle(b, D) and not _idle(b, made)
        b.push(14_000, "z", stream=T)
        assert describe(b.engine, "reader")["watermark"] == 13_000


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("how", ["drop", "fail"])
def test_it_is_idle_after_the_end_of_its_query(how: str, chain: bool) -> None:
    with bench() as b:
        made = E + _bench(b, chain=chain)
        if how == "drop":
            b.engine.queries.drop("a")
        else:
            running = b.engine.parts.catalogue.get("a").running
            assert running is not None
            b.engine.parts.router.fail(running, ValueError("injected"))
            b.engine.parts.router.deliver_derived()
        assert _idle(b, D) and _idle(b, made)
        assert describe(b.engine, "reader")["watermark"] == 12_000


def test_a_paused_query_keeps_the_time_of_its_stream() -> None:
    with bench() as b:
        _bench(b)
        b.engine.queries.patch("a", {"state": "paused"})
        b.push(11_000, "x")
        assert describe(b.engine, "reader")["watermark"] == 11_000
        b.clock.advance(2000)
        tick(b.engine)
        assert describe(b.engine, "reader")["watermark"] == 12_000


def test_a_query_that_waits_for_a_plain_stream_says_so() -> None:
    with bench() as b:
        b.register("reader", READER % "s")
        b.push(10_000, "x")
        b.push(10_000, "y", stream=T)
        b.push(12_000, "x")
        assert describe(b.engine, "reader")["last_result"] is not None
        assert ("watermark", T) in _reasons(b, "reader")


def test_no_idle_timeout_can_be_declared_for_it() -> None:
    with bench() as b:
        b.register("a", MADE, result_iri=D)
        with pytest.raises(ConflictError) as caught:
            b.engine.streams.declare(D, idle_timeout="1s")
        assert caught.value.code == "derived-stream"
        b.engine.streams.declare(D, retention="2h")


@pytest.mark.always("before-*", "after-*", "none-")
@pytest.mark.parametrize("end", ["", "drop", "pause"])
@pytest.mark.parametrize("place", ["none", "before", "between", "after"])
def test_a_replay_finds_the_same_idleness(tmp_path: Path, place: str, end: str) -> None:
    """Marks of idleness are in the journal: feeds and watermarks are the same after a crash."""
    life = Life(tmp_path / "d", ManualClock(0))
    life.engine.streams.declare(S, idle_timeout="1s")
    life.engine.streams.declare(T, idle_timeout="1h")
    life.register("a", MADE, result_iri=D)
    life.register("b", NEXT, result_iri=F)
    life.register("reader", READER % "f")
    if place == "before":
        life.checkpoint()
    life.push(10_000, "x")
    for at in (10_000, 12_000):
        life.engine.streams.push(
            PushCall(T, "application/n-triples", at=at), f'<{E}y> <{E}seen> "{at}" .'.encode()
        )
    life.clock.advance(2000)
    tick(life.engine)
    if place == "between":
        life.checkpoint()
    life.push(13_000, "z")
    life.clock.advance(2000)
    tick(life.engine)
    if end == "drop":
        life.engine.queries.drop("a")
    elif end == "pause":
        life.engine.queries.patch("a", {"state": "paused"})
    life.engine.streams.push(
        PushCall(T, "application/n-triples", at=15_000), f'<{E}y> <{E}seen> "last" .'.encode()
    )
    if place == "after":
        life.checkpoint()
    found = _told_of(life)
    assert found["reader"][0] == 15_000
    life = life.crash()
    assert _told_of(life) == found
    life.stop()


def _told_of(life: Life) -> dict[str, Any]:
    told = life.told()
    return {name: (describe(life.engine, name)["watermark"], told[name]) for name in ("b", "reader")} | {
        iri: _idle(life, iri) for iri in (S, D, F)
    }
