"""The clock of a stream: while it is silent its time may go on with the wall clock."""

from __future__ import annotations

from pathlib import Path

from quadrill.continuous.clock import ManualClock

from .engines import RANGE, Bench, E, S, bench, tick
from .test_recovery import Life

ON = {"clock": "wall-when-idle", "idle_timeout": "5s"}


def declared(b: Bench, **options: str) -> None:
    b.engine.streams.declare(S, **ON, **options)


def watermark(b: Bench) -> int | None:
    state = b.engine.parts.streams.find(S)
    assert state is not None
    return state.watermark


def after(b: Bench, ms: int) -> int | None:
    """The watermark when so much time more has passed."""
    b.clock.advance(ms)
    tick(b.engine)
    return watermark(b)


def test_after_the_time_out_event_time_goes_on_from_where_it_was() -> None:
    with bench() as b:
        declared(b)
        b.register("q", RANGE)
        b.push(1_000, "a")
        assert [after(b, 4_999), after(b, 1), after(b, 4_000)] == [1_000, 6_000, 10_000]
        # What comes meanwhile is in order from there on, and the stream is not idle then.
        b.push(10_500, "b")
        assert [after(b, 4_999), after(b, 1)] == [10_500, 15_500]
        assert after(b, 10_000) == 25_500


def test_lateness_is_taken_off() -> None:
    with bench() as b:
        declared(b, lateness="2s")
        b.push(10_000, "a")
        assert [after(b, 1_000), after(b, 4_000)] == [8_000, 13_000]


def test_a_heartbeat_is_an_input() -> None:
    with bench() as b:
        declared(b)
        b.push(1_000, "a")
        b.engine.streams.heartbeat(S, 50_000)
        assert [after(b, 4_000), after(b, 1_000)] == [50_000, 55_000]


def test_a_clock_that_is_set_back_moves_nothing() -> None:
    with bench() as b:
        declared(b)
        b.push(1_000, "a")
        assert after(b, 20_000) == 21_000
        b.clock.set(0)
        tick(b.engine)
        assert watermark(b) == 21_000


def test_by_default_time_stands() -> None:
    with bench() as b:
        b.engine.streams.declare(S, idle_timeout="5s")
        b.push(1_000, "a")
        assert after(b, 60_000) == 1_000
        b.engine.streams.declare(S, **ON)
        assert after(b, 0) == 61_000


def test_the_timetable_looks_when_something_is_due() -> None:
    with bench() as b:
        declared(b)
        b.register("q", RANGE, output="changes")
        b.push(1_000, "a")
        timetable = b.engine.parts.router.timetable
        assert timetable.wait_ms(60_000) == 10_001
        b.clock.advance(10_001)
        timetable.run_due(60_000)
        b.engine.parts.sequencer.wait_for_all()
        assert b.told("q") == [("insert", 1_000, "a"), ("delete", 11_001, "a")]


def test_a_replay_gives_the_same_and_time_goes_on_behind_it(tmp_path: Path) -> None:
    clock = ManualClock(0)
    life = Life(tmp_path / "d", clock)
    life.engine.streams.declare(S, **ON)
    life.register("seen")
    life.register(
        "absent",
        f"SELECT ?x {{ ?x <{E}in> ?r FILTER NOT EXISTS {{ STREAM :s [RANGE 8s] {{ ?x :seen ?v }} }} }}",
    )
    life.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
    life.push(1_000, "a")
    for _ in range(6):
        clock.advance(2_500)
        tick(life.engine)
    told = life.told()
    assert any('"at":9001' in data for _, _, data in told["absent"])
    for checkpoint in (False, True):
        if checkpoint:
            life.checkpoint()
        life = life.crash()
        assert life.told() == told
        # Whoever pushes has the time-out to come back; then time is where it would have been.
        clock.advance(4_999)
        tick(life.engine)
        assert life.told() == told
        clock.advance(1)
        tick(life.engine)
        state = life.engine.parts.streams.find(S)
        assert state is not None and state.watermark == clock.now_ms() + 1_000
    life.stop()
