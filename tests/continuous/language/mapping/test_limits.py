"""One record may take 10,000 solutions, a second and 16 MB, whatever the mapping makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.decode import of_records
from quadrill.continuous.language.mapping.limits import RecordLimits
from quadrill.continuous.language.mapping.mapping import RecordMapping, compile_mapping
from quadrill.store.errors import LimitError
from quadrill.store.pushes.client import ClientLeftError, waiting_client
from quadrill.store.pushes.decode import DecodeOptions
from quadrill.store.pushes.records import records_of_value
from tests.examples import ALL


def values(count: int, variable: str) -> str:
    return f"VALUES ?{variable} {{ {' '.join(map(str, range(count)))} }}"


def construct(where: str, template: str = "<urn:s> <urn:p> 1") -> dict[str, str]:
    return {"construct": f"CONSTRUCT {{ {template} }} WHERE {{ {where} }}"}


def made(members: dict[str, Any], limits: RecordLimits = RecordLimits()) -> RecordMapping:  # noqa: B008
    return compile_mapping(read_declaration(members), "http://localhost/", limits)


def unions(count: int) -> str:
    return " ".join(f"{{ BIND({n} AS ?u{n}) }} UNION {{ BIND(-{n} AS ?u{n}) }}" for n in range(count))


def growing(expression: str, count: int = 40) -> str:
    """A chain of BINDs, each of which makes its value by an expression of the one before."""
    steps = [f"BIND({expression.replace('$', f'?g{n}')} AS ?g{n + 1})" for n in range(count)]
    return f"BIND(STR(?a) AS ?g0) {' '.join(steps)}"


LONG = "x" * 100_000
MUCH = {
    "eight VALUES of 40": (construct(" ".join(values(40, f"v{n}") for n in range(8))), {"a": 1}),
    "24 UNIONs of two": (construct(unions(24)), {"a": 1}),
    "OPTIONALs of two": (
        construct(" ".join(f"OPTIONAL {{ VALUES ?o{n} {{ 1 2 }} }}" for n in range(20))),
        {"a": 1},
    ),
    "a product below a filter": (
        construct(f"{values(200, 'v')} {values(200, 'w')} FILTER(?v = 1 && ?w = 1)"),
        {"a": 1},
    ),
    "a product within OPTIONAL": (
        construct(f"OPTIONAL {{ {values(200, 'v')} {values(200, 'w')} FILTER(?v > 500) }}"),
        {"a": 1},
    ),
    "a long VALUES": (construct(values(10_001, "v")), {"a": 1}),
    "arrays times VALUES": (construct(values(101, "v"), "<urn:s> <urn:p> ?a"), {"a": list(range(100))}),
    "arrays times UNION": (construct(unions(3), "<urn:s> <urn:p> ?a"), {"a": list(range(2_000))}),
    "arrays with an intermediate result": (
        construct(f"{{ {values(101, 'v')} }} {{ {values(1, 'w')} }} FILTER(?v < 0)", "<urn:s> <urn:p> ?a"),
        {"a": list(range(100))},
    ),
    "wide arrays": (
        construct("", " . ".join(f"<urn:s> <urn:p{n}> ?f_{n}" for n in range(300))),
        {"f": [{str(n): n for n in range(300)}] * 9_000},
    ),
    "CONCAT doubles": (construct(growing("CONCAT($, $)"), "<urn:s> <urn:p> ?g40"), {"a": "x" * 100}),
    "REPLACE doubles": (
        construct(growing('REPLACE($, "x", "xx")'), "<urn:s> <urn:p> ?g40"),
        {"a": "x" * 100},
    ),
    "ENCODE_FOR_URI": (construct(growing("ENCODE_FOR_URI($)"), "<urn:s> <urn:p> ?g40"), {"a": "%" * 50_000}),
    "a long text for each solution": (
        construct(f"{values(9_000, 'v')} BIND(CONCAT(?a, STR(?v)) AS ?t)", "<urn:s> <urn:p> ?t"),
        {"a": LONG},
    ),
    "shorter texts for each solution": (
        construct(f"{values(9_000, 'v')} BIND(CONCAT(?a, STR(?v)) AS ?t)", "<urn:s> <urn:p> ?t"),
        {"a": "x" * 4_000},
    ),
    "copies by other functions": (
        construct(f"{values(9_000, 'v')} BIND(UCASE(SUBSTR(?a, ?v)) AS ?t)", "<urn:s> <urn:p> ?t"),
        {"a": LONG},
    ),
    "a regular expression for each solution": (
        construct(f'{values(9_000, "v")} FILTER(REGEX(?a, CONCAT("(x+x+)+", STR(?v), "$")))'),
        {"a": LONG},
    ),
    "an array with a long text beside": (
        construct("", "<urn:s> <urn:p> ?a, ?b"),
        {"a": list(range(9_000)), "b": LONG},
    ),
    "many triples for each solution": (
        construct(values(9_000, "v"), " . ".join(f"<urn:s> <urn:p{n}> ?v" for n in range(500))),
        {"a": 1},
    ),
    "a long prefix of a context": (
        {"jsonld": {"@context": {"p": {"@id": f"urn:{LONG}/", "@prefix": True}, "a": "urn:a"}}},
        {"a": [{"@id": f"p:{n}"} for n in range(5_000)]},
    ),
    "a long vocabulary": (
        {"jsonld": {"@context": {"@vocab": f"urn:{LONG}/", "a": {"@id": "urn:a", "@type": "@vocab"}}}},
        {"a": [f"v{n}" for n in range(5_000)]},
    ),
    "a long datatype": (
        {"jsonld": {"@context": {"a": {"@id": "urn:a", "@type": f"urn:{LONG}"}}}},
        {"a": [f"v{n}" for n in range(5_000)]},
    ),
    "a long datatype in lists": (
        {"jsonld": {"@context": {"a": {"@id": "urn:a", "@type": f"urn:{LONG}", "@container": "@list"}}}},
        {"a": [f"v{n}" for n in range(5_000)]},
    ),
    "a long datatype of nodes with ids": (
        {"jsonld": {"@context": {"i": "@id", "a": {"@id": "urn:a", "@type": f"urn:{LONG}"}, "n": "urn:n"}}},
        {"n": [{"i": f"urn:{n}", "a": "b"} for n in range(5_000)]},
    ),
}  # fmt: skip


LARGEST = (
    "eight VALUES of 40",
    "24 UNIONs of two",
    "wide arrays",
    "CONCAT doubles",
    "REPLACE doubles",
    "a long text for each solution",
    "shorter texts for each solution",
    "copies by other functions",
    "an array with a long text beside",
    "many triples for each solution",
    "a long prefix of a context",
    "a long datatype in lists",
)
"""Those that take the most memory without limits."""


@pytest.mark.parametrize("name", MUCH)
def test_a_record_that_needs_too_much_is_an_error(name: str) -> None:
    members, record = MUCH[name]
    mapping, began = made(members), time.thread_time()
    with pytest.raises(LimitError) as caught:
        mapping.apply(record)
    assert caught.value.code == "limit"
    assert time.thread_time() - began < 3


@pytest.mark.parametrize(
    ("where", "record"),
    [
        (f"{values(100, 'v')} {values(100, 'w')}", {"a": 1}),
        (values(10_000, "v"), {"a": 1}),
        (values(100, "v"), {"a": list(range(100))}),
        (" ".join(f"{{ BIND({n} AS ?u{n}) }} UNION {{}}" for n in range(13)), {"a": 1}),
    ],
)
def test_ten_thousand_solutions_are_within_the_limit(where: str, record: dict[str, Any]) -> None:
    mapping = made(construct(where, "<urn:s> <urn:p> ?a"), RecordLimits(seconds=60))
    for _ in range(2):
        assert len(mapping.apply(record).statements) == (100 if isinstance(record["a"], list) else 1)


def test_a_long_table_that_a_field_looks_up_is_within_the_limit() -> None:
    table = " ".join(f'("k{n}" {n})' for n in range(11_000))
    mapping = made(construct(f"VALUES (?k ?v) {{ {table} }}", "<urn:s> <urn:p> ?v"))
    assert mapping.apply({"k": "k10999"}).statements[0][2].startswith('"10999"')


@pytest.mark.slow_cases("wide arrays")
@pytest.mark.parametrize("name", ["24 UNIONs of two", "a long text for each solution", "wide arrays"])
def test_the_place_of_the_record_is_named_and_a_partial_push_goes_on(name: str) -> None:
    members, record = MUCH[name]
    mapping = made(members)
    with pytest.raises(LimitError, match="^record 1: ") as caught:
        of_records(records_of_value([record]), mapping, DecodeOptions(at=0))
    assert caught.value.code == "limit"
    decoded = of_records(records_of_value([record, record]), mapping, DecodeOptions(at=0, partial=True))
    assert [each.place for each in decoded.bad] == ["record 1", "record 2"]
    assert all(each.text for each in decoded.bad)


def test_records_of_several_threads_are_counted_apart() -> None:
    mapping = made(construct(f"{values(60, 'v')} {values(60, 'w')}"), RecordLimits(seconds=60))
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(10):
                mapping.apply({"a": 1})
        except LimitError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_a_client_that_leaves_ends_the_work() -> None:
    members, record = MUCH["a regular expression for each solution"]
    mapping, began = made(members, RecordLimits(seconds=60)), time.perf_counter()
    options = DecodeOptions(at=0, partial=True)
    with waiting_client(lambda: time.perf_counter() - began > 0.3), pytest.raises(ClientLeftError):
        of_records(records_of_value([record] * 100), mapping, options)
    assert time.perf_counter() - began < 3


def test_the_memory_of_a_record_is_bounded() -> None:
    """In a process whose address space is limited: without limits these records take gigabytes."""
    script = """
        import json, resource, sys
        from quadrill.continuous.language.mapping.declaration import read_declaration
        from quadrill.continuous.language.mapping.mapping import compile_mapping
        from quadrill.store.errors import LimitError
        cases = json.load(sys.stdin)
        def status():
            lines = [line.split() for line in open("/proc/self/status") if "kB" in line]
            return {name: int(size) for name, size, _ in lines}
        limit = (status()["VmSize:"] << 10) + 400 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for name, (members, record) in cases.items():
            mapping = compile_mapping(read_declaration(members), "http://localhost/")
            before = status()["VmHWM:"]
            try:
                mapping.apply(record)
                print(name, "is not refused")
            except LimitError:
                pass
            grown = status()["VmHWM:"] - before
            if grown > 150 << 10:
                print(name, "takes", grown, "kB")
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=json.dumps({name: MUCH[name] for name in (LARGEST if ALL else LARGEST[::2])}),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
