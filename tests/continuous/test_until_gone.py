"""ONCE PER … UNTIL GONE against its definition, which walks over every millisecond of the answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.query import Dialect, OncePer
from quadrill.continuous.language.parser import parse
from quadrill.continuous.language.write import write
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError, QueryTextError
from tests.examples import examples

from .engines import Bench, E, S, bench, reference_evaluator
from .test_engine_law import EVENTS, QUERIES, Beat, Oracle, Place, Push, said
from .test_once_per import take

KEYS = {"?x": (0,), "?x ?r": (0, 1)}
TEXT = "SELECT ?x ?r { STREAM :s [RANGE 5ms] { ?x :is ?r } }"


class Excursions(Oracle):
    """What ONCE PER … UNTIL GONE says of an answer, by definition."""

    def __init__(self, kind: str, places: tuple[int, ...], every: int | None, resolved: bool) -> None:
        super().__init__(kind)
        self.places_of_key, self.every, self.resolved = places, every, resolved
        self.told: dict[tuple[str, ...], tuple[Any, int]] = {}

    def key(self, row: tuple[str, str]) -> tuple[str, ...]:
        return tuple(row[place] for place in self.places_of_key)

    def say(self, t: int) -> None:
        rows = sorted(self.gamma(t))
        keys = {self.key(row) for row in rows}
        gone = sorted(row for key, (row, _) in self.told.items() if key not in keys)
        if gone and self.resolved:
            self.said.append(("resolved", t, tuple(gone)))
        self.told = {key: found for key, found in self.told.items() if key in keys}
        emitted = []
        for row in rows:
            key = self.key(row)
            again = self.every is not None and key in self.told and self.told[key][1] <= t - self.every
            if key not in self.told or again:
                self.told[key] = row, t
                emitted.append(row)
        if emitted:
            self.said.append(("insert", t, tuple(emitted)))


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(12), deadline=None)
@given(events=EVENTS, every=st.one_of(st.none(), st.integers(1, 12)), resolved=st.booleans())
def test_what_is_emitted_is_the_definition(
    kind: str, keys: str, events: list[Push | Beat | Place], every: int | None, resolved: bool
) -> None:
    ending = f" ONCE PER {keys} UNTIL GONE" + (" RESOLVED" if resolved else "")
    ending += "" if every is None else f" EVERY {every}ms"
    oracle = Excursions(kind, KEYS[keys], every, resolved)
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        # A query without the clause and one with an order share the windows.
        b.register("plain", QUERIES[kind])
        b.register("gone", QUERIES[kind] + ending)
        b.register("changes", QUERIES[kind] + ending, output="changes")
        b.register("ordered", f"{QUERIES[kind]} ORDER BY ?x ?r{ending}")
        recomputed.register("gone", QUERIES[kind] + ending)
        time = 0
        for event in events:
            time += 0 if isinstance(event, Place) else event.at
            take(b, event, time)
            take(recomputed, event, time)
            match event:
                case Push(_, names):
                    oracle.push(Push(time, names))
                case Beat():
                    oracle.beat(time)
                case Place():
                    oracle.place(event)
        for name in ("gone", "changes", "ordered"):
            assert said(b, name) == oracle.said, name
        assert said(recomputed, "gone") == oracle.said


def push(b: Bench, at: int, *values: str, name: str = "a") -> None:
    body = "".join(f'<{E}{name}> <{E}is> "{value}" .\n' for value in values)
    b.engine.streams.push(PushCall(S, "application/n-triples", at=at), body.encode())


def test_a_row_that_changes_within_its_key_emits_nothing() -> None:
    with bench() as b:
        b.register("q", TEXT + " ONCE PER ?x UNTIL GONE RESOLVED")
        for at in (1, 3, 5):
            push(b, at, str(at))
        b.engine.streams.heartbeat(S, 20)
        push(b, 30, "9")
        assert said(b, "q") == [
            ("insert", 1, (("a", "1"),)),
            ("resolved", 11, (("a", "1"),)),
            ("insert", 30, (("a", "9"),)),
        ]


def test_each_element_of_now_is_an_excursion() -> None:
    with bench() as b:
        b.register("q", TEXT.replace("[RANGE 5ms]", "[NOW]") + " ONCE PER ?x UNTIL GONE")
        for at in (1, 3, 5):
            push(b, at, "7")
        assert [at for _, at, _ in said(b, "q")] == [1, 3, 5]


def test_the_first_row_of_the_answer_is_emitted_again_between_reports() -> None:
    text = "SELECT ?x ?r { STREAM :s [RANGE 10ms SLIDE 10ms] { ?x :is ?r } } ORDER BY DESC(?r) "
    with bench() as b:
        b.register("q", text + "ONCE PER ?x UNTIL GONE RESOLVED EVERY 4ms EMIT ON CLOSE")
        push(b, 1, "1")
        push(b, 11, "1", "2")
        push(b, 31, "5")
        assert said(b, "q") == [
            ("insert", 10, (("a", "1"),)),
            ("insert", 14, (("a", "1"),)),
            ("insert", 18, (("a", "1"),)),
            ("insert", 22, (("a", "2"),)),
            ("insert", 26, (("a", "2"),)),
            ("resolved", 30, (("a", "2"),)),
        ]


def test_a_silent_month_costs_no_evaluation_for_each_close() -> None:
    text = "SELECT ?x ?r { STREAM :s [RANGE 1s SLIDE 1s] { ?x :is ?r } } ONCE PER ?x UNTIL GONE EVERY 1s"
    with bench() as b:
        b.register("q", text)
        push(b, 1, "1")
        b.engine.streams.heartbeat(S, 80_000_000)
        assert [at for _, at, _ in said(b, "q")] == [1000]


def test_a_query_without_windows_repeats_at_its_next_evaluation() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x ?r { ?x :in ?r } ONCE PER ?x UNTIL GONE RESOLVED", output="istream")
        for action in ("INSERT", "DELETE", "INSERT"):
            b.store.writer.update(f"{action} DATA {{ <{E}a> <{E}in> <{E}r> }}")
        assert [kind for kind, *_ in said(b, "q")] == ["insert", "resolved", "insert"]


def test_a_constructed_stream_gets_what_is_emitted() -> None:
    text = (
        "CONSTRUCT { ?x :alarm ?r } { STREAM :s [RANGE 5ms] { ?x :is ?r } } ONCE PER ?x UNTIL GONE RESOLVED"
    )
    with bench() as b:
        b.register("made", text, result_iri=f"{E}made")
        b.register("reads", "SELECT ?x ?r { STREAM :made [NOW] { ?x :alarm ?r } }")
        for at in (1, 3, 20):
            push(b, at, str(at))
        events = b.engine.queries.feed("made").subscribe(0).take()
        assert [event.kind for event in events] == ["insert", "resolved", "insert"]
        assert said(b, "reads") == [("insert", 1, (("a", "1"),)), ("insert", 20, (("a", "20"),))]


def test_what_is_due_while_a_query_is_paused_is_emitted_when_it_goes_on() -> None:
    with bench() as b:
        b.register("q", TEXT.replace("5ms", "50ms") + " ONCE PER ?x UNTIL GONE EVERY 4ms")
        push(b, 1, "1")
        b.engine.queries.patch("q", {"state": "paused"})
        b.engine.streams.heartbeat(S, 20)
        b.engine.queries.patch("q", {"state": "running"})
        push(b, 30, "0")
        b.engine.streams.heartbeat(S, 35)
        told = [(at, row[1]) for _, at, (row,) in said(b, "q")]
        assert told == [(1, "1"), (20, "1"), (24, "1"), (28, "1"), (32, "0")]


WRITTEN = {
    "cqels": "SELECT ?x WHERE { STREAM :s [NOW] { ?x :p ?y } }",
    "rspql": "REGISTER ISTREAM :q AS SELECT ?x FROM NAMED WINDOW :w ON :s [RANGE PT5S STEP PT5S] "
    "WHERE { WINDOW :w { ?x :p ?y } }",
    "csparql": "REGISTER QUERY q AS SELECT ?x FROM STREAM :s [RANGE 5s STEP 5s] WHERE { ?x :p ?y }",
}


@pytest.mark.parametrize("dialect", ["cqels", "rspql", "csparql"])
def test_the_clause_is_written_as_it_is_read(dialect: Dialect) -> None:
    every = "PT10M" if dialect == "rspql" else "10m"
    text = f"PREFIX : <{E}> {WRITTEN[dialect]} once per ?x until gone resolved every {every}"
    query = parse(text, dialect=dialect)
    assert query.emission.once_per == OncePer((Var("x"),), 600_000, until_gone=True, resolved=True)
    assert f"ONCE PER ?x UNTIL GONE RESOLVED EVERY {every}" in write(query)
    assert parse(write(query), dialect=dialect).emission == query.emission


@pytest.mark.parametrize("output", ["rstream", "dstream"])
def test_the_clause_is_of_rows_that_come(output: str) -> None:
    with bench() as b, pytest.raises(InputError, match="rows that come"):
        b.register("q", QUERIES["now"] + " ONCE PER ?x UNTIL GONE", output=output)


@pytest.mark.parametrize("ending", ["UNTIL", "UNTIL GONE UNTIL GONE", "GONE", "EVERY 5s UNTIL GONE"])
def test_a_clause_that_is_not_whole_is_refused(ending: str) -> None:
    with bench() as b, pytest.raises(QueryTextError):
        b.register("q", f"{QUERIES['now']} ONCE PER ?x {ending}")


def test_queries_with_and_without_once_per_share_no_events() -> None:
    """Many pushes run in a generated loop, which a query with ONCE PER does not enter."""
    with bench() as b:
        b.register("plain", TEXT)
        b.register("once", TEXT + " ONCE PER ?x")
        b.register("gone", TEXT + " ONCE PER ?x UNTIL GONE")
        for at in range(0, 400, 3):
            push(b, at, str(at))
        assert [len(said(b, name)) for name in ("plain", "once", "gone")] == [134, 1, 1]
