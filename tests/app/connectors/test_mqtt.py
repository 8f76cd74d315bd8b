"""MQTT against a real mosquitto: nothing is lost over stops and kills, refusals are told."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")

from paho.mqtt import publish
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.connectors import mapped
from tests.app.connectors.certificates import authority_and_server
from tests.app.connectors.processes import cookbook_commands, served
from tests.app.connectors.test_sources import S, accepted, line, put, state, subjects
from tests.app.test_feed_streams import until as _until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
pytestmark = [
    pytest.mark.skipif(MOSQUITTO is None, reason="needs Debian's package mosquitto"),
    pytest.mark.process,
]
HOST = "127.0.0.1"


def until(condition: Callable[[], object], seconds: float = 45.0) -> None:
    _until(condition, seconds)


TRIPLES = "application/n-triples"


class Broker:
    """A mosquitto that writes each change to its file."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder = folder
        with socket.create_server((HOST, 0)) as sock:
            self.port = sock.getsockname()[1]
        self.url = f"mqtt://{HOST}:{self.port}"
        self.config = folder / "mosquitto.conf"
        lines = [
            "persistence true",
            f"persistence_location {folder}/",
            "autosave_on_changes true",
            "autosave_interval 1",
            "user root",
            *(more or ("allow_anonymous true",)),
        ]
        self.config.write_text("\n".join([f"listener {self.port} {HOST}", *lines]) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.config)], stdout=log, stderr=log)
        log.close()

        def there() -> bool:
            with socket.socket() as sock:
                return sock.connect_ex((HOST, self.port)) == 0

        until(there)

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def publish(self, topic: str, *bodies: str, **options: Any) -> None:
        messages: list[Any] = [{"topic": topic, "payload": each, "qos": 1, **options} for each in bodies]
        publish.multiple(messages, HOST, self.port)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "broker"
    folder.mkdir()
    made = Broker(folder)
    made.start()
    yield made
    made.kill()


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
    until(lambda: accepted(server) == 3)
    until(lambda: state(server)["refused"] == 1)
    assert server.client.get("/sources/it/dead-letters").json()["letters"][0]["record"] == "nonsense"
    server.services.close()
    broker.publish("a/2", *(line(number) for number in range(4, 60)))
    again = start_server(**settings)
    until(lambda: accepted(again) == 59)
    assert subjects(again) == list(range(1, 60))
    # A topic that goes from the declaration is left at the broker.
    put(again, kind="mqtt", url=broker.url, topic="b/#", format=TRIPLES)
    until(lambda: running(again))
    broker.publish("a/1", line(99))
    broker.publish("b/1", line(60))
    until(lambda: accepted(again) == 60)
    assert subjects(again)[-1] == 60
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
    elements = server.services.engine.newest_elements(S, 10)
    assert [each.event_time for each in elements] == [6_000, 5_000]


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
    until(lambda: "another client has come as 'one'" in (state(server)["error"] or ""))
    other.disconnect()
    other.loop_stop()
    until(lambda: running(server))


# paho leaves the socket of a handshake that failed to the collector of garbage.
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
        self.client.connect(HOST, broker.port, clean_start=False)
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


# --- what the documentation shows -----------------------------------------------------------------


def test_the_demo_comes_through_the_broker(broker: Broker) -> None:
    command = [
        sys.executable, "-m", "quadrill.app.cli", "demo", "--port", "0", "--seconds", "3", "--source", "mqtt",
    ]  # fmt: skip
    ended = subprocess.run(
        [*command, "--broker", broker.url], capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "nothing yet" not in ended.stdout.rsplit("late-departures", 1)[1].splitlines()[0]
    broker.kill()
    ended = subprocess.run(
        [*command, "--broker", broker.url], capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 1 and "no MQTT broker answers" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="needs Debian's package mosquitto-clients")
def test_the_commands_of_the_cookbook(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    commands = cookbook_commands("mqtt", server.url).replace("127.0.0.1:1883", f"{HOST}:{broker.port}")
    commands = commands.replace("mosquitto_sub", f"mosquitto_sub -W 30 -p {broker.port}")
    commands = commands.replace("mosquitto_pub", f"mosquitto_pub -p {broker.port}")
    declare, publish_and_see = commands.split("\n\n")
    subprocess.run(["bash", "-ec", declare], check=True, capture_output=True, timeout=60)
    until(lambda: server.client.get("/sinks/alerts").json()["state"] == "running")
    until(lambda: server.client.get("/sources/sensors").json()["state"] == "running")
    send, see = publish_and_see.splitlines()
    with subprocess.Popen(["bash", "-ec", see], stdout=subprocess.PIPE, text=True) as seeing:
        for _ in range(60):  # until the one who waits has subscribed
            subprocess.run(["bash", "-ec", send], check=True, timeout=60)
            with contextlib.suppress(subprocess.TimeoutExpired):
                seeing.wait(1)
                break
        assert seeing.stdout is not None
        document = json.loads(seeing.stdout.read())
    assert document["data"]["results"]["bindings"][0]["sensor"]["value"] == "http://example.org/a"
