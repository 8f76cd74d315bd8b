"""Look-ups: what is read from the indexes is what Oxigraph answers."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from typing import Any

import pytest
from pyoxigraph import QueryResultsFormat, Store

from quadrill.app.evaluation.look_ups import MOST_QUADS, look_up
from quadrill.app.evaluation.where_parts import BufferLimits, ServerWherePart
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.terms import Solution
from tests.app.conftest import LiveServer, Start

VALUES = ('"a"', '"a\\n\\"é"', '"a"@en', "1", "01", "1.0", "true", "_:b", "<< <urn:t> <urn:p0> 1 >>")


def filled(chosen: random.Random) -> QuadStore:
    store = QuadStore.open(None)
    things = [f"<urn:{n}>" for n in range(5)]
    properties = [f"<urn:p{n}>" for n in range(3)] + ["a"]
    lines = [
        f"{chosen.choice([*things, '_:b'])} {chosen.choice(properties)} {chosen.choice([*things, *VALUES])} ."
        for _ in range(30)
    ]
    store.writer.update(
        f"INSERT DATA {{ {' '.join(lines)} GRAPH <urn:g> {{ {' '.join(lines[:5])} <urn:0> a 7 }} }}"
    )
    return store


def answered(store: QuadStore, text: str) -> dict[str, Any]:
    """What Oxigraph writes."""
    written = io.BytesIO()
    with store.reader.query(text) as result:
        result.serialize_to(written, QueryResultsFormat.JSON)
    return dict(json.loads(written.getvalue()))


def comparable(document: dict[str, Any]) -> tuple[list[str], Counter[str]]:
    rows = document["results"]["bindings"]
    return document["head"]["vars"], Counter(json.dumps(row) for row in rows)


def random_text(chosen: random.Random) -> str:
    def term(place: int) -> str:
        if chosen.random() < (0.75 if place == 1 else 0.4):
            if place == 1:
                return chosen.choice(["<urn:p0>", "<urn:p1>", "<urn:p2>", "a"])
            return f"<urn:{chosen.randrange(5)}>"
        return f"?{chosen.choice('abcd')}"

    patterns = [" ".join(map(term, range(3))) for _ in range(chosen.randint(1, 3))]
    names = sorted({word for each in patterns for word in each.split() if word[0] == "?"})
    chosen.shuffle(names)
    shown = names[: chosen.randint(1, 4)] or ["?z"]
    where = chosen.choice(["{", "WHERE {", "where\n{ "])
    return f"SELECT {' '.join(shown)} {where} {' . '.join(patterns)} {chosen.choice(['', '.'])} }}"


def test_look_ups_answer_as_oxigraph_does() -> None:
    chosen, taken, with_rows = random.Random(7), 0, 0
    for _ in range(15):
        store = filled(chosen)
        for _ in range(100):
            text = random_text(chosen)
            found = look_up(text, store.reader)
            if found is not None:
                body, rows, version = found
                document = json.loads(body)
                assert comparable(document) == comparable(answered(store, text)), text
                assert (rows, version) == (len(document["results"]["bindings"]), store.reader.version)
                taken += 1
                with_rows += rows > 0
    assert taken > 300
    assert with_rows > 100


NUMBERS = (
    *(
        "1",
        "-7",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775806",
        '"x"',
        "1.5",
        "<urn:0>",
    ),
    *('"+5"', '" 5 "', '"1_0"', '"99999999999999999999"', '"\u0665"'),
)
"""Those in quotation marks are what somebody calls a whole number."""


def counted(chosen: random.Random, names: list[str]) -> str:
    """What may stand behind the patterns of a WHERE part."""
    old, new = chosen.choice(names or ["?z"]), chosen.choice(["?n", "?n", "?a"])
    number = chosen.choice(["1", "1", "0", "07", "999999999", "1.0", "12345678901"])
    return chosen.choice(["", f"BIND({old} + {number} AS {new})", f". bind ( {old}-{number} AS {new} ) ."])


def found_in(where: str, names: tuple[str, ...], store: Store) -> list[Solution] | None:
    return ServerWherePart("", where, BufferLimits(lambda: 0)).look_up(names, store)


def test_where_parts_of_updates_give_what_oxigraph_gives() -> None:
    found = 0
    for seed in range(1_500):
        chosen = random.Random(seed)
        store = filled(chosen)
        for number in NUMBERS:
            term = f"{number}^^<http://www.w3.org/2001/XMLSchema#integer>" if number[0] == '"' else number
            if chosen.random() < 0.4:
                store.writer.update(
                    f"INSERT DATA {{ <urn:{chosen.randrange(3)}> <urn:p{chosen.randrange(3)}> {term} }}"
                )
        text = random_text(chosen)
        patterns = text[text.index("{") + 1 : -1].rstrip(" .")
        variables = sorted({word for word in patterns.split() if word[0] == "?"})
        where = f"{{ {patterns} {counted(chosen, variables)} }}"
        names = tuple(name[1:] for name in chosen.sample(variables, min(len(variables), 2)))
        names += ("n",) if "?n" in where else ()
        rows = found_in(where, names, store.committer.store)
        if rows is None or not names:
            continue
        found += "BIND" in where.upper()
        asked = store.committer.store.query(f"SELECT {' '.join('?' + name for name in names)} {where}")
        expected: list[Solution] = [tuple(each) for each in asked]  # type: ignore[union-attr, misc]
        assert Counter(rows) == Counter(expected), where
    assert found > 100


@pytest.mark.parametrize(
    "where",
    [
        "{ <urn:0> <urn:p0> ?o FILTER(?o > 1) }",
        "{ <urn:0> <urn:p0> ?o OPTIONAL { ?o <urn:p1> ?n } }",
        "{ <urn:0> <urn:p0> ?o BIND(?o * 2 AS ?n) }",
        "{ <urn:0> <urn:p0> ?o BIND(?o + 1 AS ?n) BIND(?n + 1 AS ?m) }",
        "{ <urn:0> <urn:p0> ?o BIND(?x + 1 AS ?n) }",
        "{ <urn:0> <urn:p0> ?o BIND(?o + 1 AS ?o) }",
        "{ GRAPH <urn:g> { <urn:0> <urn:p0> ?o } }",
        "{ <urn:0> <urn:p0>+ ?o }",
        "{ ?s ?p ?o }",
        "{ <urn:a/../b> <urn:p0> ?o }",
        "{ BIND(1 + 1 AS ?o) }",
        "{ <urn:0> <urn:p0> ?n }",
        "{}",
    ],
)
def test_where_parts_that_are_not_plainly_look_ups_are_evaluated(where: str) -> None:
    assert found_in(where, ("o",), Store()) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?o { ?s <urn:p> ?o }",
        "SELECT DISTINCT ?o { <urn:a> <urn:p> ?o }",
        "SELECT * { <urn:a> <urn:p> ?o }",
        "SELECT ?z { <urn:a> <urn:p> ?o }",
        "SELECT ?o ?o { <urn:a> <urn:p> ?o }",
        "SELECT ?o { <urn:a> <urn:p> ?o } LIMIT 1",
        "SELECT ?o FROM <urn:g> { <urn:a> <urn:p> ?o }",
        "SELECT ?o { GRAPH <urn:g> { <urn:a> <urn:p> ?o } }",
        "SELECT ?o { <urn:a> <urn:p>* ?o }",
        "SELECT ?o { <urn:a> <urn:p>/<urn:p> ?o }",
        "SELECT ?o { <urn:a> <urn:p> ?o , ?p }",
        "SELECT ?o { <urn:a> <urn:p> ?o ; <urn:p> 1 }",
        "SELECT ?o { <urn:a> <urn:p> ?o . . }",
        "SELECT ?o { . <urn:a> <urn:p> ?o }",
        "SELECT ?o { <urn:a> <urn:p> ?o # <urn:b> }\n }",
        'SELECT ?o { <urn:a> <urn:p> ?o FILTER(?o != "<urn:b>") }',
        "SELECT ?o { <urn:a> A ?o }",
        "SELECT ?o { a a ?o }",
        "SELECT ?x { <urn:a> <urn:p> ?x . ?x <urn:p> ?x }",
        "SELECT ?x { <urn:a> <urn:p> ?x . <urn:a> ?x ?o }",
        "SELECT ?o { <urn:a/../b> <urn:p> ?o }",
        "SELECT ?o { <urn:\\u0061> <urn:p> ?o }",
        "SELECT ?o { <a> <urn:p> ?o }",
        "SELECT ?o { <> <urn:p> ?o }",
        "SELECT ?o { <urn:a> <urn:p> ?o } { }",
        "PREFIX e: <urn:> SELECT ?o { <urn:a> e:p ?o }",
        "ASK { <urn:a> <urn:p> ?o }",
        "SELECT ?o { }",
        f"SELECT ?o {{ <urn:{'a' * 1000}> <urn:p> ?o }}",
    ],
)
def test_what_is_not_plainly_a_look_up_is_evaluated(text: str) -> None:
    with QuadStore.open(None) as store:
        store.writer.update("INSERT DATA { <urn:a> <urn:p> 1, <urn:a>, <urn:p> . <urn:p> <urn:p> <urn:p> }")
        assert look_up(text, store.reader) is None


def test_a_large_answer_is_evaluated() -> None:
    with QuadStore.open(None) as store:
        for most in (MOST_QUADS, MOST_QUADS + 1):
            rows = " ".join(f"<urn:a> <urn:p> {n} ." for n in range(most))
            store.writer.update(f"INSERT DATA {{ {rows} }}")
            found = look_up("SELECT ?o { <urn:a> <urn:p> ?o }", store.reader)
            assert (found is None) == (most > MOST_QUADS)


def test_what_is_read_at_once_is_of_one_version() -> None:
    with QuadStore.open(None) as store:
        seen: list[list[int]] = []

        def read(database: Store) -> list[int]:
            sizes = [len(database)]
            if len(seen) < 2:
                store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {len(seen)} }}")
            seen.append([*sizes, len(database)])
            return seen[-1]

        assert store.reader.read_at_once(read) == ([2, 2], store.reader.version)
        assert seen == [[0, 1], [1, 2], [2, 2]]
        seen.clear()
        moving = iter(range(2, 9))

        def write(_database: Store) -> None:
            store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {next(moving)} }}")

        assert store.reader.read_at_once(write) is None


@pytest.mark.parametrize(
    ("settings", "status"), [({}, 200), ({"max_result_rows": 1}, 413), ({"max_result_bytes": 100}, 413)]
)
def test_limits_hold_for_look_ups(start_server: Start, settings: dict[str, int], status: int) -> None:
    server: LiveServer = start_server(**settings)
    server.update("INSERT DATA { <urn:a> <urn:p> 1, 2, 3 }")
    assert server.query("SELECT ?o { <urn:a> <urn:p> ?o }").status_code == status
