"""Static parts that Spark reads on a real server: the versions of their events while a writer goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.bulk.java import spark_missing
from quadrill.store.quads.quad_store import QuadStore
from tests.app.conftest import LiveServer, Start

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
LABEL, KIND = NamedNode("urn:label"), NamedNode("urn:kind")
BLOCK, BLOCKS = 2_100, 3
INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
TEXTS = {
    "plain": "SELECT ?x ?l WHERE { ?x <urn:label> ?l }",
    "joined": "SELECT ?x ?l WHERE { STREAM <urn:s> [RANGE 1h] { <urn:e> <urn:p> ?v } ?x <urn:label> ?l }",
}


class Writer:
    """Commits at random, large changes (more keys than a commit may work out) and small ones in turn."""

    def __init__(self, store: QuadStore) -> None:
        self._store = store
        self._random = Random(14)
        self._there: set[int] = set()
        self._stop = Event()
        self._thread = Thread(target=self._write)
        self.rows_at: dict[int, frozenset[str]] = {store.reader.version: frozenset()}
        self.changes([*range(BLOCK)])

    def changes(self, numbers: list[int]) -> None:
        """What is there goes, what is not comes."""
        gone = [each for each in numbers if each in self._there]
        new = [each for each in numbers if each not in self._there]
        commit = self._store.writer.apply(add=self._quads(new), remove=self._quads(gone))
        self._there.symmetric_difference_update(numbers)
        self.rows_at[commit.version] = frozenset(str(each) for each in self._there)

    @staticmethod
    def _quads(numbers: list[int]) -> list[Quad]:
        """Literals that the store keeps in another form than they are given in."""
        values = [Literal(f"0{each}", datatype=INTEGER) for each in numbers]
        nodes = [NamedNode(f"urn:x{each}") for each in numbers]
        return [Quad(x, p, value) for x, value in zip(nodes, values, strict=True) for p in (LABEL, KIND)]

    def _write(self) -> None:
        while not self._stop.wait(self._random.uniform(0, 0.4)):
            if self._random.random() < 0.4:
                first = self._random.randrange(BLOCKS) * BLOCK
                self.changes([*range(first, first + BLOCK)])
            else:
                self.changes(self._random.sample(range(BLOCK * BLOCKS), 5))

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def job_done(server: LiveServer, **parameters: Any) -> None:
    location = server.client.post("/mirror", params=parameters).headers["Location"]
    until = time.monotonic() + 120
    while (job := server.client.get(location).json())["state"] in ("queued", "running"):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert job["state"] == "done", job


def events(server: LiveServer, name: str) -> Iterator[tuple[str, int, list[str]]]:
    """Kind, version and labels of each event so far."""
    for event in server.services.engine.queries.feed(name).subscribe(0).take():
        if event.kind in ("insert", "delete"):
            document = json.loads(event.data)
            rows = [row["l"]["value"] for row in document["results"]["bindings"]]
            yield event.kind, document["version"], rows


@pytest.mark.slow
@pytest.mark.spark
@needs_spark
@pytest.mark.timeout(900)
def test_each_event_shows_the_rows_of_its_version_while_a_writer_goes_on(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(data=str(tmp_path / "data"), spark_memory="1g", mirror_compact_ratio=0.0)
    writer = Writer(server.services.store)
    job_done(server)
    with writer:
        for name, text in TEXTS.items():
            body = {"name": name, "query": text, "output": "changes", "static_engine": "spark"}
            server.client.post("/queries", json=body).raise_for_status()
        pushed = server.client.post(
            "/streams",
            params={"iri": "urn:s", "at": 1000},
            content="<urn:e> <urn:p> <urn:o> .",
            headers={"Content-Type": "application/n-triples"},
        )
        pushed.raise_for_status()
        until = time.monotonic() + 300
        while not all(server.client.get(f"/queries/{each}").json()["state"] == "running" for each in TEXTS):
            assert time.monotonic() < until, "queries wait for the writer to end"
            time.sleep(0.1)
        job_done(server, compact="true")  # the mirror goes on while Spark reads
        time.sleep(5)
    server.services.engine.parts.statics.wait_for_reloads(300)
    server.services.engine.sync()
    for name in TEXTS:
        parts = server.client.get(f"/queries/{name}").json()["static_parts"]
        assert any(each["engine"] == "spark" for each in parts), parts
        told = list(events(server, name))
        versions = [version for _, version, _ in told]
        assert versions == sorted(versions)
        assert versions[-1] == server.services.store.reader.version
        rows: set[str] = set()
        for place, (kind, version, labels) in enumerate(told):
            if kind == "insert":
                assert rows.isdisjoint(labels)
                rows.update(labels)
            else:
                assert rows.issuperset(labels)
                rows.difference_update(labels)
            if versions[place + 1 : place + 2] != [version]:
                assert rows == writer.rows_at[version], (name, version)
