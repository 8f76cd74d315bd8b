"""A push and a registration go down the house and never back up, through few modules and calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app.config import Settings
from quadrill.app.wiring import Services, open_services
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall
from tests.walk import Walk, climbs, follow

QUERY = """PREFIX : <http://example.org/>
SELECT ?room ?celsius WHERE {
  STREAM :readings [RANGE 10s] { ?sensor :celsius ?celsius FILTER(?celsius > 20) }
  GRAPH :rooms { ?sensor :in ?room }
}"""
ROOMS = """PREFIX : <http://example.org/>
INSERT DATA { GRAPH :rooms { :s1 :in :kitchen . :s2 :in :cellar } }"""
START = 1_767_268_800_000


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """A server's services on disk, with the engine in the calling thread."""
    made = open_services(Settings(data=str(tmp_path), port=0), threaded=False)
    made.start()
    made.store.writer.update(ROOMS)
    yield made
    made.close()


def push(services: Services, second: int) -> None:
    line = (
        "<http://example.org/s1> <http://example.org/celsius> "
        f'"{20 + second}.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .\n'
    )
    services.engine.streams.push(
        PushCall("readings", "application/n-triples", at=START + second * 1000), line.encode()
    )


def within(walk: Walk, *, modules: int, calls: int, depth: int) -> None:
    """No figure is over its limit; else the beginning of the walk is shown."""
    shown = "\n".join(walk.lines[:150])
    assert len(walk.modules) <= modules, f"{len(walk.modules)} modules\n{shown}"
    assert walk.calls <= calls, f"{walk.calls} calls\n{shown}"
    assert walk.depth <= depth, f"depth {walk.depth}\n{shown}"


def test_a_push_of_one_element_goes_down_a_short_walk(services: Services) -> None:
    services.engine.queries.register(Registration(name="warm-rooms", query=QUERY))
    for second in range(1, 6):
        push(services, second)
    events = services.engine.queries.feed("warm-rooms").history.last_id
    walk = follow(lambda: push(services, 11))
    assert services.engine.queries.feed("warm-rooms").history.last_id > events, (
        "the push that was followed gave a row"
    )
    assert not walk.climbs
    within(walk, modules=20, calls=58, depth=14)


def test_a_registration_passes_few_modules(services: Services) -> None:
    walk = follow(lambda: services.engine.queries.register(Registration(name="warm-rooms", query=QUERY)))
    assert not walk.climbs
    within(walk, modules=90, calls=2_900, depth=30)


def test_a_climb_is_seen() -> None:
    assert climbs("store/errors.py", "continuous/engine.py")
    assert not climbs("continuous/engine.py", "store/errors.py")
    assert not climbs("continuous/engine.py", "continuous/engine.py")


def test_a_walk_over_its_limit_is_seen() -> None:
    walk = Walk(modules=dict.fromkeys("ab"), depth=1)
    with pytest.raises(AssertionError, match="2 modules"):
        within(walk, modules=1, calls=79, depth=1)
