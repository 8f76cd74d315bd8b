"""Rows without an order of their own are told in a fixed one, whatever route led to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.results import in_fixed_order

from .engines import PREFIX, E, S, reference_evaluator

ROWS = [
    (NamedNode(f"{E}{name}"), None if number % 3 else Literal(number))
    for number, name in enumerate("cabcbbaa")
]
TEXTS = {
    "istream": ("SELECT ?x ?y { STREAM :s [RANGE 3s] { ?x :p ?v } STREAM :s [RANGE 5s] { ?y :p ?v } }", {}),
    "changes": (
        "SELECT ?x ?n { STREAM :s [RANGE 2s] { ?x :p ?v } OPTIONAL { ?x :name ?n } }",
        {"output": "changes"},
    ),
    "rstream": ("SELECT ?x ?v { STREAM :s [RANGE 3s] { ?x :p ?v } }", {"output": "rstream"}),
    "construct": ("CONSTRUCT { ?x :q ?v . _:b :r ?x } { STREAM :s [RANGE 3s] { ?x :p ?v } }", {}),
}


@pytest.mark.parametrize("seed", range(5))
def test_the_fixed_order_does_not_depend_on_the_order_before(seed: int) -> None:
    mixed = random.Random(seed).sample(ROWS, len(ROWS))
    assert in_fixed_order(mixed) == in_fixed_order(ROWS)
    assert sorted(map(str, mixed)) == sorted(map(str, in_fixed_order(mixed)))


def feeds(make: Callable[..., Any] | None) -> dict[str, list[tuple[Any, ...]]]:
    """What both engines tell of the same pushes: id, kind and line."""
    clock = ManualClock(0)
    store = QuadStore.open(None, clock_ms=clock.now_ms)
    store.update(f'INSERT DATA {{ <{E}a> <{E}name> "A", "B" . <{E}c> <{E}name> "C" }}')
    engine = Engine(store, None, clock=clock, settings=EngineSettings(threaded=False), make_evaluator=make)
    engine.start()
    for name, (text, options) in TEXTS.items():
        engine.register(Registration.from_json({"query": PREFIX + text, **options}, name=name))
    chance = random.Random(7)
    for at in range(500, 12_000, 500):
        names = chance.sample("abcdefgh", 5)
        body = "".join(f'<{E}{each}> <{E}p> "{chance.randrange(3)}" .\n' for each in names)
        engine.push(S, body.encode(), "application/n-triples", at=at)
    told = {
        name: [(event.id, event.kind, event.data) for event in engine.feed(name).subscribe(0).take()]
        for name in TEXTS
    }
    engine.stop()
    store.close()
    return told


def test_both_engines_tell_the_same_bytes() -> None:
    native, reference = feeds(None), feeds(reference_evaluator)
    for name in TEXTS:
        assert native[name] == reference[name], name
        assert any(line.count('"x"') > 2 or line.count("<") > 6 for _, _, line in native[name])
