"""Random queries over random streams: the feed of each is what the definitions say, instant by instant."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

import pytest

from quadrill.continuous.engine import Registration
from quadrill.continuous.streams.push_call import PushCall

from ..engines import Bench, bench, tick
from .cases import IDLE_MS, Beat, Case, Commit, E, Fact, Happening, Push, Silence, random_case
from .model import Element, Model, StreamModel, Told, World


def play(case: Case) -> None:
    """Let the same happen to an engine and to a model of each query, and compare what is told."""
    world = World({name: StreamModel(wait, late == "admit") for name, (wait, late) in case.streams.items()})
    models: dict[str, Model] = {}
    with bench() as b:
        for name, (lateness, late) in case.streams.items():
            b.engine.streams.declare(E + name, lateness=lateness, late=late, idle_timeout=IDLE_MS)
        for place, happening in enumerate(case.happenings):
            for number, (begin, query) in enumerate(case.queries):
                if begin == place:
                    members = {"query": query.text(), **query.options()}
                    b.engine.queries.register(Registration.from_json(members, name=f"q{number}"))
                    models[f"q{number}"] = Model(query, world)
            give(b, happening)
            follow(b.clock.now_ms(), place, happening, world, list(models.values()))
        for name, model in models.items():
            assert told(b, name) == model.told, f"{model.query.text()} {model.query.options()}"


def give(b: Bench, happening: Happening) -> None:
    """It happens to the engine."""
    match happening:
        case Push(stream, elements):
            lines = [json.dumps({"at": at, "data": nquads(facts)}) for at, facts in elements]
            b.engine.streams.push(PushCall(E + stream, "application/x-ndjson"), "\n".join(lines).encode())
        case Beat(stream, at):
            b.engine.streams.heartbeat(E + stream, at)
        case Commit(removed, added):
            b.store.writer.update(f"DELETE DATA {{ {nquads(removed)} }} ; INSERT DATA {{ {nquads(added)} }}")
            b.engine.sync()
        case Silence(ms):
            b.clock.advance(ms)
            tick(b.engine)


def follow(wall: int, place: int, happening: Happening, world: World, models: list[Model]) -> None:
    """It happens to the models."""
    # A stream waits as long as the reader that waits longest.
    patience = {name: max([0, *(each.lateness.get(name, 0) for each in models)]) for name in world.streams}
    match happening:
        case Push(name, elements):
            stream = world.streams[name]
            stream.heard = wall
            before, watermark = copy(stream), stream.watermark(patience[name])
            made = [
                Element(at, name, place * 100 + number, place, facts)
                for number, (at, facts) in enumerate(elements)
            ]
            entering = [each for each in made if watermark is None or each.at >= watermark or stream.admits]
            if not entering:
                return
            stream.idle = False
            stream.seen = max([*(each.at for each in made), *([] if stream.seen is None else [stream.seen])])
            for model in models:
                model.arrive(name, entering, before)
        case Beat(name, at):
            stream = world.streams[name]
            stream.heard, stream.idle = wall, False
            stream.guarantee(at, patience[name])
            for model in models:
                model.beat(name)
        case Commit(removed, added):
            changed = (world.stored & set(removed)) | (set(added) - world.stored)
            world.stored = (world.stored - set(removed)) | set(added)
            for model in models:
                model.commit(changed)
        case Silence():
            for name, stream in world.streams.items():
                if not stream.idle and stream.heard is not None and wall - stream.heard >= IDLE_MS:
                    stream.idle = True
                    if stream.seen is not None:
                        stream.guarantee(stream.seen, patience[name])
                    for model in models:
                        model.fall_idle(name)


def nquads(facts: tuple[Fact, ...]) -> str:
    return "\n".join(f"{subject} {predicate} {value} ." for subject, predicate, value in facts)


def told(b: Bench, name: str) -> list[Told]:
    """The whole feed."""
    found: list[Told] = []
    for event in b.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        if "boolean" in document:
            found.append((event.kind, document["at"], document["boolean"]))
            continue
        names, rows = document["head"]["vars"], document["results"]["bindings"]
        texts = sorted(" ".join(shown(row.get(name)) for name in names) for row in rows)
        found.append((event.kind, document["at"], texts))
    return found


def shown(term: dict[str, Any] | None) -> str:
    if term is None:
        return "-"
    if term["type"] == "uri":
        return f"<{term['value']}>"
    return f'"{term["value"]}"^^<{term["datatype"]}>'


@pytest.mark.parametrize("seed", range(40))
def test_a_query_tells_what_the_definitions_say(seed: int) -> None:
    play(random_case(seed))


@pytest.mark.slow
def test_many_queries_tell_what_the_definitions_say() -> None:
    for seed in range(1000, 2500):
        play(random_case(seed))
