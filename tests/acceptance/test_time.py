"""Section 2: watermarks, lateness, late elements, the future, event and arrival stamping."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .bench import Bench, Sse, ans, dele, eventually, ins, problem, rows_of

NOW = "SELECT ?s WHERE { STREAM <%s> [NOW] { ?s :p ?o } }"
GRID = "SELECT ?s FROM NAMED WINDOW :w ON <%s> [RANGE 10] WHERE { WINDOW :w { ?s :p ?o } }"
DAY_MS = 86_400_000


def wall_ms() -> int:
    return int(time.time() * 1000)


def test_the_watermark_is_the_greatest_event_time_minus_lateness(bench: Bench) -> None:
    s = bench.stream(lateness="10ms")
    bench.push(s, 100, ":a :p 1 .")
    assert bench.describe_stream(s)["watermark"] == 90
    bench.push(s, 95, ":a :p 1 .")
    assert bench.describe_stream(s)["watermark"] == 90


def test_lateness_defaults_to_zero(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 100, ":a :p 1 .")
    assert bench.describe_stream(s)["watermark"] == 100


def test_lateness_delays_results_and_puts_elements_in_order(bench: Bench) -> None:
    s = bench.stream(lateness="10ms")
    q = bench.register(NOW % s)
    bench.push(s, 100, ":a :p 1 .")
    bench.push(s, 95, ":b :p 1 .")
    bench.push(s, 105, ":c :p 1 .")
    assert bench.feed(q) == [ins(95, "b")]
    bench.push(s, 120, ":d :p 1 .")
    assert bench.feed(q) == [ins(95, "b"), ins(100, "a"), ins(105, "c")]


def test_a_heartbeat_moves_the_watermark_without_data(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(GRID % s)
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    assert bench.describe_stream(s)["watermark"] == 10
    assert bench.feed(q) == [ans(10, "a")]


def test_a_heartbeat_may_be_an_xsd_datetime_and_go_to_the_streams_name(bench: Bench) -> None:
    s = bench.stream()
    name = s.rsplit("/", 1)[1]
    answer = bench.client.post(f"/streams/{name}:heartbeat", params={"at": "1970-01-01T00:00:02.5Z"})
    assert answer.status_code == 204
    assert bench.describe_stream(s)["watermark"] == 2500


def test_an_old_heartbeat_never_moves_the_watermark_back(bench: Bench) -> None:
    s = bench.stream()
    bench.beat(s, 10)
    bench.client.post("/streams:heartbeat", params={"iri": s, "at": 5})
    assert bench.describe_stream(s)["watermark"] == 10


def test_a_query_waits_for_the_least_watermark_of_its_streams(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }} UNION {{ STREAM <{z}> [NOW] {{ "
        f"?s :p ?o }} }} }}"
    )
    # z has had nothing since registration and holds nothing back
    bench.push(s, 5, ":a :p 1 .")
    assert bench.feed(q) == [ins(5, "a")]
    bench.push(z, 7, ":b :p 1 .")
    assert bench.feed(q) == [ins(5, "a")]
    bench.push(s, 9, ":c :p 1 .")
    assert bench.feed(q) == [ins(5, "a"), ins(7, "b")]
    bench.beat(z, 20)
    assert bench.feed(q) == [ins(5, "a"), ins(7, "b"), ins(9, "c")]


def test_equal_times_go_in_the_order_of_the_streams_in_the_text(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream()
    q = bench.register(
        f"SELECT ?s WHERE {{ {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }} UNION {{ STREAM <{z}> [NOW] {{ "
        f"?s :p ?o }} }} }}"
    )
    bench.push(s, 1, ":s1 :p 1 .")
    bench.push(z, 1, ":z1 :p 1 .")
    bench.push(z, 10, ":z10 :p 1 .")
    bench.push(s, 10, ":s10 :p 1 .")
    assert bench.feed(q) == [ins(1, "s1"), ins(1, "z1"), ins(10, "s10"), ins(10, "z10")]


def test_an_idle_stream_holds_nothing_back(bench: Bench) -> None:
    s, z = bench.stream(), bench.stream(idle_timeout="200ms")
    q = bench.register(
        f"SELECT ?s WHERE {{ {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }} UNION {{ STREAM <{z}> [NOW] {{ "
        f"?s :p ?o }} }} }}"
    )
    bench.push(z, 1, ":z :p 1 .")
    with Sse(bench.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
        bench.push(s, 10, ":s :p 1 .")
        first, second = feed.take(2)
    assert (first.data["at"], rows_of(first.data)) == (1, ["z"])
    assert (second.data["at"], rows_of(second.data)) == (10, ["s"])
    assert bench.describe_stream(z)["idle"] is True
    assert bench.describe_stream(s)["idle"] is False


def test_idle_timeout_defaults_to_five_seconds(bench: Bench) -> None:
    assert bench.client.put("/streams/plain", json={"iri": "http://e/plain"}).status_code == 201
    assert bench.describe_stream("http://e/plain")["idle_timeout"] == "5s"


def test_late_elements_are_dropped_counted_and_kept(bench: Bench) -> None:
    s = bench.stream()
    name = s.rsplit("/", 1)[1]
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 100, ":a :p 1 .")
    answer = bench.push(s, 99, ":late :p 1 .")
    assert (answer["accepted"], answer["late"]) == (1, 1) or (answer["accepted"], answer["late"]) == (0, 1)
    assert bench.push(s, 100, ":b :p 1 .")["late"] == 0
    assert bench.feed(q) == [ins(100, "a"), ins(100, "b")]
    found = bench.describe_stream(s)
    assert found["late"] == "drop"
    assert found["late_count"] == 1 or found["late_counts"]["dropped"] == 1
    letters = bench.client.get(f"/streams/{name}/late").json()["elements"]
    assert [letter["at"] for letter in letters] == [99]
    assert "<http://e/late>" in letters[0]["quads"]


def test_admitted_late_elements_correct_the_windows_that_still_hold_their_time(bench: Bench) -> None:
    s = bench.stream(late="admit")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?s :p ?o }} }}", output="changes")
    bench.push(s, 100, ":a :p 1 .")
    assert bench.push(s, 95, ":b :p 1 .")["late"] == 1
    bench.push(s, 80, ":too-old :p 1 .")
    bench.beat(s, 120)
    assert bench.feed(q) == [ins(100, "a"), ins(100, "b"), dele(106, "b"), dele(111, "a")]


def test_admitted_late_elements_retract(bench: Bench) -> None:
    s = bench.stream(late="admit")
    q = bench.register(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?s :p ?o }} }}",
        output="changes",
    )
    bench.push(s, 100, ":a :p 1 .")
    bench.push(s, 95, ":b :p 1 .")
    assert bench.feed(q) == [ins(100, "1"), dele(100, "1"), ins(100, "2")]


def test_a_corrected_report_names_the_one_that_it_revises(bench: Bench) -> None:
    s = bench.stream(late="admit")
    q = bench.register(GRID % s)
    bench.push(s, 1, ":a :p 1 .")
    bench.beat(s, 10)
    bench.push(s, 5, ":b :p 1 .")
    first, second = bench.events(q)
    assert (first.kind, first.id, first.data["at"], rows_of(first.data)) == ("answer", "1", 10, ["a"])
    assert (second.kind, second.id, second.data["at"]) == ("answer", "2", 10)
    assert sorted(rows_of(second.data)) == ["a", "b"]
    assert int(second.data["revises"]) == 1
    assert "revises" not in first.data


def test_late_error_refuses_the_push(bench: Bench) -> None:
    s = bench.stream(late="error")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    bench.push(s, 100, ":a :p 1 .")
    answer = bench.client.post(
        "/streams",
        params={"iri": s, "at": 99},
        content="<http://e/b> <http://e/p> 1 .",
        headers={"Content-Type": "text/turtle"},
    )
    assert 400 <= answer.status_code < 500
    problem(answer, answer.status_code)
    assert bench.feed(q) == [ins(100, "a")]


def test_an_element_more_than_a_day_ahead_of_clock_and_watermark_is_refused(bench: Bench) -> None:
    s = bench.stream()
    refused = bench.push(s, wall_ms() + DAY_MS + 60_000, ":a :p 1 .", status=400)
    assert refused["status"] == 400
    assert bench.describe_stream(s)["watermark"] is None
    bench.push(s, wall_ms() + DAY_MS - 60_000, ":a :p 1 .")
    # it is not ahead of the watermark any more
    bench.push(s, wall_ms() + 2 * DAY_MS - 120_000, ":a :p 1 .")


def test_a_heartbeat_more_than_a_day_ahead_is_refused(bench: Bench) -> None:
    s = bench.stream()
    answer = bench.client.post("/streams:heartbeat", params={"iri": s, "at": wall_ms() + DAY_MS + 60_000})
    problem(answer, 400)


def test_the_past_may_be_far_away(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, -5_000, ":a :p 1 .")
    bench.push(s, wall_ms(), ":b :p 1 .")
    assert bench.describe_stream(s)["late_count"] == 0


def test_an_event_stamped_stream_refuses_elements_without_a_time(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 1, ":a :p 1 .")
    bench.push(s, None, ":b :p 1 .", status=400)


def test_an_arrival_stamped_stream_refuses_elements_with_a_time(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, None, ":a :p 1 .")
    bench.push(s, wall_ms(), ":b :p 1 .", status=400)


def test_an_element_without_a_time_has_its_arrival_as_event_time(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(NOW % s)
    before = wall_ms()
    bench.push(s, None, ":a :p 1 .")
    (event,) = bench.events(q, 1)
    assert before <= event.data["at"] <= wall_ms()


def test_the_watermark_of_an_arrival_stamped_stream_moves_by_the_wall_clock(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 300 ms] {{ ?s :p ?o }} }}", output="changes")
    bench.push(s, None, ":a :p 1 .")
    came, went = bench.events(q, 2)
    assert (came.kind, went.kind) == ("insert", "delete")
    assert went.data["at"] - came.data["at"] == 301


@pytest.mark.parametrize(
    "at", ["2024-06-01T10:00:00Z", "2024-06-01T12:00:00+02:00", "2024-06-01T10:00:00.000Z", "1717236000000"]
)
def test_every_at_is_milliseconds_or_an_xsd_datetime(bench: Bench, at: str) -> None:
    s = bench.stream()
    q = bench.register(NOW % s)
    bench.push(s, at, ":a :p 1 .")
    assert bench.feed(q) == [ins(1_717_236_000_000, "a")]


@pytest.mark.parametrize("at", ["yesterday", "1.5", "2024-13-01T00:00:00Z", ""])
def test_a_malformed_at_is_refused(bench: Bench, at: str) -> None:
    s = bench.stream()
    bench.push(s, at, ":a :p 1 .", status=400)


def test_a_lateness_of_the_query_delays_that_query_only(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(NOW % s, lateness="10ms")
    other = bench.register(NOW % s)
    bench.push(s, 100, ":a :p 1 .")
    assert (bench.feed(q), bench.feed(other)) == ([], [ins(100, "a")])
    bench.beat(s, 110)
    assert bench.feed(q) == [ins(100, "a")]


def test_now_is_the_instant_of_the_evaluation(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s (NOW() AS ?t) WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    bench.push(s, "2024-06-01T10:00:00Z", ":a :p 1 .")
    (row,) = [row for _, _, rows in bench.feed(q) for row in rows]
    assert row.split()[1].rstrip("Z").startswith("2024-06-01T10:00:00")


def test_the_idle_mark_is_shown(bench: Bench) -> None:
    s = bench.stream(idle_timeout="150ms")
    bench.register(NOW % s)
    bench.push(s, 1, ":a :p 1 .")
    eventually(lambda: bench.describe_stream(s)["idle"])
    bench.push(s, 2, ":a :p 1 .")
    assert bench.describe_stream(s)["idle"] is False


def test_admitted_late_elements_of_a_grid_name_each_report_that_they_revise(bench: Bench) -> None:
    # sliding windows [0,10) and [5,15) both hold 7: two corrections, each at its own close
    s = bench.stream(late="admit")
    q = bench.register(
        f"SELECT ?s FROM NAMED WINDOW :w ON <{s}> [RANGE 10 STEP 5] WHERE {{ WINDOW :w {{ ?s :p ?o }} }}"
    )
    bench.push(s, 6, ":a :p 1 .")
    bench.beat(s, 15)
    bench.push(s, 7, ":b :p 1 .")
    found = [(e.data["at"], sorted(rows_of(e.data)), e.data.get("revises")) for e in bench.events(q)]
    assert found[:2] == [(10, ["a"], None), (15, ["a"], None)]
    # the windows that still hold that time: at least the last closed one
    assert (15, ["a", "b"], 2) in [(at, rows, revised and int(revised)) for at, rows, revised in found[2:]]


def test_the_answer_of_a_late_push_says_how_many_were_late(bench: Bench) -> None:
    s = bench.stream()
    bench.push(s, 100, ":a :p 1 .")
    answer = bench.push_lines(s, (90, ":b :p 1"), (95, ":c :p 1"), (101, ":d :p 1"))
    assert answer["late"] == 2
    assert answer["last_seq"] - answer["first_seq"] + 1 in (1, 3)


def test_a_push_with_an_element_too_far_ahead_is_refused_whole(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(NOW % s)
    bench.push_lines(s, (1, ":a :p 1"), (wall_ms() + 2 * DAY_MS, ":b :p 1"), status=400)
    bench.push(s, 5, ":c :p 1 .")
    assert bench.feed(q) == [ins(5, "c")]


@pytest.mark.parametrize("at", [-(10**30), -(10**17), "-99999999999999999"])
def test_a_time_that_no_calendar_reaches_is_refused(bench: Bench, at: Any) -> None:
    # such an element would stop every query with NOW() and could not be written to a checkpoint
    s = bench.stream()
    q = bench.register(f"SELECT ?s (NOW() AS ?t) WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    refused = bench.push_lines(s, (at, ":a :p 1 ."), status=400)
    assert "years 1 to 9999" in refused["detail"]
    bench.push(s, "0001-01-01T00:00:00Z", ":b :p 1 .")
    assert [at for _, at, _ in bench.feed(q)] == [-62_135_596_800_000]
