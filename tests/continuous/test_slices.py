"""Work in slices gives what work in one piece gives, and stands still on its way."""

from __future__ import annotations

import random

import pytest
from greenlet import getcurrent

from quadrill.continuous.slices import Fiber, pausing, sorted_in_slices


def run(fiber: Fiber) -> tuple[object, int]:
    """Run a fiber to its end without any time; its result, and how often it stood still."""
    stood = 0
    fiber.begin(0.0)
    found = fiber.switch()
    while found is fiber:
        stood += 1
        fiber.begin(0.0)
        found = fiber.switch()
    return found, stood


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("kinds", [3, 1_000_000])
def test_rows_are_sorted_as_in_one_piece(count: int, kinds: int) -> None:
    chance = random.Random(count)
    rows = [(chance.randrange(kinds), place) for place in range(count)]
    ordered, stood = run(Fiber(lambda: sorted_in_slices(rows, lambda row: row[0])))
    assert ordered == sorted(rows, key=lambda row: row[0])
    assert stood >= count // 1024


def test_items_come_with_a_pause_behind_each_chunk() -> None:
    found, stood = run(Fiber(lambda: list(pausing(range(10), 3))))
    assert found == list(range(10))
    assert stood == 3
    assert not isinstance(getcurrent(), Fiber)
