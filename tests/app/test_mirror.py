"""The mirror over HTTP and by command: what is shown, who makes it, when a job brings it up by itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, PredicateFacts, swap_in
from quadrill.store.bulk.upkeep import FEWEST_CHANGES
from quadrill.store.quads.quad_store import QuadStore
from tests.app.conftest import LiveServer, Start, problem_of

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
Made = list[tuple[str, int]]


def write_mirror(folder: Path, version: int, rows: int = 0) -> Mirror:
    name = f"quads-{version}"
    (folder / name).mkdir(parents=True, exist_ok=True)
    swap_in(folder, name, version, {"urn:p": PredicateFacts(0, rows, 1, 1)})
    mirror = Mirror.open(folder)
    assert mirror is not None
    return mirror


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Mirrors are made without Spark; which ones, and at which versions."""
    found: Made = []

    def make(store: QuadStore, folder: Path, *, compact: bool, staged: Any, advance: Any, **_: Any) -> Mirror:
        staged("write")
        advance(1, 0, 0)
        found.append(("compact" if compact else "make", store.reader.version))
        return write_mirror(folder, store.reader.version, store.reader.quad_count)

    for module in ("quadrill.app.upkeep.jobs", "quadrill.app.commands.offline_mirror"):
        monkeypatch.setattr(f"{module}.make_mirror", make)
    monkeypatch.setattr("quadrill.app.upkeep.mirror.spark_missing", lambda: None)
    monkeypatch.setattr("quadrill.store.bulk.java.spark_missing", lambda: None)
    return found


