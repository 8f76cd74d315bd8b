"""What brokers of MQTT and Kafka refuse is `failed` where it stays so, `waiting` where it may pass."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")
pytest.importorskip("confluent_kafka", reason="needs the library confluent-kafka")

from confluent_kafka import KafkaError

from quadrill.app.connectors.errors import ConnectorError, ConnectorFailedError
from quadrill.app.connectors.kinds.kafka_connection import BrokerErrors, error_of
from tests.app.conftest import LiveServer, Start
from tests.app.connectors.test_sources import S, put, state
from tests.app.test_feed_streams import until

Answers = dict[int, bytes]
"""What a broker answers to a packet, by the type of that; of all others it says nothing."""
CONNECT, PUBLISH, SUBSCRIBE = 1, 3, 8

CONNACK_5 = {"failed": (132, 133, 134, 135, 138, 140, 157), "waiting": (128, 136, 137, 151, 159)}
CONNACK_3 = {"failed": (1, 2, 4, 5), "waiting": (3,)}
SUBACK_5 = {"failed": (135, 143, 158, 162), "waiting": (128, 151)}
SUBACK_3 = {"failed": (128,)}
DISCONNECT_5 = {"failed": (135, 138, 140), "waiting": (128, 137, 139, 142, 151)}
PUBACK_5 = {"failed": (135, 144), "waiting": (128, 151)}

CONNECTED_5, CONNECTED_3 = b"\x20\x03\0\0\0", b"\x20\x02\0\0"


@contextmanager
def broker(answers: Answers) -> Iterator[int]:
    """A broker that knows these answers, as its port."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                # A disconnection would come with the answer, before the client asks for anything.
                while head := connection.recv(1):
                    size = place = 0
                    while (piece := connection.recv(1)[0]) & 0x80:
                        size, place = size + ((piece & 0x7F) << place), place + 7
                    body = connection.recv(size + (piece << place), socket.MSG_WAITALL)
                    said = answers.get(head[0] >> 4, b"")
                    if said[:1] == b"\x40":  # the number of what was published stands behind its topic
                        place = 2 + int.from_bytes(body[:2], "big")
                        said = said[:2] + body[place : place + 2] + said[2:]
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def told_of(server: LiveServer, answers: Answers, protocol: str, role: str = "sources") -> str:
    """The state of a source or sink at such a broker, when it has one."""
    with broker(answers) as port:
        members = {"kind": "mqtt", "url": f"mqtt://127.0.0.1:{port}", "topic": "a", "protocol": protocol}
        path = f"/{role}/it"
        if role == "sources":
            put(server, **members)
        else:
            answer = server.client.put(path, json=members | {"query": "q", "from": 0})
            assert answer.status_code == 201, answer.text
        until(lambda: server.client.get(path).json()["state"] in ("failed", "waiting"))
        found: str = server.client.get(path).json()["state"]
        server.client.delete(path)
    return found


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server(remote_hosts=("127.0.0.1",))


def test_refusals_of_a_connection_to_mqtt(server: LiveServer) -> None:
    for told, codes in CONNACK_5.items():
        for code in codes:
            assert (code, told_of(server, {CONNECT: bytes((0x20, 3, 0, code, 0))}, "5")) == (code, told)
    for told, codes in CONNACK_3.items():
        for code in codes:
            assert (code, told_of(server, {CONNECT: bytes((0x20, 2, 0, code))}, "3.1.1")) == (code, told)


def test_refusals_of_a_subscription(server: LiveServer) -> None:
    for told, codes in SUBACK_5.items():
        for code in codes:
            answers = {CONNECT: CONNECTED_5, SUBSCRIBE: bytes((0x90, 4, 0, 1, 0, code))}
            assert (code, told_of(server, answers, "5")) == (code, told)
    for told, codes in SUBACK_3.items():
        for code in codes:
            answers = {CONNECT: CONNECTED_3, SUBSCRIBE: bytes((0x90, 3, 0, 1, code))}
            assert (code, told_of(server, answers, "3.1.1")) == (code, told)


def test_a_broker_that_ends_a_connection(server: LiveServer) -> None:
    for told, codes in DISCONNECT_5.items():
        for code in codes:
            answers = {CONNECT: CONNECTED_5, SUBSCRIBE: bytes((0x90, 4, 0, 1, 0, 1, 0xE0, 2, code, 0))}
            assert (code, told_of(server, answers, "5")) == (code, told)


def test_refusals_of_what_is_published(server: LiveServer) -> None:
    text = f"SELECT ?s {{ STREAM <{S}> [NOW] {{ ?s <urn:p> ?o }} }}"
    assert server.client.post("/queries", json={"query": text, "name": "q"}).status_code == 201
    triples = {"Content-Type": "application/n-triples"}
    pushed = server.client.post(
        "/streams", params={"iri": S, "wait": "true"}, content='<urn:a> <urn:p> "1" .', headers=triples
    )
    assert pushed.status_code == 200
    for told, codes in PUBACK_5.items():
        for code in codes:
            answers = {CONNECT: CONNECTED_5, PUBLISH: bytes((0x40, 4, code, 0))}
            assert (code, told_of(server, answers, "5", "sinks")) == (code, told)


def test_refusals_of_kafka() -> None:
    final = (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    )
    passing = (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    for codes, kind in ((final, ConnectorFailedError), (passing, ConnectorError)):
        for code in codes:
            assert type(error_of("kafka://a:1", KafkaError(code))) is kind, KafkaError(code).name()
    troubles = BrokerErrors()
    for code in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN):
        troubles(KafkaError(code))
    vague = KafkaError(KafkaError._TIMED_OUT)
    assert type(troubles.error("kafka://a:1", vague)) is ConnectorFailedError
    with pytest.raises(ConnectorFailedError):
        troubles.raise_final("kafka://a:1")


def test_states_are_told_with_the_address(server: LiveServer) -> None:
    with broker({CONNECT: bytes((0x20, 3, 0, 135, 0))}) as port:
        put(server, kind="mqtt", url=f"mqtt://127.0.0.1:{port}", topic="a")
        until(lambda: state(server)["state"] == "failed")
        assert state(server)["error"] == (f"<mqtt://127.0.0.1:{port}> refuses the connection: Not authorized")
