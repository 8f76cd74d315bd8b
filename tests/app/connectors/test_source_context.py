"""What sources do with bad records, rows of one event, secrets that would move, and at their end."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.declaration import with_secrets
from quadrill.app.connectors.errors import StoppedError
from quadrill.app.connectors.kinds.poll_source import PollSource
from quadrill.app.connectors.kinds.sse_source import RESULTS, SseSource
from quadrill.app.connectors.kinds.webhook_source import WebhookSource
from quadrill.app.connectors.runner import Runner
from quadrill.app.connectors.source import JSON, Message, SourceContext
from quadrill.client.event_stream import ServerEvent
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_feed_streams import until


class _Stream:
    """Stands for the streams of an engine: takes bodies without the word bad."""

    def __init__(self) -> None:
        self.pushed: list[tuple[list[bytes], Any]] = []

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        if b"bad" in body:
            raise InputError("it is bad")
        place = call.position
        self.pushed.append((body.split(), None if place is None else place[1]))
        return {"accepted": len(body.split())}


def _context(stream: _Stream) -> SourceContext:
    return SourceContext("s", "urn:s", cast(StreamService, stream), AllowedHosts(), (), DeadLetterFile(None))


def test_one_bad_message_does_not_take_its_batch_with_it() -> None:
    stream = _Stream()
    context = _context(stream)
    bodies = [b"1", b'{"a":"\\ud800"}', b'"bad"', b"2", b"3", b"nonsense"]
    context.push_messages([(Message(each, {"_k": 1}), str(i)) for i, each in enumerate(bodies)], JSON)
    lines = [json.loads(line)["value"] for body, _ in stream.pushed for line in body]
    assert lines == [1, 2, 3]
    assert stream.pushed[-1][1] == "5", "the place is behind the last one"
    assert [each["record"] for each in context.letters.list()] == [
        '{"a":"\\ud800"}', "nonsense", '{"_k":1,"value":"bad"}',
    ]  # fmt: skip


def test_nothing_enters_once_a_source_has_to_stop() -> None:
    stream = _Stream()
    context = _context(stream)
    context.stopping.set()
    with pytest.raises(StoppedError):
        context.push(b"1", JSON)
    assert stream.pushed == []


def test_rows_of_one_event_enter_together() -> None:
    stream = _Stream()
    source = SseSource({"events": None, "format": RESULTS, "batch": 3}, _context(stream))

    def event(id: str, *rows: str) -> ServerEvent:
        bindings = [{"x": {"type": "literal", "value": each}} for each in rows]
        return ServerEvent("insert", json.dumps({"results": {"bindings": bindings}}), id)

    source._take([event("1", "a", "b"), event("2", "c", "bad"), event("3", "e")])
    values = [([b"".join(body).count(b'"x"')], place) for body, place in stream.pushed]
    assert values == [([2], "1"), ([1], "1"), ([0], "2"), ([1], "3")]


@pytest.mark.parametrize("moved", [{"url": "http://b/"}, {"kind": "poll"}, {"ca": "another"}])
def test_a_secret_goes_nowhere_else(moved: dict[str, str]) -> None:
    kept = {"kind": "sse", "url": "http://a/", "token": "t"}
    given = {**kept, "token": "***"}
    assert with_secrets(PollSource.members, given, kept) == kept
    with pytest.raises(InputError, match="is sent only to the same server"):
        with_secrets(PollSource.members, given | moved, kept)


def test_no_new_life_begins_before_the_old_one_has_ended(server: LiveServer) -> None:
    hook = {"kind": "webhook", "stream": "http://e/s"}
    assert server.client.put("/sources/it", json=hook).status_code == 201
    connectors = server.services.connectors
    let_go = threading.Event()
    found = connectors._all["source", "it"]
    assert found.part is not None and found.runner is not None
    found.runner.stop()
    found.part.context.stopping.clear()
    found.runner = Runner(found.part.context, let_go.wait, "source")
    found.runner.start()
    stopped = server.client.post("/sources/it:stop", timeout=20).json()
    assert stopped["state"] == "stopped"
    problem = problem_of(server.client.post("/sources/it:start", timeout=20), 409)
    assert problem["code"] == "connector" and "is still stopping" in problem["detail"]
    let_go.set()
    until(lambda: server.client.post("/sources/it:start", timeout=20).status_code == 200)


def test_one_that_was_not_started_has_figures(start_server: Start, tmp_path: Any) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.client.put("/sources/it", json={"kind": "webhook", "stream": "http://e/s"})
    server.client.post("/sources/it:stop")
    server.services.close()
    described = start_server(data=str(tmp_path / "data")).client.get("/sources/it").json()
    assert (described["state"], described["rate"], described["lag"]) == ("stopped", 0, None)
    assert described["guarantee"] == WebhookSource.guarantee


def test_kafka_writes_no_place_of_records_that_have_not_entered() -> None:
    pytest.importorskip("confluent_kafka", reason="needs the library confluent-kafka")
    from quadrill.app.connectors.kinds.kafka_source import KafkaSource

    def record(offset: int, error: object = None) -> Any:
        told = {"topic": "t", "partition": 0, "offset": offset, "value": b"1", "error": error, "key": None}
        calls = {name: (lambda value=value: value) for name, value in told.items()}
        return SimpleNamespace(**calls, timestamp=lambda: (0, -1), headers=lambda: None)

    class Reading(KafkaSource):
        def _handle_error(self, record: Any, error: Any) -> None:
            told.append(len(stream.pushed))

    stream, told = _Stream(), list[int]()
    source = Reading({"batch": 9, "format": None}, _context(stream))
    source._next = {("t", 0): 0}
    coming = [record(1), record(2, "gone"), record(3)]
    source._consumer = cast(Any, SimpleNamespace(poll=lambda _: record(0), consume=lambda *_, **__: coming))
    source._poll()
    assert told == [1] and [place for _, place in stream.pushed] == ['{"t":{"0":2}}', '{"t":{"0":4}}']
