"""Runs of instants in one generated function say what instants worked off one by one say.

A query with a limit of memory is looked at after each instant, so it is the twin of one without.
"""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.windows.encoded import EncodedContent
from tests.examples import examples

from .engines import Bench, E, S, all_held_is_known, bench, sweep_always

T = f"{E}t"
QUERIES = {
    "all": "SELECT ?x ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } }",
    "triples": "SELECT ?s ?p ?o { STREAM :s [RANGE 4ms] { ?s ?p ?o } }",
    "whole": "SELECT ?x ?v ?r { STREAM :s [NOW] { ?x :seen ?v } ?x :in ?r }",
    "values": "SELECT ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } }",
    "now": "SELECT ?x ?r { STREAM :s [NOW] { ?x :seen ?v } ?x :in ?r }",
    "ever": "SELECT ?x { STREAM :s [ALL] { ?x :seen ?v } STREAM :s [NOW] { ?x :seen 1 } }",
    "two": "SELECT ?x ?v ?w { STREAM :s [RANGE 4ms] { ?x :seen ?v } STREAM :t [RANGE 2ms] { ?x :seen ?w } }",
    "three": "SELECT ?x ?y ?r { STREAM :s [RANGE 4ms] { ?x :seen ?v } STREAM :t [RANGE 3ms] { ?y :seen ?v } "
    "?x :in ?r }",
    "self": "SELECT ?x ?y { STREAM :s [NOW] { ?x :seen ?v } STREAM :s [RANGE 3ms] { ?y :seen ?v } }",
    "filter": "SELECT ?x ?n { STREAM :s [RANGE 3ms] { ?x :seen ?v FILTER(?v > 0) } BIND(?v * 2 AS ?n) }",
    "count": "SELECT (COUNT(*) AS ?n) (AVG(?v) AS ?m) { STREAM :s [RANGE 4ms] { ?x :seen ?v } }",
    "groups": "SELECT ?x (SUM(?v) AS ?n) { STREAM :s [RANGE 4ms] { ?x :seen ?v } } GROUP BY ?x",
    "absent": "SELECT ?x ?r { ?x :in ?r FILTER NOT EXISTS { STREAM :s [RANGE 4ms] { ?x :seen ?v } } }",
    "optional": "SELECT ?x ?r { STREAM :s [RANGE 4ms] { ?x :seen ?v } OPTIONAL { ?x :in ?r } }",
    "star": "SELECT ?x ?v ?w { STREAM :s [RANGE 4ms] { ?x :seen ?v ; :felt ?w } }",
    "stars": "SELECT ?v (COUNT(?x) AS ?n) (MAX(?w) AS ?m) "
    "{ STREAM :s [RANGE 4ms] { ?x :seen ?v ; :felt ?w FILTER(?v + ?w + ?v + 1 > 1) } } GROUP BY ?v",
    "newest": "SELECT ?x ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v ; :felt ?w } "
    "FILTER NOT EXISTS { STREAM :s [RANGE 4ms] { ?y :seen ?v ; :felt ?u } FILTER(?u > ?w) } }",
    "all stars": "SELECT ?x ?v ?w { STREAM :s [ALL] { ?x :seen ?v ; :felt ?w } "
    "STREAM :s [RANGE 2ms] { ?x :felt ?w } }",
    "union": "SELECT ?x {{ STREAM :s [NOW] { ?x :seen 1 } } UNION { STREAM :t [RANGE 2ms] { ?x :felt 2 } }}",
    "first": "SELECT ?x (?v * 2 AS ?n) { STREAM :s [RANGE 4ms] { ?x :seen ?v } } ORDER BY DESC(?v) LIMIT 2",
    "texts": "SELECT (CONCAT('what was seen: ', STR(?v)) AS ?n) { STREAM :s [RANGE 4ms] { ?x :seen ?v } } "
    "ORDER BY ?v LIMIT 2",
    "inner": "SELECT ?v {{ SELECT ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } } ORDER BY DESC(?v) LIMIT 3 }}",
    "some": "SELECT ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } } LIMIT 2",
    "sorted": "SELECT ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } } ORDER BY ?x OFFSET 1",
    "last": "SELECT ?x ?v { STREAM :s [TRIPLES 3] { ?x :seen ?v } }",
    "meeting": "SELECT ?x ?y { STREAM :s [TRIPLES 1] { ?x :seen ?v } STREAM :s [RANGE 3ms] { ?y :seen ?v } }",
    "deep": f"SELECT ?x {{{' '.join(f'STREAM :s [RANGE {n}ms] {{ ?x :seen ?v }}' for n in range(1, 14))}}}",
    "quads": "CONSTRUCT { ?x :was ?v } { STREAM :s [RANGE 4ms] { ?x :seen ?v } }",
    "merged quads": "CONSTRUCT { ?v :of :all . GRAPH ?r { ?x :at ?r , ?v } } "
    "{ STREAM :s [RANGE 4ms] { ?x :seen ?v } OPTIONAL { ?x :in ?r } }",
    "first quads": "CONSTRUCT { :first :is ?v . ?x :has :won } "
    "{ STREAM :s [RANGE 4ms] { ?x :seen ?v } } ORDER BY DESC(?v) LIMIT 2",
    "distinct": "SELECT DISTINCT ?v { STREAM :s [RANGE 4ms] { ?x :seen ?v } }",
}
triples = st.tuples(st.sampled_from("abc"), st.sampled_from(["seen", "seen", "felt"]), st.integers(0, 2))
REPORT = [("a", "seen", 1), ("a", "felt", 2)]
reports = st.builds(
    lambda x, v, w, order, number: [
        (x, predicate, {"seen": v, "felt": w}.get(predicate, 0)) for predicate in order[:number]
    ],
    st.sampled_from("abcdefgh"),
    st.integers(0, 2),
    st.integers(0, 2),
    st.permutations(["seen", "felt", "noted"]) | st.just(["seen", "felt", "noted"]),
    st.sampled_from([2, 3]),
)
elements = st.tuples(
    st.integers(0, 3), st.one_of(st.lists(triples, min_size=1, max_size=3), reports), st.booleans()
)


