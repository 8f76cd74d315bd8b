"""After a crash static parts are what they were: versions, large changes, what no report told yet."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.settings import StaticLimits

from ..test_recovery import Life, P, comparable

NAMED = "SELECT ?x ?n WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } ?x :name ?n }"
BOTH = "SELECT ?x ?m WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } ?x :name ?n . ?v :also ?m }"
CLOSES = (
    "REGISTER ISTREAM <http://example.org/out/closes> AS "
    "SELECT ?x ?n FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 4s STEP 2s] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } ?x <http://example.org/name> ?n }"
)
PLAIN = "SELECT ?x (COUNT(?n) AS ?c) WHERE { ?x :name ?n } GROUP BY ?x"


def update(life: Life, text: str) -> None:
    life.store.writer.update(P + text)


def names(subject: str, *numbers: int) -> str:
    return "INSERT DATA { " + " ".join(f":{subject} :name {n} ." for n in numbers) + " }"


def short(life: Life, name: str) -> list[tuple[str, int, int]]:
    """Kind, version and number of rows of each event."""
    found = []
    for _, kind, data in life.told()[name]:
        document = json.loads(data)
        found.append((kind, document["version"], len(document["results"]["bindings"])))
    return found


def test_a_large_change_that_was_not_read_before_a_crash_is_read_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path / "a", ManualClock(0), static_limits=StaticLimits(keys=2))
    life.register("q", NAMED, output="changes")
    life.push(1, "a", "b")
    update(life, names("a", 1))
    monkeypatch.setattr(life.engine.parts.statics.recomputer, "ask", lambda table: None)
    update(life, names("a", *range(2, 9)))
    update(life, names("b", 1))
    assert short(life, "q") == [("insert", 1, 1)]
    life.journal.log.sync()
    life = life.crash()
    assert short(life, "q") == [("insert", 1, 1), ("insert", 3, 8)]
    update(life, names("b", 2))
    assert short(life, "q")[-1] == ("insert", 4, 1)
    life.stop()


@pytest.mark.always("0-True", "1-False")
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_large_and_small_changes_are_told_as_without_a_crash(
    tmp_path: Path, seed: int, checkpoints: bool
) -> None:

    def run(folder: Path, crashes: frozenset[int]) -> dict[str, Any]:
        chance = random.Random(seed)
        life = Life(folder, ManualClock(0), static_limits=StaticLimits(keys=2))
        for name, text in (("named", NAMED), ("both", BOTH), ("closes", CLOSES), ("plain", PLAIN)):
            output = {} if text is CLOSES else {"output": "changes"}
            life.register(name, text, **output)
        for step in range(40):
            match chance.randrange(6):
                case 0 | 1:
                    life.push(1_000 + 500 * step, *chance.sample("abcd", 2))
                case 2 | 3:
                    numbers = [chance.randrange(12) for _ in range(chance.choice((1, 1, 1, 5)))]
                    update(life, names(chance.choice("abcd"), *numbers))
                case 4:
                    update(life, f"DELETE WHERE {{ :{chance.choice('abcd')} :name ?n }}")
                case 5:
                    update(life, "DELETE WHERE { ?x :name 1 } ; INSERT DATA { :a :also :b }")
            if checkpoints and chance.randrange(8) == 0:
                life.checkpoint()
            if step in crashes:
                life = life.crash()
        told = comparable(life.told())
        life.stop()
        return told

    undisturbed = run(tmp_path / "u", frozenset())
    assert sum(map(len, undisturbed.values())) > 20
    assert run(tmp_path / "c", frozenset((7, 19, 30))) == undisturbed


def test_what_changed_since_the_last_report_is_told_after_a_checkpoint_and_a_crash(tmp_path: Path) -> None:
    life = Life(tmp_path / "a", ManualClock(0))
    life.register("closes", CLOSES)
    update(life, names("a", 1))
    life.push(1_000, "a")
    life.push(2_500, "a")
    update(life, names("a", 2))
    update(life, "INSERT DATA { :a :other 1 }")
    life.checkpoint()
    life = life.crash()
    life.push(4_500, "a")
    # The element of 1,000 and that of 2,500 both have the names 1 and 2 now; (a, 1) was told once.
    assert short(life, "closes") == [("insert", 1, 1), ("insert", 3, 3)]
    life.stop()


def test_a_paused_query_tells_after_a_checkpoint_and_a_crash_what_changed(tmp_path: Path) -> None:
    life = Life(tmp_path / "a", ManualClock(0))
    life.register("q", NAMED, output="changes")
    life.push(1, "a")
    update(life, names("a", 1))
    life.engine.queries.patch("q", {"state": "paused"})
    update(life, names("a", 2))
    update(life, "DELETE DATA { :a :name 1 }")
    life.checkpoint()
    life = life.crash()
    life.engine.queries.patch("q", {"state": "running"})
    assert short(life, "q") == [("insert", 1, 1), ("delete", 3, 1), ("insert", 3, 1)]
    life.stop()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("text", [NAMED, NAMED.replace("?n }", "?n OPTIONAL { ?x :also ?m } }")])
def test_a_query_that_began_late_begins_there_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str, shared: bool
) -> None:
    life = Life(tmp_path / "a", ManualClock(0), static_limits=StaticLimits(keys=2))
    if shared:
        life.register("p", text, output="changes")
    make = life.engine.parts.make_evaluator
    ask, asked = life.engine.parts.statics.recomputer.ask, []

    def overtaken(*given: Any) -> Any:
        made = make(*given)
        update(life, names("a", *range(10)))
        return made

    monkeypatch.setattr(life.engine.parts.statics.recomputer, "ask", asked.append)
    monkeypatch.setattr(life.engine.parts, "make_evaluator", overtaken)
    life.register("q", text, output="changes")
    assert describe(life.engine, "q")["state"] == "materialising"
    life.push(1_000, "a")
    update(life, names("a", 20))
    life.push(2_000, "b")
    update(life, names("b", *range(30, 40)))
    monkeypatch.setattr(life.engine.parts.statics.recomputer, "ask", ask)
    for tables in asked:
        ask(tables)
    life.push(3_000, "b", "c")
    assert describe(life.engine, "q")["state"] == "running"
    before = life.told()
    assert len(before["q"]) >= 2
    life = life.crash()
    assert life.told() == before
    assert "another event" not in caplog.text
    life.push(4_000, "b")
    update(life, names("b", 50))
    assert len(life.told()["q"]) > len(before["q"])
    life.stop()
