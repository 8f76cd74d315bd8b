"""Texts that make long values of short ones: whose memory is limited, and what they are told."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from quadrill.app.evaluation.growth import grows, limited
from quadrill.store.errors import LimitError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.tokens import TOKENS_BETWEEN_CHECKS

from .conftest import Start, problem_of

DOUBLINGS = " ".join(f"BIND(CONCAT(?v{each}, ?v{each}) AS ?v{each + 1})" for each in range(25))
QUERY = f"SELECT (STRLEN(?v25) AS ?n) {{ ?a <urn:k> ?v0 {DOUBLINGS} }}"
UPDATE = f"INSERT {{ ?a <urn:n> ?v25 }} WHERE {{ ?a <urn:k> ?v0 {DOUBLINGS} }}"
DATA = "INSERT DATA { " + " ".join(f"<urn:a{each}> <urn:k> 'x{each}' ." for each in range(40)) + " }"

PEAK = """
import resource
from pathlib import Path
from quadrill.app.evaluation.growth import limited
from quadrill.store.errors import LimitError
from quadrill.store.quads.quad_store import QuadStore
store = QuadStore.open(None)
store.update(%r)
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
most = now + (600 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
found = limited(%r, 1 << 20, 256 << 20)
try:
    %s
except LimitError as error:
    print(error.message)
"""


@pytest.mark.parametrize(
    ("text", "much"),
    [
        ("SELECT (CONCAT(STR(?a), ' ', STR(?b)) AS ?c) { ?a ?p ?b }", False),
        ("SELECT (CONCAT(?a, CONCAT(?a, ?b), CONCAT(?a, ?c)) AS ?d) { ?a ?b ?c }", False),
        (f"SELECT (CONCAT({', '.join(['?a'] * 65)}) AS ?b) {{ ?a ?p ?b }}", True),
        (QUERY, True),
        (QUERY.replace("CONCAT(", "concat # (\n ("), True),
        ("SELECT (REPLACE(?a, ',', 'xx(') AS ?b) { ?a ?p 'CONCAT(' }", False),
        ("SELECT (REPLACE(?a, '.', ?a) AS ?b) { ?a ?p ?b }", True),
        (f"SELECT (REPLACE(?a, '.', '{'x' * 99}', 'i') AS ?b) {{ ?a ?p ?b }}", True),
        (f"SELECT (REPLACE(?a, '.', '{'x' * 20}') AS ?b) {{ ?a ?p ?b }}", False),
        # Four bytes each; ENCODE_FOR_URI writes three signs for a byte, whatever the letter.
        (f"SELECT (REPLACE(?a, '.', '{chr(0x1F600) * 20}') AS ?b) {{ ?a ?p ?b }}", True),
        ("SELECT (ENCODE_FOR_URI(ENCODE_FOR_URI(ENCODE_FOR_URI(?a))) AS ?b) { ?a ?p ?b }", False),
        (f"SELECT ({'ENCODE_FOR_URI(' * 4}?a)))) AS ?b) {{ ?a ?p ?b }}", True),
        (UPDATE, True),
        (DATA, False),
    ],
)
def test_what_could_make_a_value_much_longer_is_found(text: str, much: bool) -> None:
    assert grows(text) is much
    assert (limited(text, 100, 100) is not None) is much


@pytest.mark.parametrize("action", ["query", "update"])
def test_a_hostile_text_takes_little_memory(action: str) -> None:
    text, run = {
        "query": (
            QUERY,
            "list(store.query(found.text, custom_functions=found.functions, check=found.check).rows())",
        ),
        "update": (
            UPDATE,
            "store.update(found.text, custom_functions=found.functions, check=found.check)",
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
    """Each text is padded with calls that change nothing until it counts as one that grows."""
    store = QuadStore.open(None)
    store.update("INSERT DATA { <urn:a> <urn:k> 'a', 'b/é'@en, 3, <urn:c>, '', 'aa$1' }")
    padding = "CONCAT(" + ", ".join(["''"] * 70) + ")"
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
    ):
        text = f"SELECT ?v ({expression} AS ?x) ({padding} AS ?y) {{ ?s ?p ?v }} ORDER BY ?v"
        found = limited(text, 1 << 20, 0)
        assert found is not None
        ours = list(store.query(found.text, custom_functions=found.functions, check=found.check).rows())
        assert ours == list(store.query(text).rows()), expression
    store.close()


def test_a_text_that_may_hide_calls_is_refused() -> None:
    text = "INSERT { ?a <urn:k> ?b } WHERE { ?a ?p ?b FILTER(?a <?b#> || 1 > 0) BIND(CONCAT(?b, ?b) AS ?c) }"
    with pytest.raises(LimitError, match="may hide calls"):
        limited(text, 100, 100)


@pytest.mark.parametrize(
    "text",
    [
        "BASE <http://x/> INSERT {?s <#name> ?z} WHERE {?s <#a> ?a BIND(CONCAT(?a,'-') AS ?z)}",
        "INSERT {?s <urn:x#name> ?z} WHERE {?s <urn:x#a> ?a BIND(REPLACE(?a,'a','b') AS ?z)}",
        'INSERT DATA {<http://a> <#b> "concat(x)"}',
        'INSERT DATA {<http://a> <#b> "concat(x"}',
        "INSERT {?s <urn:it's> ?z} WHERE {?s ?p ?a {SELECT (GROUP_CONCAT(?a;SEPARATOR=',') AS ?z) {}}}",
        'INSERT {?s ?p ?t} WHERE {VALUES (?l ?t) {("concat(x)" <#b>)} ?s ?p ?l}',
        "SELECT (REPLACE(REPLACE(REPLACE(REPLACE(?a,'a','b'),'c','d'),'e','f'),'g','h') AS ?b) {?s ?p ?a}",
    ],
)
def test_a_text_that_does_not_grow_in_either_reading_is_left_alone(text: str) -> None:
    assert limited(text, 1 << 20, 1 << 26) is None


def test_a_text_whose_iris_are_beyond_doubt_is_limited() -> None:
    assert limited(UPDATE.replace("?a <urn:n>", "?a <#n>"), 100, 100) is not None


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
    text = f"INSERT {{ ?a <urn:n> ?v25 }} WHERE {{ ?a <urn:k> ?v0 {calls} }}"
    with pytest.raises(LimitError, match="may hide calls"):
        limited(text, 100, 100)


def test_arguments_that_an_iri_may_hide_are_found() -> None:
    hidden = ",".join(["?a"] * 70)
    with pytest.raises(LimitError, match="may hide calls"):
        limited(f"SELECT (CONCAT(?a<x:f(?b),{hidden},?f>?g) AS ?z) {{ ?s ?p ?a }}", 100, 100)


def test_calls_behind_a_keyword_without_a_border_are_limited() -> None:
    store = QuadStore.open(None)
    store.update(f"INSERT DATA {{ <urn:a> <urn:k> '{'x' * 100}' }}")
    many = ", ".join(["?v"] * 70)
    text = f"SELECT (MAX(DISTINCTCONCAT({many})) AS ?z) {{ ?s ?p ?v }}"
    found = limited(text, 100, 0)
    assert found is not None
    with pytest.raises(LimitError, match="max_text_length"):
        list(store.query(found.text, custom_functions=found.functions, check=found.check).rows())
    store.close()


def test_a_doubtful_text_full_of_calls_is_judged_in_bounded_time() -> None:
    text = "INSERT DATA { <urn:a> <urn:b> '''" + "concat( " * 100_000 + "''' } ; INSERT DATA {(?a <#b>)}"
    with pytest.raises(LimitError, match="may hide calls"):
        limited(text, 100, 100)


def test_a_refused_update_does_not_stay_among_the_processes(start_server: Start) -> None:
    server = start_server()
    text = UPDATE.replace("WHERE {", "WHERE { FILTER(?a <?b#> || 1 > 0)")
    update = {"Content-Type": "application/sparql-update"}
    answer = server.client.post("/update", content=text, headers=update)
    assert "may hide calls" in problem_of(answer, 400)["detail"]
    assert "<?b#>" not in server.client.get("/processes").text


@pytest.mark.parametrize("text", ["SELECT * { ?s ?p ?o } #%s", 'SELECT * { ?s ?p "%s" }', "SELECT (1 <x#%s"])
def test_names_among_signs_of_comments_are_read_once(text: str) -> None:
    text %= "concat#" * 100_000
    began = time.process_time()
    grows(text)
    assert time.process_time() - began < 5


def test_a_text_that_grows_is_read_once() -> None:
    text = UPDATE + "#\n" + "." * (100 * TOKENS_BETWEEN_CHECKS)
    checks: list[None] = []
    assert limited(text, 100, 100, lambda: checks.append(None)) is not None
    assert len(checks) == 101
