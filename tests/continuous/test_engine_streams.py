"""Streams through the engine: declaring, pushing, time, lateness, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream, describe_streams
from quadrill.continuous.errors import (
    BackPressureError,
    EngineStoppedError,
)
from quadrill.continuous.lifecycle import stream_service
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import (
    ConflictError,
    IdempotencyError,
    InputError,
    LateElementError,
    LimitError,
    NotFoundError,
    RdfSyntaxError,
    ReportedError,
)

from .engines import DAY, NOW, RANGE, Bench, E, S, bench, tick


def test_a_push_declares_its_stream_and_names_it_after_its_iri() -> None:
    with bench() as b:
        receipt = b.push(5, "a", "b")
        assert receipt == {
            "stream": S, "first_seq": 1, "last_seq": 1, "accepted": 1, "late": 0, "dropped": 0,
            "durable": False,
        }  # fmt: skip
        assert b.lines((6, "a"), (7, "b"))["first_seq"] == 2
        stream = describe_stream(b.engine, "s")
        assert (stream["iri"], stream["watermark"], stream["accepted"]) == (S, 7, 3)
        assert stream["stamping"] == "event" and not stream["declared"]


def seen(*names: str) -> bytes:
    """The body of an element that says that these things were seen."""
    return "".join(f'<{E}{name}> <{E}seen> "x" .\n' for name in names).encode()


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize(
    "bodies",
    [
        [(seen("a"), 5), (seen("b"), 5), (seen("c"), 2), (seen("c", "d"), 8)],
        [(b"", 4), (seen("a"), 5), (b"# nothing\n", 6)],
        [(seen("a"), 5), (b"<a> no triple .", 5), (seen("b"), 6)],
        [(seen("a"), 5), (seen("b"), 3 * DAY), (seen("c"), 6)],
        [(seen("a"), 5), (seen("b"), 1 << 61)],
        [],
    ],
)
@pytest.mark.parametrize("declared", [{}, {"late": "error"}])
def test_bodies_that_are_pushed_together_are_pushes_of_their_own(
    bodies: list[tuple[bytes, int]], threaded: bool, declared: dict[str, Any]
) -> None:
    """Up to the first that is wrong."""
    found = []
    for together in (False, True):
        with bench(threaded=threaded) as b:
            b.engine.streams.declare(S, **declared)
            b.register("q", RANGE, output="rstream")
            error = None
            try:
                if together:
                    b.engine.streams.push_each(S, bodies, "application/n-triples")
                for body, at in () if together else bodies:
                    b.engine.streams.push(PushCall(S, "application/n-triples", at=at, wait=True), body)
            except ReportedError as wrong:
                error = wrong.message
            b.engine.sync()
            stream = describe_stream(b.engine, S)
            found.append((error, b.told("q"), stream["accepted"], stream["late"]))
    assert found[0] == found[1]


def test_bodies_that_are_pushed_together_declare_their_stream() -> None:
    with bench() as b:
        b.engine.streams.push_each(S, [(seen("a"), 5), (seen("b"), 6)], "application/n-triples")
        assert describe_stream(b.engine, "s")["accepted"] == 2


@pytest.mark.parametrize(
    ("iri", "name"),
    [
        ("http://e.org/streams/Taxi", "Taxi"),
        ("http://e.org/v#temp", "temp"),
        ("http://e.org/a/b c%20d/".replace(" ", ""), "bc-20d"),
        ("urn:stream:x", "x"),
        ("http://e.org/", "e.org"),
        ("http://e.org/_x", "x"),
    ],
)
def test_a_stream_is_named_after_the_last_segment(iri: str, name: str) -> None:
    with bench() as b:
        b.push(1, "a", stream=iri)
        assert describe_stream(b.engine, name)["iri"] == iri


def test_taken_names_get_a_number() -> None:
    with bench() as b:
        for host in ("a", "b", "c"):
            b.push(1, "x", stream=f"http://{host}.org/s")
        assert [stream["name"] for stream in describe_streams(b.engine)] == ["s", "s-2", "s-3"]
        assert describe_stream(b.engine, "s-3")["iri"] == "http://c.org/s"


def test_a_push_to_an_undeclared_name_declares_it_under_the_base_iri() -> None:
    with bench(base_iri="http://localhost/") as b:
        assert b.push(1, "a", stream="Taxi")["stream"] == "http://localhost/Taxi"
        assert b.push(2, "a", stream="http://localhost/Taxi")["first_seq"] == 2


def test_declaring_by_itself_can_be_turned_off() -> None:
    with bench(auto_declare=False) as b:
        with pytest.raises(NotFoundError, match="no stream"):
            b.push(1, "a")
        with pytest.raises(NotFoundError):
            b.register("q", NOW)
        b.engine.streams.declare(S)
        b.register("q", NOW)
        b.push(1, "a")
        assert b.told("q") == [("insert", 1, "a")]


def test_a_declaration_is_created_once_and_can_change() -> None:
    with bench() as b:
        first, created = b.engine.streams.declare(
            S, name="sensors", lateness="2s", late="admit", retention="1h"
        )
        assert created and (first.name, first.lateness_ms, first.record.late) == ("sensors", 2000, "admit")
        again, created = b.engine.streams.declare(
            S, name="sensors", lateness="2s", late="admit", retention="1h"
        )
        assert not created and describe_stream(b.engine, again.iri)["lateness"] == "2s"
        changed, created = b.engine.streams.declare(None, name="sensors", lateness=500)
        assert not created and (changed.lateness_ms, changed.record.late) == (500, "drop")


@pytest.mark.parametrize(
    "options",
    [
        {"lateness": "soon"},
        {"late": "maybe"},
        {"x": 1},
        {"timestamp_property": "no iri"},
        {"lateness": "-1s"},
    ],
)
def test_a_wrong_declaration_is_refused(options: dict[str, object]) -> None:
    with bench() as b, pytest.raises(InputError):
        b.engine.streams.declare(S, **options)


def test_names_and_iris_of_other_streams_are_taken() -> None:
    with bench() as b:
        b.engine.streams.declare(S, name="one")
        with pytest.raises(ConflictError):
            b.engine.streams.declare(E + "other", name="one")
        with pytest.raises(ConflictError):
            b.engine.streams.declare(S, name="two")
        for iri in ("not an iri", "http://e.org/a b"):
            with pytest.raises(InputError):
                b.engine.streams.declare(iri)
        with pytest.raises(InputError):
            b.engine.streams.declare(None, name="bad name")


def test_a_stream_that_is_read_cannot_be_dropped() -> None:
    with bench() as b:
        b.register("q", NOW)
        with pytest.raises(ConflictError, match="read by q"):
            b.engine.streams.drop("s")
        b.push(1, "a")
        b.engine.queries.drop("q")
        b.engine.streams.drop("s")
        with pytest.raises(NotFoundError):
            describe_stream(b.engine, "s")


def in_between(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], Any]) -> None:
    """Do some work once, just before something is called."""
    original = getattr(stream_service, name)
    waiting = [work]

    def call(*arguments: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(*arguments)

    monkeypatch.setattr(stream_service, name, call)


def test_a_push_whose_stream_is_dropped_meanwhile_enters_the_stream_that_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bench() as b:
        b.push(1_000, "a")
        in_between(monkeypatch, "decode_lines", lambda: b.engine.streams.drop("s"))
        assert b.push(500, "b") == {
            "stream": S, "first_seq": 1, "last_seq": 1, "accepted": 1, "late": 0, "dropped": 0,
            "durable": False,
        }  # fmt: skip
        assert (describe_stream(b.engine, "s")["accepted"], describe_stream(b.engine, "s")["watermark"]) == (
            1,
            500,
        )


def test_a_push_whose_stream_is_made_by_a_query_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        f"REGISTER STREAM <{S}> AS CONSTRUCT {{ ?x ?p ?y }} FROM NAMED WINDOW <w> ON <{E}o>"
        " [RANGE 1s STEP 1s] WHERE { WINDOW <w> { ?x ?p ?y } }"
    )
    with bench() as b:
        b.engine.streams.declare(S)
        in_between(monkeypatch, "decode_lines", lambda: b.register("q", text))
        with pytest.raises(ConflictError, match="is made by the query q"):
            b.push(500, "b")
        assert describe_stream(b.engine, "s")["accepted"] == 0


def test_a_heartbeat_of_a_stream_that_is_dropped_meanwhile_moves_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bench() as b:
        b.push(1_000, "a")
        find = b.engine.parts.streams.find

        def dropped_behind(stream: str) -> Any:
            state = find(stream)
            if state is not None and state.counts.accepted:
                monkeypatch.undo()
                b.engine.streams.drop(stream)
            return state

        monkeypatch.setattr(b.engine.parts.streams, "find", dropped_behind)
        b.engine.streams.heartbeat(S, 500)
        assert describe_stream(b.engine, "s")["watermark"] == 500


def test_streams_that_are_dropped_while_they_are_listed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        b.push(1, "a")
        b.push(1, "b", stream=E + "t")
        one = b.engine.streams.inspect

        def dropped_before(name: str, look: Any) -> Any:
            if name == "t":
                b.engine.streams.drop(name)
            return one(name, look)

        monkeypatch.setattr(b.engine.streams, "inspect", dropped_before)
        assert [each["name"] for each in describe_streams(b.engine)] == ["s"]


def test_a_push_is_all_or_nothing() -> None:
    with bench() as b:
        b.register("q", RANGE)
        with pytest.raises(RdfSyntaxError):
            b.engine.streams.push(
                PushCall(S, "application/x-ndjson"), b'{"at": 1, "data": ""}\n{"at": 2, "data": "<"}'
            )
        with pytest.raises(InputError, match="ahead of the clock"):
            b.lines((1, "a"), (3 * DAY, "b"))
        assert describe_stream(b.engine, S)["accepted"] == 0
        assert b.told("q") == []


def test_a_partial_push_accepts_the_good_and_lists_the_bad() -> None:
    with bench() as b:
        b.register("q", RANGE)
        receipt = b.lines((1, "a"), (3 * DAY, "b"), (None, "c"), (2, "d"), partial=True)
        assert receipt["accepted"] == 2
        assert [bad["element"] for bad in receipt["bad"]] == ["line 2", "line 3"]
        assert b.told("q") == [("insert", 1, "a"), ("insert", 2, "d")]
        assert describe_stream(b.engine, S)["late_counts"]["refused"] == 2


def test_the_first_element_fixes_the_stamping() -> None:
    with bench() as b:
        b.push(5, "a")
        with pytest.raises(InputError, match="event-stamped"):
            b.push(None, "b")
        b.push(None, "a", stream=E + "t")
        with pytest.raises(InputError, match="stamped at arrival"):
            b.push(7, "b", stream=E + "t")
        assert describe_stream(b.engine, E + "t")["stamping"] == "arrival"


def test_a_declaration_fixes_the_stamping() -> None:
    with bench() as b:
        b.engine.streams.declare(S, stamping="arrival")
        with pytest.raises(InputError, match="stamped at arrival"):
            b.push(5, "a")
        b.push(None, "a")
        with pytest.raises(ConflictError, match="arrival-stamped"):
            b.engine.streams.declare(S, stamping="event")


def test_arrival_stamps_follow_the_clock_and_never_go_back() -> None:
    with bench() as b:
        b.register("q", RANGE)
        b.clock.set(100)
        b.push(None, "a")
        b.clock.set(50)
        b.push(None, "b")
        assert b.told("q") == [("insert", 100, "a"), ("insert", 100, "b")]


def test_the_clock_moves_arrival_stamped_streams() -> None:
    with bench() as b:
        b.register("q", NOW, output="changes")
        b.clock.set(100)
        b.push(None, "a")
        b.clock.set(150)
        tick(b.engine)
        assert b.told("q") == [("insert", 100, "a"), ("delete", 101, "a")]
        assert describe_stream(b.engine, S)["watermark"] == 150


def test_a_heartbeat_moves_the_watermark_and_never_back() -> None:
    with bench() as b:
        b.register("q", NOW, output="changes")
        b.push(10, "a")
        b.engine.streams.heartbeat(S, 30)
        b.engine.streams.heartbeat(S, 20)
        assert describe_stream(b.engine, S)["watermark"] == 30
        assert b.told("q") == [("insert", 10, "a"), ("delete", 11, "a")]
        with pytest.raises(InputError, match="ahead"):
            b.engine.streams.heartbeat(S, 3 * DAY)


def test_one_step_into_the_future_may_follow_another() -> None:
    """A push is n transactions in time order: each may be a day ahead of the watermark before it."""
    with bench() as b:
        receipt = b.lines((DAY, "a"), (2 * DAY, "b"), (DAY // 2, "c"))
        assert receipt["accepted"] == 3
        with pytest.raises(InputError):
            b.push(3 * DAY + 1, "d")


def test_late_elements_are_counted_and_kept() -> None:
    with bench(dead_letters=1) as b:
        b.register("q", RANGE)
        b.push(1000, "a")
        receipt = b.lines((999, "b"), (998, "c"), (1000, "d"))
        assert (receipt["accepted"], receipt["late"], receipt["dropped"]) == (3, 2, 2)
        stream = describe_stream(b.engine, S)
        assert (stream["late_count"], stream["late_counts"]["dropped"]) == (2, 2)
        assert [letter["at"] for letter in b.engine.streams.dead_letters(S)] == [998]
        assert b.told("q") == [("insert", 1000, "a"), ("insert", 1000, "d")]


def test_the_elements_of_one_push_are_not_late_to_each_other() -> None:
    with bench() as b:
        b.register("q", RANGE)
        assert b.lines((3000, "c"), (1000, "a"), (2000, "b"))["late"] == 0
        assert b.told("q") == [("insert", 1000, "a"), ("insert", 2000, "b"), ("insert", 3000, "c")]


def test_policy_error_refuses_a_push_with_a_late_element() -> None:
    with bench() as b:
        b.engine.streams.declare(S, late="error")
        b.push(1000, "a")
        with pytest.raises(LateElementError, match="behind the watermark"):
            b.lines((999, "b"), (1001, "c"))
        assert describe_stream(b.engine, S)["accepted"] == 1


def test_what_another_query_waits_for_is_late_for_a_new_one_from_its_beginning() -> None:
    with bench() as b:
        b.register("patient", "SELECT ?x WHERE { STREAM :s [RANGE 10s LATENESS 5s] { ?x :seen ?v } }")
        b.push(10_000, "a")
        b.register("new", RANGE)
        b.push(8_000, "late")
        b.push(11_000, "b")
        assert b.told("new") == [("insert", 11_000, "b")]
        b.engine.streams.heartbeat(S, 12_000)
        assert b.told("patient") == [
            ("insert", 8_000, "late"),
            ("insert", 10_000, "a"),
            ("insert", 11_000, "b"),
        ]


def test_lateness_of_a_text_spares_its_stream_from_dropping() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 10s LATENESS 2s] { ?x :seen ?v } }")
        b.push(10_000, "a")
        assert b.push(9_000, "b")["late"] == 0
        assert b.push(7_999, "c")["late"] == 1
        b.push(12_000, "d")
        assert b.told("q") == [("insert", 9000, "b"), ("insert", 10_000, "a")]


def test_a_stream_waits_as_long_as_the_most_patient_window_of_a_query() -> None:
    first = "STREAM :s [RANGE 10s LATENESS 5s] { ?x :seen ?v }"
    second = "STREAM :s [RANGE 20s LATENESS 1s] { ?x :seen ?w }"
    with bench() as b:
        b.register("q", f"SELECT ?x WHERE {{ {first} {second} }}")
        b.push(10_000, "a")
        assert describe_stream(b.engine, S)["lateness_ms"] == 5000
        assert b.push(5_000, "b")["late"] == 0
        assert b.push(4_999, "c")["late"] == 1


def test_a_silent_stream_becomes_idle_and_lets_others_go_on() -> None:
    text = "SELECT ?x WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } STREAM :t [RANGE 1h] { ?y :seen ?v } }"
    with bench(idle_timeout_ms=5000) as b:
        b.register("q", text)
        b.push(10, "a")
        b.push(10, "b", stream=E + "t")
        b.clock.advance(4000)
        b.push(20, "c")
        assert b.told("q")[-1][1] == 10
        b.clock.advance(1000)
        tick(b.engine)
        assert describe_stream(b.engine, "t")["idle"] and not describe_stream(b.engine, "s")["idle"]
        assert b.told("q")[-1] == ("insert", 20, "c")
        b.push(11, "d", stream=E + "t")
        assert not describe_stream(b.engine, "t")["idle"]
        assert describe(b.engine, "q")["counters"]["behind"] == 1


def test_an_idempotency_key_gives_the_same_answer_once() -> None:
    with bench() as b:
        b.register("q", RANGE)
        first = b.push(1, "a", idempotency_key="k")
        assert b.push(1, "a", idempotency_key="k") == first
        assert describe_stream(b.engine, S)["accepted"] == 1
        with pytest.raises(IdempotencyError):
            b.push(1, "b", idempotency_key="k")
        assert b.push(2, "b", idempotency_key="k2")["first_seq"] == 2
        assert b.told("q") == [("insert", 1, "a"), ("insert", 2, "b")]


def test_the_keys_of_a_dropped_stream_are_not_those_of_the_next_under_its_name() -> None:
    with bench() as b:
        for stream in (S, E + "t"):
            b.engine.streams.declare(stream)
            b.push(1, "a", stream=stream, idempotency_key="k")
        b.engine.streams.drop(S)
        b.engine.streams.declare(S)
        b.push(1, "b", idempotency_key="k")
        assert describe_stream(b.engine, S)["accepted"] == 1
        with pytest.raises(IdempotencyError):
            b.push(1, "b", stream=E + "t", idempotency_key="k")


def test_a_push_over_its_limit_is_refused() -> None:
    with bench(push_elements=2) as b, pytest.raises(LimitError, match="3 elements"):
        b.lines((1, "a"), (2, "b"), (3, "c"))


def test_a_full_queue_is_back_pressure() -> None:
    with bench(queue_elements=3, threaded=True) as b:
        b.register("q", RANGE)
        with b.engine.parts.sequencer.paused:
            # The thread is held between two items: what is pushed now waits.
            b.push(1, "a")
            b.push(2, "a")
            with pytest.raises(BackPressureError) as caught:
                for at in range(3, 8):
                    b.push(at, "a")
            assert caught.value.retry_after >= 1
        b.engine.sync()
        b.push(9, "b")


def test_a_stopped_engine_refuses_pushes() -> None:
    b = Bench()
    with pytest.raises(EngineStoppedError):
        b.push(1, "a")
    b.engine.start()
    b.push(1, "a")
    b.engine.stop()
    with pytest.raises(EngineStoppedError):
        b.push(2, "a")
    b.store.close()


def test_waiting_answers_when_the_results_are_in_the_feed() -> None:
    with bench(threaded=True) as b:
        b.register("q", RANGE)
        feed = b.engine.queries.feed("q")
        for at in range(1, 30):
            b.push(at, f"x{at}", wait=True)
            assert feed.history.last_id == at


def test_elements_join_static_data_in_the_stores_own_terms() -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}limit> 10 }}")
        b.register("q", "SELECT ?x WHERE { STREAM :s [NOW] { ?y :value ?v } ?x :limit ?v }")
        body = f'<{E}m> <{E}value> "010"^^<http://www.w3.org/2001/XMLSchema#integer> .'
        b.engine.streams.push(PushCall(S, "application/n-triples", at=1), body.encode())
        assert b.told("q") == [("insert", 1, "a")]


def test_the_clock_is_not_looked_at_once_the_engine_works_off_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with bench(threaded=True, tick_ms=0) as b:
        b.engine.streams.declare(S)
        b.engine.streams.push(PushCall(S, "application/n-triples"), b'<urn:a> <urn:p> "1" .')
        with b.engine.parts.sequencer.paused:
            for _ in range(3_000):
                b.engine.streams.push(PushCall(S, "application/n-triples"), b'<urn:a> <urn:p> "1" .')
            b.clock.advance(5_000)
            b.engine.parts.tasks.close(float("inf"))
    assert caplog.records == []
