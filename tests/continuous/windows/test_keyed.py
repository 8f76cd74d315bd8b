"""Windows that hold elements by key: the latest of each, and sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.continuous.expressions.element_keys import keys_of
from quadrill.continuous.inputs import Element
from quadrill.continuous.language import parse as parse_query
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import QueryTextError, UnsupportedError

from ..engines import Bench, bench

E = "http://example.org/"
P = f"PREFIX : <{E}>\n"


def keys(by: str, block: str, turtle: str) -> list[str]:
    query = parse_query(f"{P}SELECT * {{ STREAM :s [LATEST BY {by}] {{ {block} }} }}")
    quads = tuple(parse(P.replace("PREFIX :", "@prefix :").strip() + "." + turtle, RdfFormat.TRIG))
    found = keys_of(query.windows[0].spec)(Element.of(quads, 0, 1))
    return sorted(" ".join(term.replace(E, "").strip("<>") or "-" for term in key) for key in found)


@pytest.mark.parametrize(
    ("by", "block", "data", "expected"),
    [
        ("?x", "?x :p ?y", ":a :p 1, 2 . :b :p 3 . :c :q 4 .", ["a", "b"]),
        ("?x ?z", "?x :p ?y . ?y :q ?z", ":a :p :b . :b :q :c, :d . :e :p :f .", ["a c", "a d"]),
        ("?x", "?x :p ?x", ":a :p :b . :b :p :b .", ["b"]),
        ("?x", "?x :p ?y", ":a :q 1 .", []),
        ("?x", "?x :p ?y FILTER(?y > 1)", ":a :p 1 . :b :p 2 .", ["b"]),
        ("?x ?z", "?x :p ?y OPTIONAL { ?x :q ?z }", ":a :p 1 . :b :p 2 ; :q :z .", ["a -", "b z"]),
        ("?x", "?x :p+ :c", ":a :p :b . :b :p :c .", ["a", "b"]),
        ("?g", "GRAPH ?g { ?x :p ?y }", ":g { :a :p 1 }", ["g"]),
        ("?x", "?x :p ?y", ":g { :a :p 1 } :b :p 1 .", ["a", "b"]),
        ("?x", "<< ?x :p ?y >> :sure ?z", ":a :p 1 {| :sure 1 |} .", ["a"]),
        ("?x", "{ SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x }", ":a :p 1, 2 .", ["a"]),
    ],
)
def test_the_keys_of_an_element_are_those_of_the_solutions_over_it_alone(
    by: str, block: str, data: str, expected: list[str]
) -> None:
    assert keys(by, block, data) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("STREAM :s [LATEST BY ?y] { ?x :p 1 }", "no variable of the block"),
        ("STREAM :s [LATEST BY ?x] { ?x :p ?y FILTER(?y < NOW()) }", "NOW"),
        ("STREAM :s [LATEST BY ?x] { ?x :p ?y FILTER(:f(?y)) }", "a function by IRI"),
        ("STREAM :s [LATEST BY ?x] { { SELECT ?x (:f(?y) AS ?z) { ?x :p ?y } } }", "a function by IRI"),
        ("STREAM :s [SESSION 0s] { ?x :p 1 }", "longer than 0"),
        ("STREAM :s [LATEST 2] { ?x :p 1 }", "expected BY"),
    ],
)
def test_what_has_no_keys_is_refused(text: str, told: str) -> None:
    with pytest.raises((QueryTextError, UnsupportedError), match=told):
        parse_query(f"{P}SELECT ?x {{ {text} }}")


def test_a_window_of_two_blocks_has_no_pattern_for_its_keys() -> None:
    blocks = "WINDOW :w { ?x :p 1 } WINDOW :w { ?x :q 1 }"
    with pytest.raises(QueryTextError, match="which has 2"):
        parse_query(f"{P}SELECT * FROM NAMED WINDOW :w ON :s [LATEST BY ?x] {{ {blocks} }}")


def push(one: Bench, at: int, turtle: str) -> None:
    one.engine.streams.push(
        PushCall(E + "s", "text/turtle", at=at),
        (P.replace("PREFIX :", "@prefix :").strip() + f" . {turtle}").encode(),
    )


def values(one: Bench, name: str = "q") -> list[str]:
    document = one.engine.queries.current_answer(name)
    rows = document["results"]["bindings"]
    return sorted(" ".join(term["value"].removeprefix(E) for term in row.values()) for row in rows)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_latest_of_each_key(engine: str) -> None:
    more = "" if engine == "native" else "FILTER NOT EXISTS { { ?x :broken ?z } MINUS { ?x :p ?z } }"
    with bench() as one:
        text = f"SELECT ?x ?y {{ STREAM :s [LATEST BY ?x WITHIN 10ms] {{ ?x :p ?y }} {more} }}"
        document = one.register("q", text)
        assert document["engine"].startswith(engine)
        assert document["windows"][0]["window"] == "[LATEST 1 BY ?x WITHIN 10ms]"
        push(one, 1, ":a :p 1 .")
        push(one, 3, ":b :p 1 .")
        push(one, 5, ":a :p 2 . :c :q 3 .")
        assert values(one) == ["a 2", "b 1"]
        push(one, 6, ":c :q 4 .")
        one.engine.streams.heartbeat(E + "s", 13)
        assert values(one) == ["a 2", "b 1"]
        one.engine.streams.heartbeat(E + "s", 14)
        assert values(one) == ["a 2"]
        one.engine.streams.heartbeat(E + "s", 16)
        assert values(one) == []


def test_an_element_of_two_keys_stays_while_one_of_them_holds_it() -> None:
    with bench() as one:
        one.register("q", "SELECT ?x ?y { STREAM :s [LATEST BY ?x] { ?x :p ?y } }")
        push(one, 1, ":a :p 1 . :b :p 1 .")
        push(one, 2, ":a :p 2 .")
        assert values(one) == ["a 1", "a 2", "b 1"]
        push(one, 3, ":b :p 3 .")
        assert values(one) == ["a 2", "b 3"]


def test_a_late_element_displaces_no_newer_one() -> None:
    with bench() as one:
        one.engine.streams.declare(E + "s", late="admit")
        one.register("q", "SELECT ?x ?y { STREAM :s [LATEST 2 BY ?x] { ?x :p ?y } }")
        for at in (10, 20, 5, 15, 7):
            push(one, at, f":a :p {at} .")
        assert values(one) == ["a 15", "a 20"]


def told(one: Bench, name: str = "q") -> list[tuple[Any, ...]]:
    found = []
    for event in one.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        rows = document["results"]["bindings"]
        texts = sorted(" ".join(term["value"].removeprefix(E) for term in row.values()) for row in rows)
        bounds = document.get("window")
        found.append((document["at"], bounds and (bounds["open"], bounds["close"]), texts))
    return found


def test_sessions_that_close_at_one_instant_are_told_one_by_one_in_the_order_of_their_keys() -> None:
    with bench() as one:
        one.register(
            "q",
            "SELECT ?x ?y { STREAM :s [SESSION 10ms PARTITION BY ?x] { ?x :p ?y } } EMIT ON CLOSE",
            output="rstream",
        )
        push(one, 1, ":b :p 1 . :a :p 1 .")
        push(one, 4, ":c :p 4 .")
        push(one, 10, ":c :p 5 .")
        # An element at exactly the close begins a new session.
        push(one, 11, ":a :p 2 .")
        one.engine.streams.heartbeat(E + "s", 30)
        assert told(one) == [
            (11, (1, 11), ["a 1", "b 1"]),
            (11, (1, 11), ["a 1", "b 1"]),
            (20, (4, 20), ["c 4", "c 5"]),
            (21, (11, 21), ["a 2"]),
        ]


def test_numbers_come_in_their_order_as_keys() -> None:
    with bench() as one:
        one.register(
            "q",
            "SELECT ?y { STREAM :s [SESSION 10ms PARTITION BY ?y] { ?x :p ?y } } EMIT ON CLOSE",
            output="rstream",
        )
        for value in (10, 9, 100):
            push(one, 1, f":a :p {value} .")
        one.engine.streams.heartbeat(E + "s", 11)
        assert [rows for *_, rows in told(one)] == [["9"], ["10"], ["100"]]


def test_a_session_of_the_whole_stream_goes_on_while_elements_come() -> None:
    with bench() as one:
        one.register("q", "SELECT ?x ?y { STREAM :s [SESSION 10ms] { ?x :p ?y } }")
        for at in (0, 9, 18):
            push(one, at, f":a :p {at} .")
        assert values(one) == ["a 0", "a 18", "a 9"]
        one.engine.streams.heartbeat(E + "s", 28)
        assert values(one) == []


def test_a_late_element_enters_the_session_that_is_open() -> None:
    with bench() as one:
        one.engine.streams.declare(E + "s", late="admit")
        one.register("q", "SELECT ?y { STREAM :s [SESSION 10ms PARTITION BY ?x] { ?x :p ?y } }")
        one.register(
            "closes",
            "SELECT ?y { STREAM :s [SESSION 10ms PARTITION BY ?x] { ?x :p ?y } } EMIT ON CLOSE",
            output="rstream",
        )
        push(one, 20, ":a :p 20 .")
        push(one, 11, ":a :p 11 .")
        push(one, 1, ":a :p 1 .")
        push(one, 0, ":b :p 0 .")
        # Another session of :a, and one of :b, are over.
        assert values(one) == ["11", "20"]
        one.engine.streams.heartbeat(E + "s", 30)
        # What was reported last is corrected.
        push(one, 15, ":a :p 15 .")
        assert values(one) == []
        assert told(one, "closes") == [(30, (11, 30), ["11", "20"]), (30, (11, 30), ["11", "15", "20"])]


@pytest.mark.parametrize("heard", [26, 40])
def test_a_late_element_makes_the_session_that_was_reported_last_longer(heard: int) -> None:
    with bench() as one:
        one.engine.streams.declare(E + "s", late="admit")
        one.register(
            "q",
            "SELECT ?y { STREAM :s [SESSION 10ms PARTITION BY ?x] { ?x :p ?y } } EMIT ON CLOSE",
            output="rstream",
        )
        push(one, 10, ":a :p 10 .")
        push(one, 15, ":a :p 15 .")
        one.engine.streams.heartbeat(E + "s", heard)
        # Within less than the gap behind its last element, and before its first.
        push(one, 19, ":a :p 19 .")
        push(one, 3, ":a :p 3 .")
        # Behind its new end is another session, which is over or still open.
        push(one, 29, ":a :p 29 .")
        one.engine.streams.heartbeat(E + "s", 60)
        assert told(one) == [
            (25, (10, 25), ["10", "15"]),
            (25, (10, 29), ["10", "15", "19"]),
            (25, (3, 29), ["10", "15", "19", "3"]),
        ] + [(39, (29, 39), ["29"])] * (heard == 26)


def test_late_elements_go_on_with_a_session_that_late_elements_made_longer() -> None:
    with bench() as one:
        one.engine.streams.declare(E + "s", late="admit")
        one.register(
            "q", "SELECT ?y { STREAM :s [SESSION 10ms] { ?x :p ?y } } EMIT ON CLOSE", output="rstream"
        )
        push(one, 10, ":a :p 10 .")
        push(one, 15, ":a :p 15 .")
        one.engine.streams.heartbeat(E + "s", 30)
        # Two are behind the instant of the report, one of them between elements; then one before it.
        for at in (19, 27, 26, 12):
            push(one, at, f":a :p {at} .")
        push(one, 50, ":a :p 50 .")
        one.engine.streams.heartbeat(E + "s", 80)
        assert told(one) == [
            (25, (10, 25), ["10", "15"]),
            (25, (10, 29), ["10", "15", "19"]),
            (25, (10, 37), ["10", "15", "19", "27"]),
            (25, (10, 37), ["10", "15", "19", "26", "27"]),
            (25, (10, 37), ["10", "12", "15", "19", "26", "27"]),
            (60, (50, 60), ["50"]),
        ]


@pytest.mark.parametrize("strict", [False, True])
def test_a_session_that_ends_at_a_periodic_report_is_not_in_it(strict: bool) -> None:
    with bench() as one:
        one.register(
            "q",
            "SELECT ?y { STREAM :s [SESSION 10ms] { ?x :p ?y } }",
            report={"periodic": 5},
            strict=strict,
            output="rstream",
        )
        push(one, 0, ":a :p 1 .")
        one.engine.streams.heartbeat(E + "s", 10)
        assert [(at, rows) for at, _, rows in told(one)] == [(5, ["1"]), (10, [])]
