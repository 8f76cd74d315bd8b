"""``quadrill top`` and ``explain --analyze``: figures of answers, and how they are shown."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.app.commands import live_plan
from quadrill.app.commands.overview import ServerSample, overview
from tests.app.conftest import Start


def query(**given: Any) -> dict[str, Any]:
    """The members of a description that are looked at."""
    counters = {"elements": 0, "rows": 0, "late": 0} | given.pop("counters", {})
    return {
        "name": "q",
        "state": "running",
        "error": None,
        "counters": counters,
        "waiting_for": [],
        "watermark": 4_000,
        "streams": [{"iri": "urn:s"}],
        "state_size": 3,
        "static_parts": [{"rows": 2}, {"rows": None}],
    } | given


def stream(**given: Any) -> dict[str, Any]:
    return {
        "name": "s",
        "iri": "urn:s",
        "elements": 0,
        "newest": 9_000,
        "watermark": 5_000,
        "idle": False,
        "late_count": 0,
        "readers": ["q"],
    } | given


def test_rates_lie_between_two_looks() -> None:
    before = ServerSample(10.0, [query(counters={"rows": 5, "elements": 10})], [stream(elements=10)], {})
    now = ServerSample(14.0, [query(counters={"rows": 25, "elements": 50})], [stream(elements=50)], {})
    found = overview("u", before, now)
    (each,), (source,) = found.queries, found.streams
    assert (each.rows_per_second, each.elements_per_second, source.elements_per_second) == (5.0, 10.0, 10.0)
    assert (each.lag_ms, each.window_quads, each.static_rows) == (5_000, 3, 2)


def test_what_is_new_or_began_anew_has_no_rate_below_nothing() -> None:
    before = ServerSample(10.0, [query(counters={"rows": 50})], [], {})
    now = ServerSample(
        11.0, [query(counters={"rows": 3}), query(name="new", watermark=None)], [stream(elements=7)], {}
    )
    found = overview("u", before, now)
    assert [each.rows_per_second for each in found.queries] == [0.0, 0.0]
    assert [each.lag_ms for each in found.queries] == [5_000, None]
    assert found.streams[0].elements_per_second == 0.0


def test_an_overview_of_a_server(start_server: Start, capsys: pytest.CaptureFixture[str]) -> None:
    server = start_server()
    server.update("INSERT DATA { <urn:a> <urn:b> 1 }")
    text = "SELECT ?s WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> [] } }"
    assert server.client.post(
        "/queries?name=q", content=text, headers={"Content-Type": "text/plain"}
    ).is_success
    at = ["top", "--once", "--interval", "0.1", "--server", server.url]
    assert main([*at, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["quads"] == 1 and found["figures"]["memory_bytes"] > 1 << 20
    assert [each["name"] for each in found["queries"]] == ["q"]
    assert main(at) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{server.url}  1 query, 1 stream, 1 quad, ")
    assert "no element of <http://localhost/r>" in shown


GRAPH = 'GRAPH ex:g { ?s ex:p "}" . { ?a ?b ?c } }'
BOTH = "GRAPH ex:g { ?s ex:p ?o }\nSERVICE SILENT <http://h/> { ?s ?q ?x } ?s a ex:T ."


def operator(number: int, inputs: list[int], microseconds: float | None, **given: Any) -> dict[str, Any]:
    return {
        "number": number,
        "operator": f"op{number}",
        "detail": "",
        "inputs": inputs,
        "columns": [],
        "rows_in": number,
        "rows_out": 1_000 + number,
        "state_rows": 0,
        "microseconds": microseconds,
        "timed_with": number,
    } | given


def test_a_plan_is_a_tree_with_shares_of_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    shared = operator(2, [0, 1], 30.0)
    document = {
        "name": "q",
        "state": "running",
        "engine": "native",
        "rates": {"elements_per_second": 2.5, "events_per_second": 1.0},
        "counters": {"late": 1},
        "waiting_for": [{"text": "it waits"}],
        "operators": [
            operator(0, [], None),
            operator(1, [], 10.0),
            shared,
            operator(3, [2], 30.0, timed_with=2),
            operator(4, [3], 60.0, detail="1"),
            operator(5, [], 0.0, operator="table", detail="1"),
        ],
        "steps": 640,
        "timed_steps": 10,
        "static_parts": [
            {"name": "0", "rows": 7, "version": 3, "age_ms": 90_000, "cause": "commit", "pattern": "?s\n ?p"},
            {"name": "1", "rows": 8, "version": 3, "age_ms": 600, "cause": "commit", "pattern": GRAPH},
            {"name": "2", "rows": 9, "version": 3, "age_ms": None, "cause": None, "pattern": BOTH},
            {"name": "3", "rows": 9, "version": 3, "age_ms": None, "cause": None, "pattern": GRAPH},
        ],
    }
    live_plan.show(document)
    told = capsys.readouterr().out
    assert "2.5 elements/s in, 1 events/s out, 1 late element\nwaiting: it waits\n" in told
    rows = [line.split() for line in told.splitlines() if "op" in line and "operator" not in line]
    assert [row[:2] if row[0] in "└─├─" else row[:1] for row in rows] == [
        ["op4"],
        ["└─", "op3"],
        ["└─", "op2"],
        ["├─", "op0"],
        ["└─", "op1"],
    ]
    assert [next((cell for cell in row if cell.endswith("%")), None) for row in rows] == [
        "60%",
        None,
        "30%",
        None,
        "10%",
    ]
    assert "640 steps, 10 of them timed, 100 µs of CPU time a step" in told
    tables = told.partition("static table")[2].splitlines()
    assert tables[0].split() == ["rows", "version", "age,", "min", "refreshed", "by", "pattern"]
    assert [re.split("  +", line)[:3] for line in tables[2:]] == [
        ["default graph", "7", "3"],
        ["ex:g", "8", "3"],
        ["ex:g, SERVICE <http://h/>, default graph", "9", "3"],
        ["ex:g #2", "9", "3"],
    ]
    assert [re.split("  +", line)[3] for line in tables[2:4]] == ["1.5", "0.0"], "minutes"
    assert re.search(r"^table +.* ex:g$", told, re.MULTILINE), "an operator names the table that it reads"


def test_a_plan_without_operators_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    document = dict.fromkeys(
        ("rates", "counters", "waiting_for", "operators", "steps", "timed_steps", "static_parts")
    )
    live_plan.show(document | {"name": "q", "state": "running", "engine": "recomputing"})
    assert "the engine recomputing evaluates the answer as a whole" in capsys.readouterr().out
