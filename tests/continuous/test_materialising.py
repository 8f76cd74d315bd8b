"""A query whose static parts take long to read: it is registered at once, and loses nothing that arrives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, explain
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.queries.prepare import EvaluatorChoice
from quadrill.continuous.static.table_reading import active
from quadrill.store.errors import ConflictError, ReportedError

from .test_recovery import E, Life, P

NAMED = "SELECT ?x ?n ?v WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :name ?n }"


class Gate:
    """Static parts are read only while it is open."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.problem: Exception | None = None
        self.entered = 0
        self.heeds_calls = True

    def pass_through(self) -> None:
        self.entered += 1
        while not self.open.is_set():
            if self.heeds_calls:
                active().check()
            time.sleep(0.002)
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()
    make = EvaluatorChoice.__call__

    def slow(*given: Any) -> Any:
        found.pass_through()
        return make(*given)

    monkeypatch.setattr(EvaluatorChoice, "__call__", slow)
    yield found
    found.open.set()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    found = Life(tmp_path / "data", ManualClock(), threaded=True, registration_wait_ms=0)
    found.store.writer.update(f'INSERT DATA {{ <{E}a> <{E}name> "A" . <{E}b> <{E}name> "B" }}')
    yield found
    found.stop()


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.005)


def state(life: Life, name: str = "q") -> str:
    found: str = describe(life.engine, name)["state"]
    return found


def told(life: Life, name: str = "q") -> list[tuple[Any, ...]]:
    life.engine.sync()
    return life.told()[name]


def undisturbed(folder: Path, **options: Any) -> Life:
    """The same registration and pushes where static parts are there at once."""
    found = Life(folder, ManualClock())
    found.store.writer.update(f'INSERT DATA {{ <{E}a> <{E}name> "A" . <{E}b> <{E}name> "B" }}')
    found.push(500, "b")
    found.register("q", NAMED, **options)
    return found


def test_what_arrives_while_static_parts_are_read_is_evaluated_when_they_are_there(
    life: Life, gate: Gate, tmp_path: Path
) -> None:
    life.push(500, "b")
    life.register("q", NAMED, output="changes")
    description = describe(life.engine, "q")
    assert (description["state"], description["engine"]) == ("materialising", None)
    assert description["progress"]["waiting_elements"] == 0
    life.push(1_000, "a", "b")
    life.push(3_000, "a")
    life.engine.sync()
    assert describe(life.engine, "q")["progress"]["waiting_elements"] == 2
    assert told(life) == []
    gate.open.set()
    eventually(lambda: state(life) == "running")
    life.push(9_000, "b")
    straight = undisturbed(tmp_path / "straight", output="changes")
    for at, names in ((1_000, "ab"), (3_000, "a"), (9_000, "b")):
        straight.push(at, *names)
    assert [event[:2] for event in told(life)] == [event[:2] for event in straight.told()["q"]]
    assert told(life) == straight.told()["q"]
    straight.stop()


def test_elements_between_the_registration_and_its_task_are_processed_once(life: Life, gate: Gate) -> None:
    """The engine's thread is busy while a query that starts in the past is registered and elements arrive."""
    life.push(1_000, "a")
    life.engine.sync()
    begun, end = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(life.engine.parts.sequencer.call, lambda: (begun.set(), end.wait(20)))
        assert begun.wait(20)
        registered = pool.submit(life.register, "q", NAMED, start={"from": 0})
        registered.result(20)
        life.push(2_000, "b")
        life.push(4_000, "a")
        end.set()
        busy.result(20)
    gate.open.set()
    eventually(lambda: state(life) == "running")
    life.push(6_000, "b", wait=True)
    counters = describe(life.engine, "q")["counters"]
    assert (counters["elements"], counters["behind"]) == (4, 0)


def test_a_push_that_waits_waits_for_them_too(life: Life, gate: Gate) -> None:
    life.register("q", NAMED)
    threading.Timer(0.1, gate.open.set).start()
    life.push(1_000, "a", wait=True)
    assert [kind for _, kind, _ in life.told()["q"]] == ["insert"]


def test_with_start_when_ready_it_begins_with_what_arrives_then(life: Life, gate: Gate) -> None:
    life.register("q", NAMED, start="when-ready")
    life.push(1_000, "a")
    gate.open.set()
    eventually(lambda: state(life) == "running")
    life.push(1_500, "b", wait=True)
    ((_, kind, data),) = told(life)
    assert kind == "insert"
    assert '"B"' in data and '"A"' not in data
    assert describe(life.engine, "q")["options"]["start"] == "when-ready"


def test_it_blocks_no_other_query_and_can_be_dropped(life: Life, gate: Gate) -> None:
    life.register("q", NAMED)
    assert state(life) == "materialising"
    with pytest.raises(ConflictError) as info:
        life.engine.queries.patch("q", {"state": "paused"})
    assert info.value.code == "materialising"
    with pytest.raises(ConflictError):
        life.engine.queries.current_answer("q")
    assert "engine   chosen once the static parts are read" in explain_text(explain(life.engine, "q"))
    life.engine.queries.drop("q")
    with pytest.raises(FeedGoneError):
        life.engine.queries.feed("q")
    gate.open.set()
    life.register("q", NAMED)
    eventually(lambda: state(life) == "running")
    life.push(1_000, "a", wait=True)
    assert len(told(life)) == 1


