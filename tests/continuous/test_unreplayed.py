"""Queries that a replay does not evaluate: nothing that was published is lost, theirs and that of others."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.figures import journal_state
from quadrill.app.describing.queries import describe
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.errors import StartingError
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.recovery import replay as replaying
from quadrill.continuous.recovery import replay_filter
from quadrill.continuous.rows import QueryLimits
from quadrill.store.errors import NotFoundError
from quadrill.store.logs.journal import JournalRecord

from .test_recovery import Life, scenario, take


def problem(life: Life) -> Any:
    state = journal_state(life.engine)
    assert state is not None
    return state["recovery"]["problem"]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of queries whose inputs are handled, each once for each of them."""
    names: list[str] = []
    handle = RunningQuery.handle

    def noted(running: RunningQuery, *arguments: Any) -> None:
        names.append(running.name)
        handle(running, *arguments)

    monkeypatch.setattr(RunningQuery, "handle", noted)
    return names


def begun(folder: Path, *names: str, **settings: Any) -> Life:
    life = Life(folder / "d", ManualClock(1_000_000), **settings)
    for name in names:
        life.register(name)
        life.push(1_000, "a")
    for at in range(2_000, 9_000, 700):
        life.push(at, "a", "b")
    return life


@pytest.mark.always("killed before the record-True", "with its record-False")
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("noted", [False, True], ids=["killed before the record", "with its record"])
def test_a_dropped_query_is_not_evaluated(
    tmp_path: Path, evaluated: list[str], checkpointed: bool, noted: bool
) -> None:
    life = begun(tmp_path, "seen", "closes")
    if checkpointed:
        life.checkpoint()
        life.push(9_100, "c")
    before = life.told()
    if noted:
        life.engine.queries.drop("closes")
    else:
        life.registry.queries.remove("closes")
    evaluated.clear()
    life = life.crash()
    assert set(evaluated) == {"seen"}
    assert life.told() == {"seen": before["seen"]} and problem(life) is None
    life = life.crash()
    assert life.told() == {"seen": before["seen"]} and problem(life) is None
    life.stop()


@pytest.mark.always("*-False")
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("paused", [("all",), ("made",)])
def test_queries_that_start_paused_keep_their_feeds(
    tmp_path: Path, checkpointed: bool, paused: tuple[str, ...]
) -> None:
    life = begun(tmp_path, "seen", "made", "reads", "times")
    if checkpointed:
        life.checkpoint()
        life.push(9_100, "c")
    before = life.told()
    life.settings["paused"] = paused
    for _ in range(2):
        life = life.crash()
        assert life.told() == before and problem(life) is None
        assert describe(life.engine, "made")["state"] == "paused"
    life.settings["paused"] = ()
    life = life.crash()
    assert life.told() == before and problem(life) is None
    life.engine.queries.patch("made", {"state": "running"})
    for at in (12_000, 20_000):
        life.push(at, "a")
    assert life.told()["made"][0][1] == "reset" or life.told()["made"][-1][0] > before["made"][-1][0]
    life.stop()


