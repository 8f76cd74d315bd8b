"""Compaction and restoring while the server runs; the statistics in the service description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, RdfFormat, parse

from quadrill.app.description import SD, VOID
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_jobs import finished


def test_the_database_is_compacted_as_a_job(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.update("INSERT DATA { <urn:a> <urn:p> 1 }")
    answer = server.client.post("/optimize")
    assert answer.status_code == 202
    assert finished(server, answer.json()["id"])["state"] == "done"
    assert server.boolean("ASK { <urn:a> <urn:p> 1 }")


def test_a_backup_is_restored_while_the_server_runs_as_one_exact_commit(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(tmp_path))
    server.update(
        "CREATE GRAPH <urn:empty> ; INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:g> { _:b <urn:p> 2 } }"
    )
    before = server.client.get("/store", headers={"Accept": "application/n-quads"}).text
    backup = str(tmp_path / "backup")
    assert server.client.post("/backups", json={"folder": backup}).status_code == 201
    server.update(
        "CLEAR ALL ; INSERT DATA { <urn:later> <urn:p> 1 . <urn:a> <urn:p> 1 } ; DROP GRAPH <urn:empty>"
    )
    told: list[Any] = []
    server.services.store.subscribers.subscribe(told.append)
    answer = server.client.post("/restores", json={"folder": backup})
    assert answer.status_code == 202
    done = finished(server, answer.json()["id"])
    assert done["state"] == "done", done
    assert server.client.get("/store", headers={"Accept": "application/n-quads"}).text == before
    assert server.boolean("ASK { GRAPH <urn:empty> {} }")
    (commit,) = told
    assert commit.exact
    assert [quad.subject.value for quad in commit.removed] == ["urn:later"]
    assert len(commit.added) == 1
    problem_of(server.client.post("/restores", json={"folder": str(tmp_path / "none")}), 404)
    problem_of(server.client.post("/restores", json={"folder": "relative"}), 404)
    other = start_server(data=str(tmp_path / "other"))
    problem_of(other.client.post("/restores", json={"folder": "relative"}), 400)


def test_nothing_is_restored_in_read_only_mode(start_server: Start, tmp_path: Path) -> None:
    server = start_server(read_only=True)
    assert (
        problem_of(server.client.post("/restores", json={"folder": str(tmp_path)}), 403)["code"]
        == "read-only"
    )


def test_the_service_description_tells_the_sizes_of_the_graphs(server: LiveServer) -> None:
    server.update("INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:g> { <urn:a> <urn:p> 1 , 2 } }")
    server.update("DELETE DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
    triples = set(
        parse(server.client.get("/query", headers={"Accept": "text/turtle"}).content, RdfFormat.TURTLE)
    )
    sizes = {quad.subject: quad.object.value for quad in triples if quad.predicate.value == VOID + "triples"}
    dataset = next(quad.object for quad in triples if quad.predicate.value == SD + "defaultDataset")
    default = next(quad.object for quad in triples if quad.predicate.value == SD + "defaultGraph")
    entry = next(quad.subject for quad in triples if quad.object == NamedNode("urn:g"))
    graph = next(
        quad.object for quad in triples if quad.subject == entry and quad.predicate.value == SD + "graph"
    )
    assert (sizes[dataset], sizes[default], sizes[graph]) == ("2", "1", "1")
