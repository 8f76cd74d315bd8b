"""ONCE PER against its definition, over the events of the query without it; EMIT against the option."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.app.describing.queries import describe
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError, QueryTextError
from tests.examples import examples

from .engines import Bench, E, S, bench, reference_evaluator
from .test_engine_law import EVENTS, QUERIES, Beat, Place, Push, said

Said = list[tuple[str, int, tuple[tuple[str, str], ...]]]
KEYS = {"?x": (0,), "?x ?r": (0, 1)}


def expected(plain: Said, places: tuple[int, ...], every: int | None, deletes: bool) -> Said:
    """What is told of the changes of an answer, by semantics."""
    told: dict[tuple[str, ...], int] = {}
    standing: Counter[tuple[str, str]] = Counter()
    found: Said = []
    for kind, at, rows in plain:
        passed = []
        for row in rows:
            if kind == "delete":
                if standing[row] > 0:
                    standing[row] -= 1
                    passed.append(row)
                continue
            key = tuple(row[place] for place in places)
            if key in told and (every is None or told[key] > at - every):
                continue
            told[key] = at
            standing[row] += 1
            passed.append(row)
        if passed and (deletes or kind == "insert"):
            found.append((kind, at, tuple(passed)))
    return found


def take(b: Bench, event: Push | Beat | Place, time: int) -> None:
    match event:
        case Push(_, names):
            b.push(time, *names)
        case Beat():
            b.engine.streams.heartbeat(S, time)
        case Place(name, room, there):
            b.store.writer.update(
                f"{'INSERT' if there else 'DELETE'} DATA {{ <{E}{name}> <{E}in> <{E}{room}> }}"
            )


@pytest.mark.parametrize("kind", ["now", "range", "self"])
@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(15), deadline=None)
@given(events=EVENTS, every=st.one_of(st.none(), st.integers(1, 12)))
def test_what_is_told_follows_from_the_changes(
    kind: str, keys: str, events: list[Push | Beat | Place], every: int | None
) -> None:
    ending = f" ONCE PER {keys}" + ("" if every is None else f" EVERY {every}ms")
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        b.register("plain", QUERIES[kind], output="changes")
        b.register("changes", QUERIES[kind] + ending, output="changes")
        b.register("inserts", QUERIES[kind] + ending)
        recomputed.register("changes", QUERIES[kind] + ending, output="changes")
        time = 0
        for event in events:
            time += 0 if isinstance(event, Place) else getattr(event, "at", 0)
            take(b, event, time)
            take(recomputed, event, time)
        plain = said(b, "plain")
        changes = expected(plain, KEYS[keys], every, deletes=True)
        assert said(b, "changes") == changes
        assert said(b, "inserts") == expected(plain, KEYS[keys], every, deletes=False)
        assert said(recomputed, "changes") == changes


def test_a_key_that_is_told_by_one_row_is_told_by_no_other_of_that_instant() -> None:
    """However the instant is cut: both rows in one push, or in two."""
    text = "SELECT ?x ?v { STREAM :s [RANGE 5ms] { ?x :is ?v } } ONCE PER ?x"
    lines = [f'<{E}a> <{E}is> "{value}" .\n' for value in "21"]
    with bench() as one, bench() as two:
        for b, bodies in ((one, ["".join(lines)]), (two, lines[::-1])):
            b.register("q", text)
            for body in bodies:
                b.engine.streams.push(PushCall(S, "application/n-triples", at=5), body.encode())
            events = b.engine.queries.feed("q").subscribe(0).take()
            assert ['"value":"1"' in event.data for event in events] == [True]


def test_a_constructed_graph_has_what_rows_that_were_told_make() -> None:
    text = "CONSTRUCT { ?x :told ?v } { STREAM :s [RANGE 5ms] { ?x :is ?v } } ONCE PER ?x"
    with bench() as b:
        b.register("q", text, output="changes")
        for at, value in ((1, "1"), (2, "2"), (9, "3")):
            body = f'<{E}a> <{E}is> "{value}" .'.encode()
            b.engine.streams.push(PushCall(S, "application/n-triples", at=at), body)
        told = [(event.kind, '"1' in event.data) for event in b.engine.queries.feed("q").subscribe(0).take()]
    assert told == [("insert", True), ("delete", True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT ?x { STREAM :s [NOW] { ?x ?p ?y } } ONCE PER ?y", "?y is not in SELECT"),
        ("ASK { STREAM :s [NOW] { ?x ?p ?y } } ONCE PER ?y", "needs SELECT or CONSTRUCT"),
        ("SELECT ?x { STREAM :s [NOW] { ?x ?p ?y } } ONCE PER ?x ONCE PER ?x", "twice"),
        ("SELECT ?x { STREAM :s [NOW] { ?x ?p ?y } } EMIT ON CHANGE EMIT EVERY 5s", "twice"),
        ("SELECT ?x { STREAM :s [NOW] { ?x ?p ?y } } ONCE PER ?x EVERY 0s", "longer than 0"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(text: str, message: str) -> None:
    with bench() as b, pytest.raises(QueryTextError, match=message.replace("?", r"\?")):
        b.register("q", text)


@pytest.mark.parametrize("output", ["rstream", "dstream"])
def test_once_per_is_of_rows_that_come(output: str) -> None:
    with bench() as b, pytest.raises(InputError, match="rows that come"):
        b.register("q", QUERIES["now"] + " ONCE PER ?x", output=output)


@pytest.mark.parametrize(
    ("emit", "report"),
    [
        ("EMIT ON CLOSE", "on-window-close"),
        ("EMIT ON CHANGE", "on-content-change"),
        ("EMIT EVERY 2ms", {"periodic": "2ms"}),
    ],
)
def test_emit_is_the_report_of_the_registration(emit: str, report: object) -> None:
    with bench() as b:
        b.register("text", QUERIES["grid"] + " " + emit, output="rstream")
        b.register("option", QUERIES["grid"], report=report, output="rstream")
        b.register("both", f"{QUERIES['grid']} ONCE PER ?x {emit}", report=report)
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
        for at in (1, 4, 30):
            b.push(at, "a")
        assert said(b, "text") == said(b, "option") != []
        assert len(said(b, "both")) == 1
        other = "on-content-change" if report == "on-window-close" else "on-window-close"
        with pytest.raises(InputError, match="in the text and"):
            b.register("differs", QUERIES["grid"] + " " + emit, report=other)


def test_keys_that_are_remembered_for_ever_are_limited() -> None:
    text = "SELECT ?x { STREAM :s [NOW] { ?x :seen ?v } } ONCE PER ?x"
    with bench() as b:
        b.register("q", text, max_rows=50)
        for at in range(60):
            b.push(at, f"x{at}")
        assert describe(b.engine, "q")["state"] == "failed"
        assert "ONCE PER remembers 51 keys" in describe(b.engine, "q")["error"]
