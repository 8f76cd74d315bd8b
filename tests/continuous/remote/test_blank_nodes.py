"""Blank nodes of SERVICE answers: of one block each, and stable while nothing changes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from quadrill.continuous.remote.relabelled import is_relabelled
from quadrill.continuous.remote.spec import SourceSpec
from quadrill.continuous.remote.value import SourceValue, decode, encode
from quadrill.store.remote import Fetched, rows_of

from .bench import Remote
from .endpoint import JSON_RESULTS, Answer, Asked, Endpoint

COLUMNS = ("l", "x")
_labels = itertools.count()


def document(rows: list[tuple[str, str]], columns: tuple[str, ...] = COLUMNS) -> bytes:
    """Rows as SPARQL Results JSON; a text that begins with ``_:`` is a blank node."""

    def term(text: str) -> dict[str, Any]:
        kind = "bnode" if text.startswith("_:") else "literal"
        return {"type": kind, "value": text.removeprefix("_:")}

    bindings = [{name: term(text) for name, text in zip(columns, row, strict=True)} for row in rows]
    return json.dumps({"head": {"vars": list(columns)}, "results": {"bindings": bindings}}).encode()


def fresh(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same rows with blank nodes that no answer has had."""
    known: dict[str, str] = {}
    for row in rows:
        for text in row:
            if text.startswith("_:"):
                known.setdefault(text, f"_:n{next(_labels)}")
    return [(known.get(first, first), known.get(second, second)) for first, second in rows]


def serve(far: Endpoint, rows: list[tuple[str, str]]) -> None:
    def answer(_: Asked) -> Answer:
        return 200, {"Content-Type": JSON_RESULTS}, document(fresh(rows))

    far.handle = answer


ROWS = [("a", "_:1"), ("b", "_:1"), ("c", "_:2"), ("c", "_:3"), ("_:2", "_:3")]


def test_a_refresh_with_other_labels_alone_emits_nothing(bench: Remote, far: Endpoint) -> None:
    serve(far, ROWS)
    bench.register("q", f"SELECT ?l ?x {{ SERVICE <{far.url}sparql> {{ ?x :label ?l }} }}", output="changes")
    before = bench.heads("q")
    for _ in range(3):
        bench.wait(70_000)
    assert len(far.asked) == 4
    assert bench.heads("q") == before
    assert bench.source("q")["refresh_version"] == 1 and not bench.source("q")["stale"]
    serve(far, [*ROWS, ("d", "_:4")])
    bench.wait(70_000)
    assert bench.source("q")["refresh_version"] == 2
    assert len(bench.rows("q")) == 6


@pytest.mark.parametrize("window", ["", "STREAM :s [RANGE 1h] { ?e :seen ?v } "])
def test_two_equal_blocks_share_no_blank_node(bench: Remote, far: Endpoint, window: str) -> None:
    far.update("CLEAR ALL ; INSERT DATA { _:b :label 1 . :c :label 2 }")
    call = f"SERVICE <{far.url}sparql> {{ ?x :label ?l }}"
    bench.register("once", f"SELECT ?x {{ {window}{call} }}")
    bench.register("twice", f"SELECT ?x {{ {window}{call} {call} }}")
    bench.register("optional", f"SELECT ?x ?y {{ {window}{call} OPTIONAL {{ {call} BIND(1 AS ?y) }} }}")
    bench.register("union", f"SELECT ?x {{ {window}{{ {call} }} UNION {{ {call} }} }}")
    if window:
        bench.push(1, "a")
    assert len(bench.rows("once")) == 2
    assert bench.rows("twice") == ["c"]
    assert sorted(each.partition(" ")[2] for each in bench.rows("optional")) == ["-", "1"]
    assert len(set(bench.rows("union"))) == 3


def test_two_endpoints_share_no_blank_node(bench: Remote, far: Endpoint) -> None:
    serve_one = document([("a", "_:b0")])
    far.handle = lambda _: (200, {"Content-Type": JSON_RESULTS}, serve_one)
    calls = [f"SERVICE <{far.url}{name}> {{ ?x :label ?l }}" for name in ("one", "two")]
    bench.register("q", f"SELECT ?x {{ {' '.join(calls)} }}")
    assert bench.rows("q") == []


def value(rows: list[tuple[str, str]]) -> SourceValue:
    spec = SourceSpec("service", "http://e/", "SELECT * {}", COLUMNS)
    fetched = Fetched(document(rows), JSON_RESULTS, "http://e/")
    return decode(spec, encode(spec, rows_of(fetched, COLUMNS, 1_000_000)), 1, 0, "x")


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [("a", "_:1"), ("a", "_:2"), ("a", "_:3")],
        [("a", "_:1"), ("a", "_:1")],
        [(f"_:{n}", f"_:{n + 1}") for n in range(6)],
    ],
)
def test_contents_that_differ_in_labels_are_recognised(rows: list[tuple[str, str]]) -> None:
    assert is_relabelled(value(rows), value(fresh(rows)))
    assert is_relabelled(value(rows), value(fresh(rows[::-1])))


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ([("a", "_:1"), ("b", "_:1")], [("a", "_:1"), ("b", "_:2")]),
        ([("a", "_:1"), ("a", "_:1")], [("a", "_:1"), ("a", "_:2")]),
        ([("a", "_:1")], [("b", "_:1")]),
        ([("a", "_:1")], [("a", "_:1"), ("a", "_:1")]),
        # Two triangles and a hexagon look alike from every node.
        (
            [(f"_:{n}", f"_:{n // 3 * 3 + (n + 1) % 3}") for n in range(6)],
            [(f"_:{n}", f"_:{(n + 1) % 6}") for n in range(6)],
        ),
        ([("a", "x")], [("a", "y")]),
    ],
)
def test_contents_that_differ_in_more_are_not(
    rows: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    assert not is_relabelled(value(rows), value(fresh(others)))
