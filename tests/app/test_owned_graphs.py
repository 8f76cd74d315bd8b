"""Writes to the graph of a rule set over HTTP: 409 ``graph-owned``, also in worker processes and jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.app.evaluation.processes import Processes
from quadrill.app.evaluation.workers import WorkerPool
from quadrill.store.changes.owners import OwnedGraphError, Owner
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.update_worker import UpdateTask
from tests.app.conftest import Start, problem_of

from .test_rule_routes import FAMILY, INTO, ended, inferred, put

TURTLE = {"Content-Type": "text/turtle"}
TRIG = {"Content-Type": "application/trig"}
OWN = NamedNode("urn:own")


def test_the_graph_store_refuses_writes_and_leaves_the_graph_out(start_server: Start, tmp_path: Path) -> None:
    server = start_server(load_folders=[str(tmp_path)])
    server.update(FAMILY)
    put(server)
    kept = inferred(server)
    version = server.client.get("/changes", params={"after": 0, "limit": 100}).text
    body = "<urn:x> <urn:y> <urn:z> ."
    at = {"graph": INTO}
    client = server.client
    for answer in (
        client.put("/store", params=at, content=body, headers=TURTLE),
        client.post("/store", params=at, content=body, headers=TURTLE),
        client.post("/store", params=at, content="", headers=TURTLE),
        client.delete("/store", params=at),
        client.put("/store", content=f"<{INTO}> {{ {body} }}", headers=TRIG),
        client.post("/store", content=f"{body} <{INTO}> {{ {body} }}", headers=TRIG),
        server.update(f"INSERT DATA {{ GRAPH <{INTO}> {{ {body} }} }}"),
        server.update(f"DROP SILENT GRAPH <{INTO}>"),
        server.update(f"COPY DEFAULT TO <{INTO}>"),
        server.update(f"WITH <{INTO}> DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o }}"),
    ):
        problem = problem_of(answer, 409)
        assert (problem["code"], problem["graph"]) == ("graph-owned", INTO)
    for text in (
        f"LOAD <http://host.example/x> INTO GRAPH <{INTO}>",
        f"LOAD SILENT <http://host.example/x> INTO GRAPH <{INTO}>",
        f"INSERT {{ GRAPH <{INTO}> {{ ?s ?p ?o }} }} WHERE {{ SERVICE <http://no.example/> {{ ?s ?p ?o }} }}",
        f"LOAD <http://host.example/x> ; DROP GRAPH <{INTO}>",
    ):
        problem = problem_of(server.update(text), 409)
        assert (problem["code"], problem["graph"]) == ("graph-owned", INTO)
    (tmp_path / "own.nq").write_text(f"<urn:x> <urn:y> <urn:z> <{INTO}> .\n")
    for engine in ("auto", "oxigraph"):
        answer = client.post("/loads", json={"source": str(tmp_path / "own.nq"), "engine": engine})
        job = ended(server, answer.headers["Location"])
        assert job["state"] == "failed" and INTO in job["error"]
    assert inferred(server) == kept != set()
    assert client.get("/changes", params={"after": 0, "limit": 100}).text == version
    assert client.put("/store", content="<urn:b> <urn:parent> <urn:c> .", headers=TURTLE).status_code < 300
    assert inferred(server) == set()
    server.update(FAMILY)
    assert inferred(server) == kept
    assert client.delete("/store").status_code < 300
    assert inferred(server) == set()
    assert problem_of(client.delete("/store", params=at), 409)["code"] == "graph-owned"


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_worker_process_refuses_writes_to_a_derived_graph(tmp_path: Path, on_disk: bool) -> None:
    folder = tmp_path / "data" if on_disk else None
    inside = Quad(NamedNode("urn:a"), NamedNode("urn:p"), Literal(1), OWN)
    with QuadStore.open(folder) as store:
        store.writer.apply(add=[inside, Quad(*inside.triple)])
        store.queue.own(OWN, Owner("rules", "r"))
        pool = WorkerPool(store, folder, size=1, memory_bytes=0, max_nesting=100)

        def compute(text: str) -> None:
            pool.compute_update(UpdateTask(text), Processes().begin("update", text, ""), 60)

        try:
            with pytest.raises(OwnedGraphError) as refused:
                compute("INSERT { GRAPH <urn:own> { ?a ?b ?c } } WHERE { <urn:no> ?b ?c }")
            assert refused.value.details["graph"] == "urn:own" and "rule set r" in refused.value.message
            compute("DELETE { GRAPH ?g { ?a ?b ?c } } WHERE { GRAPH ?g { ?a ?b ?c } } ; DROP ALL")
        finally:
            pool.close()
        assert store.reader.quads_for_pattern() == [inside]
