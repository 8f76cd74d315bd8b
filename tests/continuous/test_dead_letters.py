"""Dead letters: what came too late or made a query fail is kept with its reason and can be tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.app.feeds.dead_letters import watch_dead_letters
from quadrill.continuous.algebra.reports import Evaluation
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.queries import running as running_query
from quadrill.continuous.queries.running import RunningQuery
from quadrill.store.errors import ConflictError, NotFoundError
from tests.continuous.test_recovery import E, Life

from .engines import tick

S = E + "s"


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    yield life
    life.stop()


class Poison:
    """Evaluations of one query fail at some instants."""

    def __init__(self, patch: pytest.MonkeyPatch, query: str, *instants: int) -> None:
        self.instants = set(instants)
        original = RunningQuery.evaluate

        def evaluate(running: RunningQuery, step: Evaluation, now_ms: int, windows: Any) -> None:
            if running.name == query and step.at in self.instants:
                raise ZeroDivisionError("division by zero")
            original(running, step, now_ms, windows)

        patch.setattr(RunningQuery, "evaluate", evaluate)
        work_off_run = running_query._evaluate_run

        def run(running: RunningQuery, given: Any, now_ms: int) -> int:
            # Many instants at once do not pass `evaluate`; the poisoned query takes them one by one.
            return (0, None) if running.name == query else work_off_run(running, given, now_ms)

        patch.setattr(running_query, "_evaluate_run", run)


def letters(life: Life) -> list[tuple[Any, ...]]:
    return [
        (each["id"], each["reason"], each["query"], each["at"], each["entered"])
        for each in life.engine.streams.dead_letters(S)
    ]


def rows(life: Life, name: str) -> list[tuple[str, int]]:
    found = []
    for _, kind, data in life.told()[name]:
        document = json.loads(data)
        found += [(kind, document["at"]) for _ in document.get("results", {"bindings": [0]})["bindings"]]
    return found


def test_a_late_element_enters_after_all_and_windows_are_corrected(life: Life) -> None:
    life.register("counts")
    life.push(5_000, "a")
    life.push(4_000, "b")
    assert letters(life) == [("2", "late", None, 4_000, False)]
    stream = describe_stream(life.engine, S)
    answer = life.engine.streams.retry_dead_letter(S, "2")
    assert answer == {"id": "2", "retried": "element", "seq": 2}
    assert letters(life) == []
    counts = life.engine.queries.current_answer("counts")["results"]["bindings"]
    assert [row["n"]["value"] for row in counts] == ["2"]
    after = describe_stream(life.engine, S)
    assert (after["accepted"], after["late_counts"]["late"]) == (stream["accepted"], 1)
    assert after["late_counts"]["dropped"] == 0
    with pytest.raises(NotFoundError, match="no dead letter 2"):
        life.engine.streams.retry_dead_letter(S, "2")


def test_of_two_who_try_a_late_element_at_once_one_lets_it_enter(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.register("last")
    life.push(5_000, "a")
    life.push(2_000, "late")
    engine = life.engine
    writable = engine.parts.tasks.require_writable

    def tried_by_another() -> None:
        monkeypatch.setattr(engine.parts.tasks, "require_writable", writable)
        engine.streams.retry_dead_letter(S, "2")

    monkeypatch.setattr(engine.parts.tasks, "require_writable", tried_by_another)
    with pytest.raises(NotFoundError, match="no dead letter 2"):
        engine.streams.retry_dead_letter(S, "2")
    assert describe(engine, "last")["counters"]["elements"] == 2
    assert describe_stream(engine, S)["late_counts"]["dropped"] == 0


def test_what_was_tried_again_is_so_after_a_crash(tmp_path: Path) -> None:
    for checkpointed in (False, True):
        life = Life(tmp_path / f"d{checkpointed}", ManualClock(1_000_000))
        life.register("counts")
        life.push(5_000, "a")
        life.push(4_000, "b")
        life.push(4_500, "c")
        life.engine.streams.retry_dead_letter(S, "2")
        if checkpointed:
            life.checkpoint()
        before, stream = life.told(), describe_stream(life.engine, S)
        life = life.crash()
        assert letters(life) == [("3", "late", None, 4_500, False)]
        assert life.told() == before
        assert {**describe_stream(life.engine, S), "silent_ms": 0} == {**stream, "silent_ms": 0}
        life.stop()


def test_a_late_element_that_was_admitted_is_shown_and_not_admitted_twice(life: Life) -> None:
    life.engine.streams.declare(S, late="admit")
    life.register("seen")
    life.push(5_000, "a")
    life.push(4_000, "b")
    assert letters(life) == [("2", "late", None, 4_000, True)]
    with pytest.raises(ConflictError, match="policy is admit"):
        life.engine.streams.retry_dead_letter(S, "2")


def test_a_poison_element_fails_one_query_and_is_kept_with_the_reason(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = Poison(monkeypatch, "seen", 2_000)
    life.register("seen")
    life.register("counts")
    life.push(1_000, "a")
    life.push(2_000, "b")
    life.push(3_000, "c")
    assert letters(life) == [("2:seen", "failed", "seen", 2_000, True)]
    (letter,) = life.engine.streams.dead_letters(S)
    assert letter["error"] == "ZeroDivisionError: division by zero"
    assert letter["quads"] == f'<{E}b> <{E}seen> "2000" .\n'
    assert describe(life.engine, "seen")["state"] == "failed"
    assert [kind for kind, _ in rows(life, "seen")] == ["insert", "error"]
    assert len(rows(life, "counts")) == 3, "the others go on"
    poison.instants.clear()
    answer = life.engine.streams.retry_dead_letter(S, "2:seen")
    assert answer == {"id": "2:seen", "retried": "query", "query": "seen", "state": "running"}
    assert letters(life) == []
    assert rows(life, "seen") == [("insert", 2_000), ("insert", 3_000)], "from the element's time on"
    assert len(rows(life, "counts")) == 3, "nobody else sees it twice"


def test_an_element_that_is_still_poison_is_kept_again(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    Poison(monkeypatch, "seen", 2_000)
    life.register("seen")
    life.push(2_000, "b")
    assert life.engine.streams.retry_dead_letter(S, "1:seen")["state"] == "failed"
    assert letters(life) == [("1:seen", "failed", "seen", 2_000, True)]


def test_an_element_that_waited_for_its_time_is_found(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    Poison(monkeypatch, "slow", 2_000)
    life.register("slow", "SELECT ?x WHERE { STREAM :s [RANGE 9s LATENESS 5s] { ?x :seen ?v } }")
    life.push(2_000, "b")
    assert letters(life) == []
    life.push(9_000, "c")
    assert letters(life) == [("1:slow", "failed", "slow", 2_000, True)]


def test_failures_and_their_letters_are_the_same_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison(monkeypatch, "seen", 2_000)
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.checkpoint()
    life.push(2_000, "b")
    before = life.told()
    for _ in range(2):
        life = life.crash()
        assert letters(life) == [("2:seen", "failed", "seen", 2_000, True)]
        assert life.told() == before and describe(life.engine, "seen")["state"] == "failed"
        life.checkpoint()
    life.stop()


def test_a_query_that_fails_begins_anew_where_the_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison(monkeypatch, "seen", 2_000)
    life = Life(tmp_path / "d", ManualClock(1_000_000), restart_failed=True)
    life.register("seen")
    life.push(1_000, "a")
    life.push(2_000, "b")
    subscription = life.engine.queries.feed("seen").subscribe(1)
    tick(life.engine)
    assert describe(life.engine, "seen")["state"] == "running"
    life.push(3_000, "c")
    assert [(event.kind, event.id) for event in subscription.take()] == [
        ("error", 2), ("reset", None), ("insert", 3),
    ]  # fmt: skip
    assert letters(life) == [("2:seen", "failed", "seen", 2_000, True)]
    before = life.told()
    life = life.crash()
    assert life.told() == before and letters(life) == [("2:seen", "failed", "seen", 2_000, True)]
    life.stop()


def test_a_crash_between_the_failure_and_the_new_beginning_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison(monkeypatch, "seen", 2_000)
    life = Life(tmp_path / "d", ManualClock(1_000_000), restart_failed=True)
    life.register("seen")
    life.push(2_000, "b")
    life = life.crash()
    tick(life.engine)
    assert describe(life.engine, "seen")["state"] == "running"
    life.push(3_000, "c")
    assert rows(life, "seen") == [("insert", 3_000)]
    life.stop()


def test_a_query_that_fails_again_and_again_stays_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison(monkeypatch, "seen", *range(1_000, 9_000, 1_000))
    life = Life(tmp_path / "d", ManualClock(1_000_000), restart_failed=True)
    life.register("seen")
    for at in range(1_000, 9_000, 1_000):
        life.push(at, "a")
        tick(life.engine)
    assert describe(life.engine, "seen")["state"] == "failed"
    assert [at for _, _, _, at, _ in letters(life)] == [1_000, 2_000, 3_000, 4_000]
    life.clock.advance(700_000)
    life.engine.queries.patch("seen", {"state": "running"})
    life.push(9_000, "b")
    assert rows(life, "seen")[-1] == ("insert", 9_000), "by hand it runs again"
    life.stop()


def test_only_so_many_letters_are_kept_and_a_watcher_sees_what_comes_and_goes(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), dead_letters=2)
    life.push(5_000, "a")
    life.push(1_000, "b")
    watcher = watch_dead_letters(life.engine, S)
    for at in (2_000, 3_000):
        life.push(at, "b")
    assert [at for _, _, _, at, _ in letters(life)] == [2_000, 3_000]
    life.engine.streams.retry_dead_letter(S, "3")
    assert [(event.kind, json.loads(event.data)["id"]) for event in watcher.take()] == [
        ("insert", "2"), ("insert", "3"), ("insert", "4"), ("delete", "3"),
    ]  # fmt: skip
    watcher.close()
    life.push(1_500, "c")
    assert watcher.take() == [] and watcher.closed
    life.stop()


def test_a_letter_that_is_dropped_stays_away_over_a_crash(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison(monkeypatch, "seen", 7_000)
    life.register("seen")
    life.push(5_000, "a")
    life.push(4_000, "b")
    life.push(3_000, "c")
    life.checkpoint()
    life.push(7_000, "d")
    assert [each[0] for each in letters(life)] == ["2", "3", "4:seen"]
    with pytest.raises(NotFoundError):
        life.engine.streams.drop_dead_letters(S, ["2", "9"])
    life.engine.streams.drop_dead_letters(S, ["2", "4:seen"])
    assert [each[0] for each in letters(life)] == ["3"]
    later = life.crash()
    assert [each[0] for each in letters(later)] == ["3"]
    later.checkpoint()
    last = later.crash()
    assert [each[0] for each in letters(last)] == ["3"]
    last.stop()
