"""Secrets of sources and sinks are told to nobody: no answer, page or log has them, of wrong ones neither."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from quadrill.app.commands.serve import quiet_libraries
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.connectors.test_sources import reply, web
from tests.app.test_feed_streams import until

SECRET = "h1dd3n-pa55"
AWAY = "127.0.0.1:1"
IN_URLS = [
    ("sources", {"kind": "poll", "url": f"http://u:{SECRET}@{AWAY}/"}),
    ("sources", {"kind": "sse", "url": f"u:{SECRET}@{AWAY}/x"}),
    ("sources", {"kind": "websocket", "url": f"ws://u:{SECRET}@{AWAY}:x/"}),
    ("sources", {"kind": "mqtt", "url": f"mqtt://{SECRET}@{AWAY}", "topic": "a"}),
    ("sources", {"kind": "kafka", "url": f"u:{SECRET}@{AWAY}", "topic": "a"}),
    ("sources", {"kind": "kafka", "url": f"kafka://u:{SECRET}@{AWAY}", "topic": "a"}),
    ("sinks", {"kind": "webhook", "url": f"http://u:{SECRET}@{AWAY}"}),
    ("sinks", {"kind": "mqtt", "url": f"u:{SECRET}@{AWAY}", "topic": "a"}),
]
MEMBERS = [
    ("sources", {"kind": "poll", "url": f"http://{AWAY}/", "token": SECRET, "headers": {"X-Key": SECRET}}),
    ("sources", {"kind": "sse", "url": f"http://{AWAY}/", "token": SECRET}),
    ("sources", {"kind": "websocket", "url": f"ws://{AWAY}/", "token": SECRET}),
    ("sources", {"kind": "websocket", "url": f"ws://{AWAY}/", "send": SECRET}),
    ("sources", {"kind": "websocket", "url": f"ws://{AWAY}/", "send": ["{}", json.dumps({"key": SECRET})]}),
    ("sinks", {"kind": "webhook", "url": f"http://{AWAY}/", "secret": SECRET, "token": SECRET}),
    ("sources", {"kind": "mqtt", "url": f"mqtt://{AWAY}", "topic": "a", "username": "u", "password": SECRET}),
    ("sinks", {"kind": "mqtt", "url": f"mqtt://{AWAY}", "topic": "a", "username": "u", "password": SECRET}),
]


def test_secrets_are_told_to_nobody(start_server: Start, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")
    pytest.importorskip("confluent_kafka", reason="needs the library confluent-kafka")
    caplog.set_level(logging.DEBUG)
    server = start_server(remote_hosts=("127.0.0.1",))
    text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
    body = {"query": text, "name": "q"}
    assert server.client.post("/queries", json=body).status_code == 201
    mark_path = {"sources": {"stream": "http://e/s"}, "sinks": {"query": "q"}}
    told = []
    for role, members in IN_URLS:
        answer = server.client.put(f"/{role}/it", json=members | mark_path[role])
        assert problem_of(answer, 400)["detail"].startswith("url holds a password"), members
        told.append(answer.text)
    for number, (role, members) in enumerate(MEMBERS):
        answer = server.client.put(f"/{role}/it{number}", json=members | mark_path[role])
        assert answer.status_code == 201, answer.text
        told.append(answer.text)
    push = {"params": {"iri": "http://e/s", "at": "1"}, "headers": {"Content-Type": "application/n-triples"}}
    assert server.client.post("/streams", content="<urn:a> <urn:p> 1 .", **push).status_code in (200, 400)
    assert server.client.post("/streams", content='<urn:a> <urn:p> "1" .', **push).status_code == 200

    def states() -> list[str]:
        found = [each for role in mark_path for each in server.client.get(f"/{role}").json()[role]]
        assert all(
            each["error"] is None or "cannot be" in each["error"] or "could not" in each["error"]
            for each in found
        )
        return [each["state"] for each in found]

    until(lambda: states() == ["waiting"] * len(MEMBERS), 20)
    paths = ("/sources", "/sinks", "/metrics", "/processes", "/streams")
    told += [server.client.get(path).text for path in paths]
    assert [each for each in (*told, *caplog.messages) if SECRET in each] == []


@pytest.mark.parametrize("send", [{"key": SECRET}, [{"key": SECRET}], [SECRET, 1], 7, [f"{SECRET}\0"]])
def test_the_error_of_a_wrong_message_to_send_does_not_show_it(server: LiveServer, send: object) -> None:
    members = {"kind": "websocket", "url": f"ws://{AWAY}/", "stream": "http://e/s", "send": send}
    problem = problem_of(server.client.put("/sources/it", json=members), 400)
    assert SECRET not in json.dumps(problem)


def test_messages_to_send_are_shown_as_a_secret_and_kept(start_server: Start) -> None:
    server = start_server(remote_hosts=("127.0.0.1",))
    members = {"kind": "websocket", "url": f"ws://{AWAY}/", "stream": "http://e/s", "send": ["{}", SECRET]}
    answer = server.client.put("/sources/it", json=members)
    assert answer.status_code == 201 and answer.json()["send"] == "***"
    again = server.client.put("/sources/it", json={**members, "send": "***", "timeout": "9s"})
    assert again.status_code == 200 and again.json()["send"] == "***"
    (record,) = server.services.registry.connectors.all()
    assert record.members["send"] == ["{}", SECRET]


def test_a_key_in_the_query_part_of_an_address_is_not_logged(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(remote_hosts=("127.0.0.1",))
    members = {"kind": "poll", "url": f"http://{AWAY}/a?key={SECRET}", "stream": "http://e/s"}
    assert server.client.put("/sources/it", json=members).status_code == 201
    until(lambda: server.client.get("/sources/it").json()["state"] == "waiting")
    assert f"<http://{AWAY}/a?…> could not be fetched" in server.client.get("/sources/it").json()["error"]
    assert [each for each in caplog.messages if SECRET in each] == []


LIBRARIES = ("httpx", "httpcore", "paho.mqtt.client", "urllib3.connectionpool", "websockets.client")


@pytest.fixture
def as_served(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log of a server that was started by the command."""
    names = {each: logging.getLogger(each) for name in LIBRARIES for each in (name, name.partition(".")[0])}
    levels = {name: logger.level for name, logger in names.items()}
    caplog.set_level(logging.INFO)
    quiet_libraries()
    yield caplog
    for name, level in levels.items():
        names[name].setLevel(level)


def test_no_library_logs_whole_addresses(start_server: Start, as_served: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("websockets", reason="needs the library websockets")
    assert not any(logging.getLogger(name).isEnabledFor(logging.INFO) for name in LIBRARIES)
    server = start_server(remote_hosts=("127.0.0.1",))
    with web(lambda handler: reply(handler, 302)) as url:
        for kind in ("poll", "sse", "websocket"):
            address = url.replace("http:", "ws:") if kind == "websocket" else url
            members = {"kind": kind, "url": f"{address}?token={SECRET}", "stream": "http://e/s"}
            assert server.client.put(f"/sources/{kind}", json=members).status_code == 201
        until(lambda: all(each["error"] for each in server.client.get("/sources").json()["sources"]))
    assert SECRET not in server.client.get("/sources").text
    assert as_served.messages and [each for each in as_served.messages if SECRET in each] == []
