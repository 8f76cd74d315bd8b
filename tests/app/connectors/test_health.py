"""Sources that refuse records: degraded for a minute, and named by every query that they feed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.connectors import figures
from quadrill.app.connectors.figures import Figures
from tests.app.conftest import LiveServer, Start
from tests.app.connectors.test_sources import S, put, state
from tests.app.test_feed_streams import until

AHEAD = 3 * 86_400_000
NDJSON = "application/x-ndjson"
TEXT = f"SELECT ?s WHERE {{ STREAM <{S}> [NOW] {{ ?s <urn:v> ?o }} }}"
MADE = f"CONSTRUCT {{ ?s <urn:w> ?o }} WHERE {{ STREAM <{S}> [NOW] {{ ?s <urn:v> ?o }} }}"
OF_MADE = "SELECT ?s WHERE { STREAM <http://localhost/made> [NOW] { ?s <urn:w> ?o } }"


@pytest.fixture
def server(start_server: Start, tmp_path: Path) -> LiveServer:
    return start_server(source_folders=[str(tmp_path)])


def element(at: int) -> str:
    return json.dumps({"at": at, "data": "<urn:a> <urn:v> <urn:x> ."}) + "\n"


def waiting(server: LiveServer, name: str) -> list[dict[str, Any]]:
    return list(server.client.get(f"/queries/{name}").json()["waiting_for"])


def register(server: LiveServer, name: str, text: str) -> None:
    assert server.client.put(f"/queries/{name}", json={"query": text}).status_code == 201


def test_a_refusing_source_is_the_reason_of_all_queries_that_it_feeds(
    server: LiveServer, tmp_path: Path
) -> None:
    register(server, "direct", TEXT)
    register(server, "made", MADE)
    register(server, "derived", OF_MADE)
    register(server, "elsewhere", TEXT.replace(S, "http://e/other"))
    file = tmp_path / "log.ndjson"
    ahead = time.time_ns() // 1_000_000 + AHEAD
    file.write_text(element(ahead) * 1_200)
    put(server, kind="file", path=str(file), format=NDJSON)
    until(lambda: state(server)["refused"] == 1_200)
    described = state(server)
    assert (described["state"], described["health"], described["error"]) == ("running", "degraded", None)
    refusal = described["last_refusal"]
    assert "ahead of the clock" in refusal["error"] and abs(refusal["at"] - (ahead - AHEAD)) < 60_000
    for name in ("direct", "made", "derived"):
        first, *others = waiting(server, name)
        assert (first["reason"], first["stream"], first["source"]) == ("source", S, "it")
        assert (first["count"], first["error"], first["at"]) == (1_200, refusal["error"], refusal["at"])
        assert "the source it" in first["text"] and "1,200 records" in first["text"]
        assert [each["reason"] for each in others] == ["no-element"]
        listed = {each["name"]: each for each in server.client.get("/queries").json()["queries"]}
        assert listed[name]["waiting_for"][0]["reason"] == "source"
    assert [each["reason"] for each in waiting(server, "elsewhere")] == ["no-element"]
    letters = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert {each["reason"] for each in letters} == {"early"}
    stream = server.client.get("/streams", params={"iri": S}).json()
    assert (stream["early_count"], stream["late_count"], stream["state"]) == (1_200, 0, "empty")
    metrics = server.client.get("/metrics").text
    assert 'quadrill_connector_refused_total{connector="it",role="source"} 1200.0' in metrics
    assert 'quadrill_connector_degraded{connector="it",role="source"} 1.0' in metrics


def test_health_is_ok_a_minute_after_the_last_refusal(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(server, "direct", TEXT)
    file = tmp_path / "log.ndjson"
    file.write_text("nonsense\n" + element(1_000))
    put(server, kind="file", path=str(file), format=NDJSON)
    until(lambda: state(server)["taken"] == 1 and state(server)["refused"] == 1)
    until(lambda: server.client.get("/queries/direct").json()["last_result"] is not None)
    assert [each["reason"] for each in waiting(server, "direct")][:1] == ["source"]
    letters = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert [each["reason"] for each in letters] == ["unreadable"]
    monkeypatch.setattr(figures, "DEGRADED_MS", 0)
    assert state(server)["health"] == "ok" and state(server)["last_refusal"] is not None
    assert "source" not in [each["reason"] for each in waiting(server, "direct")], "it has results"


def test_a_source_that_does_not_run_is_a_reason(server: LiveServer, tmp_path: Path) -> None:
    register(server, "direct", TEXT)
    put(server, kind="file", path=str(tmp_path / "missing.ndjson"), format=NDJSON)
    until(lambda: state(server)["state"] == "waiting")
    first = waiting(server, "direct")[0]
    assert (first["reason"], first["source"], first["count"]) == ("source", "it", 0)
    assert f"the source it of <{S}> is waiting: there is no file" in first["text"]
    assert first["error"] and first["at"] is None
    server.client.post("/sources/it:stop")
    assert waiting(server, "direct")[0]["text"].startswith(f"the source it of <{S}> is stopped")


def test_a_webhook_source_is_degraded_by_a_refused_body(server: LiveServer) -> None:
    put(server, kind="webhook", format=NDJSON)
    answer = server.client.post("/sources/it", content="nonsense", headers={"Content-Type": NDJSON})
    assert answer.status_code == 400
    assert state(server)["health"] == "degraded" and state(server)["refused"] == 1


def test_figures_count_each_refusal_once() -> None:
    made = Figures()
    assert made.to_json()["health"] == "ok" and made.to_json()["last_refusal"] is None
    made.refuse("first")
    made.refuse("second")
    shown = made.to_json()
    assert (shown["refused"], shown["last_refusal"]["error"], shown["health"]) == (2, "second", "degraded")