@dataclass(frozen=True)
class Push:
    stream: str
    elements: list[tuple[int, list[tuple[str, str, int]], bool]]


@dataclass(frozen=True)
class Beat:
    stream: str
    step: int


@dataclass(frozen=True)
class Place:
    name: str
    there: bool


@dataclass(frozen=True)
class Beside:
    """Another query asks for a predicate, or does so no longer."""

    predicate: str
    there: bool


inputs = st.lists(
    st.one_of(
        st.builds(Push, st.sampled_from([S, S, T]), st.lists(elements, min_size=1, max_size=12)),
        st.builds(Beat, st.sampled_from([S, T]), st.integers(0, 6)),
        st.builds(Place, st.sampled_from("abc"), st.booleans()),
        st.builds(Beside, st.sampled_from(["noted", "felt"]), st.booleans()),
    ),
    min_size=1,
    max_size=12,
)


def line(at: int, quads: list[tuple[str, str, int]], *, named: bool) -> str:
    graph = f"<{E}g{at}> " if named else ""
    data = "".join(f"<{E}{x}> <{E}{p}> {integer(v)} {graph}.\n" for x, p, v in quads)
    return json.dumps({"at": at, "data": data})


def integer(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def push_steps(b: Bench, push: Push, time: int, *, named: bool) -> int:
    """Push elements, each a step of time behind the one before; the time of the last."""
    lines = []
    for step, quads, in_graph in push.elements:
        time += step
        lines.append(line(time, quads, named=named and in_graph))
    b.engine.streams.push(PushCall(push.stream, "application/x-ndjson"), "\n".join(lines).encode())
    return time


def play(b: Bench, events: list[Push | Beat | Place | Beside], *, named: bool) -> None:
    """Time goes on by the steps of elements; each stream is a little behind the other now and then."""
    time = 0
    for event in events:
        match event:
            case Push():
                time = push_steps(b, event, time, named=named)
            case Beat(stream, step):
                time += step
                b.engine.streams.heartbeat(stream, time)
            case Place(name, there):
                verb = "INSERT" if there else "DELETE"
                b.store.writer.update(f"{verb} DATA {{ <{E}{name}> <{E}in> <{E}room> }}")
            case Beside(predicate, there):
                ask_beside(b, predicate, there=there)
        same(b)


def ask_beside(b: Bench, predicate: str, *, there: bool) -> None:
    """Register a query that asks for a predicate, or drop it and let all of it go."""
    asked = b.engine.parts.catalogue.find(predicate) is not None
    if there and not asked:
        b.register(predicate, f"SELECT ?x ?v {{ STREAM :s [RANGE 4ms] {{ ?x :{predicate} ?v }} }}")
    elif asked and not there:
        b.engine.queries.drop(predicate)
        gc.collect()


def same(b: Bench) -> None:
    """Both have told the same, and stand where the other does."""
    run, twin = (told(b, name) for name in ("run", "twin"))
    assert run == twin


def told(b: Bench, name: str) -> Any:
    running = b.engine.parts.catalogue.get(name).running
    assert running is not None
    inputs, last = running.timeline.inputs, running.last.step
    figures = (
        running.last.evaluations,
        running.counts(),
        running.timeline.instant,
        running.timeline.next_due(),
    )
    result, counts = running.last.result, running.emission.counts
    windows = [operator.state_size() for operator in running.timeline.windows]
    feed = b.engine.queries.feed(name)
    events = [(each.id, each.kind, each.data) for each in feed.subscribe(0).take()]
    answer = None if (current := feed.current()) is None else json.loads(current)
    if answer is not None:
        if "quads" in answer:
            answer["quads"] = sorted(answer["quads"].splitlines())
        else:
            answer["results"]["bindings"].sort(key=str)
    return events, figures, last, result, counts, windows, len(inputs), running.last.answer_id, answer


def register(b: Bench, kind: str, **options: Any) -> None:
    for stream in (S, T):
        b.engine.streams.declare(stream)
    b.store.writer.update(f"INSERT DATA {{ <{E}b> <{E}in> <{E}room> , <{E}hall> }}")
    b.register("run", QUERIES[kind], **options)
    b.register("twin", QUERIES[kind], memory=1_000_000, **options)


def run_code(b: Bench) -> str:
    """The generated function of the query's runs, as text; empty before the first."""
    running = b.engine.parts.catalogue.get("run").running
    assert running is not None and isinstance(running.evaluator, NativeEvaluator)
    made = running.evaluator._loop
    return "" if made is None or made[2] is None else made[2].source


def ran(b: Bench) -> bool:
    """True when the query has a loop that was used."""
    return bool(run_code(b))


@pytest.mark.parametrize("output", ["istream", "dstream", "changes", "rstream"])
@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=examples(12), deadline=None)
@given(events=inputs, named=st.booleans())
def test_runs_say_what_single_instants_say(
    kind: str, output: str, events: list[Push | Beat | Place | Beside], named: bool
) -> None:
    with bench() as b:
        register(b, kind, output=output)
        play(b, events, named=named)


