"""Where neither a query nor a description says how often, what fetches have found does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.queries.description import explain_text
from quadrill.continuous.remote.periods import Measured, Period
from quadrill.continuous.remote.settings import RemoteSettings

from .bench import Remote
from .endpoint import Endpoint
from .test_replay import FarLife

MINUTE = 60_000
SETTINGS = RemoteSettings(every_ms=5 * MINUTE, least_ms=MINUTE, most_ms=60 * MINUTE)
LOOKS = st.lists(st.tuples(st.integers(1, 10_000_000), st.booleans()), max_size=40)


def looked(looks: list[tuple[int, bool]], settings: RemoteSettings = SETTINGS) -> Measured:
    found = Measured()
    for waited_ms, changed in looks:
        found.take(waited_ms, changed, settings)
    return found


@given(looks=LOOKS)
def test_the_period_keeps_to_its_bounds_and_moves_by_a_factor_of_two_at_most(
    looks: list[tuple[int, bool]],
) -> None:
    found = Measured()
    for waited_ms, changed in looks:
        before = found.period(SETTINGS)
        found.take(waited_ms, changed, SETTINGS)
        after = found.period(SETTINGS)
        assert before.every_ms is not None and after.every_ms is not None
        assert MINUTE <= after.every_ms <= 60 * MINUTE
        assert before.every_ms / 2 - 500 <= after.every_ms <= before.every_ms * 2 + 500
        assert (after.by == "measured") is (found.per_hour is not None)
    assert Measured.from_json(found.to_json()) == found


@given(looks=LOOKS, waited_ms=st.integers(1, 10_000_000))
def test_who_changes_more_often_is_never_fetched_more_seldom(
    looks: list[tuple[int, bool]], waited_ms: int
) -> None:
    same, other = looked([*looks, (waited_ms, False)]), looked([*looks, (waited_ms, True)])
    seldom, often = same.period(SETTINGS).every_ms, other.period(SETTINGS).every_ms
    assert seldom is not None and often is not None and often <= seldom


def test_less_than_four_looks_say_nothing() -> None:
    assert looked([(MINUTE, True)] * 3).period(SETTINGS) == Period(5 * MINUTE, "setting")
    assert looked([(MINUTE, True)] * 4).period(SETTINGS) == Period(5 * MINUTE // 2, "measured")


@pytest.mark.parametrize("between_ms", [8 * MINUTE, 24 * MINUTE, 160 * MINUTE])
def test_a_source_that_changes_steadily_is_fetched_some_times_between_two_changes(between_ms: int) -> None:
    found, now, seen = Measured(), 0, 0
    periods = []
    for _ in range(400):
        every = found.period(SETTINGS).every_ms
        assert every is not None
        now += every
        changes = now // between_ms
        found.take(every, changes > seen, SETTINGS)
        seen = changes
        periods.append(every)
    mean = math.exp(sum(map(math.log, periods[100:])) / 300)
    assert between_ms / 8 < mean < between_ms / 2


def test_the_bounds_give_way_to_the_setting() -> None:
    fixed = RemoteSettings(every_ms=30_000, least_ms=MINUTE, most_ms=MINUTE)
    assert looked([(MINUTE, True)] * 20, fixed).period(fixed).every_ms == 30_000
    assert looked([(MINUTE, False)] * 20, fixed).period(fixed).every_ms == MINUTE


def adaptive(far: Endpoint) -> Remote:
    bench = Remote(far, every_ms=5 * MINUTE, least_ms=MINUTE, most_ms=60 * MINUTE)
    bench.engine.start()
    return bench


def call(far: Endpoint, extra: str = "") -> str:
    return f"SELECT ?x {extra} {{ SERVICE <{far.url}sparql> {{ ?x :label ?l }} }}"


def after_fetches(bench: Remote, far: Endpoint, number: int, *, change: bool) -> None:
    """Let so many fetches by timer go by."""
    goal = len(far.asked) + number
    while len(far.asked) < goal:
        if change:
            far.update(f"DELETE {{ :a :label ?l }} INSERT {{ :a :label {len(far.asked) + 10} }}"
                       " WHERE { :a :label ?l }")  # fmt: skip
        bench.wait(bench.source("q")["every_ms"] * 2)


def test_a_source_that_never_changes_is_fetched_ever_more_seldom_and_then_more_often_again(
    far: Endpoint,
) -> None:
    bench = adaptive(far)
    bench.register("q", call(far))
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (5 * MINUTE, "setting")
    assert bench.source("q")["changes_per_hour"] is None
    after_fetches(bench, far, 4, change=False)
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (10 * MINUTE, "measured")
    assert bench.source("q")["changes_per_hour"] == 0
    after_fetches(bench, far, 4, change=False)
    assert bench.source("q")["every_ms"] == 60 * MINUTE
    due = bench.source("q")["next_refresh"] - bench.source("q")["checked"]
    assert 54 * MINUTE <= due <= 66 * MINUTE, "the timer goes by it"
    after_fetches(bench, far, 14, change=True)
    assert bench.source("q")["every_ms"] < 10 * MINUTE
    bench.engine.stop()


def test_who_names_a_period_or_a_description_goes_before_what_was_measured(far: Endpoint) -> None:
    bench = adaptive(far)
    bench.register("q", call(far))
    after_fetches(bench, far, 6, change=False)
    measured = bench.source("q")
    assert measured["every_by"] == "measured"
    bench.register("named", call(far), refresh={"every": "2m"})
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (2 * MINUTE, "query")
    bench.engine.drop("named")
    assert bench.source("q")["every_ms"] == measured["every_ms"]
    bench.store.update(
        f"INSERT DATA {{ <{far.url}sparql> <http://purl.org/dc/terms/accrualPeriodicity> "
        "<http://purl.org/cld/freq/weekly> }"
    )
    bench.engine.drop("q")
    bench.register("q", call(far))
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (24 * 60 * MINUTE, "description")
    bench.engine.drop("q")
    bench.register("q", call(far), refresh="manual")
    assert (bench.source("q")["every_ms"], bench.source("q")["every_by"]) == (None, "query")
    bench.engine.stop()


def test_fetches_by_hand_are_looks_too_and_failures_are_none(far: Endpoint) -> None:
    bench = adaptive(far)
    bench.register("q", call(far))
    for _ in range(4):
        bench.clock.advance(MINUTE)
        bench.engine.refresh("q")
    assert bench.source("q")["every_by"] == "measured"
    every = bench.source("q")["every_ms"]
    far.handle = far.always(500)
    bench.wait(every * 2)
    assert bench.source("q")["failures"] == 1
    assert bench.source("q")["every_ms"] == every
    bench.engine.stop()


def test_explain_tells_the_period_and_who_set_it(far: Endpoint) -> None:
    bench = adaptive(far)
    bench.register("q", call(far))
    explained = bench.engine.explain("q")
    assert isinstance(explained, str)
    assert f"<{far.url}sparql> is fetched every 5m, by the setting remote_refresh" in explained
    after_fetches(bench, far, 4, change=False)
    explained = bench.engine.explain("q")
    assert isinstance(explained, str)
    assert "every 10m, as fetches have found it to change; 0 changes an hour were seen" in explained
    document = bench.engine.explain("q", analyze=True, as_json=True)
    assert isinstance(document, dict) and document["sources"][0]["every_by"] == "measured"
    assert explain_text(bench.engine.describe("q"), "").count("is fetched") == 1
    bench.engine.stop()


def test_what_was_measured_is_known_after_a_crash(tmp_path: Path, far: Endpoint) -> None:
    FarLife.hosts = (far.host,)
    one = FarLife(tmp_path / "data", ManualClock(0), remote=SETTINGS)
    one.register("q", call(far))
    for _ in range(6):
        one.wait(120 * MINUTE)
    (before,) = one.engine.describe("q")["sources"]
    assert (before["every_ms"], before["every_by"]) == (40 * MINUTE, "measured")
    one.checkpoint()
    two = one.crash()
    (after,) = two.engine.describe("q")["sources"]
    assert (after["every_ms"], after["every_by"]) == (before["every_ms"], "measured")
    two.stop()
