"""Feeds of shapes: the folded events of a feed are the results of each version."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.lifecycle.shape_feeds import ShapeFeeds
from quadrill.continuous.shapes.violations import ViolationError
from quadrill.store.errors import NotFoundError, StoreUnwritableError
from quadrill.store.feeds.subscription import StoredEvent, Subscription
from quadrill.store.logs.result_log import ResultLog
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.registry import Registry

from .test_service import NAMED, Served, served

OTHER = (
    ":S sh:targetClass :P ; sh:property [ sh:path :name ; sh:minCount 1 ; sh:message 'no name' ] ,"
    " [ sh:path :age ; sh:maxCount 1 ; sh:severity sh:Warning ] ."
)
Rows = Counter[str]


def rows_of(data: str) -> Rows:
    return Counter(json.dumps(row, sort_keys=True) for row in json.loads(data)["results"]["bindings"])


class Client:
    """A subscriber that folds the events that it gets, and resumes after its last one."""

    def __init__(self) -> None:
        self.rows: Rows = Counter()
        self.last = 0
        self.versions: list[int] = []
        self._subscription: Subscription | None = None

    def attach(self, server: Served, name: str = "s") -> None:
        self._subscription = server.shapes.reports.feed(name).subscribe(self.last)

    def detach(self) -> None:
        self._subscription = None

    def read(self) -> list[StoredEvent]:
        assert self._subscription is not None
        events = self._subscription.take()
        for event in events:
            if event.kind == "reset":
                continue
            assert event.id is not None
            rows = rows_of(event.data)
            if event.kind == "answer":
                self.rows = rows
            else:
                assert event.id == self.last + 1
                if event.kind == "delete":
                    assert rows <= self.rows
                    self.rows -= rows
                else:
                    self.rows += rows
                self.versions.append(json.loads(event.data)["version"])
            self.last = event.id
        return events


def current(server: Served, name: str = "s") -> Rows:
    return rows_of(json.dumps(server.shapes.reports.rows(name)))


@contextmanager
def stored(folder: Path, options: StoreOptions | None = None) -> Iterator[Served]:
    """A store with shapes whose feeds are kept in a file."""
    with (
        QuadStore.open(folder / "data", options or StoreOptions(durable=False)) as store,
        Registry.open(f"sqlite:///{folder / 'registry.sqlite'}") as registry,
    ):
        server = Served(store, registry, ShapeFeeds(store, folder / "data"))
        try:
            yield server
        finally:
            server.shapes.feeds.close()


def random_update(chance: random.Random) -> str:
    node = f":n{chance.randrange(6)}"
    triples = f"{node} {chance.choice(['a :P', 'a :P', 'a :P', ':name 1', ':age 1', ':age 2'])}"
    return f"{chance.choice(['INSERT', 'DELETE'])} DATA {{ {triples} }}"


def commit_group(server: Served, quads: list[Quad]) -> None:
    """Commit the insertion of each quad; the commits are one group of the write queue."""
    queue = server.store.queue
    requests = [WriteRequest(lambda pending, quad=quad: pending.add(quad), None) for quad in quads]  # type: ignore[misc]
    for request in requests:
        queue.enqueue(request)
    for request in requests:
        queue.finish(request)


@pytest.mark.parametrize("seed", range(8))
def test_the_folded_feed_is_the_report_after_every_commit(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    steady, clients = Client(), [Client() for _ in range(3)]
    for life in range(3):
        with stored(tmp_path) as server:
            if life == 0:
                server.update("INSERT DATA { :n0 a :P . :n1 a :P , :Q }")
                server.put("s")
            steady.attach(server)
            attached = []
            for _ in range(30):
                if chance.random() < 0.1:
                    into = chance.choice(["http://e/r", "http://e/t"])
                    server.put("s", chance.choice([NAMED, OTHER]), into=into)
                else:
                    server.update(random_update(chance))
                steady.read()
                assert steady.rows == current(server)
                for client in clients:
                    if client in attached:
                        client.read()
                        assert client.rows == steady.rows and client.last == steady.last
                        if chance.random() < 0.3:
                            client.detach()
                            attached.remove(client)
                    elif chance.random() < 0.3:
                        client.attach(server)
                        attached.append(client)
            assert steady.versions == sorted(steady.versions)
    assert steady.last > 10


def test_one_event_for_each_kind_of_change_with_the_version_and_time_of_the_commit() -> None:
    with served() as server:
        server.put("s")
        client = Client()
        client.attach(server)
        commit = server.store.writer.update("INSERT DATA { <http://e/a> a <http://e/P> }")
        (event,) = client.read()
        document = json.loads(event.data)
        assert (event.kind, document["at"], document["version"]) == ("insert", commit.at_ms, commit.version)
        assert document["head"]["vars"] == [
            "focusNode", "path", "value", "constraint", "shape", "severity", "message"
        ]  # fmt: skip
        (row,) = document["results"]["bindings"]
        assert row["focusNode"]["value"] == "http://e/a"
        assert row["path"] == {"type": "literal", "value": "<http://e/name>"}
        assert row["constraint"]["value"] == "http://www.w3.org/ns/shacl#MinCountConstraintComponent"
        assert row["severity"]["value"] == "http://www.w3.org/ns/shacl#Violation"
        server.update("DELETE { :a a :P } INSERT { :b a :P } WHERE {}")
        gone, come = client.read()
        assert (gone.kind, come.kind) == ("delete", "insert")
        assert json.loads(gone.data)["version"] == json.loads(come.data)["version"] == commit.version + 1
        server.update("INSERT DATA { :c :age 1 }")
        assert client.read() == []


def test_a_group_of_commits_gives_an_event_for_each_version(tmp_path: Path) -> None:
    with stored(tmp_path) as server:
        server.put("s")
        client = Client()
        client.attach(server)
        node, kind = NamedNode("http://e/a"), NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
        before = server.store.reader.version
        commit_group(
            server,
            [
                Quad(node, kind, NamedNode("http://e/P")),
                Quad(node, NamedNode("http://e/age"), Literal(1)),
                Quad(node, NamedNode("http://e/name"), Literal("a")),
                Quad(NamedNode("http://e/b"), kind, NamedNode("http://e/P")),
            ],
        )
        assert [event.kind for event in client.read()] == ["insert", "delete", "insert"]
        assert client.versions == [before + 1, before + 3, before + 4]


@pytest.mark.process
def test_after_a_kill_the_folded_feed_is_the_report(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.continuous.shapes.feed_crash_child", str(tmp_path), "60"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 20


def test_a_refused_commit_gives_no_event() -> None:
    with served() as server:
        server.put("s", mode="reject")
        server.put("t")
        client = Client()
        client.attach(server, "t")
        with pytest.raises(ViolationError):
            server.update("INSERT DATA { :a a :P }")
        assert client.read() == []
        server.put("s", mode="warn")
        server.update("INSERT DATA { :a a :P }")
        assert [event.kind for event in client.read()] == ["insert"]


def test_after_a_crash_the_difference_is_one_event(tmp_path: Path) -> None:
    client = Client()
    with stored(tmp_path) as server:
        server.put("s")
        server.update("INSERT DATA { :a a :P . :b a :P }")
        client.attach(server)
        client.read()
        server.shapes.feeds.publish = lambda: None  # type: ignore[method-assign]
        server.update("INSERT DATA { :c a :P }")
        server.update("INSERT DATA { :a :name 'a' }")
        server.update("INSERT DATA { :d a :P }")
        assert client.read() == []
    with stored(tmp_path) as server:
        client.attach(server)
        assert [event.kind for event in client.read()] == ["delete", "insert"]
        assert client.rows == current(server)
    with stored(tmp_path) as server:
        client.attach(server)
        assert client.read() == []


def test_a_log_that_cannot_be_written_delays_events_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stored(tmp_path) as server:
        server.put("s")
        client = Client()
        client.attach(server)

        def refuse(*_: object) -> None:
            raise StoreUnwritableError("the disk is full")

        for step in ("append", "sync"):
            with monkeypatch.context() as broken:
                broken.setattr(ResultLog, step, refuse)
                server.update(f"INSERT DATA {{ :{step} a :P }}")
                assert client.read() == []
            server.update(f"INSERT DATA {{ :{step}2 a :P }}")
            assert len(client.read()) == 2
            assert client.rows == current(server)
    with stored(tmp_path) as server:
        client.attach(server)
        assert client.read() == []


def test_a_subscriber_with_snapshot_gets_the_answer_of_the_newest_event(tmp_path: Path) -> None:
    with stored(tmp_path) as server:
        server.put("s")
        (answer,) = server.shapes.reports.feed("s").subscribe(snapshot=True).take()
        assert answer.kind == "answer" and not rows_of(answer.data)
        server.update("INSERT DATA { :a a :P . :b a :P }")
    with stored(tmp_path) as server:
        (answer,) = server.shapes.reports.feed("s").subscribe(snapshot=True).take()
        assert answer.id == 1 and rows_of(answer.data) == current(server)
        reset, answer = server.shapes.reports.feed("s").subscribe(7).take()
        assert reset.kind == "reset" and rows_of(answer.data) == current(server)


def test_an_answer_read_between_log_and_visibility_is_that_of_the_visible_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stored(tmp_path) as server:
        server.put("s")
        server.update("INSERT DATA { :a a :P }")
        seen: list[Rows] = []
        feed = server.shapes.reports.feed("s")

        def sync(_: ResultLog) -> None:
            raise StoreUnwritableError("the disk is slow")

        with monkeypatch.context() as slow:
            slow.setattr(ResultLog, "sync", sync)
            server.update("DELETE DATA { :a a :P } ; INSERT DATA { <http://e/b> a <http://e/P> }")
            line = feed.current()
            assert line is not None
            seen.append(rows_of(line))
        assert "http://e/a" in str(seen[0]) and "http://e/b" not in str(seen[0])
        server.shapes.feeds.publish()
        line = feed.current()
        assert line is not None and "http://e/b" in line and "http://e/a" not in line


def test_a_delete_ends_the_feed_and_a_later_put_begins_another(tmp_path: Path) -> None:
    with stored(tmp_path) as server:
        with pytest.raises(NotFoundError):
            server.shapes.reports.feed("s")
        server.update("INSERT DATA { :a a :P }")
        server.put("s")
        subscription = server.shapes.reports.feed("s").subscribe(0)
        server.shapes.delete("s")
        assert [event.kind for event in subscription.take()] == ["insert"] and subscription.exhausted
        with pytest.raises(FeedGoneError):
            server.shapes.reports.feed("s")
    with stored(tmp_path) as server:
        with pytest.raises(FeedGoneError):
            server.shapes.reports.feed("s")
        server.put("s")
        (event,) = server.shapes.reports.feed("s").subscribe(0).take()
        assert (event.id, event.kind) == (1, "insert")


def test_failed_shapes_give_an_error_event_and_a_put_the_difference(tmp_path: Path) -> None:
    with stored(tmp_path) as server:
        server.put("s", max_results=1)
        server.update("INSERT DATA { :a a :P }")
        server.update("INSERT DATA { :b a :P }")
    with stored(tmp_path) as server:
        events = server.shapes.reports.feed("s").subscribe(0).take()
        assert [event.kind for event in events] == ["insert", "error"]
        assert json.loads(events[1].data)["code"] == "shapes-budget"
        server.put("s", max_results=10)
        events = server.shapes.reports.feed("s").subscribe(2).take()
        assert [event.kind for event in events] == ["insert"]
        assert "http://e/b" in events[0].data and "http://e/a" not in events[0].data
