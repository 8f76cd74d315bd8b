"""AT and BOUNDS against their definitions: each millisecond in turn, Oxigraph over each element alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Quad, RdfFormat, Store, parse

from quadrill.continuous.algebra.query import Dialect
from quadrill.continuous.language.parser import parse as parse_query
from quadrill.continuous.language.write import write
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError, QueryTextError, UnsupportedError
from tests.examples import examples

from .engines import Bench, E, S, bench, reference_evaluator

XSD = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
P = f"PREFIX : <{E}> {XSD}"
Row = tuple[tuple[str, str], ...]
Told = list[tuple[str, int, list[Row]]]


class Push(NamedTuple):
    """An element some milliseconds later, with triples as texts."""

    after: int
    triples: tuple[str, ...]


class Beat(NamedTuple):
    """A heartbeat some milliseconds later."""

    after: int


FACTS = [f":{x} :{p} {v}" for x in "ab" for p, v in (("p", 1), ("p", 2), ("q", 1), ("p", ":b"))]
INPUTS = st.lists(
    st.one_of(
        st.builds(
            Push,
            st.integers(0, 5),
            st.lists(st.sampled_from(FACTS), unique=True, min_size=1, max_size=3).map(tuple),
        ),
        st.builds(Beat, st.integers(0, 9)),
    ),
    min_size=1,
    max_size=10,
)
PATTERNS = {
    "triple": "?x :p ?v",
    "any": "?x ?y ?v",
    "join": "?x :p ?v ; :q ?w",
    "optional": "?x :p ?v OPTIONAL { ?x :q ?w }",
    "filter": '?x :p ?v FILTER(?v > 1 || ?t > "1970-01-01T00:00:00.006Z"^^xsd:dateTime)',
    "absent": "?x :p ?v FILTER NOT EXISTS { ?x :q ?w }",
    "minus": "?x :p ?v MINUS { ?x :q ?w }",
    "union": "{ ?x :p ?v } UNION { ?x :q ?v }",
    "counts": "{ SELECT ?x (COUNT(?v) AS ?n) WHERE { ?x :p ?v } GROUP BY ?x }",
    "path": "?x :p+ ?v",
    "stars": "?x :p* ?v",
    "bind": "?x :p ?v BIND(SECONDS(?t) AS ?n)",
    "values": "VALUES ?x { :a :c } ?x :p ?v",
    "empty": "",
}
Content = Callable[[Sequence[tuple[int, int, Any]], int, int], list[int]]
"""The places of the elements in a window, from (time, seq, triples), the instant and the first instant."""


def recent(first: int, last: int) -> Content:
    return lambda elements, t, _: [n for n, (at, *_) in enumerate(elements) if t - first <= at <= t - last]


def grid(width: int, slide: int) -> Content:
    def content(elements: Sequence[tuple[int, int, Any]], t: int, origin: int) -> list[int]:
        closes = [c for c in range(-60, t + 1) if (c - width) % slide == 0 and origin < c]
        end = closes[-1] if closes else 0
        return [n for n, (at, *_) in enumerate(elements) if closes and end - width <= at < end]

    return content


def latest(elements: Sequence[tuple[int, int, Any]], t: int, _: int) -> list[int]:
    """`LATEST 1 BY ?x WITHIN 8ms`, where ?x is the subject of a solution of `?x :p ?v`."""
    newest: dict[str, int] = {}
    for n, (at, _seq, triples) in enumerate(elements):
        if t - 8 <= at <= t:
            newest |= {text.split()[0]: n for text in triples if " :p " in text}
    return sorted(set(newest.values()))


def session(elements: Sequence[tuple[int, int, Any]], t: int, _: int) -> list[int]:
    held: list[int] = []
    for n, (at, *_) in enumerate(elements):
        if held and at >= elements[held[-1]][0] + 4:
            held = []
        held.append(n)
    return held if held and t < elements[held[-1]][0] + 4 else []


WINDOWS: dict[str, tuple[str, Content]] = {
    "now": ("NOW", recent(0, 0)),
    "range": ("RANGE 7ms", recent(7, 0)),
    "past": ("RANGE 7ms TO 2ms", recent(7, 2)),
    "grid": ("RANGE 6ms SLIDE 4ms", grid(6, 4)),
    "latest": ("LATEST 1 BY ?x WITHIN 8ms", latest),
    "session": ("SESSION 4ms", session),
    "all": ("ALL", recent(10**9, 0)),
}


def moment(at: int) -> str:
    millis = f"{at / 1000:.3f}".rstrip("0").rstrip(".")
    return f"1970-01-01T00:00:{'0' * (2 - len(millis.partition('.')[0]))}{millis}Z"


def solutions(pattern: str, triples: Sequence[str], before: str = "") -> list[Row]:
    """The solutions of a pattern over some triples, as (name, text)."""
    store = Store()
    text = P.replace("PREFIX", "@prefix").replace("> ", "> . ") + " . ".join((*triples, ""))
    store.extend(Quad(*quad.triple, DefaultGraph()) for quad in parse(text, RdfFormat.TURTLE))
    found = store.query(f"{P} SELECT * {{ {before} {pattern} }}")
    names = [variable.value for variable in found.variables]  # type: ignore[union-attr]
    return [
        tuple(sorted((name, row[name].value) for name in names if row[name] is not None))  # type: ignore[union-attr]
        for row in found
    ]


class Walk:
    """What a query with the output ``changes`` says, at each instant at which its answer is another."""

    def __init__(self, answer: Callable[[list[tuple[int, int, Any]], int, int], list[Row]]) -> None:
        self.answer, self.told, self.held = answer, Told(), Counter[Row]()
        self.elements: list[tuple[int, int, Any]] = []
        self.instant: int | None = None
        self.origin = 0

    def take(self, event: Push | Beat, at: int) -> None:
        if self.instant is None:
            self.origin = self.instant = at
        for t in range(self.instant + 1, at + isinstance(event, Beat)):
            self.say(t)
        if isinstance(event, Push):
            self.elements.append((at, len(self.elements), event.triples))
        self.instant = at
        self.say(at)

    def say(self, t: int) -> None:
        now = Counter(self.answer(self.elements, t, self.origin))
        for kind, rows in (("delete", self.held - now), ("insert", now - self.held)):
            if rows:
                self.told.append((kind, t, sorted(rows.elements())))
        self.held = now


def said(b: Bench, name: str) -> Told:
    found = []
    for event in b.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        rows = [
            tuple(sorted((name, cell["value"]) for name, cell in row.items()))
            for row in document["results"]["bindings"]
        ]
        found.append((event.kind, document["at"], sorted(rows)))
    return found


def push(b: Bench, event: Push | Beat, at: int) -> None:
    if isinstance(event, Beat):
        b.engine.streams.heartbeat(S, at)
        return
    prologue = f"@prefix : <{E}> . "
    body = prologue + " . ".join((*event.triples, ""))
    b.engine.streams.push(PushCall(S, "text/turtle", at=at), body.encode())


def drive(events: Sequence[Push | Beat], *takers: Callable[[Push | Beat, int], None]) -> None:
    at = 0
    for event in events:
        at += event.after
        for take in takers:
            take(event, at)


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=examples(20), deadline=None)
@given(name=st.sampled_from(sorted(PATTERNS)), events=INPUTS)
def test_a_solution_has_the_time_of_its_element(kind: str, name: str, events: list[Push | Beat]) -> None:
    text, content = WINDOWS[kind]
    pattern = PATTERNS[name]
    if kind == "latest" and name != "optional":
        pattern = "?x :p ?v"  # The keys of an element are those of the pattern's solutions.

    def answer(elements: list[tuple[int, int, Any]], t: int, origin: int) -> list[Row]:
        return [
            row
            for n in content(elements, t, origin)
            for row in solutions(
                pattern, elements[n][2], f'VALUES ?t {{ "{moment(elements[n][0])}"^^xsd:dateTime }}'
            )
        ]

    walk = Walk(answer)
    query = f"{XSD}SELECT * {{ STREAM :s [{text}] {{ {pattern} }} AT ?t }}"
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        for one in (b, recomputed):
            one.register("q", query, output="changes")
        b.register("whole", query.replace(" AT ?t", "").replace("?t", "?x"), output="changes")
        drive(events, walk.take, lambda e, at: push(b, e, at), lambda e, at: push(recomputed, e, at))
        assert said(b, "q") == walk.told
        assert said(recomputed, "q") == walk.told


def ends_of(
    kind: str, elements: Sequence[tuple[int, int, Any]], t: int, origin: int
) -> tuple[int, int] | None:
    if kind == "range":
        return t - 7, t
    if kind == "past":
        return t - 7, t - 2
    if kind == "grid":
        closes = [c for c in range(-60, t + 1) if (c - 6) % 4 == 0 and origin < c]
        return (closes[-1] - 6, closes[-1]) if closes else None
    held = session(elements, t, origin)
    return (elements[held[0]][0], elements[held[-1]][0] + 4) if held else None


@pytest.mark.parametrize("kind", ["range", "past", "grid", "session"])
@settings(max_examples=examples(25), deadline=None)
@given(name=st.sampled_from(["triple", "counts", "optional"]), events=INPUTS)
def test_the_bounds_are_the_ends_of_the_window(kind: str, name: str, events: list[Push | Beat]) -> None:
    """Evaluations are where an element enters or leaves; what the ends do in between is not told."""
    text, content = WINDOWS[kind]
    last: list[Any] = [None, []]

    def answer(elements: list[tuple[int, int, Any]], t: int, origin: int) -> list[Row]:
        held, ends = content(elements, t, origin), ends_of(kind, elements, t, origin)
        state = held if kind != "grid" else (held, ends)
        if state == last[0]:
            return list(last[1])
        triples = dict.fromkeys(text for n in held for text in elements[n][2])
        rows = [] if ends is None else [
            tuple(sorted((*row, ("o", moment(ends[0])), ("c", moment(ends[1])))))
            for row in solutions(PATTERNS[name], [*triples])
        ]  # fmt: skip
        last[:] = state, rows
        return rows

    walk = Walk(answer)
    block = f"STREAM :s [{text} BOUNDS ?o ?c] {{ {PATTERNS[name]} }}"
    query = f"SELECT * {{ {block} }}"
    # A time before 1970 has a sign, which `moment` does not write.
    events = [Beat(20), *events]
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        for one in (b, recomputed):
            one.register("q", query, output="changes")
        # Queries that share the window: without bounds, with other names, with AT.
        b.register("plain", query.replace(" BOUNDS ?o ?c", ""), output="changes")
        b.register("renamed", query.replace("?o ?c", "?begin ?finish"), output="changes")
        b.register("both", f"SELECT * {{ {block} AT ?t }}", output="changes")
        drive(events, walk.take, lambda e, at: push(b, e, at), lambda e, at: push(recomputed, e, at))
        assert said(b, "q") == walk.told
        assert said(recomputed, "q") == walk.told
        named = {"o": "begin", "c": "finish"}
        renamed = [
            (kind, at, sorted(tuple(sorted((named.get(k, k), v) for k, v in row)) for row in rows))
            for kind, at, rows in walk.told
        ]
        assert said(b, "renamed") == renamed


def test_a_report_at_a_close_has_the_bounds_of_its_window() -> None:
    text = (
        "REGISTER RSTREAM <http://example.org/q> AS PREFIX : <http://example.org/> "
        "SELECT ?o ?c (COUNT(?v) AS ?n) "
        "FROM NAMED WINDOW :w ON :s [RANGE PT0.01S STEP PT0.005S BOUNDS ?o ?c] "
        "WHERE { WINDOW :w { ?x :p ?v } } GROUP BY ?o ?c"
    )
    with bench() as b:
        b.register("q", text)
        drive([Push(3, (":a :p 1",)), Push(4, (":b :p 1",)), Beat(10)], lambda e, at: push(b, e, at))
        assert said(b, "q") == [
            ("answer", 5, [(("c", moment(5)), ("n", "1"), ("o", "1969-12-31T23:59:59.995Z"))]),
            ("answer", 10, [(("c", moment(10)), ("n", "2"), ("o", moment(0)))]),
            ("answer", 15, [(("c", moment(15)), ("n", "1"), ("o", moment(5)))]),
        ]


def test_each_session_that_closes_has_its_bounds() -> None:
    text = "SELECT * { STREAM :s [SESSION 4ms PARTITION BY ?x BOUNDS ?o ?c] { ?x :p ?v } } EMIT ON CLOSE"
    with bench() as b, bench(make_evaluator=reference_evaluator) as recomputed:
        events = [Push(1, (":a :p 1",)), Push(2, (":a :p 2", ":b :p 1")), Beat(20)]
        for one in (b, recomputed):
            one.register("q", text, output="rstream")
            drive(events, lambda e, at, one=one: push(one, e, at))  # type: ignore[misc]
        rows = [
            [("c", moment(7)), ("o", moment(o)), ("v", v), ("x", f"{E}{x}")]
            for o, x, v in ((1, "a", "1"), (1, "a", "2"), (3, "b", "1"))
        ]
        # Both elements of the session of :a are in it, so its content has the triple of :b, too.
        found = said(b, "q")
        assert said(recomputed, "q") == found
        assert [at for _, at, _ in found] == [7, 7]
        assert tuple(rows[0]) in found[0][2] and tuple(rows[2]) in found[1][2]


def test_the_bounds_are_in_the_order_of_the_text_and_join() -> None:
    text = (
        "SELECT * { STREAM :s [RANGE 6ms SLIDE 6ms BOUNDS ?open ?close] { ?x :p ?v } AT ?t "
        "STREAM :s [RANGE 3ms SLIDE 3ms BOUNDS ?begin ?close] { ?x :q ?w } }"
    )
    assert [each.name for each in parse_query(P + text).columns] == [
        "open", "close", "x", "v", "t", "begin", "w",
    ]  # fmt: skip
    with bench() as b:
        b.register("q", text)
        drive([Push(2, (":a :p 1",)), Push(2, (":a :q 2",)), Beat(9)], lambda e, at: push(b, e, at))
        ((kind, at, (row,)),) = said(b, "q")
        assert (kind, at) == ("insert", 6) and dict(row)["close"] == moment(6)


def test_a_block_over_any_window_has_the_time_and_the_bounds_of_each() -> None:
    text = (
        "REGISTER RSTREAM <http://example.org/q> AS PREFIX : <http://example.org/> SELECT * "
        "FROM NAMED WINDOW :w ON :s [RANGE PT0.01S STEP PT0.01S BOUNDS ?o ?c] "
        "FROM NAMED WINDOW :u ON :s [RANGE PT0.01S STEP PT0.01S] WHERE { WINDOW ?w { ?x :p ?v } AT ?t }"
    )
    for options in ({}, {"make_evaluator": reference_evaluator}):
        with bench(**options) as b:
            b.register("q", text)
            drive([Push(3, (":a :p 1",)), Beat(9)], lambda e, at: push(b, e, at))
            rows = [
                [("t", moment(3)), ("v", "1"), ("w", f"{E}u"), ("x", f"{E}a")],
                [("c", moment(10)), ("o", moment(0)), ("t", moment(3)), ("v", "1"), ("w", f"{E}w")],
            ]
            rows[1].append(("x", f"{E}a"))
            assert said(b, "q") == [("answer", 10, sorted(map(tuple, rows)))]


def test_a_block_over_any_window_reads_each_window_once_next_to_at() -> None:
    text = (
        "REGISTER RSTREAM <http://example.org/q> AS PREFIX : <http://example.org/> SELECT ?w ?v ?t "
        "FROM NAMED WINDOW :w ON :s [RANGE PT0.01S STEP PT0.01S] "
        "WHERE { WINDOW ?w { ?x :p ?v } WINDOW :w { ?y :q ?v } AT ?t }"
    )
    for options in ({}, {"make_evaluator": reference_evaluator}):
        with bench(**options) as b:
            b.register("q", text)
            push(b, Push(0, (":a :p 1", ":b :q 1")), 3)
            push(b, Beat(0), 12)
            assert said(b, "q") == [("answer", 10, [(("t", moment(3)), ("v", "1"), ("w", f"{E}w"))])]


def test_a_window_is_read_whole_and_by_element_at_once() -> None:
    text = (
        "REGISTER RSTREAM <http://example.org/q> AS PREFIX : <http://example.org/> SELECT ?v ?t ?n "
        "FROM NAMED WINDOW :w ON :s [RANGE PT0.01S STEP PT0.01S] "
        "WHERE { WINDOW :w { ?x :p ?v } AT ?t { SELECT (COUNT(*) AS ?n) WHERE { WINDOW :w { ?a ?b ?c } } } }"
    )
    with bench() as b:
        b.register("q", text)
        drive([Push(3, (":a :p 1",)), Push(2, (":a :p 1",)), Beat(9)], lambda e, at: push(b, e, at))
        rows = [(("n", "1"), ("t", moment(at)), ("v", "1")) for at in (3, 5)]
        assert said(b, "q") == [("answer", 10, rows)]


def test_many_event_times_of_one_push_give_what_many_pushes_give() -> None:
    text = "SELECT * { STREAM :s [RANGE 9ms BOUNDS ?o ?c] { ?x :p ?v } AT ?t }"
    events = [Push(1 + n % 4, (f":a :p {n}",)) for n in range(40)]
    lines, at = [], 0
    for event in events:
        at += event.after
        number = f'"{event.triples[0].split()[2]}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        lines.append(json.dumps({"at": at, "data": f"<{E}a> <{E}p> {number} ."}))
    with bench() as one, bench() as two:
        for b in (one, two):
            b.register("q", text, output="changes")
            b.register("grid", text.replace("9ms", "9ms SLIDE 3ms"), output="changes")
        drive(events, lambda e, at: push(one, e, at))
        two.engine.streams.push(PushCall(S, "application/x-ndjson"), "\n".join(lines).encode())
        for name in ("q", "grid"):
            assert said(one, name) == said(two, name) != []


WRITTEN: dict[Dialect, list[str]] = {
    "cqels": [
        "STREAM :s [RANGE 1m SLIDE 1m BOUNDS ?open ?close] { ?x :p ?v } AT ?t",
        "STREAM :s [SESSION 1m] { ?x :p ?v } AT ?t STREAM :s [SESSION 1m] { ?x :q ?w }",
        "STREAM :s [RANGE 5s BOUNDS ?a ?b] { ?x :p ?v } STREAM :s [RANGE 5s BOUNDS ?c ?d] { ?x :q ?w }",
        "STREAM :s [RANGE 9s TO 5s LATENESS 1s BOUNDS ?a ?b] { OPTIONAL { ?x :p ?v } } AT ?t",
    ],
    "rspql": ["WINDOW :w { ?x :p ?v } AT ?t WINDOW :w { ?x :q ?w }", "WINDOW ?n { ?x :p ?v } AT ?t"],
}


@pytest.mark.parametrize(("dialect", "body"), [(d, body) for d, found in WRITTEN.items() for body in found])
def test_a_text_is_written_as_it_is_read(dialect: Dialect, body: str) -> None:
    text = f"{P}SELECT * WHERE {{ {body} }}"
    if dialect == "rspql":
        clause = "FROM NAMED WINDOW :w ON :s [RANGE PT1M STEP PT1M BOUNDS ?open ?close]"
        text = f"{P}REGISTER RSTREAM :q AS SELECT * {clause} WHERE {{ {body} }}"
    query = parse_query(text, dialect=dialect)
    again = parse_query(write(query), dialect=dialect)
    assert again.root == query.root
    assert [(each, each.bounds) for each in again.windows] == [(each, each.bounds) for each in query.windows]
    assert write(again) == write(query)


@pytest.mark.parametrize("window", ["NOW", "ALL", "TRIPLES 3", "LATEST 1 BY ?x"])
def test_a_window_without_two_ends_has_no_bounds(window: str) -> None:
    text = f"{P}SELECT * {{ STREAM :s [{window} BOUNDS ?o ?c] {{ ?x :p ?v }} }}"
    with pytest.raises(QueryTextError, match="two ends in time") as failure:
        parse_query(text)
    lines = text[: text.index("?o")].split("\n")
    assert (failure.value.line, failure.value.column) == (len(lines), len(lines[-1]) + 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * { STREAM :s [RANGE 5s BOUNDS ?o ?o] { ?x :p ?v } }", "two variables"),
        ("SELECT * { STREAM :s [RANGE 5s BOUNDS ?o] { ?x :p ?v } }", "expected a variable"),
        ("SELECT * { STREAM :s [TRIPLES 5] { ?x :p ?v } AT ?t }", "whole elements"),
        ("SELECT * { STREAM :s [NOW] { ?x :p ?v } AT 5 }", "expected a variable"),
        ("REGISTER QUERY q AS SELECT * FROM STREAM :s [RANGE 5s STEP 5s BOUNDS ?o ?c] WHERE { ?x :p ?v }",
         "no block"),
        ("REGISTER RSTREAM :q AS SELECT * FROM NAMED WINDOW :w ON :s [ELEMENTS 3 BOUNDS ?o ?c] "
         "WHERE { WINDOW :w { ?x :p ?v } }", "two ends in time"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with bench() as b, pytest.raises(QueryTextError, match=message):
        b.register("q", P + text)


def test_the_bounds_of_sessions_by_key_need_reports_on_close() -> None:
    text = "SELECT * { STREAM :s [SESSION 5s PARTITION BY ?x BOUNDS ?o ?c] { ?x :p ?v } }"
    with bench() as b:
        with pytest.raises(InputError, match="needs reports on close"):
            b.register("q", text)
        with pytest.raises(InputError, match="needs reports on close"):
            b.register("q", text, report={"periodic": "5s"})
        b.register("q", text, report="on-window-close", output="rstream")


def test_graphs_in_a_block_with_at_are_not_supported() -> None:
    with bench() as b, pytest.raises(UnsupportedError, match="GRAPH in a block with AT"):
        b.register("q", "SELECT * { STREAM :s [NOW] { GRAPH ?g { ?x :p ?v } } AT ?t }")


@pytest.mark.parametrize("at", [-(10**15), -62_167_219_200_001, -1, 0, 1, 253_402_300_800_000, 9 * 10**15])
def test_every_instant_has_a_literal(at: int) -> None:
    from quadrill.continuous.expressions.choices import instant_literal
    from quadrill.continuous.expressions.oxigraph import canonical

    literal = instant_literal(at)
    assert canonical(literal) == literal
