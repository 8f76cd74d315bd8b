"""The whole engine against an independent statement of the law: random pushes, heartbeats and commits.

The oracle below knows nothing of timelines or operators. It walks over every millisecond, forms the windows
by their definition, joins by loops and writes down what ISTREAM and DSTREAM say.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

from .engines import Bench, E, S, all_held_is_known, bench, sweep_always

NAMES = "abc"
WIDTH = 7

QUERIES = {
    "now": "SELECT ?x ?r WHERE { STREAM :s [NOW] { ?x :seen ?v } ?x :in ?r }",
    "range": "SELECT ?x ?r WHERE { STREAM :s [RANGE 7ms] { ?x :seen ?v } ?x :in ?r }",
    "self": "SELECT ?x ?r WHERE { STREAM :s [NOW] { ?x :seen ?v } STREAM :s [RANGE 7ms] { ?r :seen ?v } }",
    "absent": "SELECT ?x ?r WHERE { ?x :in ?r FILTER NOT EXISTS { STREAM :s [RANGE 7ms] { ?x :seen ?v } } }",
    "grid": "SELECT ?x ?r WHERE { STREAM :s [RANGE 7ms SLIDE 3ms] { ?x :seen ?v } ?x :in ?r }",
}


@dataclass(frozen=True)
class Push:
    at: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Beat:
    at: int


@dataclass(frozen=True)
class Place:
    """A commit: the thing is in the room, or is not any more."""

    name: str
    room: str
    there: bool


EVENTS = st.lists(
    st.one_of(
        st.builds(
            Push,
            st.integers(0, 6),
            st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=2).map(tuple),
        ),
        st.builds(Beat, st.integers(0, 9)),
        st.builds(Place, st.sampled_from(NAMES), st.sampled_from("rs"), st.booleans()),
    ),
    min_size=1,
    max_size=14,
)


class Oracle:
    """What one query says, by definition."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.elements: list[tuple[int, tuple[str, ...]]] = []
        self.places: set[tuple[str, str]] = set()
        self.instant: int | None = None
        self.origin = 0
        self.answer: Counter[tuple[str, str]] = Counter()
        self.said: list[tuple[str, int, tuple[tuple[str, str], ...]]] = []

    def push(self, push: Push) -> None:
        if self.instant is None:
            self.instant = self.origin = push.at
        elif push.at > self.instant:
            self.pass_time(push.at - 1)
        self.elements.append((push.at, push.names))
        self.instant = push.at
        self.say(push.at)

    def beat(self, at: int) -> None:
        if self.instant is None:
            self.instant = self.origin = at
            self.say(at)
        elif at > self.instant:
            self.pass_time(at)

    def place(self, place: Place) -> None:
        pair = (place.name, place.room)
        self.places = self.places | {pair} if place.there else self.places - {pair}
        if self.instant is not None:
            self.say(self.instant)

    def pass_time(self, until: int) -> None:
        assert self.instant is not None
        for t in range(self.instant + 1, until + 1):
            self.say(t)
        self.instant = until

    def window(self, first: int, last: int) -> set[str]:
        return {name for at, names in self.elements if first <= at <= last for name in names}

    def gamma(self, t: int) -> Counter[tuple[str, str]]:
        recent = self.window(t - WIDTH, t)
        if self.kind == "now":
            rows = [(x, r) for x, r in self.places if x in self.window(t, t)]
        elif self.kind == "range":
            rows = [(x, r) for x, r in self.places if x in recent]
        elif self.kind == "self":
            rows = [(x, y) for x in self.window(t, t) for y in recent]
        elif self.kind == "absent":
            rows = [(x, r) for x, r in self.places if x not in recent]
        else:
            closes = [3 * k + 7 for k in range(-20, 60) if self.origin < 3 * k + 7 <= t]
            shown = self.window(closes[-1] - 7, closes[-1] - 1) if closes else set()
            rows = [(x, r) for x, r in self.places if x in shown]
        return Counter(rows)

    def say(self, t: int) -> None:
        now = self.gamma(t)
        gone, come = self.answer - now, now - self.answer
        self.answer = now
        for kind, rows in (("delete", gone), ("insert", come)):
            if rows:
                self.said.append((kind, t, tuple(sorted(rows.elements()))))


def said(b: Bench, name: str) -> list[tuple[str, int, tuple[tuple[str, str], ...]]]:
    found = []
    for event in b.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        rows = [
            tuple(row[v]["value"].rpartition("/")[2] for v in ("x", "r"))
            for row in document["results"]["bindings"]
        ]
        found.append((event.kind, document["at"], tuple(sorted(rows))))
    return found


def play(kind: str, events: list[Push | Beat | Place]) -> None:
    oracle = Oracle(kind)
    with bench() as b:
        b.register("q", QUERIES[kind], output="changes")
        time = 0
        for event in events:
            match event:
                case Push(step, names):
                    time += step
                    b.push(time, *names)
                    oracle.push(Push(time, names))
                case Beat(step):
                    time += step
                    b.engine.streams.heartbeat(S, time)
                    oracle.beat(time)
                case Place(name, room, there):
                    verb = "INSERT" if there else "DELETE"
                    b.store.writer.update(f"{verb} DATA {{ <{E}{name}> <{E}in> <{E}{room}> }}")
                    oracle.place(event)
            all_held_is_known(b.engine.parts.statics.terms.dictionary)
        assert said(b, "q") == oracle.said


@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=examples(25), deadline=None)
@given(events=EVENTS)
def test_the_engine_says_what_the_law_says(kind: str, events: list[Push | Beat | Place]) -> None:
    play(kind, events)


@settings(max_examples=examples(40), deadline=None)
@given(kind=st.sampled_from(list(QUERIES)), events=EVENTS, ids=st.sampled_from([1, 4, 20]))
def test_terms_that_are_forgotten_between_transactions_change_nothing(
    kind: str, events: list[Push | Beat | Place], ids: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        sweep_always(patch, ids)
        play(kind, events)


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=examples(150), deadline=None)
@given(events=EVENTS)
def test_the_engine_says_what_the_law_says_many_times(kind: str, events: list[Push | Beat | Place]) -> None:
    play(kind, events)
