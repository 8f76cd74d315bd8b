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
    size = (folder / "a.nt").stat().st_size
    assert {done["progress"][each] for each in ("read_bytes", "total_bytes")} == {size}  # type: ignore[index]
    assert done["progress"]["bytes"] > 0  # type: ignore[index]
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


def test_the_progress_of_all_jobs_is_followed_at_once(fresh: LiveServer) -> None:
    first = fresh.client.post("/loads", json={"source": "a.nt"}).json()["id"]
    finished(fresh, first)
    with EventReader(fresh, "/jobs") as feed:
        (before,) = feed.take(1)
        assert (before.kind, json.loads(before.data)["id"]) == ("progress", first)
        second = fresh.client.post("/loads", json={"source": "b.nt.gz"}).json()["id"]
        told: dict[str, str] = {}
        while told.get("state") != "done":
            told = json.loads(feed.take(1)[0].data)
        assert told["id"] == second


def test_a_bad_line_fails_a_strict_job_with_its_place_and_loads_nothing(fresh: LiveServer) -> None:
    strict = {"source": "bad.nt", "strict": True}
    failed = finished(fresh, fresh.client.post("/loads", json=strict).json()["id"])
    assert failed["state"] == "failed"
    assert "line 2" in str(failed["error"])
    assert not fresh.boolean("ASK { ?s ?p ?o }")


def test_bad_lines_are_counted_and_kept_in_a_quarantine_file(fresh: LiveServer) -> None:
    done = finished(fresh, fresh.client.post("/loads", json={"source": "bad.nt"}).json()["id"])
    assert done["state"] == "done"
    progress = done["progress"]
    assert isinstance(progress, dict)
    assert (progress["rows"], progress["bad_lines"]) == (1, 1)
    (bad,) = [json.loads(line) for line in Path(progress["quarantine"]).read_text().splitlines()]
    assert (bad["line"], bad["text"]) == (2, "<urn:s> <urn")


def test_a_glob_loads_all_its_files_as_one_commit(fresh: LiveServer, folder: Path) -> None:
    (folder / "link.nt").unlink()
    done = finished(fresh, fresh.client.post("/loads", json={"source": "*.nt*"}).json()["id"])
    assert done["progress"]["files"] == 3  # type: ignore[index]
    assert done["progress"]["version"] == 1  # type: ignore[index]


def test_a_folder_that_links_outside_is_refused(fresh: LiveServer, folder: Path) -> None:
    problem_of(fresh.client.post("/loads", json={"source": str(folder)}), 403)


def test_a_job_that_has_ended_cannot_be_cancelled(fresh: LiveServer) -> None:
    job = fresh.client.post("/loads", json={"source": "a.nt"}).json()["id"]
    assert finished(fresh, job)["state"] == "done"
    problem_of(fresh.client.delete(f"/jobs/{job}"), 409)
    problem_of(fresh.client.delete("/jobs/nobody"), 404)


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
        ({"source": "a.nt", "strict": "yes"}, 400),
        ({"source": "a.nt", "max_bad": -1}, 400),
        ({"source": "a.nt", "speed": 1}, 400),
    ],
)
def test_wrong_loads_are_problems(fresh: LiveServer, members: dict[str, object], status: int) -> None:
    problem_of(fresh.client.post("/loads", json=members), status)


def test_spark_that_is_missing_is_told(fresh: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadrill.app.upkeep.loads.spark_missing", lambda: "Spark needs Java")
    problem_of(fresh.client.post("/loads", json={"source": "a.nt", "engine": "spark"}), 501)


def test_what_a_server_left_undone_is_failed_at_the_next_start(start_server: Start, tmp_path: Path) -> None:
    first = start_server(data=str(tmp_path / "data"))
    first.services.registry.jobs.add(JobRecord("left", "load", state="running"))
    first.services.close()
    again = start_server(data=str(tmp_path / "data"))
    assert again.client.get("/jobs/left").json()["state"] == "failed"


def test_the_command_line_lets_the_server_read_its_own_files(
    fresh: LiveServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "--server", fresh.url, str(folder / "a.nt"), "--graph", "urn:g"]) == 0
    assert "100 quads" in capsys.readouterr().err
    assert len(fresh.client.get("/jobs").json()["jobs"]) == 1
    assert main(["load", "--server", fresh.url, "--strict", str(folder / "bad.nt")]) == 1
    assert "line 2" in capsys.readouterr().err
    assert main(["load", "--server", fresh.url, str(folder / "bad.nt")]) == 1
    assert "1 bad line" in capsys.readouterr().err


def test_an_unknown_job_is_404(fresh: LiveServer) -> None:
    problem_of(fresh.client.get("/jobs/nobody"), 404)


def test_a_backup_needs_an_absolute_new_folder_and_a_store_on_disk(
    start_server: Start, fresh: LiveServer, tmp_path: Path
) -> None:
    problem_of(fresh.client.post("/backups", json={"folder": "relative"}), 400)
    problem_of(fresh.client.post("/backups", json={"folder": str(tmp_path / "b")}), 501)
    on_disk = start_server(data=str(tmp_path / "data"), backup_folder=str(tmp_path))
    made = on_disk.client.post("/backups", json={"folder": str(tmp_path / "backup")})
    assert made.status_code == 201
    assert (tmp_path / "backup" / "FORMAT").exists()
    assert (tmp_path / "backup" / "registry.sqlite").exists()
    problem_of(on_disk.client.post("/backups", json={"folder": str(tmp_path / "backup")}), 409)


def test_files_are_loaded_offline_into_a_data_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "data")
    assert main(["load", "--data", data, str(folder / "a.nt"), str(folder / "*.gz")]) == 0
    assert "loaded 2 files, 101 quads" in capsys.readouterr().err
    assert main(["load", "--data", data, "--strict", str(folder / "bad.nt")]) == 1
    assert "line 2" in capsys.readouterr().err
    assert main(["load", "--data", data, str(folder / "bad.nt")]) == 1
    assert "quarantine.ndjson" in capsys.readouterr().err


def test_a_mirror_needs_a_store_on_disk(fresh: LiveServer) -> None:
    refused = problem_of(fresh.client.post("/mirror"), 501)
    assert "in memory" in refused["detail"]
