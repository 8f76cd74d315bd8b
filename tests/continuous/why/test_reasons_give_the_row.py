"""The law of reasons: the query over the elements and quads of a reason alone gives the row.

The oracle is the model of `timeline_law`: it knows nothing of the engine, and looks windows up by definition.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from quadrill.app.describing.why import why
from quadrill.continuous.engine import Registration
from quadrill.store.documents.stored_lines import parse_stored_quads

from ..engines import Bench, bench
from ..timeline_law.cases import IDLE_MS, Case, E, Fact, Query, random_case
from ..timeline_law.model import Element, Model, StreamModel, World
from ..timeline_law.test_timeline_law import give, shown

_MOST_ROWS = 4
"""Rows of one feed that a case explains."""


class RecordedModel(Model):
    """A model that remembers every answer with its instant."""

    def __init__(self, query: Query, world: World) -> None:
        super().__init__(query, world)
        self.answers: list[tuple[int, Counter[str] | bool]] = []

    def _gamma(self, at: int) -> Counter[str] | bool:
        found = super()._gamma(at)
        self.answers.append((at, found))
        return found

    def answer_at(self, at: int) -> None:
        """Remember the answer at an instant at which nothing is evaluated."""
        self._gamma(at)


def facts_of(lines: list[str]) -> tuple[Fact, ...]:
    """The triples of N-Quads."""
    quads = parse_stored_quads("\n".join(lines).encode())
    return tuple((quad.subject, quad.predicate, quad.object) for quad in quads)  # type: ignore[misc]


def answers_over(query: Query, reason: dict[str, Any], times: dict[tuple[str, int], int]) -> RecordedModel:
    """Every answer of the query over the elements and quads of a reason alone."""
    streams = sorted({each.stream for each in query.windows})
    world = World({name: StreamModel(0, admits=True) for name in streams})
    world.stored = set(facts_of(reason["quads"]))
    model = RecordedModel(query, world)
    elements = [
        Element(times[name, each["seq"]], name, each["seq"], each["seq"], facts_of(each["quads"]))
        for each in reason["elements"]
        for name in [each["stream"].removeprefix(E)]
    ]
    # A query reports no window that ends before its first instant, so the first instant stays what it was.
    begin = min([reason["at"], *times.values()]) - 30
    for at in range(begin, reason["at"] + 2):
        for each in sorted(elements, key=lambda one: (one.stream, one.seq)):
            if each.at == at:
                before = StreamModel(0, admits=True, seen=at)
                world.streams[each.stream].seen = at
                model.arrive(each.stream, [each], before)
        beat(model, at)
        if at <= reason["at"]:
            model.answer_at(at)
    return model


def beat(model: RecordedModel, at: int) -> None:
    """Heartbeats of all streams."""
    for stream in model.world.streams.values():
        stream.floor = at
    for name in model.world.streams:
        model.beat(name)


def texts_of(document: dict[str, Any]) -> list[Any]:
    """The rows of an event as the model writes them."""
    if "boolean" in document:
        return [document["boolean"]]
    names, rows = document["head"]["vars"], document["results"]["bindings"]
    return [" ".join(shown(row.get(name)) for name in names) for row in rows]


def times_of(b: Bench, case: Case) -> dict[tuple[str, int], int]:
    """The event time of every element by stream and sequence number."""
    return {
        (name, each.seq): each.event_time
        for name in case.streams
        for each in b.engine.parts.streams.newest(E + name, 1_000)
    }


def explain_rows(case: Case, seed: int) -> Counter[str]:
    """Explain some rows of every feed of a case; return how many by the kind of the event."""
    chance, explained = random.Random(seed), Counter[str]()
    with bench() as b:
        for name, (lateness, late) in case.streams.items():
            b.engine.streams.declare(E + name, lateness=lateness, late=late, idle_timeout=IDLE_MS)
        for place, happening in enumerate(case.happenings):
            for number, (begin, query) in enumerate(case.queries):
                if begin == place:
                    members = {"query": query.text(), **query.options()}
                    b.engine.queries.register(Registration.from_json(members, name=f"q{number}"))
            give(b, happening)
        times = times_of(b, case)
        for number, (_, query) in enumerate(case.queries):
            rows = [
                (event, place, row)
                for event in b.engine.queries.feed(f"q{number}").subscribe(0).take()
                if event.id is not None
                for place, row in enumerate(texts_of(json.loads(event.data)))
            ]
            for event, place, row in chance.sample(rows, min(_MOST_ROWS, len(rows))):
                assert event.id is not None
                reason = why(b.engine, b.store, f"q{number}", event.id, place)
                document = json.loads(event.data)
                assert (reason["at"], reason["version"]) == (document["at"], document["version"])
                assert not reason["truncated"]
                assert_gives(query, reason, times, row, event.kind)
                explained[event.kind] += 1
    return explained


def assert_gives(
    query: Query, reason: dict[str, Any], times: dict[tuple[str, int], int], row: Any, kind: str
) -> None:
    """The row is in an answer at the instant; a deleted row in an earlier one."""
    answers = answers_over(query, reason, times).answers
    found = [
        at
        for at, answer in answers
        if (answer is row if isinstance(answer, bool) else row in answer)
        and (at <= reason["at"] if kind == "delete" else at == reason["at"])
    ]
    assert found, (query.text(), query.options(), kind, row, reason, answers)


@pytest.mark.parametrize("seed", range(60))
def test_reason_alone_gives_the_row(seed: int) -> None:
    explain_rows(random_case(seed), seed)


@pytest.mark.slow
def test_many_reasons_alone_give_their_rows() -> None:
    explained = Counter[str]()
    for seed in range(1_000, 3_000):
        explained += explain_rows(random_case(seed), seed)
    assert min(explained[kind] for kind in ("insert", "delete", "answer")) > 500
