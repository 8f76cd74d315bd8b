"""Collections look at young objects alone, and still find all garbage in the end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest

from quadrill.app.upkeep.garbage import SAMPLED, CollectionSchedule


class Node:
    """Something that can be part of a cycle."""

    other: Node


def cycle() -> Node:
    one, two = Node(), Node()
    one.other, two.other = two, one
    return one


@pytest.fixture
def collections() -> Iterator[CollectionSchedule]:
    made = CollectionSchedule(young_s=600)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_what_was_set_aside_is_freed_by_its_last_reference(collections: CollectionSchedule) -> None:
    held = [Node() for _ in range(100)]
    gc.collect(1)
    assert not {id(each) for each in held} & {id(each) for each in gc.get_objects()}
    last = weakref.ref(held[-1])
    held.clear()
    assert last() is None


def test_cycles_that_were_set_aside_are_found_by_a_look_through(collections: CollectionSchedule) -> None:
    one = cycle()
    gc.collect(1)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is not None, "nobody looks at what was set aside"
    assert collections.collect_all() >= 2
    assert gone() is None


def test_young_objects_are_looked_at_by_the_clock() -> None:
    collections = CollectionSchedule(young_s=0.01)
    collections.start()
    gc.disable()  # as where as many objects go as come: nothing is due by their number
    try:
        until, gone = time.monotonic() + 30, False
        while not gone and time.monotonic() < until:
            dropped = weakref.ref(cycle())
            time.sleep(0.05)
            gone = dropped() is None
        assert gone
    finally:
        gc.enable()
        collections.stop()


def test_young_objects_are_looked_at_less_often_while_nothing_is_computed() -> None:
    looks: list[float] = []
    collections = CollectionSchedule(young_s=0.02)
    collections.collect_young = lambda: looks.append(time.monotonic())  # type: ignore[method-assign]
    collections.start()
    try:
        until = time.monotonic() + 30
        while not [one for one, two in pairwise(list(looks)) if two - one >= 0.12]:
            assert time.monotonic() < until
            time.sleep(0.5)
        busy_from = time.monotonic()
        while time.monotonic() < busy_from + 1:
            pass
        busy = [two - one for one, two in pairwise(looks) if one > busy_from + 0.2]
        assert min(busy) < 0.12
    finally:
        collections.stop()


def test_a_fourth_is_looked_at_where_nothing_is_found_and_all_where_something_is(
    collections: CollectionSchedule,
) -> None:
    def found() -> bool:
        dropped = weakref.ref(cycle())
        collections.collect_young()
        return dropped() is None

    gc.disable()  # nothing is due by the number of objects
    try:
        assert all(found() for _ in range(2 * SAMPLED))
        for _ in range(SAMPLED):
            collections.collect_young()
        assert [found() for _ in range(2 * SAMPLED)] == [False] * (SAMPLED - 1) + [True] * (SAMPLED + 1)
        assert collections.collect_all() >= 2 * (SAMPLED - 1)
    finally:
        gc.enable()


def test_all_is_looked_through_now_and_then() -> None:
    seen = threading.Event()
    collections = CollectionSchedule(interval_s=0.01)
    collections.collect_all = seen.set  # type: ignore[method-assign,assignment]
    collections.start()
    try:
        assert seen.wait(30)
    finally:
        collections.stop()


def test_stopping_leaves_python_as_it_was() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    collections = CollectionSchedule()
    collections.start()
    collections.start()
    held = cycle()
    gc.collect(1)
    collections.stop()
    collections.stop()
    assert (gc.get_threshold(), gc.callbacks) == before
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
