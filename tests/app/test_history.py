"""What queries and streams did in the last hour: rings of numbers, points, and the HTTP resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.app.upkeep.history import History
from quadrill.app.upkeep.rings import POINTS, UNKNOWN, Rings, code_of, number_of
from tests.app.conftest import LiveServer, problem_of
from tests.continuous.engines import NOW, RANGE, E, S, bench

TEN_SECONDS = 10_000


@given(st.integers(0, 134_000_000))
def test_small_numbers_are_kept_exactly_and_large_ones_to_a_part_in_two_thousand(number: int) -> None:
    kept = number_of(code_of(number))
    assert kept is not None
    assert kept == number if number < 4096 else 0 <= number - kept <= number / 2000


@pytest.mark.parametrize("number", [134_184_960, 10**9, 10**15])
def test_what_is_larger_than_all_is_the_largest(number: int) -> None:
    assert code_of(number) == UNKNOWN - 1
    assert number_of(code_of(number)) == 4094 << 15


def test_a_series_of_zeros_takes_no_room_and_a_ring_forgets_what_is_older_than_its_points() -> None:
    rings = Rings(2, 0)
    for point in range(POINTS + 5):
        rings.put(point, (0, point), 10)
    assert rings.made == 1
    points = range(5, POINTS + 5)
    assert list(rings.read(0, points)) == [0] * POINTS
    assert list(rings.read(1, points)) == list(points)


def test_a_ring_is_made_only_where_there_is_room() -> None:
    rings = Rings(2, 0)
    rings.put(0, (7, 7), 1)
    assert (rings.made, list(rings.read(0, range(1))), list(rings.read(1, range(1)))) == (1, [7], [None])


def test_a_query_has_a_point_for_each_time_with_what_it_did_in_between() -> None:
    with bench() as b:
        history = History(b.engine, b.clock.now_ms)
        b.clock.set(5 * TEN_SECONDS)
        b.register("range", RANGE)
        history.take()
        b.push(1_000, "a")
        b.push(2_000, "b", "c")
        b.clock.advance(TEN_SECONDS)
        history.take()
        history.take()  # it was taken already
        b.push(500, "late")
        b.clock.advance(TEN_SECONDS)
        history.take()
        told = history.query("range")
        assert (told["every_ms"], told["from"]) == (TEN_SECONDS, 4 * TEN_SECONDS)
        assert told["elements"] == [0, 2, 0]
        assert told["rows"] == [0, 3, 0]
        assert told["events"] == [0, 2, 0]
        assert told["late"] == [0, 0, 1]
        assert told["state_size"] == [0, 3, 3]
        assert len(told["evaluation_us"]) == 3


def test_a_query_registered_later_begins_with_all_that_it_did() -> None:
    with bench() as b:
        history = History(b.engine, b.clock.now_ms)
        b.register("first", RANGE)
        b.push(1_000, "a")
        history.take()
        b.register("second", NOW)
        b.push(2_000, "b")
        b.clock.advance(TEN_SECONDS)
        history.take()
        assert history.query("first")["elements"] == [0, 1]
        second = history.query("second")
        assert (second["from"], second["elements"]) == (0, [1])


def test_what_was_missed_is_unknown_and_what_was_dropped_is_forgotten() -> None:
    with bench() as b:
        history = History(b.engine, b.clock.now_ms, most_rings=50)
        b.register("range", RANGE)
        history.take()
        b.push(1_000, "a")
        b.clock.advance(TEN_SECONDS)
        history.take()
        b.clock.advance(3 * TEN_SECONDS)
        history.take()
        assert history.query("range")["elements"] == [0, 1, None, None, 0]
        b.engine.queries.drop("range")
        b.register("range", RANGE)
        b.clock.advance(TEN_SECONDS)
        history.take()
        b.clock.advance(400 * TEN_SECONDS)
        history.take()
        assert len(history.query("range")["elements"]) == POINTS


def test_a_stream_has_its_elements_its_watermark_and_how_far_that_is_behind() -> None:
    with bench() as b:
        history = History(b.engine, b.clock.now_ms)
        b.engine.streams.declare(S, lateness="1s")
        history.take()
        b.push(8_000, "a", "b")
        b.push(9_000, "c")
        b.push(1_000, "late")
        b.clock.advance(TEN_SECONDS)
        history.take()
        told = history.stream(S)
        assert told == {
            "every_ms": TEN_SECONDS, "from": -TEN_SECONDS, "elements": [0, 3], "late": [0, 1],
            "watermark": [None, 8_000], "lag_ms": [None, 2_000],
        }  # fmt: skip
        b.engine.streams.drop(S)
        b.clock.advance(TEN_SECONDS)
        history.take()
        b.push(1_000, "a")
        assert history.stream(S)["elements"] == []


def test_histories_are_resources_and_a_stream_may_be_named_history(server: LiveServer) -> None:
    client = server.client
    client.put("/queries/seen", content=f"SELECT ?x WHERE {{ STREAM <{S}> [NOW] {{ ?x <{E}seen> ?v }} }}",
               headers={"Content-Type": "text/plain"}).raise_for_status()  # fmt: skip
    client.put("/streams/history", json={"iri": E + "h"}).raise_for_status()
    assert client.get("/queries/seen/history").json()["every_ms"] == TEN_SECONDS
    by_iri = client.get("/streams/history", params={"iri": E + "h"}).json()
    by_name = client.get("/streams/history/history").json()
    assert set(by_iri) == set(by_name) == {"every_ms", "from", "elements", "late", "watermark", "lag_ms"}
    assert client.get("/streams/history").json()["iri"] == E + "h"
    problem_of(client.get("/queries/nobody/history"), 404)
    problem_of(client.get("/streams/nobody/history"), 404)
    problem_of(client.get("/queries/seen/history?from=1"), 400)


def test_a_series_that_was_all_zeros_when_points_were_missed_tells_what_comes_after_them() -> None:
    with bench() as b:
        history = History(b.engine, b.clock.now_ms)
        b.register("range", RANGE)
        for _ in range(3):
            history.take()
            b.clock.advance(TEN_SECONDS)
        for number in range(4):
            b.clock.advance(0 if number else TEN_SECONDS)
            b.push(1_000 * (number + 1), "a")
            history.take()
            b.clock.advance(TEN_SECONDS)
        for told in (history.query("range"), history.stream(S)):
            assert told["elements"][-4:] == [1, 1, 1, 1]
            assert len(told["elements"]) == 8
