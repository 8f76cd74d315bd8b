"""Texts that make long values of short ones: whose memory is limited, and what they are told."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.analysis.growth import counted, counting
from quadrill.continuous.analysis.prepared import prepared
from quadrill.continuous.expressions.choices import LimitedCalls
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query import QueryRequest
from quadrill.store.sparql.skeletons import split_constants

from .conftest import Start, problem_of

BASE = "http://localhost/"
DOUBLINGS = " ".join(f"BIND(CONCAT(?v{each}, ?v{each}) AS ?v{each + 1})" for each in range(25))
QUERY = f"SELECT (STRLEN(?v25) AS ?n) {{ ?a <urn:k> ?v0 {DOUBLINGS} }}"
UPDATE = f"INSERT {{ ?a <urn:n> ?v25 }} WHERE {{ ?a <urn:k> ?v0 {DOUBLINGS} }}"
DATA = "INSERT DATA { " + " ".join(f"<urn:a{each}> <urn:k> 'x{each}' ." for each in range(40)) + " }"

PEAK = """
import resource
from functools import partial
from pathlib import Path
from quadrill.app.evaluation.where_parts import BufferLimits, ServerWherePart
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.analysis.growth import counted, counting
from quadrill.continuous.expressions.choices import LimitedCalls
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.store.errors import LimitError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query import QueryRequest
from quadrill.store.sparql.update_plan import UpdateRequest
store = QuadStore.open(None)
store.writer.update(%r)
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
most = now + (600 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
calls = LimitedCalls(Budget(QueryLimits(text=1 << 20, bytes=256 << 20)))
check = calls.begun()
text = %r
try:
    %s
except LimitError as error:
    print(error.message)
"""


def grows(text: str) -> bool:
    parts = split_constants(text)
    return prepared(text, parts).growth.is_much(parts)


@pytest.mark.parametrize(
    ("text", "much"),
    [
        ("SELECT (CONCAT(STR(?a), ' ', STR(?b)) AS ?c) { ?a ?p ?b }", False),
        ("SELECT (CONCAT(?a, CONCAT(?a, ?b), CONCAT(?a, ?c)) AS ?d) { ?a ?b ?c }", False),
        (f"SELECT (CONCAT({', '.join(['?a'] * 65)}) AS ?b) {{ ?a ?p ?q }}", True),
        (QUERY, True),
        (QUERY.replace("CONCAT(", "concat # (\n ("), True),
        ("SELECT (REPLACE(?a, ',', 'xx(') AS ?b) { ?a ?p 'CONCAT(' }", False),
        ("SELECT (REPLACE(?a, '.', ?a) AS ?b) { ?a ?p ?q }", True),
        (f"SELECT (REPLACE(?a, '.', '{'x' * 99}', 'i') AS ?b) {{ ?a ?p ?q }}", True),
        (f"SELECT (REPLACE(?a, '.', '{'x' * 20}') AS ?b) {{ ?a ?p ?q }}", False),
        # Four bytes each; ENCODE_FOR_URI writes three signs for a byte, whatever the letter.
        (f"SELECT (REPLACE(?a, '.', '{chr(0x1F600) * 20}') AS ?b) {{ ?a ?p ?q }}", True),
        ("SELECT (ENCODE_FOR_URI(ENCODE_FOR_URI(ENCODE_FOR_URI(?a))) AS ?b) { ?a ?p ?q }", False),
        (f"SELECT ({'ENCODE_FOR_URI(' * 4}?a)))) AS ?b) {{ ?a ?p ?q }}", True),
        ("BASE <http://x/> SELECT * {?s <#a> ?a BIND(CONCAT(?a,'-') AS ?z)}", False),
        ("SELECT * {?s <urn:x#a> ?a BIND(REPLACE(?a,'a','b') AS ?z)}", False),
        ("SELECT * {?s ?p ?a {SELECT (GROUP_CONCAT(?a;SEPARATOR=',') AS ?z) {}}}", False),
        ('SELECT * {VALUES (?l ?t) {("concat(x)" <#b>)} ?s ?p ?l}', False),
        (
            "SELECT (REPLACE(REPLACE(REPLACE(REPLACE(?a,'a','b'),'c','d'),'e','f'),'g','h') AS ?b) {?s a ?a}",
            False,
        ),
        ("SELECT (SUM(IF(EXISTS { BIND(REPLACE(?a, ?b, ?c) AS ?d) }, 1, 0)) AS ?n) { ?a ?b ?c }", True),
        ("SELECT * { ?a ?b ?c } GROUP BY (REPLACE(?a, ?b, ?c)) ORDER BY ?a", True),
        (f"SELECT (CONCAT(?a<x:f(?b),{','.join(['?a'] * 70)},?f>?g) AS ?z) {{ ?s ?p ?a }}", True),
        # What our parser does not read may be anything.
        ("SELECT (MAX(DISTINCTCONCAT(?v, ?v)) AS ?z) { ?s ?p ?v }", True),
        ("SELECT (CONCAT(?v, ?v) AS ?z) {" + " " * 40_000 + "}", True),
        ("SELECT (MAX(DISTINCTUCASE(?v)) AS ?z) { ?s ?p ?v }", False),
    ],
)
def test_what_could_make_a_value_much_longer_is_found(text: str, much: bool) -> None:
    assert grows(text) is much


def test_the_length_of_a_replacement_is_that_of_each_text() -> None:
    for length, much in ((20, False), (99, True), (3, False)):
        text = f'SELECT ("once" AS ?a) (REPLACE(?s, ".", "{"x" * length}") AS ?b) {{ ?s ?p "{"x" * 99}" }}'
        assert grows(text) is much


@pytest.mark.parametrize("counts", [(12, 1), (1, 12), (3, 1, 12, 2)])
def test_rows_before_a_replacement_do_not_take_its_place(counts: tuple[int, ...]) -> None:
    name = f"n{''.join(map(str, counts))}"
    for count in counts:
        for length, much in ((99, True), (3, False)):
            rows = " ".join(f'"{"r" * (102 - length)}{number}"' for number in range(count))
            replaced = f'BIND(REPLACE(?{name}, ".", "{"x" * length}") AS ?b)'
            assert grows(f"SELECT * {{ VALUES ?{name} {{ {rows} }} {replaced} }}") is much


@pytest.mark.parametrize(
    "call",
    [
        "IF(1<xsd:integer(?n),CONCAT({0},{0}),2>1)",
        "IF(1<<urn:x'>,1,CONCAT({0},{0}))",
        "IF(1<xsd:integer('2'),CONCAT({0},{0}),2>1)",
    ],
)
def test_calls_that_an_iri_may_hide_are_found(call: str) -> None:
    calls = " ".join(f"BIND({call.format(f'?v{each}')} AS ?v{each + 1})" for each in range(25))
    prefix = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"
    assert grows(f"{prefix} SELECT * {{ ?a <urn:k> ?v0 {calls} }}")


@pytest.mark.parametrize("action", ["query", "update"])
def test_a_hostile_text_takes_little_memory(action: str) -> None:
    text, run = {
        "query": (
            QUERY,
            "found = corrected_text(text, 'http://localhost/', change=counted);"
            " request = QueryRequest(found.text, custom_functions=counting(calls), check=check);"
            " list(store.reader.query(request).rows())",
        ),
        "update": (
            UPDATE,
            "store.writer.update(UpdateRequest("
            "text, check=check, "
            "where_parts=partial(ServerWherePart, room=BufferLimits(lambda: 0), calls=calls)))",
        ),
    }[action]
    child = subprocess.run(
        [sys.executable, "-c", PEAK % (DATA, text, run)], capture_output=True, text=True, timeout=200
    )
    assert "the limit is 1048576 (max_text_length)" in child.stdout, (child.returncode, child.stderr[-500:])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_server_refuses_what_makes_too_long_values(start_server: Start, workers: int) -> None:
    server = start_server(workers=workers, worker_memory_bytes=512 << 20)
    update = {"Content-Type": "application/sparql-update"}
    server.client.post("/update", content=DATA, headers=update).raise_for_status()
    answer = server.client.post("/update", content=UPDATE, headers=update)
    assert "(max_text_length)" in problem_of(answer, 400)["detail"]
    assert server.client.get("/query", params={"query": "ASK { ?a <urn:n> ?n }"}).json()["boolean"] is False
    answer = server.client.get("/query", params={"query": QUERY})
    if workers:
        assert problem_of(answer, 500)["code"] == "worker-lost"
    else:
        assert "(max_text_length)" in problem_of(answer, 400)["detail"]
    small = QUERY.replace("v25", "v9").partition(" BIND(CONCAT(?v9")[0] + " }"
    rows = server.client.get("/query", params={"query": small}).json()["results"]["bindings"]
    assert {row["n"]["value"] for row in rows} == {"1024", "1536"}


def test_limited_calls_give_what_the_store_gives() -> None:
    store = QuadStore.open(None)
    store.writer.update("INSERT DATA { <urn:a> <urn:k> 'a', 'b/é'@en, 3, <urn:c>, '', 'aa$1' }")
    calls = LimitedCalls(Budget(QueryLimits(text=1 << 20)))
    check = calls.begun()
    for expression in (
        "CONCAT(?v, 'x')",
        "CONCAT(?v, ?v)",
        "CONCAT()",
        "ENCODE_FOR_URI(?v)",
        "REPLACE(?v, 'a', ?v)",
        "REPLACE(?v, '(a)', '[$1]')",
        "REPLACE(?v, 'A', 'x', 'i')",
        "REPLACE(?v, '(', ?v)",
        "REPLACE(?v, '', ?v)",
        "IF(EXISTS { ?s ?p ?w FILTER(CONCAT(?w, ?v) = 'aa') }, CONCAT(?v, UCASE(CONCAT(?v))), 1)",
    ):
        text = f"SELECT ?v ({expression} AS ?x) {{ ?s ?p ?v }} ORDER BY ?v"
        plain = corrected_text(text, BASE)
        found = corrected_text(text, BASE, change=counted)
        assert found is not None
        assert "urn:quadrill:limited" in found.text
        functions = {**found.functions, **counting(calls)}
        ours = list(
            store.reader.query(QueryRequest(found.text, custom_functions=functions, check=check)).rows()
        )
        request = (
            QueryRequest(text)
            if plain is None
            else QueryRequest(plain.text, custom_functions=plain.functions)
        )
        assert ours == list(store.reader.query(request).rows()), expression
    store.close()


def test_what_another_endpoint_evaluates_is_left_to_it() -> None:
    here, there = "BIND(CONCAT(?x, ?x) AS ?y)", "SERVICE <urn:far> { BIND(CONCAT('a', 'b') AS ?x) }"
    found = corrected_text(f"SELECT * {{ {there} {here} }}", BASE, change=counted)
    assert found is not None
    assert found.text.count("urn:quadrill:limited:concat") == found.text.count("CONCAT") == 1


def test_a_refused_update_does_not_stay_among_the_processes(start_server: Start) -> None:
    server = start_server()
    text = UPDATE.replace("WHERE {", "WHERE { FILTER(?a <?b#> || 1 > 0)")
    update = {"Content-Type": "application/sparql-update"}
    answer = server.client.post("/update", content=text, headers=update)
    problem_of(answer, 400)
    assert "<?b#>" not in server.client.get("/processes").text


@pytest.mark.parametrize("text", ["SELECT * { ?s ?p ?o } #%s", 'SELECT * { ?s ?p "%s" }', "SELECT (1 <x#%s"])
def test_names_among_signs_of_comments_are_read_once(text: str) -> None:
    text %= "concat#" * 100_000
    began = time.process_time()
    grows(text)
    assert time.process_time() - began < 1