@pytest.mark.always("1", "3")
@pytest.mark.parametrize("seed", range(6))
def test_feeds_stay_where_stopped_queries_are_not_evaluated(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random histories: after each crash all feeds are what they were, also those of readers of streams that
    stopped queries made.
    """
    monkeypatch.setattr(replay_filter, "REPLAY_BUDGET_S", -1.0)
    steps, chance = scenario(100 + seed, 60), random.Random(seed)
    crashes = set(chance.sample(range(len(steps)), 8))
    life = Life(tmp_path / "d", ManualClock(10_000), idle_timeout_ms=0)
    for place, step in enumerate(steps):
        take(life, step)
        if place in crashes:
            before = life.told()
            states = {name: describe(life.engine, name)["state"] for name in before}
            life = life.crash()
            assert life.told() == before, (place, step)
            assert {name: describe(life.engine, name)["state"] for name in before} == states
            assert problem(life) is None
    life.stop()


def test_a_paused_query_that_was_not_evaluated_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluated: list[str]
) -> None:
    monkeypatch.setattr(replay_filter, "REPLAY_BUDGET_S", -1.0)
    life = begun(tmp_path, "seen", "closes")
    life.engine.queries.patch("closes", {"state": "paused"})
    before = life.told()
    evaluated.clear()
    life = life.crash()
    assert "closes" not in evaluated
    assert (
        describe(life.engine, "closes")["error"]
        == "it was paused; its windows were not kept over the restart"
    )
    life.engine.queries.patch("closes", {"state": "running"})
    for at in (12_000, 15_000):
        life.push(at, "a")
    newest = life.told()["closes"]
    assert newest[0][0] is None or newest[0][0] > before["closes"][-1][0]
    assert describe(life.engine, "closes")["last_result"]["id"] > before["closes"][-1][0]
    life.stop()


@pytest.mark.parametrize("patience", [-1.0, 60.0])
def test_a_failed_query_stays_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(replay_filter, "REPLAY_BUDGET_S", patience)
    life = begun(tmp_path, "seen")
    life.register("last", max_rows=2)
    for at in (10_000, 10_001):
        life.push(at, "a", "b", "c")
    failed = describe(life.engine, "last")
    assert failed["state"] == "failed"
    before = life.told()
    for _ in range(2):
        life = life.crash()
        assert life.told() == before and problem(life) is None
        assert describe(life.engine, "last")["error"] == failed["error"]
    life.stop()


def test_a_query_that_fails_in_the_replay_keeps_its_events(tmp_path: Path) -> None:
    life = begun(tmp_path, "seen", "last")
    before = life.told()
    life.settings["limits"] = QueryLimits(kept=1)
    life = life.crash()
    after = life.told()
    assert describe(life.engine, "last")["state"] == "failed"
    assert after["last"][: len(before["last"])] == before["last"]
    assert [kind for _, kind, _ in after["last"][len(before["last"]) :]] == ["error"]
    assert "max_answer_rows" in json.loads(after["last"][-1][2])["error"]
    assert problem(life) is None
    life.stop()


@pytest.mark.always("False-0", "False-2", "True-1", "True-7")
@pytest.mark.parametrize("place", [0, 1, 2, 7])
@pytest.mark.parametrize("drop", [False, True])
def test_queries_are_managed_during_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, drop: bool
) -> None:
    life = begun(tmp_path, "seen", "closes")
    before = life.told()
    seen: list[Any] = []
    take = replaying.Replay.replay_record

    def asked(replay: replaying.Replay, record: JournalRecord, *, counted: bool) -> None:
        parts = replay._parts
        if parts.starting.done == place and not seen:
            engine = services[0]
            seen.append(engine.queries.names())
            document = describe(engine, "closes")
            assert (document["state"], document["starting"]["replayed"]) == ("running", place)
            assert [each.word for each in waiting_for(document)] == ["starting"]
            with pytest.raises(StartingError):
                engine.queries.patch("closes", {"refresh": "manual"})
            with pytest.raises(NotFoundError):
                engine.queries.drop("nosuch")
            if drop:
                engine.queries.drop("closes")
                with pytest.raises(NotFoundError):
                    describe(engine, "closes")
            else:
                engine.queries.patch("closes", {"state": "paused"})
                assert describe(engine, "closes")["state"] == "paused"
        take(replay, record, counted=counted)

    services: list[Any] = []
    start = type(life.engine).start

    def started(engine: Any) -> None:
        services[:] = [engine]
        start(engine)

    monkeypatch.setattr(type(life.engine), "start", started)
    monkeypatch.setattr(replaying.Replay, "replay_record", asked)
    life = life.crash()
    assert seen == [["seen", "closes"]]
    assert problem(life) is None
    for _ in range(2):
        told = life.told()
        assert told["seen"] == before["seen"]
        if drop:
            assert "closes" not in told
        else:
            assert told["closes"] == before["closes"]
            assert describe(life.engine, "closes")["state"] == "paused"
        life = life.crash()
    life.stop()
