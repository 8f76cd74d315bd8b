"""Groups of queries that differ in constants over crashes, and when their common plan fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.groups.shared_plan import SharedPlan

from ..engines import E, bench, sweep_always
from ..test_recovery import Life, comparable, take
from .test_template_groups import joined

TEXTS = (
    'SELECT ?x ?v WHERE { STREAM :s [RANGE 3s] { ?x :seen ?v } ?x :name "%d" }',
    "SELECT ?v ?n WHERE { STREAM :s [RANGE 3s] { :%s :seen ?v } OPTIONAL { :%s :name ?n } }",
    "SELECT ?x (COUNT(?v) AS ?c) WHERE { STREAM :s [NOW] { ?x :seen ?v } FILTER(?x != :%s) } GROUP BY ?x",
    'SELECT ?x ?v WHERE { STREAM :s [RANGE 3s SLIDE 1s] { ?x :seen ?v } ?x :name "%d" }',
    'SELECT ?x ?n WHERE { STREAM :s [RANGE 2s STEP 2s] { ?x :seen ?v } ?x :name ?n FILTER(?n != "%d") }',
)
CLOSING = 4
"""From here on they are evaluated when windows close."""


def steps(seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    found: list[tuple[Any, ...]] = []
    at = 1_000
    for number in range(45):
        match chance.choices(range(8), (12, 4, 6, 1, 1, 1, 1, 1))[0]:
            case 0:
                at += chance.choice((0, 100, 700, 2_500))
                found.append(("push", at, chance.sample("abcd", chance.randint(1, 3))))
            case 1:
                verb = chance.choice(("INSERT DATA", "INSERT DATA", "DELETE DATA"))
                found.append(
                    ("update", f'{verb} {{ :{chance.choice("abcd")} :name "{chance.randrange(3)}" }}')
                )
            case 2 if number < 30:
                found.append(("make", chance.randrange(len(TEXTS)), chance.randrange(4)))
            case 3:
                found.append(("drop", f"q{chance.randrange(12)}"))
            case 4:
                found.append(("pause", f"q{chance.randrange(12)}"))
            case 5:
                found.append(("resume", f"q{chance.randrange(12)}"))
            case 6:
                at += 1_500
                found.append(("heartbeat", at))
            case _:
                found.append(("checkpoint",))
    return found


def run(
    folder: Path,
    seed: int,
    crashes: int,
    *,
    seen: Callable[[Life], object] = lambda _: None,
    **settings: Any,
) -> tuple[Any, Any, int]:
    chance = random.Random(seed + 1)
    todo = steps(seed)
    at = set(chance.sample(range(len(todo)), crashes))
    life = Life(folder, ManualClock(10_000), idle_timeout_ms=0, **settings)
    made, most = 0, 0
    for place, step in enumerate(todo):
        match step:
            case ("make", text, constant):
                name = TEXTS[text].replace("%d", str(constant)).replace("%s", "abcd"[constant])
                report = {"report": "on-window-close"} if text >= CLOSING else {}
                life.register(f"q{made}", name, output=("istream", "changes")[constant % 2], **report)
                made += 1
            case _:
                take(life, step)
        seen(life)
        most = max(most, joined(life.engine))
        if place in at:
            before = life.told()
            life = life.crash()
            assert life.told() == before, f"seed {seed}: after the crash behind step {place} {step}"
    result = comparable(life.told()), life.answers(), most
    life.stop()
    return result


@pytest.mark.always("0")
@pytest.mark.parametrize("seed", range(3))
def test_a_run_with_crashes_tells_what_queries_alone_tell_without(tmp_path: Path, seed: int) -> None:
    alone = run(tmp_path / "alone", seed, 0, templates=False)
    together = run(tmp_path / "together", seed, 0, templates=True)
    stormy = run(tmp_path / "stormy", seed, 3, templates=True)
    assert alone[2] == 0 and together[2] > 1 and stormy[2] > 1
    assert together[:2] == alone[:2]
    assert stormy[:2] == alone[:2]


@pytest.mark.parametrize("at_commit", [False, True])
def test_when_the_common_plan_fails_each_goes_on_alone(
    at_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*, fails: bool) -> Any:
        with bench(templates=fails) as b:
            b.store.writer.update(f'INSERT DATA {{ <{E}a> <{E}name> "0" . <{E}b> <{E}name> "1" }}')
            for number in range(4):
                b.register(f"q{number}", TEXTS[0].replace("%d", str(number % 3)), output="changes")
            b.push(0, "a", "b")
            b.push(1, "b")
            assert joined(b.engine) == (4 if fails else 0)
            if fails:
                monkeypatch.setattr(SharedPlan, "step", lambda *_: 1 / 0)
                monkeypatch.setattr(SharedPlan, "run", lambda *_: None)
            if not at_commit:
                b.push(3_500, "a")
            b.store.writer.update(f'INSERT DATA {{ <{E}b> <{E}name> "2" }}')
            b.push(9_000, "b")
            b.push(9_001, "a")
            assert joined(b.engine) == 0
            return [
                (
                    b.told(f"q{each}"),
                    b.engine.queries.current_answer(f"q{each}"),
                    describe(b.engine, f"q{each}")["counters"],
                )
                for each in range(4)
            ]

    assert told(fails=True) == told(fails=False)


def test_a_member_that_cannot_be_told_stops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        for number in range(3):
            b.register(f"q{number}", TEXTS[2].replace("%s", "abc"[number]))
        b.push(0, "a", "b", "c")
        assert joined(b.engine) == 3
        failing = b.engine.parts.catalogue.get("q1").running
        monkeypatch.setattr(failing, "publish", lambda *_: 1 / 0)
        b.push(1, "d")
        assert describe(b.engine, "q1")["state"] == "failed"
        assert joined(b.engine) == 2
        assert b.told("q0")[-1] == ("insert", 1, "d") and b.told("q2")[-1] == ("insert", 1, "d")
        b.push(2, "b")
        assert b.told("q0")[-1] == ("insert", 2, "b")


def test_all_members_that_cannot_be_told_of_one_push_are_known_by_its_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bench() as b:
        for number in range(4):
            b.register(f"q{number}", TEXTS[2].replace("%s", "abcd"[number]))
        b.push(0, "a", "b", "c", "d")
        assert joined(b.engine) == 4
        for name in ("q0", "q2"):
            failing = b.engine.parts.catalogue.get(name).running
            monkeypatch.setattr(failing, "publish", lambda *_: 1 / 0)
        b.push(1, "e")
        states = [describe(b.engine, f"q{number}")["state"] for number in range(4)]
        assert states == ["failed", "running", "failed", "running"]
        assert sorted(letter["query"] for letter in b.engine.streams.dead_letters("s")) == ["q0", "q2"]
        assert b.told("q1")[-1] == b.told("q3")[-1] == ("insert", 1, "e")
        assert joined(b.engine) == 2


def test_a_new_constant_at_another_place_widens_the_group() -> None:
    text = "SELECT ?x WHERE { STREAM :s [NOW] { :%s :seen ?v . ?x :seen %s } }"
    with bench() as b:
        b.register("one", text % ("a", '"x"'))
        b.register("two", text % ("b", '"x"'))
        b.push(0, "a", "b")
        b.register("three", text % ("a", '"y"'))
        b.push(1, "a")
        assert joined(b.engine) == 3
        assert describe(b.engine, "three")["template"]["members"] == 3
        b.push(2, "a", "c")
        assert b.told("one")[-1] == ("insert", 2, "c")
        assert b.told("two") == [("insert", 0, "ab")] and b.told("three") == []


def test_an_answer_is_known_when_the_plan_that_made_it_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT ?x ?n WHERE { STREAM :s [RANGE 10ms] { :%s :seen ?v . ?x :seen %s } ?x :name ?n }"
    sweep_always(monkeypatch, 10**6)
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}name> 'a name that is no part of its id' }}")
        b.register("one", text % ("a", '"x"'))
        b.register("two", text % ("b", '"x"'))
        b.push(0, "a", "b")
        b.engine.streams.heartbeat(E + "s", 15)
        b.register("three", text % ("a", '"y"'))
        b.push(30, "a", "e")
        assert describe(b.engine, "three")["template"]["members"] == 3
        failing = b.engine.parts.catalogue.get("one").running
        monkeypatch.setattr(failing, "publish", lambda *_: 1 / 0)
        b.store.writer.update(f"INSERT DATA {{ <{E}e> <{E}name> 'another one' }}")
        b.store.writer.update(f"DELETE WHERE {{ <{E}a> <{E}name> ?n }}")
        # A shared window lets go of what has left it now and then.
        for number in range(70):
            b.push(40 + 20 * number, f"c{number}")
        assert describe(b.engine, "one")["state"] == "failed"
        shown = b.engine.queries.feed("one").current()
        assert shown is not None and "a name that is no part of its id" in shown


def test_an_earlier_answer_is_known_when_its_evaluator_sleeps_and_when_it_wakes() -> None:
    with bench(templates=False) as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 10ms] { ?x :seen ?v } }")
        running = b.engine.parts.catalogue.get("q").running
        assert running is not None
        evaluator, changes = running.evaluator, []
        assert isinstance(evaluator, NativeEvaluator)
        advance = evaluator.advance

        def noted(*arguments: Any) -> Any:
            changes.append(advance(*arguments))
            return changes[-1]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(evaluator, "advance", noted)
            for at, name in enumerate("abc"):
                b.push(at, name)
        # What is shown may be older than the newest, which is not durable yet.
        evaluator.sleep()
        assert [str(term) for (term,) in changes[0].rows] == [f"<{E}a>"]
        evaluator.wake()
        assert sorted(str(term) for (term,) in changes[1].rows) == [f"<{E}a>", f"<{E}b>"]
