"""What is told of a failed query is the same before and after a crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock

from .test_dead_letters import Poison
from .test_recovery import Life, P

CLOCK = ("silent_ms", "age_ms", "static_age_ms", "rates", "last_refresh", "read_ms")
PASSING = (*CLOCK, "state_size", "cause", "origin")
"""What tells of this process or of the clock, and how much is kept of what is not needed any more."""


def told(life: Life, name: str) -> Any:
    return without(describe(life.engine, name))


def without(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without(value) for key, value in document.items() if key not in PASSING}
    if isinstance(document, list):
        return [without(each) for each in document]
    return document


@pytest.mark.always("1-*")
@pytest.mark.parametrize("name", ["seen", "named", "counts", "closes", "last", "made"])
@pytest.mark.parametrize("seed", range(2))
def test_a_failed_query_is_described_the_same_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    chance = random.Random(seed)
    life = Life(tmp_path / "d", ManualClock(1_000_000), idle_timeout_ms=0)
    Poison(monkeypatch, name, *range(8_000, 16_001))
    life.register(name)
    for number in range(25):
        life.clock.advance(100)
        match chance.randrange(4):
            case 0:
                life.store.writer.update(f'{P} INSERT DATA {{ :a{number} :name "{number}" }}')
            case _:
                life.push(1_000 + number * 500, f"a{number % 4}")
        if chance.random() < 0.1:
            life.checkpoint()
        if number >= 16 and chance.random() < 0.5:
            before = told(life, name)
            life = life.crash()
            assert told(life, name) == before, (seed, number)
    assert describe(life.engine, name)["state"] == "failed"
    assert describe(life.engine, name)["windows"][0]["next_change"] is None
    life.stop()
