"""What one request may take: memory in proportion to its body, and a problem document where it may not."""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.parse import parse_qsl

import pytest

from quadrill.app.config import Settings
from quadrill.app.http import forms, protocol
from quadrill.app.http.errors import HttpError
from quadrill.app.http.problems import problem_answer
from quadrill.store.errors import LimitError
from quadrill.store.sparql.update_text import split_update

from .conftest import Start, problem_of

UPDATE = {"Content-Type": "application/sparql-update"}

PEAK = """
import resource
from pathlib import Path
from quadrill.app.http.protocol import fields_of
from quadrill.store.quads.quad_store import QuadStore
size = 16 << 20
store = QuadStore.open(None)
store.writer.update("INSERT DATA { <urn:a> <urn:b> 1 }")
%s
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 8 * size, now + 8 * size))
%s
print("within")
"""


@pytest.mark.always("a wider literal", "escapes", "white space")
@pytest.mark.process
@pytest.mark.parametrize(
    ("prepared", "run"),
    [
        ("t = \"INSERT DATA { <urn:a> <urn:h> '\" + 'x' * size + \"' }\"", "store.writer.update(t)"),
        (
            "t = \"INSERT DATA { <urn:a> <urn:h> '\\u4e2d\" + 'x' * (size * 3 // 4) + \"' }\"",
            "store.writer.update(t)",
        ),
        (
            "t = \"INSERT DATA { <urn:a> <urn:h> '\\U0001f600\" + 'x' * (size * 3 // 8) + \"' }\"",
            "store.writer.update(t)",
        ),
        ('t = "INSERT DATA { <urn:a> <urn:h> \'" + chr(92) * size + "\' }"', "store.writer.update(t)"),
        ("t = 'CLEAR ALL #' + 'x' * size", "store.writer.update(t)"),
        ("t = ' ' * size + 'CLEAR ALL'", "store.writer.update(t)"),
        ("t = b'update=' + b'%20' * (size // 3)", "fields_of(t)"),
    ],
    ids=["a literal", "a wide literal", "a wider literal", "escapes", "a comment", "white space", "a form"],
)
def test_a_text_takes_at_most_eight_times_its_size(prepared: str, run: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PEAK % (prepared, run)], capture_output=True, text=True, timeout=200
    )
    assert child.stdout == "within\n", (child.returncode, child.stderr[-500:])


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("x" * 1000, True),
        ("\u00e9" + "x" * 900, True),
        ("\u4e2d" * 333, True),  # 3 bytes of UTF-8 each
        ("\u4e2d" + "x" * 700, True),
        ("\u4e2d" + "x" * 760, False),
        ("\U0001f600" * 250, True),  # 4 bytes of UTF-8 each
        ("\U0001f600" + "x" * 350, True),
        ("\U0001f600" + "x" * 390, False),
    ],
)
def test_an_update_is_limited_by_the_memory_of_its_text(text: str, taken: bool) -> None:
    """One character beyond U+00FF makes all take two bytes in memory, one beyond U+FFFF four."""
    settings = Settings(max_body_bytes=1000)
    call = protocol.SparqlCall((), text, protocol.UPDATE)
    if taken:
        assert protocol.update_text(call, settings) == text
    else:
        with pytest.raises(HttpError) as caught:
            protocol.update_text(call, settings)
        assert (caught.value.status, caught.value.code) == (413, "body-too-large")


@pytest.mark.parametrize("piece_bytes", [3, 4, 5, 7, 64])
def test_a_long_form_is_read_as_a_short_one(piece_bytes: int) -> None:
    text = "a=b&c=%41%4a+%C3%A9&&d&=e&%%41%=%4&x=%E6%97%A5%F0%9F%98%80+%zz%2B=&y==z"
    expected = parse_qsl(text, keep_blank_values=True, errors="strict")
    assert list(forms._large_fields(text.encode(), piece_bytes)) == expected


def test_a_request_has_a_limited_number_of_quads(start_server: Start) -> None:
    server = start_server(max_request_quads=10)
    many = ", ".join(map(str, range(11)))
    answer = server.client.post(
        "/update", content=f"INSERT DATA {{ <urn:a> <urn:b> {many} }}", headers=UPDATE
    )
    assert "10 quads" in problem_of(answer, 413)["detail"]
    for method, path in (("PUT", "/store?default"), ("POST", "/store?default"), ("PUT", "/store")):
        answer = server.client.request(
            method, path, content=f"<urn:a> <urn:b> {many} .", headers={"Content-Type": "application/trig"}
        )
        assert "10 quads" in problem_of(answer, 413)["detail"], (method, path)
    assert server.client.get("/query", params={"query": "ASK { ?s ?p ?o }"}).json()["boolean"] is False
    few = ", ".join(map(str, range(9)))
    server.client.post(
        "/update", content=f"INSERT DATA {{ <urn:a> <urn:b> {few} }}", headers=UPDATE
    ).raise_for_status()


@pytest.mark.parametrize(
    ("data", "quads"),
    [
        ("<s> <p> 1", 1),
        ("<s> <p> 1 , 2 ; <q> 3 . <t> <p> 4 .", 4),
        ("<s> <p> [ <q> [ <r> 1 ] ]", 3),
        ("<s> <p> ( 1 2 3 )", 7),
        ("GRAPH <g> { <s> <p> ',,,,' } GRAPH <h> { <s> <p> 1 }", 2),
        ("<s> <p> <o> {| <q> 1 |}", 3),
    ],
)
def test_never_more_quads_are_inserted_than_were_counted(data: str, quads: int) -> None:
    with pytest.raises(LimitError):
        split_update(f"INSERT DATA {{ {data} }}", most_quads=quads - 1)
    split_update(f"INSERT DATA {{ {data} }}", most_quads=3 * quads + 2)


def test_a_full_memory_is_a_problem_document() -> None:
    answer = problem_answer(MemoryError())
    assert (answer.status, json.loads(answer.body or b"")["code"]) == (507, "out-of-memory")
