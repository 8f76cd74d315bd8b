"""Kafka against librdkafka's cluster for tests: each record enters once, over stops and kills."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the library confluent-kafka")

import confluent_kafka as kafka

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.connectors import mapped
from tests.app.connectors.processes import cookbook_commands, served
from tests.app.connectors.test_sources import S, accepted, line, put, state, subjects
from tests.app.test_feed_streams import until as _until
from tests.examples import ALL

pytestmark = pytest.mark.process
HOST = "127.0.0.1"
TRIPLES = "application/n-triples"
NDJSON = "application/x-ndjson"
PARTITIONS = 4


def until(condition: Callable[[], object], seconds: float = 45.0) -> None:
    _until(condition, seconds)


class Cluster:
    """Two brokers in this process, whose topics have four partitions."""

    def __init__(self) -> None:
        self._owner = kafka.Producer({"test.mock.num.brokers": 2, "log_level": 0})
        brokers = self._owner.list_topics(timeout=20).brokers.values()
        self.servers = ",".join(f"{each.host}:{each.port}" for each in brokers)
        self.url = f"kafka://{self.servers}"
        self.producer = kafka.Producer({"bootstrap.servers": self.servers, "log_level": 0})

    def send(self, topic: str, *numbers: int, **options: Any) -> None:
        for number in numbers:
            self.producer.produce(topic, line(number), f"k{number}", **options)
        assert self.producer.flush(20) == 0

    def create(self, topic: str) -> None:
        assert self.producer.list_topics(topic, timeout=20).topics[topic].error is None

    def read(self, topic: str, number: int) -> list[Any]:
        """So many records of a topic, from its beginning."""
        consumer = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "test", "log_level": 0})
        consumer.assign([kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        found: list[Any] = []
        deadline = time.monotonic() + 45
        while len(found) < number and time.monotonic() < deadline:
            found += [each for each in consumer.consume(number, timeout=0.2) if each.error() is None]
        consumer.close()
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield Cluster()


def start(start_server: Start, **settings: Any) -> LiveServer:
    server = start_server(remote_hosts=(HOST,), **settings)
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    return server


def running(server: LiveServer) -> bool:
    return bool(state(server)["state"] == "running")


def offsets(server: LiveServer, topic: str) -> dict[str, int]:
    return dict(json.loads(state(server)["position"] or "{}").get(topic, {}))


@pytest.mark.slow
def test_records_enter_once_over_a_restart(start_server: Start, cluster: Cluster, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data")}
    server = start(start_server, **settings)
    cluster.send("once", *range(20))
    described = put(
        server, kind="kafka", url=cluster.url, topic="once", format=TRIPLES,
        options={"client.id": "x1y2z3"}, **{"from": "earliest"},
    )  # fmt: skip
    assert described["guarantee"] == "each record enters exactly once" and described["options"] == "***"
    until(lambda: accepted(server) == 20)
    cluster.producer.produce("once", "nonsense", "k")
    cluster.producer.produce("once", None, "k")
    cluster.send("once", 20)
    until(lambda: accepted(server) == 21 and state(server)["skipped"] == 1 and state(server)["refused"] == 1)
    until(lambda: sum(offsets(server, "once").values()) == 23)
    until(lambda: state(server)["lag"] == 0)
    server.services.close()
    cluster.send("once", *range(21, 40))
    again = start(start_server, **settings)
    until(lambda: accepted(again) == 40)
    assert sorted(subjects(again)) == list(range(40))
    assert sum(offsets(again, "once").values()) == 42


def test_where_it_begins(start_server: Start, cluster: Cluster) -> None:
    server = start(start_server)
    cluster.send("begin", 1, 2, 3)
    put(server, kind="kafka", url=cluster.url, topic="begin", format=TRIPLES, **{"from": "latest"})
    until(lambda: len(offsets(server, "begin")) == PARTITIONS)
    cluster.send("begin", 4)
    until(lambda: accepted(server) == 1)
    assert subjects(server) == [4]


def test_an_instant_to_begin_at_is_a_number_or_a_time() -> None:
    from quadrill.app.connectors.kinds.kafka_source import _begin

    assert _begin(5_000, "from") == 5_000
    assert _begin("1970-01-01T00:00:05Z", "from") == _begin("1970-01-01T00:00:05", "from") == 5_000


def test_fields_stand_beside_a_json_record(start_server: Start, cluster: Cluster) -> None:
    from quadrill.app.connectors.kinds.kafka_source import _message_of

    cluster.producer.produce("fields", b'{"v": 1}', b"key", headers=[("h", b"\xc3\xa4"), ("n", None)])
    cluster.producer.flush(20)
    (record,) = cluster.read("fields", 1)
    message = _message_of(record, record.value())
    assert message.body == b'{"v": 1}'
    fields = dict(message.fields)
    assert abs(fields.pop("_timestamp") / 1000 - time.time()) < 600
    assert fields.pop("_partition") in range(PARTITIONS)
    assert fields == {"_topic": "fields", "_offset": 0, "_key": "key", "_header_h": "ä", "_header_n": None}


def test_json_records_become_elements_by_the_mapping(start_server: Start, cluster: Cluster) -> None:
    server = start_server(remote_hosts=(HOST,))
    mapped.declare(server)
    for each in (*mapped.MESSAGES, mapped.LAST):
        cluster.producer.produce("room", each, "k")
    assert cluster.producer.flush(20) == 0
    put(
        server, kind="kafka", url=cluster.url, topic="room", format="application/json", **{"from": "earliest"}
    )
    mapped.check(server, "room", until)


def test_lines_of_elements_have_one_place(start_server: Start, cluster: Cluster) -> None:
    server = start(start_server)
    for number in range(50):
        body = json.dumps({"at": 1_000 + number, "data": line(number)})
        cluster.producer.produce("lines", body, str(number))
    cluster.producer.produce("lines", "{", "0")
    cluster.producer.flush(20)
    put(server, kind="kafka", url=cluster.url, topic=["lines"], format=NDJSON, **{"from": "earliest"})
    until(lambda: accepted(server) == 50)
    until(lambda: sum(offsets(server, "lines").values()) == 51)
    assert state(server)["refused"] == 1


def test_nothing_is_lost_and_nothing_twice_when_the_server_is_killed(
    start_server: Start, cluster: Cluster, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    cluster.create("killed")
    given = {
        "kind": "kafka", "stream": S, "url": cluster.url, "topic": "killed", "format": TRIPLES,
        "from": "earliest", "batch": 7,
    }  # fmt: skip
    sent = 0
    for life in range(2 if ALL else 1):
        with served(data, remote_hosts=HOST) as server:
            if life == 0:
                server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
                assert server.client.put("/sources/it", json=given).status_code == 201
            before = sent
            cluster.send("killed", *range(sent, sent + 300))
            sent += 300
            until(lambda least=before + 30, there=server: there.accepted(S) > least)  # type: ignore[misc]
    again = start(start_server, data=str(data))
    until(lambda: accepted(again) >= sent)
    assert sorted(subjects(again)) == list(range(sent))


def test_an_offset_that_is_gone_is_told(start_server: Start, cluster: Cluster, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data")}
    server = start(start_server, **settings)
    cluster.send("gone", 1, 2, 3)
    put(server, kind="kafka", url=cluster.url, topic="gone", format=TRIPLES, **{"from": "earliest"})
    until(lambda: accepted(server) == 3)
    server.client.post("/sources/it:stop")
    # Another cluster under the same name: the topic was made anew, and has less.
    other = Cluster()
    other.send("gone", 4)
    put(server, kind="kafka", url=other.url, topic="gone", format=TRIPLES, **{"from": "earliest"})
    # Partitions are read side by side: the element may come before what is told of another one.
    until(lambda: 4 in subjects(server) and server.client.get("/sources/it/dead-letters").json()["letters"])
    letters = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert letters and "is gone, the source continues at 0" in letters[0]["error"]


def test_a_cluster_that_is_away_and_a_topic_that_is_not_there(start_server: Start, cluster: Cluster) -> None:
    server = start(start_server)
    put(server, kind="kafka", url=f"kafka://{HOST}:1", topic="t", format=TRIPLES)
    until(lambda: state(server)["state"] == "waiting")
    assert "kafka://127.0.0.1:1" in state(server)["error"]
    put(server, kind="kafka", url=cluster.url, topic="no-topic-yet", format=TRIPLES)
    until(lambda: "Unknown topic" in str(state(server)["error"]) or running(server))
    cluster.send("no-topic-yet", 1)
    until(lambda: accepted(server) == 1)


def test_brokers_that_the_cluster_names_must_be_allowed(start_server: Start, cluster: Cluster) -> None:
    first = cluster.servers.partition(",")[0]
    server = start_server(remote_hosts=(first,))
    put(server, kind="kafka", url=f"kafka://{first}", topic="once", format=TRIPLES)
    until(lambda: state(server)["state"] == "failed")
    assert "not on the list" in state(server)["error"]


@pytest.mark.parametrize(
    ("members", "status", "told"),
    [
        ({"url": "kafka://example.org"}, 403, "not on the list"),
        ({"url": f"kafka://{HOST},example.org"}, 403, "not on the list"),
        ({"url": f"http://{HOST}"}, 400, "kafka://"),
        ({"url": f"kafka://u:p@{HOST}"}, 400, "kafka://"),
        ({"topic": "^a.*"}, 400, "topic"),
        ({"topic": []}, 400, "topic"),
        ({"from": "middle"}, 400, "earliest"),
        ({"options": {"ssl.ca.location": "/etc/passwd"}}, 400, "ssl.ca.location"),
        ({"options": {"sasl.mechanism": "OAUTHBEARER"}}, 400, "SCRAM"),
        ({"options": {"bootstrap.servers": "example.org"}}, 400, "bootstrap"),
    ],
)
def test_a_wrong_declaration_is_told(
    start_server: Start, members: dict[str, Any], status: int, told: str
) -> None:
    server = start_server(remote_hosts=(HOST,))
    given = {"kind": "kafka", "stream": S, "url": f"kafka://{HOST}", "topic": "a"}
    assert told in problem_of(server.client.put("/sources/it", json=given | members), status)["detail"]


# --- sink -----------------------------------------------------------------------------------------


def test_events_are_produced_with_their_ids_as_keys(start_server: Start, cluster: Cluster) -> None:
    server = start(start_server)
    cluster.create("out")
    text = f"SELECT ?s {{ STREAM <{S}> [NOW] {{ ?s <urn:p> ?o }} }}"
    headers = {"Content-Type": "text/plain"}
    assert server.client.put("/queries/q", content=text, headers=headers).status_code == 201
    given = {"kind": "kafka", "query": "q", "url": cluster.url, "topic": "out"}
    assert server.client.put("/sinks/out", json=given).status_code == 201
    for number in range(1, 30):
        answer = server.client.post(
            "/streams", params={"iri": S, "at": str(1_000 * number)}, content=line(number),
            headers={"Content-Type": TRIPLES},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
    until(lambda: server.client.get("/sinks/out").json()["position"] == 29)
    records = cluster.read("out", 29)
    created = server.client.get("/queries/q").json()["created"]
    assert sorted(int(each.key().split(b"-")[-1]) for each in records) == list(range(1, 30))
    for each in records:
        document = json.loads(each.value())
        assert each.key() == f"out-{created}-{document['id']}".encode() and document["event"] == "insert"
        assert dict(each.headers()) == {"id": each.key(), "event": b"insert"}
    away = {"kind": "kafka", "query": "q", "url": f"kafka://{HOST}:1", "topic": "out"}
    assert server.client.put("/sinks/away", json=away).status_code == 201
    until(lambda: server.client.get("/sinks/away").json()["state"] == "waiting")


def test_the_commands_of_the_cookbook(start_server: Start, cluster: Cluster) -> None:
    server = start_server(remote_hosts=(HOST,))
    commands = cookbook_commands("kafka", server.url).replace("127.0.0.1:9092", cluster.servers)
    cluster.create("large-orders")
    order = "<http://example.org/1> <http://example.org/sum> 2000 ."
    cluster.producer.produce("orders", order, "1")
    cluster.producer.flush(20)
    source, rest = commands.split("curl -X PUT", 2)[1:]
    # The record is there already: the query and its sink come before the source.
    for each in (rest, source):
        subprocess.run(["bash", "-ec", f"curl -f -X PUT{each}"], check=True, capture_output=True, timeout=60)
    (record,) = cluster.read("large-orders", 1)
    assert record.key().endswith(b"-1") and b"http://example.org/1" in record.value()