@settings(max_examples=examples(30), deadline=None)
@given(kind=st.sampled_from(list(QUERIES)), events=inputs, ids=st.sampled_from([1, 4, 20]))
def test_terms_that_are_forgotten_between_runs_change_nothing(
    kind: str, events: list[Push | Beat | Place | Beside], ids: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        sweep_always(patch, ids)
        with bench() as b:
            register(b, kind)
            play(b, events, named=False)
            all_held_is_known(b.engine.parts.statics.terms.dictionary)


@pytest.mark.parametrize("kind", QUERIES)
def test_long_pushes_are_worked_off_in_runs(kind: str) -> None:
    with bench() as b:
        # Only quads that are counted are written in runs.
        register(b, kind, **({"output": "changes"} if "quads" in kind else {}))
        for push in range(3):
            for stream in (S, T):
                lines = [
                    line(
                        push * 200 + at,
                        [("abc"[at % 3], "seen", at % 5), ("abc"[at % 2], "felt", at % 3)],
                        named=False,
                    )
                    for at in range(0, 150, 1 + at_step(stream))
                ]
                b.engine.streams.push(PushCall(stream, "application/x-ndjson"), "\n".join(lines).encode())
            same(b)
        assert ran(b)


def test_stars_that_read_a_window_alone_get_rows() -> None:
    taken = {"star": True, "stars": True, "newest": True, "values": False, "first": False}
    for kind, rows in taken.items():
        with bench() as b:
            register(b, kind)
            for at in range(3):
                b.engine.streams.push(
                    PushCall(S, "application/x-ndjson"), line(at, REPORT, named=False).encode()
                )
            assert ("merge(rows0" in run_code(b)) == rows, kind


def test_elements_that_are_alone_with_their_subject_are_counted_when_somebody_asks() -> None:
    with bench() as b:
        register(b, "star")
        for at, name in enumerate("abc"):
            report = [(name, "seen", 1), (name, "felt", 2)]
            b.engine.streams.push(PushCall(S, "application/x-ndjson"), line(at, report, named=False).encode())
        running = b.engine.parts.catalogue.get("run").running
        assert running is not None
        ((_, held),) = running.timeline.windows.contents
        assert isinstance(held, EncodedContent)
        assert held.alone
        keys, number = set(held.referenced_rows()), len(held)
        assert keys == held.content.keys()
        assert number == len(keys) == 6
        assert not held.alone
        b.engine.streams.push(
            PushCall(S, "application/x-ndjson"), line(9, [("c", "seen", 1)], named=False).encode()
        )
        same(b)


@pytest.mark.parametrize("order", [(True, False), (False, True), (True, False, True)])
@pytest.mark.parametrize("kind", ["star", "stars", "newest", "all stars"])
def test_queries_beside_a_star_come_and_go(kind: str, order: tuple[bool, ...]) -> None:
    """They ask for a predicate in front of its own, so that its own are at other places."""
    with bench() as b:
        if not order[0]:
            ask_beside(b, "noted", there=True)
        register(b, kind)
        for task, there in enumerate((*order, order[-1])):
            for at in range(20):
                report = [(f"x{at % 9}", "noted", 3), (f"x{at % 9}", "seen", 1), (f"x{at % 9}", "felt", 2)]
                given = line(task * 20 + at, report, named=False)
                b.engine.streams.push(PushCall(S, "application/x-ndjson"), given.encode())
                same(b)
            ask_beside(b, "noted", there=there)
        assert ran(b)


def test_joins_loop_over_the_triples_of_windows() -> None:
    taken = {"now": True, "whole": True, "two": True, "three": True, "optional": False, "deep": False}
    for kind, in_line in taken.items():
        with bench() as b:
            register(b, kind)
            for at in range(3):
                b.engine.streams.push(
                    PushCall(S, "application/x-ndjson"), line(at, [("b", "seen", 1)], named=False).encode()
                )
                b.engine.streams.heartbeat(T, at)
            same(b)
            assert (" = (quad[0], quad[2],)" in run_code(b)) == in_line, kind


def at_step(stream: str) -> int:
    return 0 if stream == S else 2


@pytest.mark.parametrize("limits", [QueryLimits(kept=30), QueryLimits(bytes=500), QueryLimits(rows=9)])
def test_a_query_fails_at_the_same_instant_with_the_same_words(limits: QueryLimits) -> None:
    with bench(limits=limits) as b:
        text = "SELECT ?x ?y { STREAM :s [RANGE 9ms] { ?x :seen ?v } STREAM :s [RANGE 5ms] { ?y :seen ?v } }"
        b.register("run", text)
        b.register("twin", text, memory=1_000_000)
        for at in range(40):
            b.push(at, "n0")
        lines = [line(40 + at, [(f"n{at}", "seen", at // 8)], named=False) for at in range(60)]
        b.engine.streams.push(PushCall(S, "application/x-ndjson"), "\n".join(lines).encode())
        run, twin = (b.engine.parts.catalogue.get(name).running for name in ("run", "twin"))
        assert run is not None and twin is not None
        assert run.state == twin.state == "failed"
        assert run.error == twin.error
        assert run.last.evaluations == twin.last.evaluations > 40
        told = [b.engine.queries.feed(name).subscribe(0).take() for name in ("run", "twin")]
        events = [[(each.id, each.kind, each.data) for each in feed] for feed in told]
        assert events[0] == events[1]
