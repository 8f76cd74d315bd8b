"""Why a query gives no result: each reason where it holds, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quadrill.app.describing.queries import describe
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.clock import ManualClock

from .engines import PREFIX, RANGE, E, S, bench, tick
from .test_recovery import Life

T = E + "t"
HOUR = 3_600_000
GRID = (
    PREFIX + "REGISTER RSTREAM <w> AS SELECT ?x FROM NAMED WINDOW <w> ON :s [RANGE PT5S STEP PT5S] "
    "WHERE { WINDOW <w> { ?x :seen ?v } }"
)


def reasons(one: Any, name: str = "q") -> list[tuple[str, str | None, int | None]]:
    return [reason[:3] for reason in waiting_for(describe(one.engine, name))]


def text(one: Any, name: str = "q") -> str:
    (reason,) = waiting_for(describe(one.engine, name))
    return reason.text


def test_nothing_has_come_yet() -> None:
    with bench() as b:
        b.register("q", RANGE)
        assert reasons(b) == [("no-element", S, 0)]
        b.push(1_000, "a")
        assert reasons(b) == []


def test_elements_before_the_registration_are_none_of_its_own() -> None:
    with bench() as b:
        b.push(7_000, "a")
        b.register("q", RANGE)
        assert reasons(b) == [("no-element", S, 0)]
        assert "the newest before is of 1970-01-01T00:00:07Z" in text(b)


def test_elements_that_were_late_are_counted_from_the_registration_on() -> None:
    with bench() as b:
        b.push(2 * HOUR, "early")
        b.push(1, "old")
        b.register("q", RANGE)
        for at in (3, 1, HOUR, 2, 1):
            b.push(at, "a")
        assert reasons(b) == [("late", S, 5)]
        assert text(b).startswith("5 elements were late and dropped, the newest by 1h: it is of ")
        assert describe(b.engine, "q")["counters"]["late"] == 5
        b.push(2 * HOUR, "in-time")
        assert reasons(b) == [], "it gives results"
        b.push(5, "b")
        assert reasons(b) == [("late", S, 6)], "the newest element was late again"
        b.push(2 * HOUR + 1, "c")
        assert reasons(b) == []


def test_late_elements_that_entered_after_all_are_no_reason() -> None:
    with bench() as b:
        b.push(5_000, "a")
        b.register("q", RANGE)
        b.push(4_000, "b")
        assert reasons(b) == [("late", S, 1)]
        (letter,) = b.engine.streams.dead_letters(S)
        b.engine.streams.retry_dead_letter(S, letter["id"])
        assert reasons(b) == []
        assert b.told("q")


def test_elements_that_only_this_query_does_not_wait_for() -> None:
    with bench() as b:
        b.register("patient", RANGE, lateness="10s")
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :never ?v } }")
        b.push(20_000, "a")
        assert b.push(15_000, "b")["dropped"] == 0
        assert reasons(b) == [("late", None, 1), ("filtered", None, 1)]
        assert ("late", None, 1) not in reasons(b, "patient")


def test_late_elements_are_counted_over_a_crash(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0))
    life.push(9_000, "a")
    life.push(1_000, "b")
    life.register("q", RANGE)
    life.push(2_000, "c")
    for _ in range(2):
        assert reasons(life) == [("late", S, 1)]
        life = life.crash()
        assert reasons(life) == [("late", S, 1)]
        life.checkpoint()
    life.push(3_000, "d")
    assert reasons(life) == [("late", S, 2)]
    life.stop()


def test_elements_wait_for_the_slower_stream() -> None:
    with bench() as b:
        b.register(
            "q",
            "SELECT ?x WHERE { STREAM :s [RANGE 1m] { ?x :seen ?v } STREAM :t [RANGE 1m] { ?x :seen ?w } }",
        )
        assert reasons(b) == [("no-element", S, 0), ("no-element", T, 0)]
        b.engine.streams.heartbeat(S, 0)
        b.engine.streams.heartbeat(T, 1_000)
        b.push(3_000, "a")
        b.push(4_000, "b")
        assert reasons(b) == [("no-element", T, 0), ("watermark", T, 2)]
        why = waiting_for(describe(b.engine, "q"))[1].text
        assert f"the watermark of <{T}> is 1970-01-01T00:00:01Z, 2 elements waiting for it" in why
        assert "to reach 1970-01-01T00:00:03Z" in why
        b.push(5_000, "a", stream=T)
        assert reasons(b) == [("watermark", S, 1), ("filtered", None, 2)]
        b.engine.streams.heartbeat(S, 6_000)
        assert reasons(b) == []


def test_a_stream_that_is_behind_is_reported_although_there_were_results() -> None:
    with bench() as b:
        for iri in (S, T):
            b.engine.streams.declare(iri, idle_timeout="1h")
        b.register(
            "q",
            "SELECT ?x WHERE { STREAM :s [RANGE 1m] { ?x :seen ?v } STREAM :t [RANGE 1m] { ?x :seen ?w } }",
        )
        b.push(1_000, "a", stream=T)
        b.push(1_000, "a")
        assert b.told("q") and reasons(b) == []
        b.push(2_000, "b")
        assert reasons(b) == [("watermark", T, 1)]
        b.clock.advance(60_000)
        tick(b.engine)
        assert reasons(b) == [("watermark", T, 1)]
        b.push(2_000, "b", stream=T)
        assert reasons(b) == []


def test_a_silent_stream_is_told_before_and_after_results() -> None:
    with bench() as b:
        b.register("q", RANGE)
        b.register("never", "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :never ?v } }")
        b.push(1_000, "a")
        assert reasons(b) == []
        b.clock.advance(10_000)
        tick(b.engine)
        assert reasons(b) == [("idle", S, None)]
        assert "nothing has come for 10s, event time stands at 1970-01-01T00:00:01Z" in text(b)
        assert "send a heartbeat (POST /streams/s:heartbeat?at=)" in text(b)
        assert reasons(b, "never") == [("idle", S, None), ("filtered", None, 1)]
        b.push(2_000, "b")
        assert reasons(b) == []


def test_a_stream_that_never_gets_idle_is_silent_all_the_same() -> None:
    with bench() as b:
        b.engine.streams.declare(S, idle_timeout=0)
        b.register("q", RANGE)
        b.push(1_000, "a")
        assert reasons(b) == []
        b.clock.advance(10_000)
        tick(b.engine)
        assert reasons(b) == [("idle", S, None)]


def test_a_window_closes_when_event_time_gets_there() -> None:
    with bench() as b:
        b.register("q", GRID)
        b.push(1_000, "a")
        assert reasons(b) == [("watermark", S, 0)]
        assert text(b).startswith("the next report is at 1970-01-01T00:00:05Z; the watermark of")
        b.push(6_000, "b")
        assert reasons(b) == []


def test_a_window_that_closes_by_number_waits_for_elements() -> None:
    with bench() as b:
        b.register("q", GRID.replace("[RANGE PT5S STEP PT5S]", "[ELEMENTS 3 STEP 3]"))
        b.push(1_000, "a")
        b.push(2_000, "b")
        assert reasons(b) == [("window-empty", S, 2)]
        b.push(3_000, "c")
        assert reasons(b) == []


def test_what_came_has_left_the_window() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } ?x :in :r }")
        b.store.writer.update(f"INSERT DATA {{ <{E}z> <{E}in> <{E}r> }}")
        b.push(1_000, "a")
        assert reasons(b) == [("filtered", None, 1)]
        b.engine.streams.heartbeat(S, 60_000)
        assert reasons(b) == [("window-empty", S, 1), ("filtered", None, 1)]


def test_a_static_part_without_rows() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :in :r }")
        assert reasons(b) == [("no-element", S, 0), ("static-empty", None, 0)]
        b.push(1_000, "a")
        assert reasons(b) == [("static-empty", None, 0)]
        assert text(b) == "the static part 0 (?x) has no rows: ?x :in :r ."
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
        assert reasons(b) == []


def test_a_static_part_that_need_not_have_rows_is_no_reason() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 5s] { ?x :never ?v } OPTIONAL { ?x :in :r } }")
        b.register("m", "SELECT ?x WHERE { STREAM :s [RANGE 5s] { ?x :never ?v } MINUS { ?x :in :r } }")
        b.push(1_000, "a")
        assert reasons(b) == reasons(b, "m") == [("filtered", None, 1)]


def test_paused_and_failed_are_all_there_is_to_say() -> None:
    with bench() as b:
        b.register("q", RANGE, memory=1)
        b.engine.queries.patch("q", {"state": "paused"})
        assert reasons(b) == [("paused", None, None)]
        b.engine.queries.patch("q", {"state": "running"})
        b.push(1_000, "a", "b")
        assert reasons(b) == [("failed", None, None)] and "its limit (memory) is 1" in text(b)


def test_a_query_without_windows() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { ?x :in :r }")
        assert reasons(b) == [("static-empty", None, 0)]
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
        assert reasons(b) == []


def test_what_came_is_in_a_window_that_shows_it_later() -> None:
    later = {
        "SELECT ?x { STREAM :s [RANGE 10ms SLIDE 10ms] { ?x :seen ?v } }": 10,
        "SELECT ?x { STREAM :s [RANGE 100ms TO 50ms] { ?x :seen ?v } }": 53,
        "SELECT ?x { SEQ { STREAM :s { ?x :seen ?v } ; NOT STREAM :s { ?x :gone ?w } } WITHIN 50ms }": 53,
        "SELECT ?x { STREAM :s [RANGE 100ms] { ?x :seen ?v } } AFTER 50ms": 53,
    }
    for query, at in later.items():
        with bench() as b:
            b.register("q", query)
            b.push(3, "a")
            assert [(word, iri) for word, iri, _ in reasons(b)] == [("watermark", S)], query
            assert f"1970-01-01T00:00:00.0{at}Z" in text(b) and ":heartbeat" in text(b)
            b.engine.streams.heartbeat(S, at)
            assert reasons(b) == [] and b.told("q"), query
    with bench() as b:
        b.register("q", "SELECT ?x { STREAM :s [RANGE 100ms] { ?x :other ?v } } AFTER 50ms")
        b.push(3, "a")
        b.engine.streams.heartbeat(S, 60)
        assert [word for word, *_ in reasons(b)] == ["filtered"]
