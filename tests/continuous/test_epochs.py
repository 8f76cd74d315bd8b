"""A copy of a folder goes its own way: clients of its original get a reset there, never a silent gap."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.figures import query_figures
from quadrill.app.describing.streams import describe_stream
from quadrill.continuous.clock import ManualClock
from quadrill.store.feeds.feed import Feed

from .test_recovery import Life, comparable, scenario, take

E = "http://example.org/"


class Fork(Life):
    """What opens a copy as a server does."""

    parting = True

    def crash(self) -> Life:
        """Go on over the folder as it is; it is no copy for what comes then."""
        copy = self.copy(self.folder.with_name(self.folder.name + "x"))
        self.stop()
        return Life(copy, self.clock, **self.settings)


def ids(life: Life, name: str) -> list[int]:
    return [number for number, _, _ in life.told()[name] if number is not None]


def first_of(life: Life, name: str, after: int) -> list[tuple[Any, ...]]:
    events = life.engine.queries.feed(name).subscribe(after).take()
    return [(event.id, event.kind, event.data) for event in events]


def contents(told: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[Any]]:
    """Events without what tells one line from another: ids and versions."""
    found: dict[str, list[Any]] = {}
    for name, events in comparable(told).items():
        found[name] = []
        for _, kind, data in events:
            for member in ("version", "earliest", "revises"):
                data.pop(member, None)
            found[name].append((kind, data))
    return found


def test_who_saw_what_came_after_the_copy_gets_a_reset(tmp_path: Path) -> None:
    old = Life(tmp_path / "old", ManualClock(1_000_000))
    old.register("seen", output="changes")
    for number in range(5):
        old.push(1_000 + number, f"a{number}")
    new: Life = Fork(old.copy(tmp_path / "new"), ManualClock(1_000_000))
    before = new.told()["seen"]
    assert before == old.told()["seen"]
    for number in range(3):
        old.push(2_000, f"old{number}")
    assert first_of(new, "seen", 7)[0][1] == "reset"
    assert first_of(new, "seen", 5) == []
    receipts = [new.push(2_000, f"new{number}") for number in range(3)]
    assert (
        describe_stream(old.engine, E + "s")["accepted"],
        describe_stream(new.engine, E + "s")["accepted"],
    ) == (8, 8)
    assert receipts[0]["first_seq"] > 2**40
    given = ids(new, "seen")
    assert given[:5] == [1, 2, 3, 4, 5]
    assert 2**40 < given[5] < 2**53
    assert given[5:] == [given[5], given[5] + 1, given[5] + 2]
    for crashed in (False, True, True):
        if crashed:
            told = new.told()
            new = new.crash()
            assert new.told() == told
        for foreign in (6, 7, 8, 1000, given[5] - 1):
            reset, answer = first_of(new, "seen", foreign)
            assert (reset[1], json.loads(reset[2])) == ("reset", {"earliest": 1})
            assert (answer[0], answer[1]) == (given[-1], "answer")
        assert [number for number, _, _ in first_of(new, "seen", 3)] == given[3:]
        assert [number for number, _, _ in first_of(new, "seen", 5)] == given[5:]
        assert [number for number, _, _ in first_of(new, "seen", given[6])] == given[7:]
        assert query_figures(new.engine)[0].events == 8
        new.checkpoint()
    new.register("named")
    new.store.writer.update(f'INSERT DATA {{ <{E}n> <{E}name> "n" }}')
    new.push(2_500, "n")
    assert ids(new, "named")[0] > given[5] - 1
    assert first_of(new, "named", 1)[0][1] == "reset"
    new.stop()
    old.stop()


@pytest.mark.always("2", "3")
@pytest.mark.parametrize("seed", range(4))
def test_a_copy_goes_on_as_its_original_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    steps = [step for step in scenario(seed, 50) if step[0] != "replay"]
    clock, other = ManualClock(10_000), ManualClock(10_000)
    old: Life = Life(tmp_path / "old", clock, idle_timeout_ms=0)
    place = chance.randrange(10, 30)
    for step in steps[:place]:
        take(old, step)
    other.advance(clock.now_ms() - other.now_ms())
    new: Life = Fork(old.copy(tmp_path / "new"), other, idle_timeout_ms=0)
    common = {name: ids(old, name) for name in old.told()}
    for number, step in enumerate(steps[place:]):
        take(old, step)
        take(new, step)
        if number % 9 == 8:
            new = new.crash()
    assert contents(new.told()) == contents(old.told())
    for name in old.told():
        later = set(ids(old, name)) - set(common.get(name, ()))
        assert not later & set(ids(new, name)), name
        for foreign in later:
            assert first_of(new, name, foreign)[0][1] == "reset", (name, foreign)
    old.stop()
    new.stop()


def test_a_feed_without_an_epoch_begins_with_1() -> None:
    feed, late = Feed("a"), Feed("b", epoch=1000)
    assert (feed.publish([("insert", "x")]), late.publish([("insert", "x")])) == ([1], [1001])
    assert (feed.events, late.events, late.history.earliest_id) == (1, 1, 1001)
