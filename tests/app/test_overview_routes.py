"""``/overview``, ``/settings`` and ``/tokens``: figures, troubles, origins, hidden secrets, roles."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from quadrill.app import running
from quadrill.app.config import SETTINGS, load_settings
from quadrill.app.http.request_metrics import RequestMetrics
from quadrill.app.resources.configuration import shown_value
from quadrill.app.security import hash_token
from quadrill.app.setting_values import Setting
from quadrill.app.upkeep.disk import Disk, _sizes
from quadrill.app.upkeep.history import History
from quadrill.app.upkeep.rings import POINTS
from quadrill.app.upkeep.server_history import RECENT_POINTS, ServerHistory
from quadrill.store.quads import meters
from quadrill.store.quads.meters import quantile_s
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of
from tests.continuous.engines import NOW, bench

TOKEN = "a-token-of-this-test-only"
PAGE = Path(__file__).parents[2] / "static" / "pages" / "overview.js"
TEN_SECONDS = 10_000
QUERY = "SELECT * WHERE { STREAM <http://example.org/s> [NOW] { ?s ?p ?o } }"


def push(client: httpx.Client, body: str = "<urn:a> <urn:b> 1 .") -> None:
    answer = client.post(
        "/streams",
        params={"iri": "http://example.org/s", "wait": "true"},
        content=body,
        headers={"Content-Type": "text/turtle"},
    )
    answer.raise_for_status()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[LiveServer]:
    """A server on disk whose settings come from a file, the environment and the command line."""
    file = tmp_path / "quadrill.toml"
    file.write_text('threads = 5\nmax_nesting = 77\nregistry_url = ""\n')
    settings = load_settings(
        overrides={"data": str(tmp_path / "data"), "port": 0},
        environment={"QUADRILL_MAX_NESTING": "78", "QUADRILL_TOKEN": TOKEN},
        file=file,
    )
    with running.serve(settings) as found:
        live = LiveServer(found)
        live.client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield live
        live.client.close()


# --- the overview ------------------------------------------------------------------------------------------


def test_the_overview_has_the_figures_of_the_server(stored: LiveServer) -> None:
    client = stored.client
    client.put("/queries/q", json={"query": QUERY}).raise_for_status()
    push(client)
    found = client.get("/overview").json()
    assert found["version"] == client.get("/health/ready").json()["version"]
    assert found["uptime_ms"] >= 0 and found["memory_bytes"] > 10_000_000 and found["cpu_seconds"] > 0
    assert found["counts"]["queries"] == {"running": 1}
    assert found["counts"]["streams"] == 1
    assert 0 < found["disk"]["data"] and 0 < found["disk"]["free"] <= found["disk"]["size"]
    latency = found["latency"]
    assert latency["inputs"] >= 1 and 0 < latency["p50_ms"] <= latency["p99_ms"]
    assert found["rates"].keys() == {
        "elements_per_second", "events_per_second", "requests_per_second", "cpu_ms_per_second"
    }  # fmt: skip


def test_a_server_in_memory_has_no_disk(server: LiveServer) -> None:
    assert server.client.get("/overview").json()["disk"] is None


def test_each_figure_of_the_page_names_a_metric_that_the_server_has(stored: LiveServer) -> None:
    stored.client.put("/queries/q", json={"query": QUERY}).raise_for_status()
    push(stored.client)
    named = set(re.findall(r"(?:quadrill|process)_\w+", PAGE.read_text("utf-8")))
    shown = set(re.findall(r"^((?:quadrill|process)_\w+)", stored.client.get("/metrics").text, re.MULTILINE))
    assert len(named) >= 12
    assert {each for each in named if each not in shown and f"{each}_bucket" not in shown} == set()
    assert 'quadrill_stage_seconds_count{stage="total"}' in stored.client.get("/metrics").text


def test_what_fails_or_waits_is_listed_and_goes_when_it_is_mended(server: LiveServer) -> None:
    client = server.client
    assert client.get("/overview").json()["troubles"] == []
    client.put("/queries/silent", json={"query": QUERY}).raise_for_status()
    small = QUERY.replace("[NOW]", "[RANGE 1m]")
    client.put("/queries/small", json={"query": small, "memory": 1}).raise_for_status()
    push(client, "<urn:a> <urn:b> 1, 2, 3 .")
    client.put("/queries/other", json={"query": QUERY.replace("/s>", "/t>")}).raise_for_status()
    found = {each["name"]: each for each in client.get("/overview").json()["troubles"]}
    assert found["small"]["kind"] == "query" and found["small"]["state"] == "failed"
    assert found["small"]["text"].startswith("the query has failed")
    assert found["other"]["state"] == "waiting" and "no element" in found["other"]["text"]
    for name in ("silent", "small", "other"):
        client.delete(f"/queries/{name}").raise_for_status()
    for stream in client.get("/streams").json()["streams"]:
        client.delete("/streams", params={"iri": stream["iri"]}).raise_for_status()
    assert client.get("/overview").json()["troubles"] == []


def test_failed_things_stand_first_and_the_list_is_bounded(server: LiveServer) -> None:
    client = server.client
    try:
        for number in range(60):
            path = f"http://example.org/{'s' if number == 59 else 't'}>"
            text = QUERY.replace("http://example.org/s>", path).replace("[NOW]", "[RANGE 1m]")
            client.put(f"/queries/q{number}", json={"query": text, "memory": 1}).raise_for_status()
        push(client, "<urn:a> <urn:b> 1, 2, 3 .")
        found = client.get("/overview").json()["troubles"]
        assert [each["name"] for each in found if each["state"] == "failed"] == ["q59"]
        assert found[0]["name"] == "q59"
        assert len([each for each in found if each["kind"] == "query"]) == 51, "50 running ones are asked"
    finally:
        for number in range(60):
            client.delete(f"/queries/q{number}")
        for stream in client.get("/streams").json()["streams"]:
            client.delete("/streams", params={"iri": stream["iri"]})


# --- the last hour -----------------------------------------------------------------------------------------


def test_the_hour_has_a_point_for_each_ten_seconds() -> None:
    with bench() as b:
        server = ServerHistory(b.engine.parts.tasks.stages.total, RequestMetrics(), None)
        history = History(b.engine, b.clock.now_ms, server=server)
        b.clock.set(5 * TEN_SECONDS)
        b.register("now", NOW)
        history.take()
        assert history.server()["from"] is None
        b.push(1_000, "a")
        b.push(2_000, "b", "c")
        b.clock.advance(TEN_SECONDS)
        history.take()
        b.clock.advance(2 * TEN_SECONDS)
        history.take()
        told = history.server()
        assert (told["every_ms"], told["from"]) == (TEN_SECONDS, 5 * TEN_SECONDS)
        assert told["elements"] == [2, None, 0]
        assert told["events"] == [2, None, 0]
        assert told["p50_ms"][1:] == [None, None]
        assert 0 < told["p50_ms"][0] <= told["p99_ms"][0]
        assert server.latency().inputs >= 2


def test_points_older_than_an_hour_and_durations_older_than_five_minutes_are_forgotten() -> None:
    total = meters.Histogram()
    server = ServerHistory(total, RequestMetrics(), None)
    server.take(0, 0, 0)
    total.observe(0.2)
    for number in range(1, POINTS + 6):
        server.take(number, number, 0)
        assert server.latency().inputs == (1 if number <= RECENT_POINTS else 0)
    told = server.to_json(TEN_SECONDS, POINTS + 5)
    assert told["elements"] == list(range(6, POINTS + 6))
    total.observe(0.003)
    assert server.latency().inputs == 1, "the present period counts"


@given(st.lists(st.floats(0.00001, 29), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_exact_quantile(durations: list[float], share: float) -> None:
    histogram = meters.Histogram()
    for each in durations:
        histogram.observe(each)
    found = quantile_s(histogram.counts(), share)
    assert found is not None
    ordered = sorted(durations)
    exact = ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
    bounds = (0.0, *histogram.BOUNDS_S)
    upper = next(bound for bound in bounds if bound >= exact)
    assert bounds[bounds.index(upper) - 1] <= found <= upper


def test_the_quantile_of_no_duration_is_unknown_and_of_long_ones_the_last_bound() -> None:
    histogram = meters.Histogram()
    assert quantile_s(histogram.counts(), 0.5) is None
    histogram.observe(500)
    assert quantile_s(histogram.counts(), 0.5) == 30


# --- the disk ----------------------------------------------------------------------------------------------


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    sizes = [random.Random(7).randrange(5_000) for _ in range(20)]
    for number, size in enumerate(sizes):
        folder = tmp_path / f"part{number % 3}" / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}").write_bytes(bytes(size))
    (tmp_path / "link").symlink_to("/")
    disk = Disk(tmp_path)
    assert sum(sizes) <= disk.figures().data <= sum(sizes) + 10
    (tmp_path / "later").write_bytes(bytes(999))
    assert disk.figures().data <= sum(sizes) + 10, "a measurement is kept for a minute"


# --- settings and tokens -----------------------------------------------------------------------------------


def test_settings_have_value_default_origin_and_no_secret(stored: LiveServer) -> None:
    answer = stored.client.get("/settings")
    found = {each["name"]: each for each in answer.json()["settings"]}
    assert list(found) == [row.name for row in SETTINGS]
    assert (found["threads"]["value"], found["threads"]["default"]) == (5, 16)
    assert found["threads"]["origin"].endswith("quadrill.toml")
    assert found["max_nesting"]["value"] == 78
    assert found["max_nesting"]["origin"] == "the environment, QUADRILL_MAX_NESTING"
    assert found["port"]["origin"] == "the command line"
    assert found["host"]["origin"] == "the default"
    assert found["token"]["value"] == "***"
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pa:ss@db.example:5432/quadrill", "postgresql://me:***@db.example:5432/quadrill"),
        ("postgresql://me:pa/s?s#s@db.example/quadrill", "postgresql://me:***@db.example/quadrill"),
        ("postgresql://db.example/q?user=me&password=pass", "postgresql://db.example/q?user=me&password=***"),
        ("postgresql://db.example/q?sslpassword=pass&x=1", "postgresql://db.example/q?sslpassword=***&x=1"),
        ("https://db.example:8443/base/", "https://db.example:8443/base/"),
        ("", ""),
    ],
)
def test_passwords_in_addresses_are_hidden(url: str, shown: str) -> None:
    assert shown_value(Setting("registry_url", str, "", "URL", ""), url) == shown


def test_tokens_are_listed_by_role_without_the_tokens(stored: LiveServer) -> None:
    record = TokenRecord(hash_token("a-token-that-may-only-read"), "read", "dashboard", 1_000)
    stored.services.registry.tokens.add(record)
    answer = stored.client.get("/tokens")
    assert answer.json()["tokens"] == [
        {"hash": None, "role": "admin", "label": "the setting token", "created": None},
        {"hash": record.hash[:12], "role": "read", "label": "dashboard", "created": 1_000},
    ]
    assert record.hash not in answer.text


def test_settings_and_tokens_need_the_role_admin_and_the_overview_the_role_read(start_server: Start) -> None:
    live = start_server(token=TOKEN)
    live.services.registry.tokens.add(TokenRecord(hash_token("a-token-that-may-only-read"), "read", "r"))
    live.services.registry.tokens.add(TokenRecord(hash_token("a-token-that-may-only-push"), "push", "p"))
    reading = {"Authorization": "Bearer a-token-that-may-only-read"}
    pushing = {"Authorization": "Bearer a-token-that-may-only-push"}
    for path in ("/settings", "/tokens"):
        problem_of(live.client.get(path), 401)
        problem_of(live.client.get(path, headers=reading), 403)
    for path in ("/overview", "/overview/history"):
        assert live.client.get(path, headers=reading).status_code == 200
        problem_of(live.client.get(path, headers=pushing), 403)
    page = live.client.get("/ui/settings", headers=reading | {"Accept": "text/html"})
    assert "need the role admin" in page.text


def test_the_metric_of_the_latency_is_read_by_prometheus_as_the_page_reads_it() -> None:
    """The bounds of the stages are those of a Prometheus histogram with the same buckets."""
    theirs = Histogram("x", "x", registry=CollectorRegistry(), buckets=meters.Histogram.BOUNDS_S)
    ours = meters.Histogram()
    for seconds in (0.0001, 0.004, 0.0051, 31):
        theirs.observe(seconds)
        ours.observe(seconds)
    samples = [each for metric in theirs.collect() for each in metric.samples if each.name == "x_bucket"]
    assert [int(each.value) for each in samples] == [count for _, count in ours.buckets()[0]]
    assert json.loads(json.dumps(ours.counts())) == [1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_folders_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "log").write_bytes(b"12345")
    scan = os.scandir

    def refuse(folder: str) -> Any:
        if folder.endswith("lost+found"):
            raise PermissionError(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert sum(_sizes(str(tmp_path))) == 5
