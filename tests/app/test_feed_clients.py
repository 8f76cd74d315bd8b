"""Feeds as clients in use read them: in chunks, no event without data, `retry` with the first; as lines."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
import httpx_sse
import pytest
import requests
import sseclient

from tests.app.conftest import LiveServer, Start

TEXT = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
FEED = "/queries/q/results?from=0"


@pytest.fixture
def fed(start_server: Start) -> LiveServer:
    """A server with a query, three events of it, and heartbeats all the time."""
    server = start_server(sse_heartbeat=0.05)
    headers = {"Content-Type": "text/plain"}
    assert server.client.put("/queries/q", content=TEXT, headers=headers).status_code == 201
    for number in range(1, 4):
        push(server, number)
    return server


def push(server: LiveServer, number: int, prefix: str = "urn:\u2028") -> None:
    """An element whose subject is the prefix with the number."""
    answer = server.client.post(
        "/streams",
        params={"iri": "http://e/s", "at": str(1_000 * number), "wait": "true"},
        content=f"<{prefix}{number}> <urn:p> <urn:o> .",
        headers={"Content-Type": "application/n-triples; charset=utf-8"},
    )
    assert answer.status_code == 200, answer.text


def subject(data: str) -> str:
    return str(json.loads(data)["results"]["bindings"][0]["s"]["value"])


def with_httpx_sse(url: str) -> Iterator[tuple[str | None, str, str]]:
    with httpx.Client() as client, httpx_sse.connect_sse(client, "GET", url) as source:
        for event in source.iter_sse():
            yield event.id, event.event, event.data


def with_sseclient(url: str) -> Iterator[tuple[str | None, str, str]]:
    answer = requests.get(url, headers={"Accept": "text/event-stream"}, stream=True, timeout=10)
    for event in sseclient.SSEClient(answer).events():
        yield event.id, event.event, event.data


def with_iter_lines(url: str) -> Iterator[tuple[str | None, str, str]]:
    answer = requests.get(url, headers={"Accept": "text/event-stream"}, stream=True, timeout=10)
    assert answer.encoding == "utf-8"
    fields: dict[str, Any] = {}
    for line in answer.iter_lines():
        name, _, value = line.decode().partition(": ")
        if line:
            fields[name] = value
        elif fields:
            yield fields["id"], fields["event"], fields["data"]
            fields = {}


@pytest.mark.parametrize("read", [with_httpx_sse, with_sseclient, with_iter_lines])
def test_each_client_gets_each_event_and_nothing_else(fed: LiveServer, read: Any) -> None:
    events = read(fed.url.rstrip("/") + FEED)
    found = list(islice(events, 3))
    for number in (4, 5):
        push(fed, number)
        found += list(islice(events, 1))
    assert [(number, kind, subject(data)) for number, kind, data in found] == [
        (str(number), "insert", f"urn:\u2028{number}") for number in range(1, 6)
    ]
    events.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_bytes_on_the_wire(fed: LiveServer, version: str) -> None:
    address = httpx.URL(fed.url)
    with socket.create_connection((address.host, address.port or 80), 10) as sock:
        asked = f"GET {FEED} HTTP/{version}\r\nHost: {address.host}\r\nAccept: text/event-stream\r\n\r\n"
        sock.sendall(asked.encode())
        data = b""
        while data.count(b": still here\n") < 2 or data.count(b"\ndata: ") < 3:
            data += sock.recv(65536)
        assert fed.client.delete("/queries/q").status_code == 204
        while piece := sock.recv(65536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"Content-Type: text/event-stream; charset=utf-8" in head
    assert (b"Transfer-Encoding: chunked" in head) == (version == "1.1")
    if version == "1.1":
        body = unchunked(body)
    blocks = body.split(b"\n\n")
    rest = blocks.pop()
    assert all(line.startswith(b":") for line in rest.splitlines())
    assert all(b"\ndata: " in block for block in blocks)
    assert [b"retry: 2000" in block for block in blocks] == [True, False, False]


def unchunked(body: bytes) -> bytes:
    """The content of a chunked body, which must have its end."""
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        content, end, body = content + body[:length], body[length : length + 2], body[length + 2 :]
        assert end == b"\r\n"
        if not length:
            assert body == b""
            return content


def test_the_same_events_as_lines(fed: LiveServer) -> None:
    headers = {"Accept": "application/x-ndjson"}
    with fed.client.stream("GET", FEED, headers=headers) as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        lines = answer.iter_text()
        text = "".join(islice(lines, 1))
        while text.count("\n") < 3:
            text += next(lines)
    found = [json.loads(line) for line in text.split("\n") if line]
    assert [sorted(each) for each in found] == [["data", "event", "id"]] * 3
    assert [(each["id"], each["event"]) for each in found] == [(1, "insert"), (2, "insert"), (3, "insert")]
    assert found[0]["data"]["results"]["bindings"][0]["s"]["value"] == "urn:\u20281"
    resumed = {**headers, "Last-Event-ID": "2"}
    with fed.client.stream("GET", "/queries/q/results", headers=resumed) as answer:
        assert first_line(answer)["id"] == 3


def first_line(answer: httpx.Response) -> Any:
    """The first line of JSON; heartbeats are empty lines."""
    text = ""
    for part in answer.iter_text():
        text = (text + part).lstrip("\n")
        if "\n" in text:
            break
    return json.loads(text.split("\n")[0])


def test_changes_and_dead_letters_as_lines(fed: LiveServer) -> None:
    headers = {"Accept": "application/x-ndjson"}
    fed.update("INSERT DATA { <urn:a> <urn:p> 1 }")
    with fed.client.stream("GET", "/changes?after=0", headers=headers) as answer:
        line = first_line(answer)
        assert (line["id"], line["event"], line["data"]["version"]) == (1, "message", 1)
    push(fed, 1)
    with fed.client.stream("GET", "/streams/s/dead-letters", headers=headers) as answer:
        line = first_line(answer)
        assert (line["id"], line["event"], line["data"]["reason"]) == (None, "insert", "late")


def test_what_is_asked_for_first_is_given(fed: LiveServer) -> None:
    for accept, kind in (
        ("application/x-ndjson;q=0.5, text/event-stream", "text/event-stream; charset=utf-8"),
        ("application/x-ndjson, text/event-stream;q=0.5", "application/x-ndjson"),
        ("application/x-ndjson;q=0.5, application/sparql-results+json", "application/sparql-results+json"),
    ):
        with fed.client.stream("GET", FEED, headers={"Accept": accept}) as answer:
            assert answer.headers["Content-Type"] == kind
