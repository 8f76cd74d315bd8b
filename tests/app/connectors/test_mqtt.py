"""MQTT sources against a real mosquitto: nothing is lost over stops and kills, refusals are told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.connectors import mapped
from tests.app.connectors.certificates import authority_and_server
from tests.app.connectors.mosquitto import HOST, NEEDED, Broker, broker_in, until
from tests.app.connectors.processes import served
from tests.app.connectors.test_sources import S, accepted, line, put, state, subjects

pytestmark = NEEDED
TRIPLES = "application/n-triples"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_in(tmp_path / "broker") as made:
        yield made


def keep(server: LiveServer) -> None:
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})


def running(server: LiveServer) -> bool:
    return bool(state(server)["state"] == "running")


def test_messages_of_topics_enter_also_what_was_sent_while_the_server_was_away(
    start_server: Start, broker: Broker, tmp_path: Path
) -> None:
    settings = {"data": str(tmp_path / "data"), "remote_hosts": (HOST,)}
    server = start_server(**settings)
    keep(server)
    described = put(
        server,
        kind="mqtt",
        url=broker.url,
        topic=["a/+", "b/#"],
        format=TRIPLES,
        password="x1y2z3",
        username="u",
    )
    assert described["password"] == "***" and "at least once" in described["guarantee"]
    until(lambda: running(server))
    broker.publish("a/1", line(1))
    broker.publish("b/1/2", line(2), "nonsense", line(3))
    broker.publish("c", line(99))
    until(lambda: {*subjects(server)} == {1, 2, 3})
    until(lambda: state(server)["refused"] >= 1)
    assert server.client.get("/sources/it/dead-letters").json()["letters"][0]["record"] == "nonsense"
    server.services.close()
    broker.publish("a/2", *(line(number) for number in range(4, 60)))
    again = start_server(**settings)
    # At least once: a broker that is slow takes the source's next life for a loss of what it has not read.
    until(lambda: {*subjects(again)} == {*range(1, 60)})
    assert [*dict.fromkeys(subjects(again))] == list(range(1, 60))
    # A topic that goes from the declaration is left at the broker.
    put(again, kind="mqtt", url=broker.url, topic="b/#", format=TRIPLES)
    until(lambda: running(again))
    broker.publish("a/1", line(99))
    broker.publish("b/1", line(60))
    until(lambda: 60 in subjects(again))
    assert 99 not in subjects(again)
    assert json.loads(state(again)["position"]) == ["b/#"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_lines_of_elements_are_pushed_as_they_are(start_server: Start, broker: Broker, protocol: str) -> None:
    server = start_server(remote_hosts=(HOST,))
    keep(server)
    element = json.dumps({"at": 5_000, "data": line(1)})
    broker.publish("kept", element, retain=True)
    put(server, kind="mqtt", url=broker.url, topic="kept", format="application/x-ndjson", protocol=protocol)
    until(lambda: accepted(server) == 1)
    broker.publish("kept", f"{json.dumps({'at': 6_000, 'data': line(2)})}\n{json.dumps({'at': 7_000})}\n")
    until(lambda: accepted(server) == 2)
    until(lambda: state(server)["refused"] == 1)
    elements = server.services.engine.parts.streams.newest(S, 10)
    assert [each.event_time for each in elements] == [6_000, 5_000]


def test_topics_of_a_wildcard_have_a_time_each(start_server: Start, broker: Broker) -> None:
    """One topic after the other, each in order: none of the second is late behind the first."""
    server = start_server(remote_hosts=(HOST,))
    put(server, kind="mqtt", url=broker.url, topic="t/#", format="application/x-ndjson")
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h", "idle_timeout": "1h"})
    until(lambda: running(server))

    def send(topic: str, *times: int) -> None:
        broker.publish(topic, *(json.dumps({"at": at, "data": line(at)}) for at in times))

    def stream() -> dict[str, Any]:
        return dict(server.client.get("/streams", params={"iri": S}).json())

    send("t/a", 1_000)
    until(lambda: accepted(server) == 1)
    send("t/b", 1_000)
    until(lambda: accepted(server) == 2)
    send("t/a", *range(2_000, 50_000, 1_000))
    until(lambda: accepted(server) == 50)
    send("t/b", *range(2_000, 40_000, 1_000))
    until(lambda: accepted(server) == 88)
    described = stream()
    assert described["late_counts"] == {"late": 0, "dropped": 0, "refused": 0}
    assert (described["watermark"], described["newest"]) == (39_000, 49_000)
    newest = {each["partition"]: each["newest"] for each in described["partitions"]}
    assert newest["it/t/a"] == 49_000 and newest["it/t/b"] == 39_000


def test_a_retained_message_is_taken_once(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    keep(server)
    broker.publish("kept", line(1), retain=True)
    put(server, kind="mqtt", url=broker.url, topic="kept", format=TRIPLES)
    until(lambda: accepted(server) == 1)
    server.client.post("/sources/it:stop")
    server.client.post("/sources/it:start")
    until(lambda: running(server))
    broker.publish("kept", line(2))
    until(lambda: accepted(server) == 2)
    assert subjects(server) == [1, 2]


def test_nothing_is_lost_when_the_broker_is_killed(
    start_server: Start, broker: Broker, tmp_path: Path
) -> None:
    server = start_server(remote_hosts=(HOST,))
    keep(server)
    put(server, kind="mqtt", url=broker.url, topic="a", format=TRIPLES, batch=10)
    until(lambda: running(server))
    server.client.post("/sources/it:stop")
    broker.publish("a", *(line(number) for number in range(300)))
    server.client.post("/sources/it:start")
    until(lambda: accepted(server) > 0)
    broker.kill()
    until(lambda: state(server)["state"] == "waiting")
    assert "cannot be reached" in state(server)["error"] or "ended" in state(server)["error"]
    broker.start()
    until(lambda: set(subjects(server)) == set(range(300)))
    assert running(server)


@pytest.mark.chaos
def test_nothing_is_lost_when_the_server_is_killed(
    start_server: Start, broker: Broker, tmp_path: Path
) -> None:
    data = tmp_path / "data"

    def send() -> None:
        for part in range(10):
            broker.publish("a", *(line(30 * part + each) for each in range(30)))

    with served(data, remote_hosts=HOST) as server:
        server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
        given = {"kind": "mqtt", "stream": S, "url": broker.url, "topic": "a", "format": TRIPLES, "batch": 7}
        assert server.client.put("/sources/it", json=given).status_code == 201
        until(lambda: server.client.get("/sources/it").json()["state"] == "running")
        sending = threading.Thread(target=send)
        sending.start()
        until(lambda: server.accepted(S) > 20)
        server.kill()
        sending.join()
    again = start_server(data=str(data), remote_hosts=(HOST,))
    until(lambda: set(subjects(again)) == set(range(300)))


def test_a_broker_that_is_away_is_waited_for(start_server: Start, broker: Broker) -> None:
    broker.kill()
    server = start_server(remote_hosts=(HOST,))
    put(server, kind="mqtt", url=broker.url, topic="a", format=TRIPLES)
    until(lambda: state(server)["state"] == "waiting")
    assert "cannot be reached" in state(server)["error"]
    broker.start()
    until(lambda: running(server))
    assert state(server)["error"] is None
    broker.publish("a", line(1))
    until(lambda: accepted(server) == 1)


def test_json_messages_become_elements_by_the_mapping(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    mapped.declare(server)
    put(server, kind="mqtt", url=broker.url, topic="room", format="application/json")
    until(lambda: running(server))
    broker.publish("room", *mapped.MESSAGES, mapped.LAST)
    mapped.check(server, "room", until)


def test_a_full_intake_slows_the_source_and_loses_nothing(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,), max_queue_elements=10)
    keep(server)
    put(server, kind="mqtt", url=broker.url, topic="a", format=TRIPLES, batch=5)
    until(lambda: running(server))
    with server.services.engine.parts.sequencer.paused:
        broker.publish("a", *(line(number) for number in range(200)))
        time.sleep(1)
        # Of those that are accepted one batch may be out of the line.
        assert 0 < accepted(server) <= 15
        assert running(server)
    until(lambda: len(set(subjects(server))) == 200)
    assert sorted(set(subjects(server))) == list(range(200))


def test_two_clients_of_one_name_are_told(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    put(server, kind="mqtt", url=broker.url, topic="a", format=TRIPLES, client_id="one")
    until(lambda: running(server))
    other = Client(CallbackAPIVersion.VERSION2, "one", protocol=MQTTProtocolVersion.MQTTv5)
    other.connect(HOST, broker.port)
    other.loop_start()
    until(lambda: "another client has connected as 'one'" in (state(server)["error"] or ""))
    other.disconnect()
    other.loop_stop()
    until(lambda: running(server))


# paho leaves the socket of a handshake that failed to the collector of garbage.
@pytest.mark.always("5")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_credentials_rights_and_certificates(start_server: Start, tmp_path: Path, protocol: str) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    passwords, rights = folder / "passwords", folder / "rights"
    tool = shutil.which("mosquitto_passwd") or "/usr/bin/mosquitto_passwd"
    subprocess.run([tool, "-b", "-c", str(passwords), "ann", "right"], check=True, capture_output=True)
    rights.write_text("user ann\ntopic read a\ntopic write out\n")
    os.chmod(rights, 0o600)
    authority, certificate, key = authority_and_server(folder)
    other, _, _ = authority_and_server(tmp_path)
    broker = Broker(
        folder,
        f"certfile {certificate}",
        f"keyfile {key}",
        "allow_anonymous false",
        f"password_file {passwords}",
        f"acl_file {rights}",
    )
    broker.start()
    url = f"mqtts://{HOST}:{broker.port}"
    good = {
        "kind": "mqtt", "url": url, "topic": "a", "format": TRIPLES, "protocol": protocol,
        "username": "ann", "password": "right", "ca": authority.read_text(),
    }  # fmt: skip
    try:
        server = start_server(remote_hosts=(HOST,))
        put(server, **good)
        until(lambda: running(server))
        for members, told in (
            ({"password": "wrong"}, "uthori"),
            ({"username": None, "password": None}, "uthori"),
            ({"ca": other.read_text()}, "not trusted"),
            ({"ca": None}, "not trusted"),
        ):
            put(server, **good | members)
            until(lambda: state(server)["state"] == "failed")
            assert told in state(server)["error"], state(server)["error"]
            assert "wrong" not in state(server)["error"]
        put(server, **good)
        until(lambda: running(server))
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("members", "status", "told"),
    [
        ({"url": "mqtt://example.org"}, 403, "not on the list"),
        ({"url": f"http://{HOST}"}, 400, "mqtt://"),
        ({"url": f"mqtt://u:p@{HOST}"}, 400, "password"),
        ({"topic": "a/#/b"}, 400, "no topic"),
        ({"topic": "a+/b"}, 400, "no topic"),
        ({"topic": []}, 400, "topic"),
        ({"qos": 2}, 400, "qos"),
        ({"password": "p"}, 400, "username"),
        ({"ca": "no"}, 400, "PEM"),
        ({"protocol": "4"}, 400, "3.1.1"),
    ],
)
def test_a_wrong_declaration_is_told(
    start_server: Start, members: dict[str, Any], status: int, told: str
) -> None:
    server = start_server(remote_hosts=(HOST,))
    given = {"kind": "mqtt", "stream": S, "url": f"mqtt://{HOST}", "topic": "a"}
    problem = problem_of(server.client.put("/sources/it", json=given | members), status)
    assert told in problem["detail"]


# --- sink -----------------------------------------------------------------------------------------
