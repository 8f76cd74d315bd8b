"""Exports leave the quads of rule sets out unless they are asked for; backups and mirrors have them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, RdfFormat

from quadrill.app.cli import main
from quadrill.app.upkeep import backup
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, swap_in
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.quads.quad_store import QuadStore
from tests.app.conftest import LiveServer, Start, problem_of

GRAND = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }"
FACTS = """
INSERT DATA {
    <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> .
    GRAPH <urn:g> { <urn:c> <urn:parent> <urn:d> }
}
"""
INTO = "urn:inferred"
ASSERTED = [
    "<urn:a> <urn:parent> <urn:b> .",
    "<urn:b> <urn:parent> <urn:c> .",
    "<urn:c> <urn:parent> <urn:d> <urn:g> .",
]
INFERRED = ["<urn:a> <urn:grand> <urn:c>", "<urn:b> <urn:grand> <urn:d>"]
WHOLE = sorted([*ASSERTED, *(f"{triple} <{INTO}> ." for triple in INFERRED)])


def family(server: LiveServer, name: str = "family", into: str = INTO) -> None:
    answer = server.client.put(f"/rules/{name}", json={"rules": [GRAND], "into": into})
    assert answer.status_code == 201, answer.text


def lines(server: LiveServer, accept: str = "application/n-quads", **parameters: Any) -> list[str]:
    answer = server.client.get("/store", params=parameters, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    return sorted(answer.text.splitlines())


def whole(server: LiveServer) -> list[str]:
    return lines(server, inferred="true")


def test_the_dataset_is_without_inferred_quads_unless_they_are_asked_for(server: LiveServer) -> None:
    server.update(FACTS)
    assert lines(server) == lines(server, inferred="true") == ASSERTED
    family(server)
    assert lines(server) == lines(server, inferred="false") == ASSERTED
    assert whole(server) == WHOLE
    assert lines(server, "application/n-triples", graph=INTO) == [f"{triple} ." for triple in INFERRED]
    trig = "\n".join(lines(server, "application/trig"))
    assert "urn:g>" in trig and INTO not in trig
    assert INTO in "\n".join(lines(server, "application/trig", inferred=""))
    assert INTO not in "\n".join(lines(server, "application/ld+json"))
    assert lines(server, "application/n-triples", graph="urn:g", inferred="true")
    problem_of(server.client.get("/store?inferred=maybe"), 400)
    problem_of(
        server.client.put("/store?inferred=true", content="", headers={"Content-Type": "text/turtle"}), 400
    )
    server.client.delete("/rules/family")
    assert lines(server) == ASSERTED


def exported(folder: Path, arguments: Iterable[str]) -> list[str]:
    target = folder / "out.nq"
    assert main(["export", *arguments, str(target)]) == 0
    return sorted(target.read_text().splitlines())


def test_exports_of_a_server_and_of_a_stopped_folder_are_alike(tmp_path: Path, start_server: Start) -> None:
    folder = tmp_path / "data"
    server = start_server(data=str(folder))
    server.update(FACTS)
    family(server)
    assert exported(tmp_path, ["--server", server.url]) == ASSERTED
    assert exported(tmp_path, ["--server", server.url, "--inferred"]) == WHOLE
    saved = tmp_path / "saved"
    assert main(["backup", "--server", server.url, str(saved)]) == 0
    assert main(["restore", str(saved), "--data", str(tmp_path / "copy")]) == 0
    assert exported(tmp_path, ["--data", str(tmp_path / "copy")]) == ASSERTED
    assert exported(tmp_path, ["--data", str(tmp_path / "copy"), "--inferred"]) == WHOLE


def test_a_restored_backup_answers_as_the_original(tmp_path: Path, start_server: Start) -> None:
    old = start_server(data=str(tmp_path / "old"))
    old.update(FACTS)
    family(old)
    assert main(["backup", "--server", old.url, str(tmp_path / "saved")]) == 0
    assert main(["restore", str(tmp_path / "saved"), "--data", str(tmp_path / "new")]) == 0
    new = start_server(data=str(tmp_path / "new"))
    assert whole(new) == WHOLE
    described, original = new.client.get("/rules").json(), old.client.get("/rules").json()
    for each in (*described["rules"], *original["rules"]):
        del each["cost_ms"]
    assert described == original, "the version, too: nothing was computed again"
    for server in (old, new):
        server.update("INSERT DATA { <urn:d> <urn:parent> <urn:e> }")
        refused = server.client.put(
            f"/store?graph={INTO}", content="", headers={"Content-Type": "text/turtle"}
        )
        assert problem_of(refused, 409)["code"] == "graph-owned"
    assert whole(new) == whole(old)
    assert f"<urn:c> <urn:grand> <urn:e> <{INTO}> ." in whole(new)


def test_sets_that_change_while_a_backup_is_made_are_complete_after_the_restore(
    tmp_path: Path, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = start_server(data=str(tmp_path / "old"), backup_folder=str(tmp_path))
    old.update(FACTS)
    for name in ("dropped", "moved", "kept"):
        family(old, name, f"urn:{name}")
    copy = backup.copy_sqlite

    def copy_later(source: Path, target: Path) -> None:
        old.client.delete("/rules/dropped")
        old.client.put("/rules/moved", json={"rules": [GRAND], "into": "urn:other"})
        family(old, "new", "urn:new")
        copy(source, target)

    monkeypatch.setattr(backup, "copy_sqlite", copy_later)
    made = old.client.post("/backups", json={"folder": "saved"})
    assert made.status_code in (200, 201), made.text
    assert main(["restore", str(tmp_path / "saved"), "--data", str(tmp_path / "new")]) == 0
    new = start_server(data=str(tmp_path / "new"))
    assert whole(new) == whole(old)
    assert lines(new) == ASSERTED
    found, wanted = new.client.get("/rules").json(), old.client.get("/rules").json()
    assert [(each["name"], each["state"], each["into"]) for each in found["rules"]] == [
        (each["name"], each["state"], each["into"]) for each in wanted["rules"]
    ]


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_a_dump_may_leave_graphs_out(tmp_path: Path, folder: str | None) -> None:
    with QuadStore.open(folder and tmp_path / folder) as store:
        store.writer.update(FACTS)
        for hidden, kept in ((["urn:g"], 2), (["urn:missing"], 3), ([], 3)):
            target, versions = io.BytesIO(), list[int]()
            without = frozenset(map(NamedNode, hidden))
            version = store.reader.dump(target, RdfFormat.N_QUADS, without=without, started=versions.append)
            assert len(target.getvalue().splitlines()) == kept
            assert [version] == versions == [1]


def test_metrics_count_inferred_quads_apart(server: LiveServer) -> None:
    server.update(FACTS)
    assert "quadrill_store_inferred_quads 0.0" in server.client.get("/metrics").text
    family(server)
    text = server.client.get("/metrics").text
    assert "quadrill_store_quads 5.0" in text and "quadrill_store_inferred_quads 2.0" in text


def test_later_commits_bring_inferred_quads_to_a_mirror(tmp_path: Path, start_server: Start) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.update(FACTS)
    folder = tmp_path / "data" / "mirror"
    (folder / "quads-1").mkdir(parents=True)
    swap_in(folder, "quads-1", 1, {})
    family(server)
    mirror, store = Mirror.open(folder), server.services.store
    assert mirror is not None
    changes = mirror.changes(store)
    assert changes is not None
    assert {str(quad) for quad in changes[1]} == {f"{triple} <{INTO}>" for triple in INFERRED}


@pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
def test_a_new_mirror_has_inferred_quads(tmp_path: Path, start_server: Start) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.update(FACTS)
    family(server)
    mirror = make_mirror(server.services.store, tmp_path / "data" / "mirror")
    assert sum(facts.rows for facts in mirror.predicates.values()) == len(WHOLE)
    assert mirror.predicates["urn:grand"].rows == len(INFERRED)
