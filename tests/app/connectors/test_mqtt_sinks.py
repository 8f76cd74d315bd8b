"""MQTT sinks against a real mosquitto: events are published, repeated after kills, and refusals are told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.connectors.mosquitto import HOST, NEEDED, Broker, broker_in, until
from tests.app.connectors.test_sources import S, line

pytestmark = NEEDED
TRIPLES = "application/n-triples"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_in(tmp_path / "broker") as made:
        yield made


class Listener:
    """A subscriber that keeps what it gets."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.messages: list[MQTTMessage] = []
        self.client = Client(
            CallbackAPIVersion.VERSION2, "listener", clean_session=None, protocol=MQTTProtocolVersion.MQTTv5
        )
        self.client.on_connect = lambda client, *_: client.subscribe(topic, 1)
        self.client.on_message = lambda _client, _data, message: self.messages.append(message)
        self.client.reconnect_delay_set(0.1, 0.2)
        # The broker keeps what is published before the listener is there again.
        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 3_600
        self.client.connect(HOST, broker.port, clean_start=False, properties=kept)
        self.client.loop_start()
        until(self.client.is_connected)
        time.sleep(0.1)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def query_and_sink(server: LiveServer, **members: Any) -> None:
    text = f"SELECT ?s {{ STREAM <{S}> [NOW] {{ ?s <urn:p> ?o }} }}"
    headers = {"Content-Type": "text/plain"}
    assert server.client.put("/queries/q", content=text, headers=headers).status_code == 201
    answer = server.client.put("/sinks/out", json={"kind": "mqtt", "query": "q", **members})
    assert answer.status_code == 201, answer.text


def push(server: LiveServer, number: int) -> None:
    answer = server.client.post(
        "/streams",
        params={"iri": S, "at": str(1_000 * number)},
        content=line(number),
        headers={"Content-Type": TRIPLES},
    )
    assert answer.status_code == 200, answer.text


def sink(server: LiveServer) -> dict[str, Any]:
    return dict(server.client.get("/sinks/out").json())


def test_events_are_published_and_repeated_when_the_broker_was_killed(
    start_server: Start, broker: Broker
) -> None:
    server = start_server(remote_hosts=(HOST,))
    listener = Listener(broker, "alerts")
    try:
        query_and_sink(server, url=broker.url, topic="alerts")
        push(server, 1)
        push(server, 2)
        until(lambda: len(listener.messages) >= 2)
        first = listener.messages[0]
        document = json.loads(first.payload)
        assert document["id"] == 1 and document["event"] == "insert"
        assert document["data"]["results"]["bindings"][0]["s"]["value"] == "urn:1"
        assert ("id", "1") in first.properties.UserProperty  # type: ignore[union-attr]
        broker.kill()
        for number in range(3, 20):
            push(server, number)
        until(lambda: sink(server)["state"] == "waiting")
        broker.start()
        until(lambda: {json.loads(each.payload)["id"] for each in listener.messages} == set(range(1, 20)))
        until(lambda: sink(server)["position"] == 19)
        assert sink(server)["state"] == "running"
    finally:
        listener.close()


def test_the_last_event_may_be_retained_and_alone(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    query_and_sink(server, url=broker.url, topic="last", retain=True, style="data", protocol="3.1.1")
    push(server, 1)
    until(lambda: sink(server)["position"] == 1)
    listener = Listener(broker, "last")
    try:
        until(lambda: len(listener.messages) == 1)
        assert listener.messages[0].retain
        assert "results" in json.loads(listener.messages[0].payload)
    finally:
        listener.close()


def test_a_topic_that_may_not_be_written_is_told(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "rights").write_text("topic write out\n")
    os.chmod(folder / "rights", 0o600)
    broker = Broker(folder, "allow_anonymous true", f"acl_file {folder}/rights")
    broker.start()
    try:
        server = start_server(remote_hosts=(HOST,))
        query_and_sink(server, url=broker.url, topic="secret")
        push(server, 1)
        until(lambda: sink(server)["state"] == "failed")
        assert "refuses the topic secret" in sink(server)["error"]
        assert sink(server)["position"] == 0
        problem_of(
            server.client.put(
                "/sinks/b", json={"kind": "mqtt", "query": "q", "url": broker.url, "topic": "+"}
            ),
            400,
        )
    finally:
        broker.kill()
