"""Bases are read and taken over while others register queries, drop them and write."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.quads.quad_store import QuadStore

from ..engines import PREFIX, E
from .test_following import quad
from .test_groups import groups, located, near

PEOPLE, PLACES = 60, 12


@pytest.mark.parametrize("templates", [False, True])
def test_members_have_the_rows_of_a_fresh_evaluation_whatever_went_on_meanwhile(templates: bool) -> None:
    store = QuadStore.open(None)
    engine = Engine(store, None, clock=Clock(), settings=EngineSettings(templates=templates))
    engine.start()
    store.writer.apply(add=[quad(f"n{k}", f"l{k}") for k in range(PEOPLE)])
    store.writer.apply(add=[located(f"n{k}", f"p{k % PLACES}") for k in range(PEOPLE)])
    done = threading.Event()

    def write() -> None:
        chance = random.Random(1)
        while not done.is_set():
            person = f"n{chance.randrange(PEOPLE)}"
            come, gone = (located(person, f"p{chance.randrange(PLACES)}") for _ in range(2))
            store.writer.apply(add=[come], remove=[gone])

    def register(first: int) -> None:
        for place in range(first, PLACES, 2):
            document = {"query": PREFIX + near(f"p{place}"), "output": "changes"}
            engine.queries.register(Registration.from_json(document, name=f"q{place}"))

    threads = [threading.Thread(target=register, args=(first,)) for first in range(2)]
    writer = threading.Thread(target=write)
    for each in (writer, *threads):
        each.start()
    for each in threads:
        each.join()
    line = "".join(f'<{E}n{k}> <{E}seen> "x" .\n' for k in range(PEOPLE)).encode()
    engine.streams.push(PushCall(E + "s", "application/n-triples", at=1, wait=True), line)
    engine.queries.drop("q3")
    done.set()
    writer.join()
    statics = engine.parts.statics
    statics.wait_for_reloads(10)
    engine.sync()
    for place in (each for each in range(PLACES) if each != 3):
        running = engine.parts.catalogue.get(f"q{place}").running
        assert running is not None and running.static.statics is not None
        (part,), (table,) = running.static.statics.parts, running.static.statics.tables
        _, (fresh,) = running.static.statics.background.evaluate([part])
        assert Counter(running.static.statics.rows(0)) == Counter(fresh)
        views = running.static.statics.arrangements.get(0, ())
        assert len(views) == (running.group.plan_slot is None)
        assert all(Counter(dict(view.rows())) == Counter(table.rows) for view in views)
    (group,) = groups(statics)
    assert len(group.tables) == PLACES - 1
    engine.stop()
    store.close()
