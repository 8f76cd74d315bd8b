"""Updates that hold many rows back: they take a worker's memory and change what they would."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.evaluation.processes import Processes
from quadrill.app.evaluation.where_parts import BufferLimits, ServerWherePart
from quadrill.app.evaluation.workers import WorkerPool
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query_worker import WorkerRequest
from quadrill.store.sparql.update_plan import BufferedRowsError
from quadrill.store.sparql.update_worker import UpdateTask

from .conftest import Start, problem_of
from .test_server import eventually

UPDATE = {"Content-Type": "application/sparql-update"}
THREE = "?a <urn:p> ?x . ?b <urn:p> ?x . ?c <urn:p> ?x"
MEMORY = 128 << 20


def data(quads: int) -> str:
    return "INSERT DATA { " + " ".join(f"<urn:a{each}> <urn:p> <urn:x> ." for each in range(quads)) + " }"


SHAPES = {
    "order": f"{{ SELECT * {{ {THREE} }} ORDER BY ?a ?c LIMIT 5 }}",
    "distinct": f"{{ SELECT DISTINCT ?a ?b ?c {{ {THREE} }} }}",
    "minus": f"?a <urn:p> ?y MINUS {{ {THREE} }}",
    "solutions": THREE,
}


@pytest.mark.always("distinct-folder", "minus-folder", "order-*")
@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ("distinct", "folder"),
        ("minus", "folder"),
        ("solutions", "folder"),
        ("order", "memory"),
        ("order", "behind other operations"),
    ],
)
def test_an_update_that_holds_much_back_ends_its_worker_alone(
    start_server: Start, tmp_path: Path, shape: str, place: str
) -> None:
    settings: dict[str, Any] = {"data": str(tmp_path)} if place == "folder" else {}
    server = start_server(workers=int(shape != "minus"), worker_memory_bytes=MEMORY, **settings)
    server.client.timeout = 150
    before = f"{data(100)} ; " if place == "behind other operations" else ""
    if not before:
        server.client.post("/update", content=data(100), headers=UPDATE).raise_for_status()
    text = f"{before}INSERT {{ ?a <urn:q> ?b , ?n , ?c }} WHERE {{ {SHAPES[shape]} }}"
    answer = server.client.post("/update", content=text, headers=UPDATE)
    problem = problem_of(answer, 500)
    assert problem["code"] == "worker-lost"
    assert f"(worker_memory_bytes, {MEMORY} bytes)" in problem["detail"]
    found = server.client.get("/query", params={"query": "ASK { ?a <urn:q> ?b }"})
    assert found.json()["boolean"] is False
    server.client.post("/update", content="CLEAR ALL", headers=UPDATE).raise_for_status()


SERVER = """
import resource
from pathlib import Path
import httpx
from quadrill.app import running
from quadrill.app.config import Settings
with running.serve(Settings(data=":memory:", port=0, workers=1, worker_memory_bytes=%d)) as server:
    headers = {"Content-Type": "application/sparql-update"}
    client = httpx.Client(base_url=server.url, headers=headers, timeout=100)
    client.post("/update", content=%r).raise_for_status()
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (600 << 20), now + (600 << 20)))
    print(client.post("/update", content=%r).json()["code"])
    print(client.post("/update", content="CLEAR ALL").status_code)
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_server_with_little_memory_outlives_an_update() -> None:
    update = f"INSERT {{ ?a <urn:q> ?c }} WHERE {{ {SHAPES['order']} }}"
    child = subprocess.run(
        [sys.executable, "-c", SERVER % (MEMORY, data(200), update)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert child.stdout == "worker-lost\n204\n", (child.returncode, child.stderr[-500:])


TEXTS = [
    "INSERT { ?a <urn:q> ?b } WHERE { SELECT ?a ?b { ?a <urn:p> ?b } ORDER BY ?a LIMIT 2 }",
    "DELETE { ?a <urn:p> ?b } INSERT { GRAPH <urn:g> { ?a <urn:p> ?b } } WHERE { ?a <urn:p> ?b }",
    "WITH <urn:h> DELETE { ?a ?p ?o } WHERE { ?a ?p ?o }",
    "INSERT DATA { <urn:z> <urn:p> 'é\\n'@en } ; DELETE { ?a <urn:p> ?o } WHERE { ?a <urn:p> ?o }",
    "CREATE GRAPH <urn:new> ; DROP GRAPH <urn:h> ; INSERT { ?a <urn:p> 01 } WHERE { ?a <urn:p> _:x }",
    "INSERT { ?o <urn:p> ?n } WHERE { ?a <urn:b> ?o { SELECT (COUNT(*) AS ?n) { ?s ?p ?q } } }",
]


@pytest.mark.always("False-*", "True-DELETE { ?a <urn:p>*", "True-CREATE*")
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_worker_changes_what_the_server_would(tmp_path: Path, text: str, on_disk: bool) -> None:
    with QuadStore.open(tmp_path / "data" if on_disk else None) as store:
        store.writer.update(
            data(5) + " ; INSERT DATA { GRAPH <urn:h> { <urn:a> <urn:p> 1 } . <urn:a> <urn:b> _:x }"
        )
        pool = WorkerPool(
            store, tmp_path / "data" if on_disk else None, size=1, memory_bytes=0, max_nesting=100
        )
        try:
            made = pool.compute_update(UpdateTask(text), Processes().begin("update", text, ""), 60)
        finally:
            pool.close()
        inverse = made.net().inverse()
        store.writer.apply(
            add=inverse.added, remove=inverse.removed, create=inverse.created, drop=inverse.dropped
        )
        expected = store.writer.update(text)
        for name in ("added", "removed", "created", "dropped"):
            assert set(getattr(made, name)) == set(getattr(expected, name)), name


class Update:
    """An update that a pool makes in a thread of its own."""

    def __init__(self, pool: WorkerPool, text: str, seconds: float = 60) -> None:
        self.process = Processes().begin("update", text, "")
        self.errors: list[ReportedError] = []
        self.thread = threading.Thread(target=self._make, args=(pool, UpdateTask(text), seconds))
        self.thread.start()

    def _make(self, pool: WorkerPool, task: UpdateTask, seconds: float) -> None:
        try:
            pool.compute_update(task, self.process, seconds)
        except ReportedError as error:
            self.errors.append(error)

    def stop(self) -> None:
        self.process.interrupt("stopped")
        self.thread.join(20)


@pytest.fixture
def busy_pool() -> Iterator[WorkerPool]:
    """A pool of two workers, of which one is at an update that would take minutes."""
    with QuadStore.open(None) as store:
        store.writer.update(data(500))
        pool = WorkerPool(store, None, size=2, memory_bytes=0, max_nesting=100)
        long = Update(
            pool, "INSERT { ?a <urn:q> ?c } WHERE { ?a <urn:p> ?x . ?b <urn:p> ?y . ?c <urn:p> ?z }"
        )
        try:
            assert eventually(lambda: long.process.stop is not None)
            yield pool
            assert long.thread.is_alive()
        finally:
            long.stop()
            pool.close()
        assert [error.code for error in long.errors] == ["cancelled"]


def test_updates_that_wait_for_each_other_leave_workers_to_queries(busy_pool: WorkerPool) -> None:
    waiting = [Update(busy_pool, "DELETE WHERE { ?a <urn:p> ?b }") for _ in range(2)]
    time.sleep(0.3)
    found = io.BytesIO()
    try:
        request = WorkerRequest(
            copy="", version=0, text="ASK { ?a <urn:p> ?b }", results_format="json", graph_format=None
        )
        busy_pool.run(request, found, lambda head: None, Processes().begin("query", "", ""), 10)
    finally:
        for update in waiting:
            update.stop()
    assert b"true" in found.getvalue()


@pytest.mark.parametrize(("seconds", "code"), [(60, "cancelled"), (0.4, "query-timeout")])
def test_an_update_that_waits_for_another_can_be_stopped(
    busy_pool: WorkerPool, seconds: float, code: str
) -> None:
    waiting = Update(busy_pool, "DELETE WHERE { ?a <urn:p> ?b }", seconds)
    time.sleep(0.2)
    assert waiting.thread.is_alive()
    if code == "cancelled":
        waiting.process.interrupt("stopped")
    waiting.thread.join(5)
    assert [error.code for error in waiting.errors] == [code]


@pytest.mark.parametrize(
    ("where", "quads", "admitted"),
    [
        ("{ ?s <urn:a> ?x . ?s <urn:b> ?y . ?s <urn:c> ?z }", 10**7, True),
        ("{ ?s <urn:a> ?x FILTER NOT EXISTS { ?s <urn:b> ?y . ?y <urn:b> ?z } }", 10**7, True),
        ("{ GRAPH ?g { ?s <urn:a> ?x . ?s <urn:b> ?y } OPTIONAL { ?s <urn:c> ?z } }", 10**6, True),
        ("{ VALUES (?s ?x) { (<urn:a> 1) (<urn:b> 2) } ?s <urn:b> ?y }", 10**7, True),
        ("{ ?s <urn:a> ?x MINUS { ?s <urn:b> true } }", 10**6, True),
        ("{ ?j <urn:is> ?s { SELECT ?j { ?j <urn:at> ?t } ORDER BY ?t LIMIT 1 } }", 10**6, True),
        ("{ SELECT ?j { ?j <urn:at> ?t . ?j <urn:is> 1 } ORDER BY ?t LIMIT 1 }", 10**3, False),
        ("{ SELECT ?j { ?j <urn:at> ?t . ?j <urn:is> 1 } ORDER BY ?t LIMIT 1 }", 500, True),
        ("{ ?s <urn:a> ?x . ?t <urn:a> ?y }", 10**3, False),
        ("{ ?s <urn:a>+ ?x }", 2, False),
        ("{ ?s <urn:a> ?x . ?s <urn:b> ?y { ?s <urn:c> ?z } }", 10**7, True),
        ("{ ?s <urn:a> ?x . ?s <urn:b> ?y { SELECT * { ?s <urn:c> ?z } LIMIT 9 } }", 10**3, False),
        ("{ ?s <urn:a> ?x { SERVICE <urn:far> { ?s <urn:c> ?z } } }", 2, False),
        ("{ { SELECT * { ?a <urn:p> ?x { SELECT ?b { ?b <urn:p> ?x } } } ORDER BY ?a } }", 10**3, False),
    ],
)
def test_what_holds_little_back_stays_within_the_server(where: str, quads: int, admitted: bool) -> None:
    if admitted:
        ServerWherePart("", where, BufferLimits(lambda: quads)).require_in_process(0)
    else:
        with pytest.raises(BufferedRowsError):
            ServerWherePart("", where, BufferLimits(lambda: quads)).require_in_process(0)
