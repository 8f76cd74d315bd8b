"""How often a source is fetched: as the query asks, as a description says, or by the setting."""

from __future__ import annotations

from pathlib import Path

from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, explain
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.remote.settings import RemoteSettings

from .bench import Remote
from .endpoint import Endpoint
from .test_replay import FarLife

MINUTE = 60_000


def started(far: Endpoint) -> Remote:
    bench = Remote(far, every_ms=5 * MINUTE)
    bench.engine.start()
    return bench


def call(far: Endpoint, extra: str = "") -> str:
    return f"SELECT ?x {extra} {{ SERVICE <{far.url}sparql> {{ ?x :label ?l }} }}"


def test_who_names_a_period_or_a_description_goes_before_the_setting(far: Endpoint) -> None:
    bench = started(far)
    bench.register("q", call(far))
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (5 * MINUTE, "setting")
    bench.register("named", call(far), refresh={"every": "2m"})
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (2 * MINUTE, "query")
    bench.engine.queries.drop("named")
    assert bench.source("q")["every_ms"] == 5 * MINUTE
    bench.store.writer.update(
        f"INSERT DATA {{ <{far.url}sparql> <http://purl.org/dc/terms/accrualPeriodicity> "
        "<http://purl.org/cld/freq/weekly> }"
    )
    bench.engine.queries.drop("q")
    bench.register("q", call(far))
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (24 * 60 * MINUTE, "description")
    bench.engine.queries.drop("q")
    bench.register("q", call(far), refresh="manual")
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (None, "query")
    bench.engine.stop()


def test_the_timer_goes_by_the_setting_whatever_fetches_find(far: Endpoint) -> None:
    bench = started(far)
    bench.register("q", call(far))
    for _ in range(6):
        before = len(far.asked)
        bench.wait(6 * MINUTE)
        assert len(far.asked) == before + 1
        source = bench.source("q")
        assert (source["every_ms"], source["every_by"]) == (5 * MINUTE, "setting")
        due = source["next_refresh"] - source["checked"]
        assert 4.5 * MINUTE <= due <= 5.5 * MINUTE
    bench.engine.stop()


def test_explain_tells_the_period_and_who_set_it(far: Endpoint) -> None:
    bench = started(far)
    bench.register("q", call(far))
    explained = explain_text(explain(bench.engine, "q"))
    assert f"<{far.url}sparql> is fetched every 5m, by the setting remote_refresh" in explained
    document = explain(bench.engine, "q", analyze=True)
    assert document["sources"][0]["every_by"] == "setting"
    assert explained.count("is fetched") == 1
    bench.engine.stop()


def test_the_period_is_the_same_after_a_crash(tmp_path: Path, far: Endpoint) -> None:
    FarLife.hosts = (far.host,)
    one = FarLife(tmp_path / "data", ManualClock(0), remote=RemoteSettings(every_ms=5 * MINUTE))
    one.register("q", call(far))
    one.wait(120 * MINUTE)
    one.checkpoint()
    two = one.crash()
    (after,) = describe(two.engine, "q")["sources"]
    assert (after["every_ms"], after["every_by"]) == (5 * MINUTE, "setting")
    two.stop()
