"""Bulk loads as jobs, and backups on request."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from quadrill.app.cli import main
from quadrill.store.registry import JobRecord
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.nt").write_text("".join(f"<urn:s> <urn:p> <urn:o{n}> .\n" for n in range(100)))
    (inside / "b.nt.gz").write_bytes(gzip.compress(b"<urn:s> <urn:p> <urn:packed> .\n"))
    (inside / "bad.nt").write_text("<urn:s> <urn:p> <urn:o> .\n<urn:s> <urn\n")
    (tmp_path / "outside.nt").write_text("<urn:s> <urn:p> <urn:o> .\n")
    (inside / "link.nt").symlink_to(tmp_path / "outside.nt")
    return inside


@pytest.fixture
def fresh(start_server: Start, folder: Path) -> LiveServer:
    return start_server(load_folders=(str(folder),))


def finished(server: LiveServer, job_id: str) -> dict[str, object]:
    """The job's description once it has ended, followed as events."""
    with EventReader(server, f"/jobs/{job_id}") as feed:
        while True:
            document: dict[str, object] = json.loads(feed.take(1)[0].data)
            if document["state"] in ("done", "failed"):
                return document


def test_a_file_below_a_load_folder_is_loaded(fresh: LiveServer, folder: Path) -> None:
    answer = fresh.client.post("/loads", json={"source": "a.nt", "graph": "urn:g"})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["Location"] == f"{fresh.url}jobs/{job['id']}"
    done = finished(fresh, job["id"])
    assert done["state"] == "done"
    assert done["progress"]["rows"] == 100  # type: ignore[index]
    assert fresh.client.get(f"/jobs/{job['id']}").json() == done
    assert [each["id"] for each in fresh.client.get("/jobs").json()["jobs"]] == [job["id"]]
    assert fresh.boolean("ASK { GRAPH <urn:g> { <urn:s> <urn:p> <urn:o99> } }")
    packed = finished(fresh, fresh.client.post("/loads", json={"source": "b.nt.gz"}).json()["id"])
    assert packed["progress"]["rows"] == 1  # type: ignore[index]
    assert fresh.boolean("ASK { <urn:s> <urn:p> <urn:packed> }")
    bulk = {"source": "a.nt", "graph": "urn:bulk", "engine": "oxigraph"}
    loaded = finished(fresh, fresh.client.post("/loads", json=bulk).json()["id"])
    assert loaded["progress"]["exact"] is False  # type: ignore[index]
    assert fresh.boolean("ASK { GRAPH <urn:bulk> { <urn:s> <urn:p> <urn:o99> } }")
    absolute = fresh.client.post("/loads", json={"source": str(folder / "a.nt")})
    assert finished(fresh, absolute.json()["id"])["state"] == "done"


def test_a_malformed_file_fails_the_job_with_its_place_and_loads_nothing(fresh: LiveServer) -> None:
    failed = finished(fresh, fresh.client.post("/loads", json={"source": "bad.nt"}).json()["id"])
    assert failed["state"] == "failed"
    assert "line 2" in str(failed["error"])
    assert not fresh.boolean("ASK { ?s ?p ?o }")


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"source": "../outside.nt"}, 403),
        ({"source": "/etc/passwd"}, 403),
        ({"source": "link.nt"}, 403),
        ({"source": "missing.nt"}, 404),
        ({}, 400),
        ({"source": 7}, 400),
        ({"source": "a.nt", "graph": "no iri"}, 400),
        ({"source": "a.nt", "format": "text/nothing"}, 400),
        ({"source": "a.nt", "engine": "steam"}, 400),
        ({"source": "a.nt", "engine": "spark"}, 501),
        ({"source": "a.nt", "speed": 1}, 400),
    ],
)
def test_wrong_loads_are_problems(fresh: LiveServer, members: dict[str, object], status: int) -> None:
    problem_of(fresh.client.post("/loads", json=members), status)


def test_what_a_server_left_undone_is_failed_at_the_next_start(start_server: Start, tmp_path: Path) -> None:
    first = start_server(data=str(tmp_path / "data"))
    first.services.registry.add_job(JobRecord("left", "load", state="running"))
    first.services.close()
    again = start_server(data=str(tmp_path / "data"))
    assert again.client.get("/jobs/left").json()["state"] == "failed"


def test_the_command_line_lets_the_server_read_its_own_files(
    fresh: LiveServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "--server", fresh.url, str(folder / "a.nt"), "--graph", "urn:g"]) == 0
    assert "100 quads" in capsys.readouterr().err
    assert len(fresh.client.get("/jobs").json()["jobs"]) == 1
    assert main(["load", "--server", fresh.url, str(folder / "bad.nt")]) == 1
    assert "line 2" in capsys.readouterr().err


def test_an_unknown_job_is_404(fresh: LiveServer) -> None:
    problem_of(fresh.client.get("/jobs/nobody"), 404)


def test_a_backup_needs_an_absolute_new_folder_and_a_store_on_disk(
    start_server: Start, fresh: LiveServer, tmp_path: Path
) -> None:
    problem_of(fresh.client.post("/backups", json={"folder": "relative"}), 400)
    problem_of(fresh.client.post("/backups", json={"folder": str(tmp_path / "b")}), 501)
    on_disk = start_server(data=str(tmp_path / "data"))
    made = on_disk.client.post("/backups", json={"folder": str(tmp_path / "backup")})
    assert made.status_code == 201
    assert (tmp_path / "backup" / "FORMAT").exists()
    assert (tmp_path / "backup" / "registry.sqlite").exists()
    problem_of(on_disk.client.post("/backups", json={"folder": str(tmp_path / "backup")}), 507)
