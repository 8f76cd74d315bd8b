"""`/shapes/{name}/results`: the feed of results, and the results as rows, over HTTP."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app.upkeep.check import check
from tests.app.conftest import LiveServer, Start

SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix : <http://e/> .
:S sh:targetClass :P ; sh:property [ sh:path :name ; sh:minCount 1 ; sh:message "no name" ] ."""
COLUMNS = ["focusNode", "path", "value", "constraint", "shape", "severity", "message"]
PATH = "/shapes/s/results"


def served(start_server: Start, **settings: Any) -> LiveServer:
    server = start_server(**settings)
    put(server)
    return server


def put(server: LiveServer, shapes: str = SHAPES, **parameters: str) -> None:
    headers = {"Content-Type": "text/turtle"}
    answer = server.client.put("/shapes/s", params=parameters, content=shapes, headers=headers)
    assert answer.status_code in (200, 201), answer.text


def update(server: LiveServer, text: str) -> None:
    headers = {"Content-Type": "application/sparql-update"}
    answer = server.client.post("/update", content=f"PREFIX : <http://e/> {text}", headers=headers)
    assert answer.status_code == 204, answer.text


def lines(server: LiveServer, count: int, **parameters: str) -> list[dict[str, Any]]:
    """Return the first events of the feed."""
    headers = {"Accept": "application/x-ndjson"}
    with server.client.stream("GET", PATH, params=parameters, headers=headers) as answer:
        assert answer.status_code == 200
        found = []
        for line in filter(None, answer.iter_lines()):  # heartbeats are empty lines
            found.append(json.loads(line))
            if len(found) == count:
                return found
    return found


def focus_nodes(document: dict[str, Any]) -> list[str]:
    return [row["focusNode"]["value"] for row in document["results"]["bindings"]]


def test_the_feed_has_the_results_that_come_and_go(start_server: Start) -> None:
    server = served(start_server)
    update(server, "INSERT DATA { :a a :P . :b a :P }")
    update(server, "INSERT DATA { :a :name 'a' }")
    update(server, "INSERT DATA { :unrelated :to :shapes }")
    put(server, SHAPES.replace("no name", "a name is missing"))
    events = lines(server, 4, **{"from": "0"})
    assert [(each["id"], each["event"]) for each in events] == [
        (1, "insert"), (2, "delete"), (3, "delete"), (4, "insert")
    ]  # fmt: skip
    assert [each["data"]["version"] for each in events] == [1, 2, 3, 3]
    assert events[0]["data"]["head"]["vars"] == COLUMNS
    assert [focus_nodes(each["data"]) for each in events] == [
        ["http://e/a", "http://e/b"], ["http://e/a"], ["http://e/b"], ["http://e/b"]
    ]  # fmt: skip
    assert [each["id"] for each in lines(server, 2, **{"from": "2"})] == [3, 4]
    (answer,) = lines(server, 1, snapshot="true")
    assert (answer["event"], answer["id"]) == ("answer", 4)
    assert focus_nodes(answer["data"]) == ["http://e/b"]


def test_the_feed_as_an_event_stream_resumes_after_an_id(start_server: Start) -> None:
    server = served(start_server)
    update(server, "INSERT DATA { :a a :P }")
    update(server, "DELETE DATA { :a a :P }")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
    with server.client.stream("GET", PATH, headers=headers) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        text = ""
        for part in answer.iter_text():
            text += part
            if "delete" in text:
                break
    assert "id: 2\n" in text and "id: 1\n" not in text


def test_the_feed_and_the_rows_as_csv(start_server: Start) -> None:
    server = served(start_server)
    update(server, "INSERT DATA { :a a :P }")
    headers = {"Accept": "text/csv"}
    rows = list(csv.DictReader(server.client.get(PATH, headers=headers).text.splitlines()))
    assert [(row["focusNode"], row["path"], row["message"]) for row in rows] == [
        ("http://e/a", "<http://e/name>", "no name")
    ]
    with server.client.stream("GET", f"{PATH}?from=0&follow=true", headers=headers) as answer:
        text = ""
        for part in answer.iter_text():
            text += part
            if text.count("\r\n") == 2:
                break
    assert text.splitlines()[0].split(",") == ["id", "event", "at", *COLUMNS]
    assert text.splitlines()[1].startswith("1,insert,")


@pytest.mark.parametrize(
    "accept",
    [
        "application/sparql-results+json",
        "application/sparql-results+xml",
        "text/tab-separated-values",
    ],
)
def test_the_rows_come_in_every_format_at_the_version_of_the_store(start_server: Start, accept: str) -> None:
    server = served(start_server)
    update(server, "INSERT DATA { :a a :P }")
    update(server, "INSERT DATA { :other :than :shapes }")
    answer = server.client.get(PATH, headers={"Accept": accept})
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith(accept)
    assert "http://e/a" in answer.text and "no name" in answer.text
    assert answer.headers["ETag"] == '"2"'


def test_a_delete_ends_the_feed(start_server: Start) -> None:
    server = served(start_server)
    with server.client.stream("GET", PATH, headers={"Accept": "text/event-stream"}) as answer:
        assert server.client.delete("/shapes/s").status_code == 204
        assert "insert" not in answer.read().decode()
    assert server.client.get(PATH).status_code == 204
    assert server.client.get("/shapes/other/results").json()["code"] == "unknown-shapes"
    put(server)
    assert server.client.get(PATH).json()["results"]["bindings"] == []


def test_failed_shapes_have_no_rows(start_server: Start) -> None:
    server = served(start_server)
    put(server, max_results="0")
    update(server, "INSERT DATA { :a a :P }")
    answer = server.client.get(PATH)
    assert (answer.status_code, answer.json()["code"]) == (409, "shapes-failed")
    (event,) = lines(server, 1, **{"from": "0"})
    assert event["event"] == "error" and event["data"]["code"] == "shapes-budget"


@pytest.mark.parametrize("parameters", [{"from": "x"}, {"other": "1"}])
def test_wrong_parameters_are_refused(start_server: Start, parameters: dict[str, str]) -> None:
    assert served(start_server).client.get(PATH, params=parameters).status_code == 400


def test_a_backup_has_the_feed_and_a_restart_continues_it(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    server = served(start_server, data=str(folder), backup_folder=str(tmp_path))
    update(server, "INSERT DATA { :a a :P }")
    answer = server.client.post("/backups", json={"folder": "backup"})
    assert answer.status_code in (200, 201, 202), answer.text
    server.services.close()
    assert {"engine/shapes.sqlite"} <= {each.file for each in check(folder).findings}
    assert check(folder).whole and check(tmp_path / "backup").whole
    for data in (folder, tmp_path / "backup"):
        again = start_server(data=str(data))
        update(again, "INSERT DATA { :b a :P }")
        first, second = lines(again, 2, **{"from": "0"})
        assert first["id"] == 1 and second["id"] > 1
        assert focus_nodes(second["data"]) == ["http://e/b"]


def test_a_websocket_gives_the_events(start_server: Start) -> None:
    server = served(start_server)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with (
        httpx.Client(base_url=server.url) as client,
        client.stream("GET", PATH, headers=headers | key) as answer,
    ):
        assert answer.status_code == 101
