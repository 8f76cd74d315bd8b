"""The time of a stream begins anew after the clock was ahead: readers get a new epoch, also over a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.app.describing.waiting import waiting_for
from quadrill.store.errors import ConflictError

from .engines import tick
from .test_clock_jumps import HOUR, S, SetClock, arrive, stamps
from .test_recovery import Life

T = "http://example.org/made"
YEARS = 13 * 365 * 24 * HOUR


@pytest.fixture
def clock() -> SetClock:
    return SetClock(10 * HOUR)


@pytest.fixture
def lives(tmp_path: Path, clock: SetClock) -> Iterator[list[Life]]:
    found = [Life(tmp_path / "d", clock, idle_timeout_ms=5_000)]
    yield found
    found[-1].stop()


def jump_and_return(life: Life, clock: SetClock) -> None:
    """The clock is 13 years ahead for the time of one push."""
    arrive(life, "before")
    clock.jump(YEARS)
    arrive(life, "ahead")
    clock.jump(-YEARS)
    arrive(life, "after")


def kinds(life: Life, name: str) -> list[str]:
    return [kind for _, kind, _ in life.told()[name]]


def reasons(life: Life, name: str) -> list[str]:
    return [reason.text for reason in waiting_for(describe(life.engine, name)) if "ahead" in reason.text]


def test_description_says_that_the_stream_stands_still(lives: list[Life], clock: SetClock) -> None:
    (life,) = lives
    life.register("seen")
    arrive(life, "a")
    assert reasons(life, "seen") == []
    jump_and_return(life, clock)
    (text,) = reasons(life, "seen")
    assert f"<{S}>" in text and "reset-time" in text
    life.engine.streams.reset_time(S)
    assert reasons(life, "seen") == []


def test_readers_begin_a_new_epoch_and_go_on_with_the_clock(lives: list[Life], clock: SetClock) -> None:
    (life,) = lives
    for name in ("seen", "closes", "counts"):
        life.register(name)
    life.register("other", "SELECT ?x { STREAM :t [RANGE 9s] { ?x :seen ?v } }")
    jump_and_return(life, clock)
    subscribed = life.engine.queries.feed("seen").subscribe(None)
    found = life.engine.streams.reset_time(S)
    assert (found.streams, sorted(found.queries)) == ([S], ["closes", "counts", "seen"])
    assert describe_stream(life.engine, S)["retained"] == 0
    clock.advance(1_000)
    tick(life.engine)
    arrive(life, "new")
    assert stamps(life)[-1:] == [10 * HOUR + 1_000]
    assert describe_stream(life.engine, S)["watermark"] == 10 * HOUR + 1_000
    assert [event.kind for event in subscribed.take()] == ["reset", "insert"]
    subscribed.close()
    clock.advance(20_000)
    tick(life.engine)
    assert kinds(life, "closes")[-1] == "answer", "windows close with the clock again"
    assert describe_stream(life.engine, S)["late_count"] == 0


@pytest.mark.parametrize("checkpoint", [None, "before", "after", "last"])
def test_a_crash_after_the_reset_gives_the_same(
    lives: list[Life], clock: SetClock, checkpoint: str | None
) -> None:
    life = lives[0]
    for name in ("seen", "closes", "counts"):
        life.register(name)
    jump_and_return(life, clock)
    if checkpoint == "before":
        life.checkpoint()
    life.engine.streams.reset_time(S)
    if checkpoint == "after":
        life.checkpoint()
    arrive(life, "new")
    clock.advance(3_000)
    tick(life.engine)
    arrive(life, "newer")
    if checkpoint == "last":
        life.checkpoint()
    told, stream = life.told(), describe_stream(life.engine, S)
    lives[0] = life = life.crash()
    assert life.told() == told
    after = describe_stream(life.engine, S)
    for member in ("watermark", "newest", "accepted", "retained", "oldest_retained"):
        assert after[member] == stream[member], member
    arrive(life, "last")
    assert stamps(life)[-1] == 10 * HOUR + 3_000
    assert kinds(life, "seen")[-1] == "insert"


def test_streams_that_readers_make_and_their_readers_follow(lives: list[Life], clock: SetClock) -> None:
    (life,) = lives
    for name in ("made", "reads"):
        life.register(name)
    jump_and_return(life, clock)
    clock.advance(4_000)
    tick(life.engine)
    found = life.engine.streams.reset_time(S)
    assert found.streams == [S, T] and sorted(found.queries) == ["made", "reads"]
    arrive(life, "new")
    clock.advance(10_000)
    tick(life.engine)
    watermark = describe_stream(life.engine, T)["watermark"]
    assert watermark is not None and watermark < 11 * HOUR
    assert kinds(life, "reads")[-1] == "insert"
    with pytest.raises(ConflictError) as refused:
        life.engine.streams.reset_time(T)
    assert refused.value.code == "derived-stream"


def test_paused_reader_stays_paused_and_goes_on_later(lives: list[Life], clock: SetClock) -> None:
    (life,) = lives
    life.register("seen")
    jump_and_return(life, clock)
    life.engine.queries.patch("seen", {"state": "paused"})
    life.engine.streams.reset_time(S)
    assert describe(life.engine, "seen")["state"] == "paused"
    life.engine.queries.patch("seen", {"state": "running"})
    arrive(life, "new")
    assert kinds(life, "seen")[-1] == "insert"
