"""Kafka against a real broker: it is away, it is killed, the server is killed, credentials are wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the library confluent-kafka")

from tests.app.conftest import LiveServer, Start
from tests.app.connectors.kafka_broker import HOST, MISSING, PASSWORD, USER, Broker
from tests.app.connectors.processes import served
from tests.app.connectors.test_sources import S, accepted, line, put, state, subjects
from tests.app.test_feed_streams import until as _until

pytestmark = [pytest.mark.skipif(MISSING is not None, reason=MISSING or ""), pytest.mark.process]
TRIPLES = "application/n-triples"
QUERY = f"SELECT ?s {{ STREAM <{S}> [NOW] {{ ?s <urn:p> ?o }} }}"
PLAIN = {"Content-Type": "text/plain"}


def until(condition: Callable[[], object], seconds: float = 150.0) -> None:
    _until(condition, seconds)


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("broker"))
    yield made
    made.kill()


@pytest.fixture
def broker(one_broker: Broker) -> Broker:
    """The broker of all tests, which runs."""
    one_broker.start()
    return one_broker


def start(start_server: Start, **settings: Any) -> LiveServer:
    server = start_server(remote_hosts=(HOST,), **settings)
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    return server


@pytest.mark.slow
def test_a_broker_that_is_away_is_waited_for(start_server: Start, one_broker: Broker) -> None:
    one_broker.kill()
    server = start(start_server)
    assert server.client.put("/queries/q", content=QUERY, headers=PLAIN).status_code == 201
    put(server, kind="kafka", url=one_broker.url, topic="away", format=TRIPLES, **{"from": "earliest"})
    given = {"kind": "kafka", "query": "q", "url": one_broker.url, "topic": "answers"}
    assert server.client.put("/sinks/out", json=given).status_code == 201

    def states() -> set[str]:
        return {state(server)["state"], server.client.get("/sinks/out").json()["state"]}

    until(lambda: states() == {"waiting"})
    assert one_broker.url in state(server)["error"]
    other = server.client.post(
        "/streams", params={"iri": "http://e/other"}, content=line(1), headers={"Content-Type": TRIPLES}
    )
    assert other.json()["accepted"] == 1
    one_broker.start()
    one_broker.create("away", "answers")
    producer = one_broker.producer()
    producer.produce("away", line(1))
    assert producer.flush(60) == 0
    until(lambda: states() == {"running"} and accepted(server) == 1)
    assert state(server)["error"] is None
    until(lambda: server.client.get("/sinks/out").json()["position"] == 1)
    (record,) = one_broker.read("answers")
    assert record.key().endswith(b"-1") and json.loads(record.value())["id"] == 1


@pytest.mark.chaos
def test_nothing_is_lost_and_nothing_enters_twice_when_broker_and_server_are_killed(
    start_server: Start, broker: Broker, tmp_path: Path
) -> None:
    broker.create("in", "out")
    source = {
        "kind": "kafka", "stream": S, "url": broker.url, "topic": "in", "format": TRIPLES, "from": "earliest",
        "batch": 7,
    }  # fmt: skip
    sink = {"kind": "kafka", "query": "q", "url": broker.url, "topic": "out", "batch": 7}
    # A sink that is away for longer than a feed keeps events gets a reset: this feed keeps all.
    settings = {"remote_hosts": HOST, "feed_history": "1000000"}
    producer, number, ended = broker.producer(), 0, threading.Event()

    def send() -> None:
        nonlocal number
        while not ended.is_set():
            producer.produce("in", line(number), str(number))
            producer.poll(0)
            number += 1
            time.sleep(0.01)

    sending = threading.Thread(target=send)
    sending.start()
    data = tmp_path / "data"
    with served(data, **settings) as server:
        server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
        assert server.client.put("/queries/q", content=QUERY, headers=PLAIN).status_code == 201
        assert server.client.put("/sinks/out", json=sink).status_code == 201
        assert server.client.put("/sources/it", json=source).status_code == 201
        until(lambda: server.accepted(S) > 200)
        broker.kill()
        before = server.accepted(S)
        broker.start()
        until(lambda: server.accepted(S) > before + 100)
        server.kill()
    with served(data, **settings) as server:
        before = server.accepted(S)
        until(lambda: server.accepted(S) > before + 100)
        broker.kill()
        server.kill()
    broker.start()
    again = start(start_server, data=str(data), feed_history=1_000_000)
    until(lambda: state(again)["state"] == "running")
    ended.set()
    sending.join()
    assert producer.flush(100) == 0
    until(lambda: accepted(again) >= number)
    assert sorted(subjects(again)) == list(range(number))
    last = again.services.engine.queries.feed("q").history.last_id
    until(lambda: again.client.get("/sinks/out").json()["position"] == last)
    by_key: dict[bytes, set[bytes]] = {}
    for each in broker.read("out"):
        by_key.setdefault(each.key(), set()).add(each.value())
    assert sorted(int(each.rpartition(b"-")[2]) for each in by_key) == list(range(1, last + 1))
    assert all(len(bodies) == 1 for bodies in by_key.values()), "what is sent again is the same"


def test_credentials(start_server: Start, broker: Broker) -> None:
    broker.create("secured")
    producer = broker.producer()
    producer.produce("secured", line(1))
    assert producer.flush(60) == 0
    server = start(start_server)
    assert server.client.put("/queries/q", content=QUERY, headers=PLAIN).status_code == 201
    options = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": USER}
    common = {"kind": "kafka", "url": broker.secured, "topic": "secured"}

    def declare(password: str) -> None:
        given = common | {"options": options | {"sasl.password": password}}
        put(server, **given, format=TRIPLES, **{"from": "earliest"})
        answer = server.client.put("/sinks/out", json={**given, "query": "q", "from": 0})
        assert answer.status_code in (200, 201), answer.text

    def described() -> list[dict[str, Any]]:
        return [state(server), dict(server.client.get("/sinks/out").json())]

    declare("wrong4u")
    until(lambda: all(each["state"] == "failed" for each in described()))
    for each in described():
        assert "uthentication failed" in each["error"] and broker.secured in each["error"]
        assert "wrong4u" not in json.dumps(each)
    declare(PASSWORD)
    until(lambda: accepted(server) == 1 and all(each["state"] == "running" for each in described()))
    assert PASSWORD not in json.dumps(described())


def letters(server: LiveServer) -> list[dict[str, Any]]:
    return list(server.client.get("/sources/it/dead-letters").json()["letters"])


def produce(broker: Broker, topic: str, numbers: range, partition: int = 0) -> None:
    producer = broker.producer()
    for number in numbers:
        producer.produce(topic, line(number), partition=partition)
    assert producer.flush(60) == 0


def test_a_topic_made_anew_is_read_from_its_start(
    start_server: Start, broker: Broker, tmp_path: Path
) -> None:
    """It has more records than the old one, while its source runs, and while the server is down."""
    data = str(tmp_path / "data")
    broker.create("anew")
    produce(broker, "anew", range(50))
    server = start(start_server, data=data)
    put(server, kind="kafka", url=broker.url, topic="anew", format=TRIPLES, refresh="500ms")
    until(lambda: accepted(server) == 50)
    broker.delete("anew")
    broker.create("anew")
    produce(broker, "anew", range(50, 150))
    until(lambda: accepted(server) >= 150 and state(server)["lag"] == 0)
    assert sorted(subjects(server)) == list(range(150))
    # Of the old topic all was read, which the source had seen: nothing is lost.
    assert letters(server) == [] and state(server)["lost"] == 0
    server.services.close()
    broker.delete("anew")
    broker.create("anew")
    produce(broker, "anew", range(150, 350))
    again = start(start_server, data=data)
    until(lambda: accepted(again) >= 350 and state(again)["lag"] == 0)
    assert sorted(subjects(again)) == list(range(350))
    letter = next(each for each in letters(again) if each["partition"] == 0)
    assert (letter["topic"], letter["offset"]) == ("anew", 100)
    assert "created again" in letter["error"] and "is not known" in letter["error"]


@pytest.mark.parametrize("begin", ["latest", pytest.param("earliest", marks=pytest.mark.slow)])
def test_a_position_before_the_start_of_the_log_goes_on_there(
    start_server: Start, broker: Broker, begin: str
) -> None:
    topic = f"cut-{begin}"
    broker.create(topic)
    produce(broker, topic, range(10))
    server = start(start_server)
    put(server, kind="kafka", url=broker.url, topic=topic, format=TRIPLES, **{"from": begin})
    until(lambda: state(server)["lag"] == 0)
    produce(broker, topic, range(10, 20))
    before = list(range(20)) if begin == "earliest" else list(range(10, 20))
    until(lambda: accepted(server) == len(before))
    server.client.post("/sources/it:stop")
    produce(broker, topic, range(20, 60))
    broker.cut(topic, 0, 50)
    server.client.post("/sources/it:start")
    until(lambda: accepted(server) >= len(before) + 10 and state(server)["lag"] == 0)
    assert sorted(subjects(server)) == [*before, *range(50, 60)]
    (letter,) = letters(server)
    assert (letter["partition"], letter["offset"], letter["gone"]) == (0, 20, 30)
    assert "30 records are gone" in letter["error"] and state(server)["lost"] == 30
    produce(broker, topic, range(60, 61))
    until(lambda: accepted(server) == len(before) + 11)


def test_markers_and_aborted_transactions_are_no_gap(start_server: Start, broker: Broker) -> None:
    broker.create("transactions")
    producer = broker.producer(**{"transactional.id": "one"})
    producer.init_transactions()

    def write(numbers: range, partition: int = 0) -> None:
        for number in numbers:
            producer.produce("transactions", line(number), partition=partition)
        assert producer.flush(60) == 0

    for first, partition, good in (
        (0, 0, True),
        (10, 0, False),
        (20, 0, True),
        (30, 0, False),
        (40, 1, False),
    ):
        producer.begin_transaction()
        write(range(first, first + 10), partition)
        producer.commit_transaction() if good else producer.abort_transaction()
    server = start(start_server)
    put(server, kind="kafka", url=broker.url, topic="transactions", format=TRIPLES)
    until(lambda: accepted(server) == 20 and state(server)["lag"] == 0)
    producer.begin_transaction()
    write(range(50, 60))
    until(lambda: state(server)["lag"] > 0)  # what is not committed yet waits
    assert accepted(server) == 20
    producer.commit_transaction()
    until(lambda: accepted(server) == 30 and state(server)["lag"] == 0)
    # Stopped behind a marker, it goes on there.
    server.client.post("/sources/it:stop")
    server.client.post("/sources/it:start")
    until(lambda: state(server)["lag"] == 0)
    put(
        server, kind="kafka", url=broker.url, topic="transactions", format=TRIPLES, batch=7,
        options={"isolation.level": "read_uncommitted"},
    )  # fmt: skip
    produce(broker, "transactions", range(60, 70))
    until(lambda: accepted(server) == 40 and state(server)["lag"] == 0)
    assert sorted(subjects(server)) == [*range(10), *range(20, 30), *range(50, 70)]
    assert letters(server) == [] and state(server)["lost"] == 0


def test_the_lag_of_a_sink_is_counted_from_the_end_of_its_feed(start_server: Start, broker: Broker) -> None:
    server = start(start_server)
    assert server.client.put("/queries/q", content=QUERY, headers=PLAIN).status_code == 201
    sinks: dict[str, dict[str, Any]] = {"new": {}, "all": {"from": 0}}

    def declare(url: str) -> None:
        for name, members in sinks.items():
            given = {"kind": "kafka", "query": "q", "url": url, "topic": "lag", **members}
            assert server.client.put(f"/sinks/{name}", json=given).status_code in (200, 201)

    def described(name: str) -> dict[str, Any]:
        return dict(server.client.get(f"/sinks/{name}").json())

    declare(f"kafka://{HOST}:1")  # nobody listens there
    lines = "\n".join(json.dumps({"at": number, "data": line(number)}) for number in range(1, 2_001))
    pushed = server.client.post(
        "/streams", params={"iri": S, "wait": "true"}, content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    )  # fmt: skip
    assert pushed.json()["accepted"] == 2_000
    last = server.services.engine.queries.feed("q").history.last_id
    assert last >= 1_999
    until(lambda: all(described(name)["state"] == "waiting" for name in sinks))
    assert [described(name)["lag"] for name in sinks] == [last, last]
    server.client.post("/sinks/all:stop")
    assert described("all")["lag"] == last
    broker.create("lag")
    declare(broker.url)
    until(lambda: all(described(name)["lag"] == 0 for name in sinks))
    assert described("all")["taken"] == last
    assert server.client.delete("/queries/q").status_code == 204
    assert described("all")["lag"] is None
