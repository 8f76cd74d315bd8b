"""Sources and sinks as clients see them: declared, described, stopped, over restarts; signatures."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.errors import ConnectorError
from quadrill.app.connectors.runner import Runner, run_sink
from quadrill.app.connectors.sink import Sink, SinkContext
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent, Subscription
from quadrill.store.hosts import AllowedHosts
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_feed_streams import until

SECRET = "between-the-two-of-us"
HOOK = {"kind": "webhook", "stream": "http://e/s", "format": "application/n-triples"}
TRIPLE = b"<urn:a> <urn:p> <urn:b> .\n"


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}"}


def test_a_webhook_takes_what_is_signed(start_server: Start) -> None:
    server = start_server()
    answer = server.client.put("/sources/hook", json=HOOK | {"secret": SECRET})
    assert answer.status_code == 201
    assert answer.headers["Location"].endswith("/sources/hook")
    described = answer.json()
    assert described["secret"] == "***" and SECRET not in answer.text
    until(lambda: server.client.get("/sources/hook").json()["state"] == "running")
    taken = server.client.post("/sources/hook", content=TRIPLE, headers=signed(TRIPLE))
    assert taken.status_code == 200, taken.text
    assert taken.json()["accepted"] == 1
    for headers in ({}, signed(TRIPLE, "another"), signed(b"another"), {"X-Hub-Signature-256": "sha256="}):
        assert (
            problem_of(server.client.post("/sources/hook", content=TRIPLE, headers=headers), 401)["code"]
            == "signature"
        )
    assert server.client.get("/sources/hook").json()["taken"] == 1
    assert server.client.get("/streams?iri=http://e/s").json()["accepted"] == 1


def test_a_sender_who_signs_needs_no_token(start_server: Start) -> None:
    server = start_server(token="t" * 32)
    admin = {"Authorization": f"Bearer {'t' * 32}"}
    for name, members in (("signed", {"secret": SECRET}), ("plain", {})):
        assert server.client.put(f"/sources/{name}", json=HOOK | members, headers=admin).status_code == 201
    assert server.client.post("/sources/signed", content=TRIPLE, headers=signed(TRIPLE)).status_code == 200
    problem_of(server.client.post("/sources/signed", content=TRIPLE), 401)
    problem_of(server.client.post("/sources/plain", content=TRIPLE), 401)
    problem_of(server.client.post("/sources/none", content=TRIPLE), 401)
    problem_of(server.client.put("/sources/signed", json=HOOK), 401)
    assert server.client.post("/sources/plain", content=TRIPLE, headers=admin).status_code == 200


def test_declarations_are_idempotent_and_kept(start_server: Start, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data")}
    server = start_server(**settings)
    members = HOOK | {"secret": SECRET}
    assert server.client.put("/sources/hook", json=members).status_code == 201
    assert server.client.put("/sources/hook", json=members).status_code == 200
    # What was read can be written again: a secret that is not shown is not lost.
    assert server.client.put("/sources/hook", json=HOOK | {"secret": "***"}).status_code == 200
    assert server.client.post("/sources/hook", content=TRIPLE, headers=signed(TRIPLE)).status_code == 200
    assert server.client.post("/sources/hook:stop").json()["state"] == "stopped"
    problem = problem_of(server.client.post("/sources/hook", content=TRIPLE, headers=signed(TRIPLE)), 409)
    assert problem["code"] == "source-stopped"
    server.services.close()
    again = start_server(**settings)
    assert again.client.get("/sources").json()["sources"][0]["state"] == "stopped"
    assert again.client.post("/sources/hook:start").json()["state"] in ("starting", "running")
    assert again.client.post("/sources/hook", content=TRIPLE, headers=signed(TRIPLE)).status_code == 200
    assert again.client.delete("/sources/hook").status_code == 204
    problem_of(again.client.get("/sources/hook"), 404)
    assert again.client.get("/sources").json() == {"sources": []}


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, "a source needs its kind"),
        ({"kind": "pigeon"}, "no source of the kind 'pigeon'"),
        ({"kind": "webhook"}, "stream"),
        (HOOK | {"stream": "no iri"}, "no iri"),
        (HOOK | {"colour": 1}, "no member 'colour'"),
        (HOOK | {"batch": 0}, "batch"),
        (HOOK | {"secret": 7}, "secret"),
        (HOOK | {"name": "other"}, "two names"),
    ],
)
def test_a_wrong_declaration_is_told_by_its_member(
    server: LiveServer, members: dict[str, object], told: str
) -> None:
    assert told in problem_of(server.client.put("/sources/s", json=members), 400)["detail"]
    problem_of(server.client.get("/sources/s"), 404)


class _Collecting(Sink):
    """Delivers into a list; fails as often as it is told to."""

    guarantee = "none"

    def __init__(self, context: SinkContext, faults: int) -> None:
        super().__init__({"query": "q", "events": ["insert"], "batch": 2}, context)
        self.faults = faults
        self.ids: list[int | None] = []

    @classmethod
    def check(cls, given: object, hosts: object, folder: object) -> None: ...

    def open(self) -> None: ...

    def deliver(self, events: Sequence[StoredEvent]) -> None:
        if len(self.ids) >= 3 and self.faults:
            self.faults -= 1
            raise ConnectorError("the other side is away")
        self.ids += [event.id for event in events]

    def close(self) -> None: ...


def test_a_sink_goes_on_behind_what_it_has_delivered(start_server: Start) -> None:
    server = start_server()
    text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
    assert (
        server.client.post(
            "/queries?name=q", content=text, headers={"Content-Type": "text/plain"}
        ).status_code
        == 201
    )
    saved: list[int] = []
    context = SinkContext("s", AllowedHosts(), None, DeadLetterFile(None), 0)
    sink = _Collecting(context, faults=1)
    engine = server.services.engine
    runner = Runner(context, lambda: run_sink(sink, engine.queries.feed, saved.append), "sink")
    runner.start()
    for at in range(1, 8):
        line = f"<urn:{at}> <urn:p> <urn:b> ."
        answer = server.client.post(
            "/streams", params={"iri": "http://e/s", "at": str(at)}, content=line,
            headers={"Content-Type": "application/n-triples"},
        )  # fmt: skip
        assert answer.status_code == 200
    until(lambda: len(sink.ids) >= 7)
    assert runner.stop()
    assert sink.ids == [1, 2, 3, 4, 5, 6, 7]
    assert sink.faults == 0 and saved[-1] == 7 and context.figures.state == "stopped"


def test_a_sink_runs_only_when_it_follows_the_feed() -> None:
    context = SinkContext("s", AllowedHosts(), None, DeadLetterFile(None), None)
    states: list[str] = []

    class Watched(Feed):
        def subscribe(
            self, after_id: int | None = None, snapshot: bool = False, empty: str | None = None
        ) -> Subscription:
            states.append(context.figures.state)
            context.stopping.set()
            return super().subscribe(after_id, snapshot, empty)

    run_sink(_Collecting(context, faults=0), lambda _query: Watched("q"), lambda _position: None)
    assert len(states) == 1 and states != ["running"]


def test_dead_letters_are_bounded_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "letters.ndjson"
    letters = DeadLetterFile(path, most=3)
    for number in range(20):
        letters.add(f"record {number}", "it is wrong", line=number)
    assert [each["record"] for each in letters.list()] == ["record 17", "record 18", "record 19"]
    assert path.read_text().count("\n") <= 7
    with path.open("a") as file:
        file.write('{"half')
    assert [each["line"] for each in DeadLetterFile(path, most=3).list()] == [17, 18, 19]
    letters.clear()
    assert not path.exists()


def test_the_kinds_are_told_with_their_members(start_server: Start) -> None:
    server = start_server()
    sources = {each["kind"]: each for each in server.client.get("/sources:kinds").json()["kinds"]}
    assert {"file", "kafka", "mqtt", "poll", "sse", "webhook", "websocket"} == set(sources)
    members = {each["name"]: each for each in sources["file"]["members"]}
    assert list(members)[:2] == ["stream", "format"] and "kind" not in members
    assert members["path"]["required"] and not members["every"]["required"]
    assert (members["from"]["form"], members["from"]["choices"]) == ("choice", ["start", "end"])
    assert [members[name]["form"] for name in ("header", "batch", "path")] == ["flag", "number", "text"]
    secret = {each["name"] for each in sources["webhook"]["members"] if each["secret"]}
    assert secret == {"secret"}
    sinks = {each["kind"]: each for each in server.client.get("/sinks:kinds").json()["kinds"]}
    assert {"file", "kafka", "mqtt", "webhook"} == set(sinks)
    events = next(each for each in sinks["webhook"]["members"] if each["name"] == "events")
    assert events["form"] == "list" and "insert" in events["choices"]
    assert all(each["guarantee"] or each["needs"] for each in (*sources.values(), *sinks.values()))


def test_dead_letters_of_a_source_are_dropped(start_server: Start) -> None:
    server = start_server()
    assert server.client.put("/sources/hook", json=HOOK).status_code == 201
    until(lambda: server.client.get("/sources/hook").json()["state"] == "running")
    problem_of(server.client.delete("/sources/none/dead-letters"), 404)
    server.client.post("/sources/hook", content=b"<urn:a> <urn:p")
    listed = server.client.get("/sources/hook/dead-letters").json()["letters"]
    assert server.client.delete("/sources/hook/dead-letters").json() == {"dropped": len(listed)}
    assert server.client.get("/sources/hook/dead-letters").json() == {"letters": []}