def jobs(server: LiveServer) -> list[dict[str, Any]]:
    """All jobs, once none is left to do."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found: list[dict[str, Any]] = server.client.get("/jobs").json()["jobs"]
        if all(job["state"] == "done" for job in found):
            return found
        time.sleep(0.02)
    raise AssertionError(found)


def insert(server: LiveServer, first: int, count: int) -> None:
    triples = "".join(f"<urn:s{n}> <urn:p> {n} .\n" for n in range(first, first + count))
    answer = server.client.post("/store?default", content=triples, headers={"Content-Type": "text/turtle"})
    assert answer.is_success


def test_without_a_mirror_there_is_nothing_to_show(start_server: Start, tmp_path: Path) -> None:
    for data in (":memory:", str(tmp_path / "data")):
        assert problem_of(start_server(data=data).client.get("/mirror"), 404)["code"] == "no-mirror"


def test_a_mirror_is_shown_with_what_changed_since(
    start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server(data=str(tmp_path / "data"))
    insert(server, 0, 3)
    write_mirror(tmp_path / "data" / "mirror", 1, 3)
    insert(server, 3, 2)
    assert server.client.get("/mirror").json() == {
        "version": 1,
        "store_version": 2,
        "quads": 3,
        "changes": 2,
        "compact_at": 10_000,
        "stale": None,
        "due": False,
    }
    assert main(["mirror", "--show", "--server", server.url]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown] == [
        ["version", "1", "of", "2"],
        ["quads", "3"],
        ["changes", "2"],
        ["compact", "at", "10000"],
    ]


def test_a_mirror_is_made_or_compacted_by_the_command(
    start_server: Start, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server(data=str(tmp_path / "data"))
    insert(server, 0, 3)
    assert main(["mirror", "--server", server.url]) == 0
    assert main(["mirror", "--compact", "--server", server.url]) == 0
    assert made == [("make", 1), ("compact", 1)]
    assert "the mirror has 3 quads, version 1" in capsys.readouterr().err
    requests = [job["request"] for job in jobs(server)]
    assert sorted(request["compact"] for request in requests) == [False, True]
    assert not any(request["automatic"] for request in requests)


def test_a_mirror_is_made_and_shown_offline(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with QuadStore.open(folder) as store:
        store.writer.update("INSERT DATA { <urn:s> <urn:p> 1 }")
    assert main(["mirror", "--data", str(folder)]) == 0
    with QuadStore.open(folder) as store:
        store.writer.update("INSERT DATA { <urn:s> <urn:p> 2 }")
    assert main(["mirror", "--compact", "--data", str(folder)]) == 0
    assert [name for name, _ in made] == ["make", "compact"]
    assert main(["mirror", "--show", "--data", str(folder)]) == 0
    assert "quads       2" in capsys.readouterr().out


def test_what_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mirror", "--master", "local[1]"]) == 2
    assert "--master is for --data" in capsys.readouterr().err
    assert main(["mirror", "--data", ":memory:"]) == 1
    assert "in memory" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["mirror", "--compact", "--show"])


def test_bulk_loads_are_followed_by_one_new_mirror(start_server: Start, made: Made, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.nt").write_text(f"<urn:{name}> <urn:p> <urn:o> .\n")
    write_mirror(tmp_path / "data" / "mirror", 0)
    server = start_server(data=str(tmp_path / "data"), load_folders=(str(tmp_path),))
    with server.services.store.reader.snapshot_read():  # commits wait, so that both loads are in line
        for name in "ab":
            server.client.post("/loads", json={"source": f"{name}.nt", "engine": "oxigraph"})
    until = time.monotonic() + 20
    while not made and time.monotonic() < until:
        time.sleep(0.02)
    assert made == [("compact", 2)]
    (mirrored,) = [job for job in jobs(server) if job["kind"] == "mirror"]
    assert mirrored["request"] == {"compact": True, "automatic": True}
    assert server.client.get("/mirror").json()["due"] is False


def test_many_changes_are_followed_by_compaction_and_few_are_not(
    start_server: Start, made: Made, tmp_path: Path
) -> None:
    write_mirror(tmp_path / "data" / "mirror", 0, 100)
    server = start_server(data=str(tmp_path / "data"))
    insert(server, 0, FEWEST_CHANGES - 1)
    assert server.client.get("/mirror").json()["due"] is False
    assert (made, jobs(server)) == ([], [])
    insert(server, FEWEST_CHANGES - 1, 1)
    until = time.monotonic() + 20
    while not made and time.monotonic() < until:
        time.sleep(0.02)
    assert made == [("compact", 2)]
    assert len(jobs(server)) == 1


def test_the_setting_turns_the_upkeep_off(start_server: Start, made: Made, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:s> <urn:p> <urn:o> .\n")
    write_mirror(tmp_path / "data" / "mirror", 0)
    server = start_server(
        data=str(tmp_path / "data"), load_folders=(str(tmp_path),), mirror_compact_ratio=0.0
    )
    server.client.post("/loads", json={"source": "a.nt", "engine": "oxigraph"})
    assert [job["kind"] for job in jobs(server)] == ["load"]
    found = server.client.get("/mirror").json()
    assert (found["compact_at"], found["due"]) == (None, True)
    assert "bulk load" in found["stale"]
    assert made == []


@pytest.mark.spark
@pytest.mark.slow
@needs_spark
@pytest.mark.timeout(900)
def test_a_mirror_is_made_and_compacted_as_jobs(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"), spark_memory="1g")
    insert(server, 0, 100)
    for rows, parameters in ((100, {}), (101, {"compact": "true"})):
        asked = server.client.post("/mirror", params=parameters)
        assert asked.status_code == 202
        until = time.monotonic() + 600
        while (job := server.client.get(asked.headers["Location"]).json())["state"] in ("queued", "running"):
            assert time.monotonic() < until
            time.sleep(0.2)
        assert job["state"] == "done", job
        mirror = Mirror.open(tmp_path / "data" / "mirror")
        assert mirror is not None
        assert mirror.version == job["progress"]["version"]
        assert mirror.predicates["urn:p"].rows == job["progress"]["rows"] == rows
        insert(server, 100, 1)
