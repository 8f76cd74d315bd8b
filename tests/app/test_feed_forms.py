"""Feeds as rows of CSV and as RDF Messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.store.documents.messages import split_messages
from tests.app.conftest import LiveServer, Start

SELECT = "SELECT ?s ?o { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
CONSTRUCT = "CONSTRUCT { ?s <urn:q> ?o . GRAPH <urn:g> { ?s <urn:r> _:b } } WHERE { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"  # noqa: E501


@pytest.fixture
def fed(start_server: Start) -> Iterator[LiveServer]:
    yield with_queries(start_server())


def with_queries(server: LiveServer) -> LiveServer:
    """A server with three queries, and three elements for them."""
    for name, query, output in (
        ("rows", SELECT, "istream"),
        ("graph", CONSTRUCT, "istream"),
        ("both", CONSTRUCT.replace("_:b", "?o"), "changes"),
    ):
        answer = server.client.put(f"/queries/{name}", json={"query": query, "output": output})
        assert answer.status_code == 201, answer.text
    for number in range(1, 4):
        push(server, number)
    return server


def push(server: LiveServer, number: int) -> None:
    answer = server.client.post(
        "/streams",
        params={"iri": "http://e/s", "at": str(1_000 * number), "wait": "true"},
        content=f'<urn:{number}> <urn:p> "a, ""b""'.replace('""', '\\"') + f'{number}" .',
        headers={"Content-Type": "text/turtle"},
    )
    assert answer.status_code == 200, answer.text


def read(server: LiveServer, path: str, accept: str, until: str, count: int) -> tuple[Any, str]:
    """The headers, and the text until something is there so many times."""
    with server.client.stream("GET", path, headers={"Accept": accept}) as answer:
        assert answer.status_code == 200, answer.read()
        text = ""
        for part in answer.iter_text():
            text += part
            if text.count(until) >= count:
                break
        return answer.headers, text


def test_a_feed_as_rows_of_csv(fed: LiveServer) -> None:
    headers, text = read(fed, "/queries/rows/results?from=0&follow=true", "text/csv", "\r\n", 4)
    assert headers["Content-Type"] == "text/csv; charset=utf-8"
    assert list(csv.reader(text.splitlines())) == [
        ["id", "event", "at", "s", "o"],
        *(
            [str(number), "insert", str(number * 1000), f"urn:{number}", f'a, "b"{number}']
            for number in (1, 2, 3)
        ),
    ]
    _, text = read(fed, "/queries/rows/results?from=2&follow=true", "text/csv", "\r\n", 2)
    assert text.splitlines()[1].startswith("3,insert,3000,urn:3,")


@pytest.mark.parametrize(
    ("path", "accept", "first"),
    [
        ("/queries/rows/results", "application/x-ndjson", ""),
        ("/queries/rows/results?follow=true", "text/csv", "id,event,at,s,o\r\n"),
        ("/queries/graph/results", "text/turtle; version=1.2-messages", 'VERSION "1.2-messages"\n'),
        ("/changes", "application/x-ndjson", ""),
        ("/streams/s/dead-letters", "application/x-ndjson", ""),
    ],
)
def test_quiet_feed_in_lines_sends_empty_lines_after_its_beginning(
    start_server: Start, path: str, accept: str, first: str
) -> None:
    server = with_queries(start_server(sse_heartbeat=0.1))
    _, text = read(server, path, accept, "\n", 3 + first.count("\n"))
    assert text.startswith(first)
    assert set(text.removeprefix(first)) == {"\n"}


def test_heartbeats_between_events_change_no_row_line_or_message(start_server: Start) -> None:
    server = with_queries(start_server(sse_heartbeat=0.1))
    read_with_silence = [
        read_across_silence(server, f"/queries/{path}", accept, number)
        for number, path, accept in (
            (4, "rows/results?from=0&follow=true", "text/csv"),
            (5, "rows/results?from=0", "application/x-ndjson"),
            (6, "graph/results?from=0", "application/trig; version=1.2-messages"),
        )
    ]
    rows, lines, messages = read_with_silence
    assert [row["id"] for row in csv.DictReader(rows.splitlines())] == [str(each) for each in range(1, 5)]
    found = [json.loads(line) for line in lines.splitlines() if line]
    assert [each["id"] for each in found] == [1, 2, 3, 4, 5]
    quads = [list(parse(each.text, RdfFormat.TRIG)) for each in split_messages(messages)]
    assert [len(each) for each in quads] == [2] * 6


def read_across_silence(server: LiveServer, path: str, accept: str, number: int) -> str:
    """The text of a feed up to an element that is pushed after two heartbeats."""
    with server.client.stream("GET", path, headers={"Accept": accept}) as answer:
        parts, text = answer.iter_text(), ""
        while "\n\n\n" not in text.replace("\r", ""):
            text += next(parts)
        push(server, number)
        while f"urn:{number}" not in text or not text.endswith("\n"):
            text += next(parts)
        return text


def test_without_follow_csv_is_the_current_answer(fed: LiveServer) -> None:
    answer = fed.client.get("/queries/rows/results", headers={"Accept": "text/csv"})
    assert answer.text.splitlines()[0] == "s,o"


@pytest.mark.parametrize(
    ("media_type", "rdf_format", "label"),
    [
        ("application/n-quads", RdfFormat.N_QUADS, "1.2-messages"),
        ("application/trig", RdfFormat.TRIG, "1.1-messages"),
        ("application/n-triples", RdfFormat.N_TRIPLES, "1.2-basic-messages"),
        ("text/turtle", RdfFormat.TURTLE, "1.2-messages"),
    ],
)
def test_a_feed_as_rdf_messages(fed: LiveServer, media_type: str, rdf_format: RdfFormat, label: str) -> None:
    accept = f"{media_type}; version={label}"
    headers, text = read(fed, "/queries/graph/results?from=0", accept, "MESSAGE\n", 3)
    assert headers["Content-Type"] == accept
    assert text.startswith(f'VERSION "{label}"\n# insert id 1 at 1000\n')
    found = [list(parse(each.text, rdf_format)) for each in split_messages(text)]
    assert [len(each) for each in found] == [2, 2, 2]
    assert [str(each[0].subject) for each in found] == ["<urn:1>", "<urn:2>", "<urn:3>"]
    graphs = {str(quad.graph_name) for each in found for quad in each}
    assert ("<urn:g>" in graphs) == (rdf_format in (RdfFormat.N_QUADS, RdfFormat.TRIG))


def test_the_messages_of_a_feed_can_be_pushed(fed: LiveServer) -> None:
    accept = "application/trig; version=1.2-messages"
    _, text = read(fed, "/queries/graph/results?from=0", accept, "MESSAGE\n", 3)
    answer = fed.client.post("/streams/again?at=5", content=text, headers={"Content-Type": accept})
    assert (answer.status_code, answer.json()["accepted"]) == (200, 3)


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/queries/rows/results", "application/n-quads; version=1.2-messages"),
        ("/queries/both/results", "application/n-quads; version=1.2-messages"),
        ("/queries/graph/results?follow=true", "text/csv"),
    ],
)
def test_what_a_form_cannot_say_is_not_acceptable(fed: LiveServer, path: str, accept: str) -> None:
    assert fed.client.get(path, headers={"Accept": accept}).status_code == 406


@pytest.mark.parametrize("accept", ["text/csv", "application/n-quads; version=1.2-messages"])
def test_a_query_that_a_start_pauses_has_no_forms_that_need_its_columns(
    start_server: Start, tmp_path: Path, accept: str
) -> None:
    with running.serve(Settings(data=str(tmp_path / "data"), port=0)) as first:
        assert httpx.put(f"{first.url}/queries/q", json={"query": SELECT}).status_code == 201
    server = start_server(data=str(tmp_path / "data"), paused=("q",))
    answer = server.client.get("/queries/q/results?follow=true", headers={"Accept": accept})
    assert (answer.status_code, answer.json()["code"]) == (409, "query-not-running"), answer.text
