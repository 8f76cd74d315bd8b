"""`quadrill.client` against real servers: what it sends and makes of answers, and feeds over lost servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from rdflib import Graph, URIRef
from rdflib import Literal as RdfLiteral

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.client import AsyncClient, Client, FeedEvent, QuadrillError
from quadrill.client.resuming import FeedPlace
from tests.app.conftest import LiveServer, Start, start_server

__all__ = ["start_server"]

TEXT = "SELECT ?s ?v { STREAM <http://e/s> [NOW] { ?s <urn:p> ?v } }"
S = "http://e/s"


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server()


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url) as found:
        yield found


def quad(number: int) -> Quad:
    return Quad(NamedNode(f"urn:{number}"), NamedNode("urn:p"), Literal(number))


def test_answers_are_terms_values_and_frames(client: Client) -> None:
    client.update('INSERT DATA { <urn:a> <urn:p> 1, 2.5, 2e0, true, "x"@en, "1"^^<urn:t> }')
    answer = client.query("SELECT ?o ?none { ?s <urn:p> ?o OPTIONAL { ?s <urn:q> ?none } } ORDER BY STR(?o)")
    assert answer.variables == ["o", "none"] and len(answer) == 6
    assert RdfLiteral(True) in [row["o"] for row in answer]
    values = {(type(row["o"]).__name__, str(row["o"])) for row in answer.rows()}
    assert values == {
        ("int", "1"), ("Decimal", "2.5"), ("float", "2.0"), ("bool", "True"), ("str", "x"), ("str", "1")
    }  # fmt: skip
    assert all(row["none"] is None for row in answer.rows())
    assert client.query("ASK { <urn:a> ?p ?o }").boolean
    graph = client.query("CONSTRUCT { ?s ?p 1 } { ?s ?p ?o }")
    assert graph.quads.startswith("<urn:a> <urn:p>") and len(graph.to_rdflib()) == 1


def test_rule_sets_are_put_listed_and_deleted(client: Client) -> None:
    client.update("INSERT DATA { <urn:a> <urn:p> <urn:b> . <urn:b> <urn:p> <urn:c> }")
    rule = "CONSTRUCT { ?x <urn:q> ?z } WHERE { ?x <urn:p> ?y . ?y <urn:p> ?z }"
    made = client.rules.put("r", into="urn:i", rules=[rule], from_=["default"])
    assert (made["state"], made["inferred"], made["from"]) == ("ready", 1, ["default"])
    assert [each["name"] for each in client.rules.all()] == [client.rules.describe("r")["name"]] == ["r"]
    job = client.rules.put("late", into="urn:j", rules=[rule], wait=False)
    assert job["kind"] == "rules"
    while client.request("GET", f"jobs/{job['id']}").json()["state"] != "done":
        time.sleep(0.02)
    for name in ("r", "late"):
        client.rules.delete(name)
    with pytest.raises(QuadrillError, match="there is no rule set r"):
        client.rules.describe("r")


def test_shapes_are_put_validated_and_deleted(client: Client) -> None:
    text = (
        "@prefix sh: <http://www.w3.org/ns/shacl#> . "
        "<urn:S> sh:targetClass <urn:P> ; sh:property [ sh:path <urn:name> ; sh:minCount 1 ] ."
    )
    client.update("INSERT DATA { <urn:a> a <urn:P> . GRAPH <urn:shapes> { <urn:T> a <urn:Shape> } }")
    made = client.shapes.put("s", text, mode="reject", data=["default", "urn:g"])
    assert (made["state"], made["results"], made["data"]) == ("ready", 1, ["default", "urn:g"])
    assert client.shapes.put("g", from_graph="urn:shapes")["graph"] == "urn:shapes"
    assert [each["name"] for each in client.shapes.all()] == ["s", "g"]
    again = client.shapes.put("copy", client.shapes.describe("s")["text"])
    assert again["mode"] == "watch"
    with pytest.raises(QuadrillError, match="violates the shapes s") as refused:
        client.update("INSERT DATA { <urn:b> a <urn:P> }")
    assert refused.value.problem is not None and refused.value.problem["results"] == 1
    assert "<urn:a>" in client.shapes.report("s")
    assert "sh:resultMessage" not in client.shapes.report("s", limit=0)
    data = "<urn:b> a <urn:P> ."
    for with_data in (False, True):
        assert "<urn:b>" in client.shapes.validate("s", data, with_data=with_data)
    named = "<urn:a> <urn:name> 'a' . <urn:b> <urn:name> 'b' ."
    assert "true" in client.shapes.validate("s", f"{data} {named}")
    with pytest.raises(ValueError, match="from_graph"):
        client.shapes.put("none")
    for name in ("s", "g", "copy"):
        client.shapes.delete(name)
    with pytest.raises(QuadrillError, match="there are no shapes s"):
        client.shapes.describe("s")


def test_answers_as_data_frames(client: Client) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    answer = client.query('SELECT ?a ?b { VALUES (?a ?b) { (1 "x") (2 UNDEF) } }')
    assert isinstance(answer.to_pandas(), pandas.DataFrame)
    assert answer.to_polars().to_dict(as_series=False) == {"a": [1, 2], "b": ["x", None]}
    assert answer.to_polars().schema["a"] == polars.Int64
    assert answer.to_arrow().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    mixed = client.query('SELECT ?a { VALUES ?a { 1 "x" 2.5 } }')
    assert mixed.to_arrow().to_pydict() == {"a": ["1", "x", "2.5"]}


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (Graph().add((URIRef("urn:7"), URIRef("urn:p"), RdfLiteral(7))), {}),
        ([quad(7)], {}),
        ([quad(7).triple], {}),
        ("<urn:7> <urn:p> 7 .", {"media_type": "text/turtle"}),
        (b'{"at": 1000, "data": "<urn:7> <urn:p> \\"7\\"^^<http://www.w3.org/2001/XMLSchema#integer> ."}',
         {"media_type": "application/x-ndjson", "at": None}),
    ],
)  # fmt: skip
def test_what_is_pushed_is_told(client: Client, data: Any, options: dict[str, Any]) -> None:
    client.register(TEXT, name="q")
    answer = client.push(S, data, wait=True, **{"at": 1000, **options})
    assert answer["accepted"] == 1
    (event,) = islice(client.feed("q", resume=0), 1)
    assert (event.id, event.kind, event.answer.at) == (1, "insert", 1000)
    assert event.answer.rows() == [{"s": "urn:7", "v": 7}]
    assert list(event.answer) == [{"s": URIRef("urn:7"), "v": RdfLiteral(7)}]


def test_what_cannot_be_pushed_is_said(client: Client) -> None:
    for data in ("text", b"bytes", 7, [1, 2], [quad(1), {}]):
        with pytest.raises(TypeError):
            client.push(S, data)


def test_queries_from_registration_to_drop(client: Client) -> None:
    assert client.validate(TEXT)["dialect"] == "cqels"
    assert client.register(TEXT, name="q", output="rstream")["name"] == "q"
    with pytest.raises(QuadrillError) as refused:
        client.register(TEXT.replace("?s ", "?x "), name="q")
    assert refused.value.status == 409 and refused.value.code == "query-exists"
    assert client.register(TEXT, name="q", replace=True)["state"] in ("running", "starting")
    assert [each["name"] for each in client.queries()] == ["q"]
    assert client.pause("q")["state"] == "paused" and client.resume("q")["state"] == "running"
    assert "scan" in client.explain("q").lower() or client.explain("q")
    client.heartbeat(S, 5_000)
    assert client.streams()[0]["iri"] == S
    client.push(S, [quad(1)], at=6_000, wait=True)
    assert client.current("q").rows() == [{"s": "urn:1", "v": 1}]
    assert client.reset_time(S) == {"streams": [S], "queries": ["q"]}
    client.drop("q")
    with pytest.raises(QuadrillError) as gone:
        client.describe("q")
    assert gone.value.status == 404 and gone.value.code == "unknown-query"
    with pytest.raises(QuadrillError) as wrong:
        client.query("SELECT ?s { ?s")
    assert wrong.value.status == 400 and wrong.value.problem["line"] == 1
    with pytest.raises(QuadrillError) as away, Client("127.0.0.1:1") as nobody:
        nobody.queries()
    assert away.value.code == "unreachable"


def test_a_feed_goes_on_over_a_server_that_was_killed_and_came_back(tmp_path: Path) -> None:
    data, told = str(tmp_path / "data"), list[FeedEvent]()
    with running.serve(Settings(data=data, port=0)) as first:
        port = int(first.url.rstrip("/").rpartition(":")[2])
        with Client(first.url) as client:
            client.register(TEXT, name="q")
            client.push(S, [quad(1)], at=1_000)
            ready = threading.Event()

            def read() -> None:
                with Client(first.url) as reader:
                    events = reader.feed("q")
                    ready.set()
                    told.extend(islice(events, 3))

            thread = threading.Thread(target=read, daemon=True)
            thread.start()
            ready.wait(10)
            while not first.services.fanout.clients:
                time.sleep(0.01)
            client.push(S, [quad(2)], at=2_000)
    with running.serve(Settings(data=data, port=port)) as second, Client(second.url) as client:
        client.push(S, [quad(3)], at=3_000)
        client.push(S, [quad(4)], at=4_000)
        thread.join(30)
    assert [event.id for event in told] == [2, 3, 4], "nothing missed, nothing twice"


def test_a_dropped_query_ends_its_feed(client: Client) -> None:
    client.register(TEXT, name="q")
    client.push(S, [quad(1)], at=1_000, wait=True)
    events = client.feed("q", resume=0)
    assert next(events).id == 1
    client.drop("q")
    assert list(events) == []
    with pytest.raises(QuadrillError):
        next(client.feed("never"))


def test_the_client_of_an_event_loop_does_the_same(server: LiveServer) -> None:
    async def work() -> None:
        async with AsyncClient(server.url) as client:
            await client.update("INSERT DATA { <urn:a> <urn:p> 1 }")
            assert (await client.query("ASK { <urn:a> ?p ?o }")).boolean
            await client.register(TEXT, name="q")
            await client.push(S, [quad(1)], at=1_000, wait=True)
            found = []
            async for event in client.feed("q", resume=0):
                found.append(event.answer.rows())
                if len(found) == 2:
                    break
                await client.push(S, [quad(2)], at=2_000)
            assert found == [[{"s": "urn:1", "v": 1}], [{"s": "urn:2", "v": 2}]]
            assert [each["name"] for each in await client.queries()] == ["q"]
            assert [each["iri"] for each in await client.streams()] == [S]
            assert await client.explain("q")
            with pytest.raises(QuadrillError):
                await client.describe("other")
            await client.drop("q")

    asyncio.run(work())


@pytest.mark.process
def test_the_client_loads_nothing_of_the_server() -> None:
    code = (
        "import sys, quadrill.client; "
        "print([m for m in sys.modules if m.startswith(('quadrill.app', 'quadrill.store',"
        " 'quadrill.continuous', 'pyoxigraph', 'rdflib', 'flask', 'lark', 'sqlalchemy', 'pandas'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"


def test_the_wait_for_a_server_that_stays_away_is_bounded() -> None:
    place = FeedPlace(None)
    waits = [place.wait_s() for _ in range(2000)]
    assert waits[-1] == 30.0 and waits[0] < 1
    place.connected()
    assert place.wait_s() == waits[0]


MAPPING = {"construct": "CONSTRUCT { <urn:a> <urn:p> ?v } WHERE {}"}
TRIPLE = '<urn:a> <urn:p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'


def test_sources_sinks_and_mappings(start_server: Start) -> None:
    server = start_server(remote_hosts=("127.0.0.1",))
    with Client(server.url) as client:
        client.declare_stream(S, mapping=MAPPING)
        assert client.map({"v": 1}, stream=S) == client.map([{"v": 1}], mapping=MAPPING) == TRIPLE
        assert client.map("v\n1\n", mapping=MAPPING) == '<urn:a> <urn:p> "1" .\n'
        assert client.map("v\n1\n", stream=S, media_type="text/csv") == '<urn:a> <urn:p> "1" .\n'
        with pytest.raises(ValueError, match="a stream or a mapping"):
            client.map({"v": 1})
        assert client.sources.declare("in", kind="webhook", stream=S)["kind"] == "webhook"
        client.register(TEXT, name="q")
        shown = client.sinks.declare("out", kind="webhook", query="q", url="http://127.0.0.1:1/", from_=0)
        assert shown["from"] == 0
        assert [each["name"] for each in client.sources.all()] == ["in"]
        assert client.sources.stop("in")["state"] in ("stopped", "running")
        assert client.sources.start("in")["name"] == "in"
        assert client.sinks.describe("out")["query"] == "q"
        assert client.sources.dead_letters("in") == client.sinks.dead_letters("out") == []
        client.sources.drop("in")
        client.sinks.drop("out")
        assert client.sources.all() == client.sinks.all() == []
        with pytest.raises(QuadrillError) as refused:
            client.sources.describe("in")
        assert refused.value.status == 404


def test_sources_sinks_and_mappings_with_an_event_loop(start_server: Start) -> None:
    server = start_server(remote_hosts=("127.0.0.1",))

    async def work() -> None:
        async with AsyncClient(server.url) as client:
            await client.declare_stream(S, mapping=MAPPING)
            assert await client.map({"v": 1}, stream=S) == TRIPLE
            await client.sources.declare("in", kind="webhook", stream=S)
            await client.register(TEXT, name="q")
            await client.sinks.declare("out", kind="webhook", query="q", url="http://127.0.0.1:1/")
            assert [each["name"] for each in await client.sinks.all()] == ["out"]
            await client.sinks.stop("out")
            await client.sinks.start("out")
            assert (await client.sources.describe("in"))["kind"] == "webhook"
            assert await client.sources.dead_letters("in") == []
            await client.sources.drop("in")
            assert await client.sources.all() == []

    asyncio.run(work())
