"""Elements ahead of the clock: early in the answer of a push, the stream, metrics and dead letters."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of

AHEAD = 3 * 86_400_000
"""Milliseconds ahead of the clock that are more than the setting max_future allows."""
NDJSON = {"Content-Type": "application/x-ndjson"}
MAPPING = {"construct": "CONSTRUCT { <urn:s> <urn:v> ?v } WHERE {}", "time": "ts", "time_format": "ms"}


def now() -> int:
    return time.time_ns() // 1_000_000


def line(at: int, name: str) -> str:
    return json.dumps({"at": at, "data": f"<urn:{name}> <urn:v> <urn:x> ."}) + "\n"


def push(server: LiveServer, *lines: str, **parameters: str) -> httpx.Response:
    return server.client.post("/streams/r", content="".join(lines), headers=NDJSON, params=parameters)


def letters(server: LiveServer, stream: str = "r") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.client.get(f"/streams/{stream}/dead-letters").json()["letters"]
    return found


def stream(server: LiveServer, name: str = "r") -> dict[str, Any]:
    return dict(server.client.get(f"/streams/{name}").json())


def figure(server: LiveServer, name: str) -> list[str]:
    return [each for each in server.client.get("/metrics").text.splitlines() if each.startswith(name)]


def test_an_element_ahead_of_the_clock_is_early_and_never_late(start_server: Start, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data": str(tmp_path / "data"), "max_future": "1s"}
    server = start_server(**settings)
    ahead = now() + AHEAD
    problem = problem_of(push(server, line(ahead, "a")), 400)
    assert problem["code"] == "future", "a push that is a whole is refused as a whole"
    answer = push(server, line(now(), "good"), line(ahead, "a"), line(now(), "b"), partial="true").json()
    (bad,) = answer.pop("bad")
    assert bad["early"] is True and bad["line"] == 2
    assert answer == {
        "stream": "http://localhost/r", "first_seq": 1, "last_seq": 2, "accepted": 2, "late": 0,
        "durable": True, "early": 1, "dropped": 0,
    }  # fmt: skip
    described = stream(server)
    assert (described["early_count"], described["late_count"]) == (1, 0)
    assert described["late_counts"] == {"late": 0, "dropped": 0, "refused": 1}
    assert figure(server, "quadrill_stream_early_elements_total") == [
        'quadrill_stream_early_elements_total{stream="r"} 1.0'
    ]
    assert figure(server, "quadrill_stream_late_elements_total")[0].endswith(" 0.0")
    (letter,) = letters(server)
    assert (letter["reason"], letter["at"], letter["seq"], letter["entered"]) == ("early", ahead, None, False)
    assert letter["quads"] == "<urn:a> <urn:v> <urn:x> .\n" and "ahead of the clock" in letter["error"]
    assert server.client.get("/streams/r/late").json() == {"elements": []}
    server.services.close()
    again = start_server(**settings)
    assert letters(again) == [letter] and stream(again)["early_count"] == 1
    refused = again.client.post("/streams/r/dead-letters:retry", params={"id": letter["id"]})
    assert problem_of(refused, 400)["code"] == "future" and letters(again) == [letter]


def test_an_early_element_enters_by_a_retry_when_its_time_has_come(start_server: Start) -> None:
    server = start_server(max_future="1s")
    at = now() + 2_500
    answer = push(server, line(at, "a"), partial="true").json()
    assert (answer["early"], answer["accepted"]) == (1, 0)
    time.sleep(2.0)
    (letter,) = letters(server)
    retried = server.client.post("/streams/r/dead-letters:retry", params={"reason": "early"})
    assert retried.json() == {"retried": 1, "failed": 0, "errors": []}
    assert letters(server) == [] and stream(server)["newest"] == letter["at"] == at
    assert stream(server)["early_count"] == 1


@pytest.mark.parametrize("form", ["application/json", "text/csv"])
def test_a_record_of_a_mapping_ahead_of_the_clock_is_early(start_server: Start, form: str) -> None:
    server = start_server()
    mapping = MAPPING | {"format": "csv" if form == "text/csv" else "json"}
    assert server.client.put("/streams/m", json={"mapping": mapping}).status_code == 201
    ahead = now() + AHEAD
    body = (
        f"v,ts\n1,{ahead}\n" if form == "text/csv" else json.dumps([{"v": 1, "ts": ahead}, {"v": 2, "ts": 1}])
    )
    answer = server.client.post(
        "/streams/m", content=body, headers={"Content-Type": form}, params={"partial": "true"}
    )
    assert (answer.json()["early"], len(answer.json()["bad"]), answer.json()["late"]) == (1, 1, 0)
    assert [each["reason"] for each in letters(server, "m")] == ["early"]


def test_a_push_that_lasts_counts_early_elements(start_server: Start) -> None:
    server = start_server()
    lines = [line(now() + AHEAD, "a"), line(now(), "b"), line(now() + AHEAD, "c")]
    answer = server.client.post(
        "/streams/r", content=(each.encode() for each in lines), headers=NDJSON, params={"partial": "true"}
    )
    assert (answer.json()["early"], answer.json()["accepted"]) == (2, 1)
    assert [each["reason"] for each in letters(server)] == ["early", "early"]


def test_a_query_without_an_element_names_the_early_ones(start_server: Start) -> None:
    server = start_server()
    text = "SELECT ?s WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
    assert server.client.put("/queries/q", json={"query": text}).status_code == 201
    push(server, line(now() + AHEAD, "a"), partial="true")
    (reason,) = server.client.get("/queries/q").json()["waiting_for"]
    assert reason["reason"] == "no-element"
    assert "1 element was early: refused, because their time is ahead of the clock" in reason["text"]
