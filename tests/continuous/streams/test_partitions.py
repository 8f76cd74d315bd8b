"""Event time by partition: the least of those that are not idle moves a stream, also over a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.clock import ManualClock
from tests.continuous.engines import NOW, RANGE, Bench, S, bench, tick
from tests.continuous.test_recovery import Life

THREE = {"0": True, "1": True, "2": True}


def partitions(one: Bench | Life) -> dict[str | None, tuple[int | None, bool]]:
    listed = describe_stream(one.engine, S)["partitions"]
    return {each["partition"]: (each["newest"], each["idle"]) for each in listed}


def test_partitions_that_catch_up_one_after_the_other_lose_nothing() -> None:
    with bench() as one:
        one.register("q", NOW)
        one.engine.streams.declare_partitions(S, "k", THREE)
        for number in range(3):
            for at in range(1_000, 10_000, 1_000):
                answer = one.push(at, f"{number}.{at}", partition=f"k/{number}")
                assert answer["late"] == 0
            if number < 2:
                assert describe_stream(one.engine, S)["watermark"] is None
                assert one.told("q") == []
                reasons = waiting_for(describe(one.engine, "q"))
                (reason,) = [each for each in reasons if each.word == "watermark"]
                assert "the partition k/" in reason.text and reason.number
        described = describe_stream(one.engine, S)
        assert (described["watermark"], described["newest"]) == (9_000, 9_000)
        assert described["late_counts"] == {"late": 0, "dropped": 0, "refused": 0}
        told = [at for _, at, _ in one.told("q")]
        assert told == sorted([*range(1_000, 10_000, 1_000)] * 3)


def test_silent_partition_becomes_idle_and_holds_back_again_once_it_has_unread_records() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True, "1": True, "2": False})
        one.push(5_000, "a", partition="k/0")
        one.push(3_000, "b", partition="k/1")
        assert describe_stream(one.engine, S)["watermark"] is None
        one.clock.advance(5_000)
        one.push(6_000, "a", partition="k/0")
        one.push(4_000, "b", partition="k/1")
        tick(one.engine)
        assert partitions(one) == {"k/0": (6_000, False), "k/1": (4_000, False), "k/2": (None, True)}
        assert describe_stream(one.engine, S)["watermark"] == 4_000
        one.engine.streams.declare_partitions(S, "k", {"0": False, "1": False, "2": True})
        assert partitions(one)["k/2"] == (None, False)
        one.push(9_000, "a", partition="k/0")
        one.push(9_000, "b", partition="k/1")
        assert describe_stream(one.engine, S)["watermark"] == 4_000, "it never falls, and waits"
        assert one.push(4_500, "c", partition="k/2")["late"] == 0
        assert describe_stream(one.engine, S)["watermark"] == 4_500
        one.engine.streams.declare_partitions(S, "k", dict.fromkeys(THREE, False))
        one.clock.advance(5_000)
        tick(one.engine)
        described = describe_stream(one.engine, S)
        assert (described["idle"], described["watermark"]) == (True, 9_000)


def test_partition_with_unread_records_holds_back_however_long_its_source_is_silent() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True, "1": False})
        one.push(1_000, "a", partition="k/0")
        one.push(9_000, "b", partition="k/1")
        for _ in range(3):
            one.clock.advance(60_000)
            tick(one.engine)
        assert partitions(one) == {"k/0": (1_000, False), "k/1": (9_000, True)}
        assert one.push(2_000, "a", partition="k/0")["late"] == 0
        times = one.engine.streams.declare_partitions(S, "k", {"0": False, "1": False})
        assert times == {"0": 2_000, "1": 9_000}
        one.clock.advance(4_999)
        tick(one.engine)
        assert describe_stream(one.engine, S)["watermark"] == 2_000
        one.clock.advance(1)
        tick(one.engine)
        assert describe_stream(one.engine, S)["watermark"] == 9_000


def test_late_elements_of_a_partition_are_counted() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True, "1": True})
        one.push(5_000, "a", partition="k/0")
        one.push(4_000, "b", partition="k/1")
        assert one.push(3_000, "c", partition="k/1") | {"late": 1, "dropped": 1} == one.push(
            3_000, "c", partition="k/1"
        ) | {"first_seq": 3, "last_seq": 3}


def test_direct_pushes_are_one_partition_more() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True, "1": True})
        one.push(5_000, "a", partition="k/0")
        one.push(2_000, "d")
        one.push(5_000, "b", partition="k/1")
        assert partitions(one)[None] == (2_000, False)
        assert describe_stream(one.engine, S)["watermark"] == 2_000


def test_single_partition_is_a_plain_stream() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True})
        one.push(5_000, "a", partition="k/0")
        assert describe_stream(one.engine, S)["partitions"] is None
        assert describe_stream(one.engine, S)["watermark"] == 5_000


@pytest.mark.parametrize("checkpoints", [False, True])
def test_partitions_and_events_are_the_same_after_a_crash(tmp_path: Path, checkpoints: bool) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.engine.streams.declare_partitions(S, "k", {"0": True, "1": True, "2": False})
    for at in (1_000, 2_000, 3_000):
        life.push(at, "a", partition="k/0")
        life.push(at + 500, "b", partition="k/1")
    if checkpoints:
        life.checkpoint()
    life.clock.advance(5_000)
    life.push(4_000, "a", partition="k/0")
    life.push(4_200, "b", partition="k/1")
    tick(life.engine)
    before, told = partitions(life), life.told()
    assert before["k/2"] == (None, True)
    assert told
    life = life.crash()
    assert partitions(life) == before
    assert life.told() == told
    assert describe_stream(life.engine, S)["watermark"] == 4_000
    life.push(5_000, "a", partition="k/0")
    life.push(4_700, "b", partition="k/1")
    assert describe_stream(life.engine, S)["watermark"] == 4_700
    life.stop()


def test_window_query_registered_between_partitions_waits_for_the_slowest() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", {"0": True, "1": True})
        one.push(5_000, "a", partition="k/0")
        one.register("q", RANGE)
        one.push(1_000, "b", partition="k/1")
        assert [at for _, at, _ in one.told("q")] == [1_000]


def test_partitions_of_a_stream_that_is_stamped_at_arrival_do_not_count() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", THREE)
        one.clock.advance(1_000)
        one.push(None, "a", partition="k/0")
        assert describe_stream(one.engine, S)["partitions"] is None
        assert describe_stream(one.engine, S)["watermark"] == 1_000


def test_partitions_of_a_source_that_is_gone_hold_nothing_back() -> None:
    with bench() as one:
        one.engine.streams.declare_partitions(S, "k", THREE)
        one.push(1_000, "a", partition="k/0")
        one.push(2_000, "b")
        one.engine.streams.declare_partitions(S, "k", {})
        assert partitions(one) == {None: (2_000, False)}
        assert describe_stream(one.engine, S)["watermark"] == 2_000
