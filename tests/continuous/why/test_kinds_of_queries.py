"""Reasons of rows of further kinds of queries, and of queries that were restarted or began late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.config import Settings
from quadrill.app.describing.why import why
from quadrill.app.wiring import open_services
from quadrill.continuous.engine import Engine, Registration
from quadrill.continuous.streams.push_call import PushCall

from ..engines import PREFIX, Bench, E, S, bench

_NUMBER = "http://www.w3.org/2001/XMLSchema#integer"


def quad(subject: str, predicate: str, value: str | int, graph: str = "") -> str:
    """A line of N-Quads of short names."""
    term = f'"{value}"^^<{_NUMBER}>' if isinstance(value, int) else f"<{E}{value}>"
    return f"<{E}{subject}> <{E}{predicate}> {term} {f'<{E}{graph}> ' if graph else ''}."


def element(engine: Engine, at: int, *lines: str, stream: str = S) -> None:
    """Push one element."""
    body = json.dumps({"at": at, "data": "\n".join(lines)})
    engine.streams.push(PushCall(stream, "application/x-ndjson"), body.encode())


def push(b: Bench, at: int, *lines: str, stream: str = S) -> None:
    """Push one element to the engine of a bench."""
    element(b.engine, at, *lines, stream=stream)


def reason(b: Bench, name: str, row: int = 0) -> dict[str, Any]:
    """The reason of a row of the newest event."""
    return why(b.engine, b.store, name, b.engine.queries.feed(name).history.last_id, row)


def seqs(document: dict[str, Any]) -> list[int]:
    return [each["seq"] for each in document["elements"]]


def test_match_of_a_sequence_needs_the_elements_of_its_steps() -> None:
    with bench() as b:
        text = "SELECT ?x WHERE { SEQ { STREAM :s { ?x :v 1 } ; STREAM :s { ?x :v 2 } } WITHIN 10ms }"
        b.register("seq", text)
        for at, (name, value) in enumerate([("a", 1), ("b", 1), ("c", 5), ("a", 2)], 1):
            push(b, at, quad(name, "v", value))
        assert seqs(reason(b, "seq")) == [1, 4]


def test_named_graph_of_an_element_is_found() -> None:
    with bench() as b:
        b.register("named", "SELECT ?g ?x WHERE { STREAM :s [RANGE 10ms] { GRAPH ?g { ?x :v ?v } } }")
        push(b, 1, quad("a", "v", 1, "g"))
        push(b, 2, quad("b", "v", 2, "h"))
        assert seqs(reason(b, "named")) == [2]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("STREAM :s [RANGE 10ms] { ?x :v ?v } AT ?t", [2]),
        ("STREAM :s [RANGE 10ms] { ?x ?p ?v FILTER(?t > 0 || ?v = 2) } AT ?t", [2]),
        ("STREAM :s [RANGE 10ms] { } AT ?t", [2]),
        ("STREAM :s [RANGE 10ms BOUNDS ?o ?t] { ?x :v 2 }", [2]),
        ("STREAM :s [RANGE 5ms SLIDE 5ms BOUNDS ?o ?c] { ?x :v 2 } AT ?t", [2]),
        ("STREAM :s [SESSION 9ms BOUNDS ?o ?c] { ?x :v ?v } AT ?t", [1, 2]),
    ],
)
def test_times_of_elements_and_of_windows(block: str, expected: list[int]) -> None:
    with bench() as b:
        b.register("q", f"SELECT ?t ?o ?c WHERE {{ {block} }}")
        for at, value in ((1, 1), (2, 2)):
            push(b, at, quad("a", "v", value))
        b.engine.streams.heartbeat(S, 5)
        assert seqs(reason(b, "q")) == expected


def test_a_row_that_is_emitted_again_or_is_resolved_has_the_reason_of_the_row() -> None:
    with bench() as b:
        b.register(
            "q",
            "SELECT ?x ?v { STREAM :s [RANGE 9ms] { ?x :v ?v } } ONCE PER ?x UNTIL GONE RESOLVED EVERY 4ms",
        )
        push(b, 1, quad("a", "v", 1))
        b.engine.streams.heartbeat(S, 6)
        assert seqs(reason(b, "q")) == [1]
        b.engine.streams.heartbeat(S, 20)
        assert seqs(reason(b, "q")) == [1]


@pytest.mark.parametrize(
    ("body", "elements", "quads"),
    [
        ("STREAM :s [RANGE 10ms] { ?x :v ?v } ?x :part* ?y", [1], [quad("a", "part", "b")]),
        ("STREAM :s [RANGE 10ms] { ?x :v ?v } ?x :part+ ?y", [1], [quad("a", "part", "b")]),
        ("STREAM :s [RANGE 10ms] { ?x :v ?v } { SELECT ?y { ?z :part ?y } ORDER BY ?y LIMIT 1 }", [1], None),
        ("STREAM :s [RANGE 10ms] { ?x :v ?v BIND(NOW() AS ?y) }", [1], []),
        ("STREAM :s [RANGE 10ms] { ?x :v ?v BIND(RAND() AS ?y) }", [1], []),
        ("STREAM :s [LATEST 1 BY ?x] { ?x :v ?v } OPTIONAL { ?x :name ?y }", [1], []),
    ],
)
def test_further_patterns(body: str, elements: list[int], quads: list[str] | None) -> None:
    with bench() as b:
        parts = "\n".join([quad("a", "part", "b"), quad("b", "part", "c"), quad("d", "part", "e")])
        b.store.writer.update(f"INSERT DATA {{ {parts} }}")
        b.register("q", f"SELECT ?x ?y WHERE {{ {body} }}")
        push(b, 1, quad("a", "v", 1))
        document = why(b.engine, b.store, "q", 1, 0)
        assert seqs(document) == elements
        if quads is None:
            assert document["quads"]
        else:
            assert document["quads"] == quads


def test_stream_variable_needs_the_quad_that_binds_it() -> None:
    with bench() as b:
        b.store.writer.update(PREFIX + "INSERT DATA { :kitchen :has :s . :hall :has :u }")
        b.register("all", "SELECT ?r ?x WHERE { STREAM ?s [RANGE 10ms] { ?x :v ?v } ?r :has ?s }")
        push(b, 1, quad("a", "v", 1))
        push(b, 1, quad("b", "v", 1), stream=E + "u")
        document = reason(b, "all")
        assert [each["stream"] for each in document["elements"]] == [E + "u"]
        assert document["quads"] == [quad("hall", "has", "u")]


def test_element_of_a_derived_stream_is_listed_as_it_was_derived() -> None:
    with bench() as b:
        b.register("hot", "CONSTRUCT { ?x :hot ?v } WHERE { STREAM :s [NOW] { ?x :v ?v } }")
        made = "http://localhost/hot"
        b.register("alarms", f"SELECT ?x WHERE {{ STREAM <{made}> [RANGE 10ms] {{ ?x :hot ?v }} }}")
        push(b, 1, quad("a", "v", 1))
        push(b, 2, quad("b", "v", 1))
        document = reason(b, "alarms")
        assert document["elements"] == [{"stream": made, "seq": 2, "quads": [quad("b", "hot", 1)]}]


def test_elements_before_the_registration_do_not_count() -> None:
    with bench() as b:
        b.register("early", "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :v ?v } }")
        push(b, 1, quad("a", "v", 1))
        b.register("late", "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :v ?v } }")
        push(b, 2, quad("b", "v", 1))
        assert seqs(reason(b, "early")) == [1, 2]
        assert seqs(reason(b, "late")) == [2]


def test_query_of_a_folder_is_explained_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), port=0)
    for round in range(3):
        services = open_services(settings, threaded=False)
        services.start()
        try:
            engine = services.engine
            if round == 0:
                element(engine, 1, quad("a", "v", 1))
                text = PREFIX + "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :v ?v } }"
                engine.queries.register(Registration(name="count", query=text))
            element(engine, 2 + round, quad("b", "v", round))
            document = why(engine, services.store, "count", engine.queries.feed("count").history.last_id, 0)
            assert seqs(document) == list(range(2, 3 + round))
        finally:
            services.close()
