"""Somebody sets the clock, back or forth: time of streams never runs back, silence is still silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.continuous.clock import Clock, ManualClock
from quadrill.continuous.streams.push_call import PushCall
from tests.continuous.test_recovery import E, Life

from .engines import tick

S, HOUR = E + "s", 3_600_000
TWO = "SELECT ?x ?y WHERE { STREAM :s [RANGE 9s] { ?x :seen ?v } STREAM :t [RANGE 9s] { ?y :seen ?w } }"


class SetClock(ManualClock):
    """A clock whose wall clock somebody may set."""

    def jump(self, by_ms: int) -> None:
        """So far back or forth, and no time passes."""
        self._wall_ms += by_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock(10 * HOUR)


@pytest.fixture
def life(tmp_path: Path, clock: SetClock) -> Iterator[Life]:
    life = Life(tmp_path / "d", clock, idle_timeout_ms=5_000)
    yield life
    life.stop()


def arrive(life: Life, name: str) -> None:
    life.engine.streams.push(PushCall(S, "application/n-triples"), f'<{E}{name}> <{E}seen> "1" .'.encode())


def stamps(life: Life) -> list[int]:
    book = life.engine.parts.streams
    return [
        element.event_time
        for record in book.get(S).retained.inputs
        for element in getattr(record.input, "elements", ())
    ]


def test_arrival_stamps_never_run_back(life: Life, clock: SetClock) -> None:
    arrive(life, "a")
    watermark = describe_stream(life.engine, S)["watermark"]
    clock.jump(-HOUR)
    arrive(life, "b")
    tick(life.engine)
    life.clock.advance(1_000)
    arrive(life, "c")
    assert stamps(life) == [10 * HOUR] * 3, "they wait for the clock to catch up"
    assert describe_stream(life.engine, S)["watermark"] == watermark
    life.clock.advance(HOUR)
    arrive(life, "d")
    assert stamps(life)[-1] == 10 * HOUR + 1_000


def test_a_jump_forward_is_followed_and_one_back_again_waits(life: Life, clock: SetClock) -> None:
    arrive(life, "a")
    clock.jump(HOUR)
    tick(life.engine)
    arrive(life, "b")
    clock.jump(-HOUR)
    arrive(life, "c")
    assert stamps(life) == [10 * HOUR, 11 * HOUR, 11 * HOUR]
    assert describe_stream(life.engine, S)["late_count"] == 0, "nobody is late by the fault of the clock"


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_stream_becomes_idle_after_its_silence_and_not_by_a_jump(
    life: Life, clock: SetClock, jump: int
) -> None:
    life.register("two", TWO)
    life.push(1_000, "a")
    life.engine.streams.push(
        PushCall(E + "t", "application/n-triples", at=1_000), f'<{E}b> <{E}seen> "1" .'.encode()
    )
    life.push(3_000, "c")
    clock.jump(jump)
    life.clock.advance(4_000)
    tick(life.engine)
    assert not describe_stream(life.engine, E + "t")["idle"]
    assert describe_stream(life.engine, S)["idle_timeout_ms"] == 5_000
    life.clock.advance(1_000)
    tick(life.engine)
    assert describe_stream(life.engine, E + "t")["idle"]
    assert len(life.told()["two"]) == 2, "what waited for the silent stream is told"


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_timer_fires_after_its_time_and_not_by_a_jump(life: Life, clock: SetClock, jump: int) -> None:
    life.register("named", refresh={"every": "30s"}, output="istream")
    refreshes = describe(life.engine, "named")["counters"]["refreshes"]
    clock.jump(jump)
    life.clock.advance(29_000)
    tick(life.engine)
    assert describe(life.engine, "named")["counters"]["refreshes"] == refreshes
    life.clock.advance(1_000)
    tick(life.engine)
    assert describe(life.engine, "named")["counters"]["refreshes"] == refreshes + 1


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_clock_that_was_set_while_the_server_was_away_changes_nothing(
    tmp_path: Path, clock: SetClock, jump: int
) -> None:
    life = Life(tmp_path / "d", clock, idle_timeout_ms=5_000)
    life.register("seen")
    life.push(1_000, "a")
    life.push(2_000, "b")
    before = life.told()
    clock.jump(jump)
    life = life.crash()
    tick(life.engine)
    assert life.told() == before and not describe_stream(life.engine, S)["idle"]
    assert life.push(3_000, "c")["first_seq"] == 3
    life.clock.advance(5_000)
    tick(life.engine)
    assert describe_stream(life.engine, S)["idle"]
    life.stop()


def test_the_machines_clocks_are_in_milliseconds() -> None:
    clock = Clock()
    wall, steady = clock.now_ms(), clock.steady_ms()
    assert wall > 1_700_000_000_000
    assert 0 <= clock.steady_ms() - steady < 60_000


def test_a_stream_that_ticks_in_silence_fills_neither_memory_nor_journal(life: Life) -> None:
    life.register("closes")
    arrive(life, "a")
    router = life.engine.parts.router
    for _ in range(300):
        life.clock.advance(10)
        router.timetable.wait_ms(1_000)
        router.timetable.run_due(1_000)
        life.engine.parts.sequencer.drain()
    book = life.engine.parts.streams
    assert book.get(S).watermark == 10 * HOUR + 3_000
    assert len(book.get(S).retained.inputs) <= 3, "the element, the first and the last movement"
    assert life.journal.log.last < 20, "once a second, and when something is due"
    assert len(life.told()["closes"]) == 1, "the window closed in its time"