def test_registrations_do_not_wait_for_the_static_parts_of_others(tmp_path: Path, gate: Gate) -> None:
    life = Life(tmp_path / "data", ManualClock(), threaded=True, registration_wait_ms=1_000)
    texts = [NAMED.replace("5s", f"{number}s") for number in range(1, 9)]
    with ThreadPoolExecutor(len(texts)) as pool:
        began = time.monotonic()
        list(pool.map(life.register, [f"q{number}" for number in range(len(texts))], texts))
        took = time.monotonic() - began
    assert took < 4
    gate.open.set()
    eventually(lambda: all(state(life, f"q{number}") == "running" for number in range(len(texts))))
    life.stop()


def test_registrations_of_one_name_come_one_after_the_other(tmp_path: Path, gate: Gate) -> None:
    life = Life(tmp_path / "data", ManualClock(), threaded=True, registration_wait_ms=200)
    registration = Registration.from_json({"query": P + NAMED}, name="q")
    other = Registration.from_json({"query": P + NAMED.replace("5s", "6s")}, name="q")
    unnamed = Registration.from_json({"query": P + NAMED})

    def register(each: Registration) -> object:
        try:
            name, is_new = life.engine.queries.register(each)
        except ConflictError as error:
            return error.code
        return name, is_new

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(register, [registration] * 4))
        assert sorted(found, key=str) == [("q", False)] * 3 + [("q", True)]
        assert register(other) == "query-exists"
        assert set(pool.map(register, [unnamed] * 3)) == {(f"q-{number}", True) for number in (1, 2, 3)}
    life.stop()


def test_a_stop_waits_once_for_all_that_cannot_be_called_off(tmp_path: Path, gate: Gate) -> None:
    life = Life(tmp_path / "data", ManualClock(), threaded=True, registration_wait_ms=0, stop_wait_ms=500)
    gate.heeds_calls = False
    for number in range(8):
        life.register(f"q{number}", NAMED)
    eventually(lambda: gate.entered == 8)
    began = time.monotonic()
    life.stop()
    assert time.monotonic() - began < 4 * 0.5 + 1


def test_what_cannot_be_read_fails_alone_and_says_why(life: Life, gate: Gate) -> None:
    gate.problem = ReportedError("the disk is on fire")
    life.register("q", NAMED)
    gate.open.set()
    eventually(lambda: state(life) == "failed")
    assert describe(life.engine, "q")["error"] == "the disk is on fire"
    ((_, kind, data),) = told(life)
    assert (kind, "the disk is on fire" in data) == ("error", True)


def test_too_much_that_waits_fails_the_query_with_the_limit(tmp_path: Path, gate: Gate) -> None:
    life = Life(tmp_path / "data", ManualClock(), threaded=True, registration_wait_ms=0, waiting_elements=2)
    life.register("q", NAMED)
    for at in (1, 2, 3):
        life.push(at, "a")
    eventually(lambda: state(life) == "failed")
    assert "more than 2 elements arrived" in describe(life.engine, "q")["error"]
    life.stop()


@pytest.mark.parametrize("begins", ["before", "after"])
def test_a_crash_while_they_are_read_loses_nothing(
    life: Life, gate: Gate, tmp_path: Path, begins: str
) -> None:
    """The crash comes before or after the query begins; no checkpoint covers what waits."""
    life.push(500, "b")
    life.engine.sync()
    life.checkpoint()
    life.register("q", NAMED, output="changes")
    life.push(1_000, "a", "b")
    life.engine.sync()
    life.checkpoint()
    life.push(3_000, "a")
    life.engine.sync()
    before: list[tuple[Any, ...]] = []
    if begins == "after":
        gate.open.set()
        eventually(lambda: state(life) == "running")
        before = told(life)
        assert before
    survivor = life.crash()
    try:
        if begins == "before":
            eventually(lambda: state(survivor) == "materialising")
            gate.open.set()
        eventually(lambda: state(survivor) == "running")
        survivor.push(9_000, "b")
        straight = undisturbed(tmp_path / "straight", output="changes")
        for at, names in ((1_000, "ab"), (3_000, "a"), (9_000, "b")):
            straight.push(at, *names)
        assert told(survivor)[: len(before)] == before
        assert told(survivor) == straight.told()["q"]
        straight.stop()
    finally:
        survivor.stop()


def test_a_query_that_takes_the_place_of_another_resets_its_feed(life: Life, gate: Gate) -> None:
    gate.open.set()
    life.register("q", NAMED)
    eventually(lambda: state(life) == "running")
    life.push(1_000, "a", wait=True)
    gate.open.clear()
    subscription = life.engine.queries.feed("q").subscribe(None)
    changed = Registration.from_json({"query": f"PREFIX : <{E}>\n{NAMED} LIMIT 9"}, name="q")
    life.engine.queries.register(changed, replace=True)
    assert state(life) == "materialising"
    life.push(2_000, "b")
    gate.open.set()
    eventually(lambda: state(life) == "running")
    life.engine.sync()
    assert [event.kind for event in subscription.take()] == ["reset", "insert"]
