"""What one query more costs does not depend on how many there are: calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.clock import ManualClock

from .engines import Bench
from .test_recovery import Life

FEW, MANY = 20, 80
KINDS: dict[str, str] = {
    "constants": "SELECT ?x ?v WHERE {{ STREAM :s [RANGE 1m] {{ ?x :seen ?v ; :by :w{0} }} }}",
    "windows": "SELECT ?x ?v WHERE {{ STREAM :s{0} [RANGE {0}s] {{ ?x :seen ?v }} }}",
    "static": "SELECT ?x ?v WHERE {{ STREAM :s [RANGE 1m] {{ ?x :seen ?v }} ?x :p{0} ?r }}",
    "construct": "CONSTRUCT {{ ?x :told ?v }} WHERE {{ STREAM :s [RANGE 1m] {{ ?x :seen ?v }} "
    "?x :in :r{0} }}",
}


class Calls:
    """How many functions of Python were called."""

    number = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        def hook(_frame: Any, event: str, _: Any) -> None:
            self.number += event == "call"

        self.number = 0
        sys.setprofile(hook)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_registration_costs_the_same_beside_many(kind: str) -> None:
    bench = Bench(max_queries=MANY)
    bench.engine.start()
    found = {}
    for number in range(1, MANY + 1):
        calls = Calls()
        with calls.counted():
            bench.register(f"q{number}", KINDS[kind].format(number))
        found[number] = calls.number
    bench.engine.stop()
    # The fewest of three: now and then something is tidied up.
    beside_few, beside_many = (min(found[place - k] for k in range(3)) for place in (FEW, MANY))
    assert beside_many <= 1.05 * beside_few


@pytest.mark.always("windows", "constants")
@pytest.mark.parametrize("kind", KINDS)
def test_a_query_costs_a_start_the_same_beside_many(kind: str, tmp_path: Path) -> None:
    def calls_of_start(queries: int) -> int:
        folder, clock = tmp_path / str(queries), ManualClock(0)
        life = Life(folder, clock, checkpoint_ms=3_600_000)
        for number in range(1, queries + 1):
            life.register(f"q{number}", KINDS[kind].format(number))
        life.stop()
        calls = Calls()
        with calls.counted():
            life = Life(folder, clock)
        life.stop()
        return calls.number

    none, few, many = (calls_of_start(queries) for queries in (0, FEW, MANY))
    assert (many - none) / MANY <= 1.1 * (few - none) / FEW


class NotWalked(dict[str, Any]):
    """Names that are looked up and not gone through."""

    def items(self) -> Any:
        raise AssertionError("all streams were looked at")

    __iter__ = values = items


@pytest.mark.parametrize("kind", KINDS)
def test_a_registration_does_not_look_at_all_streams(kind: str) -> None:
    bench = Bench()
    bench.engine.start()
    bench.register("first", KINDS[kind].format(1))
    streams = bench.engine.parts.streams
    known, streams.known = streams.known, NotWalked(streams.known)
    bench.register("second", KINDS[kind].format(1))
    streams.known = known
    bench.engine.stop()
