"""Which static parts are in memory: the least recently used leave it, those that are used come back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.static import commit_delta as limits
from quadrill.continuous.static import lookup, residence
from quadrill.store.errors import LimitError

from ..engines import Bench, E, bench
from ..test_recovery import Life, P, comparable


def part(predicate: str, window: str = "[RANGE 1h]", stream: str = "s") -> str:
    return f"SELECT ?x ?l WHERE {{ STREAM :{stream} {window} {{ ?x :seen ?v }} ?x :{predicate} ?l }}"


def fill(one: Bench, predicate: str, number: int, begin: int = 0) -> None:
    one.store.apply(
        add=[
            Quad(NamedNode(f"{E}x{n}"), NamedNode(E + predicate), NamedNode(f"{E}l{n}"), DefaultGraph())
            for n in range(begin, begin + number)
        ]
    )


def look(one: Bench, after_ms: int = residence.CHECK_MS) -> None:
    """The engine looks at what is in memory, and then has time for the turns that follow from it."""
    one.clock.advance(after_ms)
    one.engine.tick()


def held(one: Bench | Life) -> dict[str, bool]:
    """By query: its first static part is in memory."""
    return {
        each["name"]: each["static_parts"][0]["lookup"] is None
        for each in one.engine.queries()
        if each["state"] == "running"
    }


def test_the_least_recently_used_leave_memory_for_a_new_query() -> None:
    with bench(static_rows=10) as one:
        for predicate in ("p", "q", "r"):
            fill(one, predicate, 4)
        one.register("p", part("p"), output="changes")
        one.register("q", part("q", stream="t"), output="changes")
        one.clock.advance(1_000)
        one.push(1, "x1")
        one.register("r", part("r"), output="changes")
        look(one)
        assert held(one) == {"p": True, "q": False, "r": True}
        (described,) = one.engine.describe("q")["static_parts"]
        assert described["looked_up_because"] == (
            "least recently used when the static parts had 12 rows, the limit is 10"
        )
        assert f"looked up, not held: {described['looked_up_because']}" in str(one.engine.explain("q"))
        assert one.engine.figures().static_tables == (2, 8)
        assert (one.engine.figures().static_lookups, one.engine.figures().static_moves) == (1, (1, 0))
        one.push(2, "x1", stream=E + "t")
        one.store.update(f"INSERT DATA {{ <{E}x1> <{E}q> <{E}m> }}")
        assert [kind for kind, _, _ in one.told("q")] == ["insert", "insert"]


def test_tables_that_grow_over_the_limit_leave_but_not_those_that_must_stay() -> None:
    with bench(static_rows=10) as one:
        fill(one, "p", 4)
        fill(one, "q", 4)
        one.register("p", part("p"), static_tables="table")
        one.register("q", part("q"))
        fill(one, "p", 8, 4)
        look(one)
        assert held(one) == {"p": True, "q": False}
        assert one.engine.figures().static_tables == (1, 12)
        with pytest.raises(LimitError):
            one.register("r", part("r"), static_tables="table")


def test_the_largest_part_of_a_query_over_its_own_limit_leaves() -> None:
    text = "SELECT ?x WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :p ?l . ?v :q ?m }"
    with bench(static_rows_per_query=10) as one:
        fill(one, "p", 4)
        fill(one, "q", 4)
        one.register("p", text)
        look(one)
        assert one.engine.figures().static_tables == (2, 8)
        fill(one, "q", 8, 4)
        look(one)
        shown = {
            each["pattern"].split()[1]: each["lookup"] is None
            for each in one.engine.describe("p")["static_parts"]
        }
        assert shown == {":p": True, ":q": False} or sorted(shown.values()) == [False, True]
        assert one.engine.figures().static_tables == (1, 4)


def test_a_shared_table_leaves_for_all_its_readers_or_not_at_all() -> None:
    with bench(static_rows=4) as one:
        fill(one, "p", 4)
        one.register("a", part("p"))
        one.register("b", part("p", "[NOW]"))
        fill(one, "p", 1, 4)
        look(one)
        assert held(one) == {"a": False, "b": False}
        assert one.engine.figures().static_tables == (0, 0)
        one.engine.drop("a")
        one.engine.drop("b")
        one.store.apply(add=[])
    with bench(static_rows=4) as one:
        fill(one, "p", 4)
        one.register("a", part("p"))
        one.register("b", part("p"), static_tables="table")
        fill(one, "p", 1, 4)
        look(one)
        assert held(one) == {"a": True, "b": True}


def test_a_part_that_is_asked_for_comes_back_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residence, "RETURN_MISSES", 3)
    monkeypatch.setattr(lookup, "MOST_REMEMBERED", 2)
    with bench(static_rows=10) as one:
        for predicate in ("p", "q"):
            fill(one, predicate, 6)
        one.register("p", part("p", "[NOW]"), output="changes")
        one.clock.advance(1_000)
        one.register("q", part("q", "[NOW]", "t"))
        look(one)
        assert held(one) == {"p": False, "q": True}
        for at in range(1, 7):
            one.push(at, f"x{at % 6}")
        look(one, residence.LOOK_MS)
        look(one)
        assert held(one) == {"p": False, "q": True}, "q was used not long ago"
        for at in range(7, 14):
            one.push(at, f"x{at % 6}")
        look(one, residence.IDLE_MS)
        look(one)
        assert held(one) == {"p": False, "q": False}
        for at in range(14, 21):
            one.push(at, f"x{at % 6}")
        look(one, residence.LOOK_MS)
        look(one)
        assert held(one) == {"p": True, "q": False}
        (described,) = one.engine.describe("p")["static_parts"]
        why = "7 keys that were not remembered were asked of the store within 10 s"
        assert (described["held_because"], described["looked_up_because"]) == (why, None)
        assert f"held, not looked up: {why}" in str(one.engine.explain("p"))
        assert described["last_used"] == one.clock.now_ms() - residence.LOOK_MS - residence.CHECK_MS
        assert one.engine.figures().static_moves == (2, 1)
        one.push(30, "x1")
        assert one.told("p")[-1][0] == "delete" or one.told("p")[-1][0] == "insert"
        assert [kind for kind, _, _ in one.told("p")].count("insert") == 21


def test_a_query_that_asked_for_look_ups_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residence, "RETURN_MISSES", 1)
    with bench(static_rows=10) as one:
        fill(one, "p", 2)
        one.register("p", part("p"), static_tables="lookup")
        one.push(1, "x1")
        look(one, residence.LOOK_MS)
        look(one)
        assert held(one) == {"p": False}
        (described,) = one.engine.describe("p")["static_parts"]
        assert described["looked_up_because"] == "the registration asks for it"


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_crash_changes_nothing_that_is_told_wherever_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, checkpoints: bool
) -> None:
    monkeypatch.setattr(residence, "RETURN_MISSES", 1)
    monkeypatch.setattr(residence, "IDLE_MS", 2_000)
    monkeypatch.setattr(residence, "LOOK_MS", 500)
    monkeypatch.setattr(lookup, "MOST_REMEMBERED", 2)
    monkeypatch.setattr(limits, "MOST_KEYS", 3)

    def run(folder: Path, crashes: frozenset[int], **settings: Any) -> tuple[dict[str, Any], int, int]:
        chance = random.Random(seed)
        left = returned = 0
        life = Life(folder, ManualClock(0), **settings)
        for name in "pq":
            life.register(name, part(name, "[RANGE 2s]"), output="changes")
        for step in range(40):
            life.clock.advance(chance.choice((100, 1_500)))
            match chance.randrange(5):
                case 0 | 1:
                    life.push(1_000 + 500 * step, *chance.sample(["x0", "x1", "x2", "x3"], 2))
                case 2:
                    rows = " ".join(f":x{chance.randrange(4)} :{chance.choice('pq')} {n} ." for n in range(4))
                    life.store.update(P + f"INSERT DATA {{ {rows} }}")
                case _:
                    life.store.update(P + f"DELETE WHERE {{ :x{chance.randrange(4)} ?p ?o }}")
            life.engine.tick()
            if checkpoints and step % 9 == 0:
                life.checkpoint()
            if step in crashes:
                before = held(life)
                moves = life.engine.figures().static_moves
                left, returned = left + moves[0], returned + moves[1]
                life.journal.log.sync()
                life = life.crash()
                assert held(life) == before
        moves = life.engine.figures().static_moves
        told = comparable(life.told())
        life.stop()
        return told, left + moves[0], returned + moves[1]

    undisturbed, left, returned = run(tmp_path / "u", frozenset(), static_rows=7)
    assert left > 1
    assert returned > 0
    assert sum(map(len, undisturbed.values())) > 20
    assert run(tmp_path / "c", frozenset((7, 19, 30)), static_rows=7)[0] == undisturbed
    assert run(tmp_path / "f", frozenset())[0] == undisturbed


@pytest.mark.parametrize("behind", [False, True])
def test_who_was_used_last_is_known_after_a_crash(tmp_path: Path, behind: bool) -> None:
    life = Life(tmp_path / "d", ManualClock(0))
    for each in ("p", "q", "r"):
        rows = " ".join(f":x{number} :{each} {number} ." for number in range(4))
        life.store.update(P + f"INSERT DATA {{ {rows} }}")
        life.register(each, part(each, stream=each))
    for number, name in enumerate(("q", "r", "p") if behind else ("q", "r", "p", "q")):
        life.clock.advance(1_000)
        body = f'<{E}x1> <{E}seen> "{number}" .\n'.encode()
        life.engine.push(E + name, body, "application/n-triples", at=1_000 * number)
    life.checkpoint()
    if behind:
        # What comes behind the checkpoint is found in the journal.
        life.clock.advance(1_000)
        life.engine.push(E + "q", f'<{E}x1> <{E}seen> "9" .'.encode(), "application/n-triples", at=9_000)
        life.journal.log.sync()
    life.settings["static_rows"] = 8
    after = life.crash()
    after.clock.advance(residence.CHECK_MS)
    after.engine.tick()
    assert held(after) == {"p": True, "q": True, "r": False}
    after.stop()
