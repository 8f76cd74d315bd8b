"""Backups hold all that a data folder keeps; they lie where the operator says, and a restored one parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.app.upkeep import backup
from quadrill.store.errors import StoreUnwritableError
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader

E = "http://e/"
QUERIES = {
    "seen": f"SELECT ?x ?v WHERE {{ STREAM <{E}s> [RANGE 10s] {{ ?x <urn:v> ?v }} }}",
    "counts": f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{E}s> [RANGE 20s] {{ ?x <urn:v> ?v }} }}",
    "named": f"SELECT ?x ?n WHERE {{ STREAM <{E}s> [RANGE 5s] {{ ?x <urn:v> ?v }} ?x <urn:name> ?n }}",
    "made": f"REGISTER STREAM <{E}made> AS CONSTRUCT {{ ?x <urn:again> ?v }} "
    f"FROM NAMED WINDOW <w> ON <{E}s> [RANGE 3s STEP 3s] WHERE {{ WINDOW <w> {{ ?x <urn:v> ?v }} }}",
    "reads": f"SELECT ?x ?v WHERE {{ STREAM <{E}made> [RANGE 30s] {{ ?x <urn:again> ?v }} }}",
    "view": f"CONSTRUCT {{ ?x <urn:last> ?v }} WHERE {{ STREAM <{E}s> [TRIPLES 5] {{ ?x <urn:v> ?v }} }}",
}


def register_all(server: LiveServer) -> None:
    for name, text in QUERIES.items():
        members: dict[str, Any] = {"name": name, "query": text}
        if name == "view":
            members["into_graph"] = "urn:view"
        answer = server.client.post("/queries", json=members)
        assert answer.status_code == 201, answer.text


def push(server: LiveServer, number: int) -> dict[str, Any]:
    late = 60_000 if number % 17 == 16 else 0
    answer = server.client.post(
        "/streams",
        params={"iri": f"{E}s", "at": str(100_000 + number * 500 - late), "wait": "true"},
        content=f'<urn:x{number % 7}> <urn:v> "{number}" .',
        headers={"Content-Type": "application/n-triples", "Idempotency-Key": f"k{number}"},
    )
    assert answer.status_code == 200, answer.text
    received: dict[str, Any] = answer.json()
    return received


def feed(server: LiveServer, name: str, after: int = 0) -> list[tuple[int | None, str, Any]]:
    """The events of a feed that are kept behind an id."""
    found = server.services.engine.queries.feed(name).subscribe(after).take()
    return [(event.id, event.kind, json.loads(event.data)) for event in found]


def contents(server: LiveServer, name: str) -> list[Any]:
    told = []
    for _, kind, data in feed(server, name):
        data.pop("version", None)
        if "results" in data:
            data["results"]["bindings"].sort(key=json.dumps)
        if "quads" in data:
            data["quads"] = sorted(data["quads"].splitlines())
        told.append((kind, data))
    return told


def graph(server: LiveServer, name: str) -> list[str]:
    server.services.engine.sync()
    answer = server.client.get("/store", params={"graph": name}, headers={"Accept": "application/n-triples"})
    return sorted(answer.text.splitlines())


def test_a_restored_server_goes_on_with_windows_views_keys_and_dead_letters(
    start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = start_server(data=str(tmp_path / "old"), checkpoint_interval="200ms")
    old.update("INSERT DATA { <urn:x1> <urn:name> 'one' . <urn:x2> <urn:name> 'two' }")
    register_all(old)
    receipts = [push(old, number) for number in range(40)]
    saving = threading.Thread(
        target=main, args=(["backup", "--server", old.url, str(tmp_path / "saved")],), daemon=True
    )
    saving.start()
    number = len(receipts)
    while saving.is_alive() or number < 60:
        receipts.append(push(old, number))
        number += 1
    assert "version" in capsys.readouterr().out
    # The server removes its copy behind the last byte, which the client may have before.
    deadline = time.monotonic() + 10
    while list((tmp_path / "old" / backup.OUTGOING).iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list((tmp_path / "old" / backup.OUTGOING).iterdir())
    assert main(["restore", "--data", str(tmp_path / "new"), str(tmp_path / "saved")]) == 0
    new = start_server(data=str(tmp_path / "new"))
    held = new.client.get("/streams", params={"iri": f"{E}s"}).json()["accepted"]
    common = {name: [each[0] for each in feed(new, name) if each[0]] for name in QUERIES}
    assert 30 <= held <= len(receipts)
    first = len([each for each in receipts if each["last_seq"] <= receipts[-1]["last_seq"]])
    assert first == len(receipts)
    # A push of before is known by its key, with its answer; what the backup lacks enters once more.
    again = [push(new, each) for each in range(len(receipts))]
    known = [each for each in range(len(receipts)) if again[each] == receipts[each]]
    assert known == list(range(len(known)))
    assert len(known) >= 40
    assert again[-1]["first_seq"] > 2**40 or len(known) == len(receipts)
    for each in range(len(receipts), len(receipts) + 20):
        push(old, each)
        push(new, each)
    for name in QUERIES:
        assert contents(new, name) == contents(old, name), name
        foreign = {each[0] for each in feed(old, name) if each[0]} - set(common[name])
        assert not foreign & {each[0] for each in feed(new, name)}
        for each in foreign:
            assert feed(new, name, each)[0][1] == "reset"
    assert graph(new, "urn:view") == graph(old, "urn:view") != []
    letters = [server.client.get("/streams/s/dead-letters").json()["letters"] for server in (old, new)]
    assert len(letters[0]) == len(letters[1]) > 0


def test_followers_of_changes_are_reset(start_server: Start, tmp_path: Path) -> None:
    old = start_server(data=str(tmp_path / "old"))
    for number in range(5):
        old.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
    assert main(["backup", "--server", old.url, str(tmp_path / "saved")]) == 0
    for number in range(3):
        old.update(f"INSERT DATA {{ <urn:a> <urn:old> {number} }}")
    assert main(["restore", "--data", str(tmp_path / "new"), str(tmp_path / "saved")]) == 0
    new = start_server(data=str(tmp_path / "new"))
    tag = new.client.head("/store").headers["ETag"]
    assert tag == '"5"'

    def first(after: int) -> tuple[str | None, Any]:
        with EventReader(new, "/changes", {"Last-Event-ID": str(after)}) as reader:
            (event,) = reader.take(1)
        return event.kind, json.loads(event.data)

    assert first(7) == ("reset", {"earliest": 5, "version": 5})
    for number in range(9):
        new.update(f"INSERT DATA {{ <urn:a> <urn:new> {number} }}")
    version = new.services.store.reader.version
    assert version > 2**40
    assert first(7) == ("reset", {"earliest": 0, "version": version})
    kind, data = first(5)
    assert (kind, data["version"]) == (None, version - 8)
    kind, data = first(3)
    assert (kind, data["version"]) == (None, 4)


def test_backups_lie_below_the_folder_of_the_operator(start_server: Start, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    place.mkdir()
    (place / "link").symlink_to(tmp_path)
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(place))
    for folder, status in (
        ("a/../../out", 403),
        ("../out", 403),
        ("link/out", 403),
        (str(tmp_path / "out"), 403),
        ("/etc/quadrill", 403),
        (".", 403),
        ("nul\0", 400),
        ("n" * 300, 400),
        ("a/" * 4000, 400),
        ("", 400),
        (7, 400),
        ("\udcff\ud800", 400),
    ):
        for path in ("/backups", "/restores"):
            answer = server.client.post(path, content=json.dumps({"folder": folder}))
            assert answer.status_code == status, (path, folder, answer.text)
            problem_of(answer, status)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backups", "data"]
    made = server.client.post("/backups", json={"folder": "monday"})
    assert (made.status_code, made.json()["folder"]) == (201, str(place / "monday"))
    again = problem_of(server.client.post("/backups", json={"folder": str(place / "monday")}), 409)
    assert (again["code"], again["hint"]) == ("folder-in-use", "give a new folder")
    assert "is not empty" in again["detail"]
    assert (place / "monday" / "FORMAT").exists()
    problem_of(server.client.post("/backups", json={"foldr": "x"}), 400)
    without = start_server(data=str(tmp_path / "other"))
    told = problem_of(without.client.post("/backups", json={"folder": str(tmp_path / "out")}), 403)
    assert "backup_folder" in told["hint"]
    assert not (tmp_path / "out").exists()


def test_a_backup_that_breaks_leaves_nothing(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(tmp_path / "backups"))
    server.update("INSERT DATA { <urn:a> <urn:p> 1 }")

    def broken() -> Any:
        raise OSError("no space left")

    store, registry = server.services.store, server.services.registry
    held = server.services.engine.pin_files()
    assert held is not None
    held.copy_to = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError):
        backup.make(store, registry, lambda: held, tmp_path / "backups" / "a")
    assert not (tmp_path / "backups" / "a").exists()


def test_of_two_backups_into_one_folder_one_is_made_and_stays(start_server: Start, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(place))
    server.update("INSERT DATA { <urn:a> <urn:p> 1 }")
    store, registry = server.services.store, server.services.registry
    for exists in (False, True):
        target = place / f"exists-{exists}"
        if exists:
            target.mkdir()
        entered, go_on = threading.Event(), threading.Event()
        made: list[dict[str, Any]] = []

        def hold(entered: threading.Event = entered, go_on: threading.Event = go_on) -> Any:
            held = server.services.engine.pin_files()
            assert held is not None
            copy_to = held.copy_to

            def slow(folder: Path) -> None:
                entered.set()
                assert go_on.wait(30)
                copy_to(folder)

            held.copy_to = slow  # type: ignore[method-assign]
            return held

        def first(target: Path = target, hold: Any = hold, made: list[Any] = made) -> None:
            made.append(backup.make(store, registry, hold, target))

        thread = threading.Thread(target=first, daemon=True)
        thread.start()
        assert entered.wait(30)
        with pytest.raises(StoreUnwritableError, match="another backup"):
            backup.make(store, registry, server.services.engine.pin_files, target)
        go_on.set()
        thread.join(30)
        assert made
        backup.check(target)
        with pytest.raises(StoreUnwritableError, match="not empty"):
            backup.make(store, registry, server.services.engine.pin_files, target)
        backup.check(target)


def test_two_backups_that_begin_at_once(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.update("INSERT DATA { <urn:a> <urn:p> 1 }")
    store, registry = server.services.store, server.services.registry
    for number in range(20):
        target = tmp_path / f"backup{number}"
        made: list[bool] = []
        begin = threading.Barrier(2)

        def run(target: Path = target, made: list[bool] = made, begin: threading.Barrier = begin) -> None:
            begin.wait(30)
            try:
                backup.make(store, registry, lambda: None, target)
            except StoreUnwritableError:
                made.append(False)
            else:
                made.append(True)

        threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(made) == [False, True]
        backup.check(target)


def test_a_file_is_no_folder_for_a_backup(start_server: Start, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    place.mkdir()
    (place / "file").write_text("mine")
    server = start_server(data=str(tmp_path / "data"), backup_folder=str(place))
    for name in ("file", "file/below"):
        told = problem_of(server.client.post("/backups", json={"folder": name}), 400)
        assert "is no folder" in told["detail"]
    assert (place / "file").read_text() == "mine"


@pytest.mark.chaos
def test_a_backup_that_is_killed_is_none(tmp_path: Path) -> None:
    """Killed at any moment, what is there is refused or whole."""
    data = tmp_path / "data"
    script = "import sys; from quadrill.app.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script]
    (tmp_path / "a.nq").write_text("".join(f"<urn:a{n}> <urn:p> <urn:b> .\n" for n in range(20_000)))
    subprocess.run([*command, "load", "--data", str(data), str(tmp_path / "a.nq")], check=True, timeout=60)
    began = time.monotonic()
    subprocess.run([*command, "backup", "--data", str(data), str(tmp_path / "whole")], check=True, timeout=60)
    took = time.monotonic() - began
    for number in range(4):
        target = tmp_path / f"backup{number}"
        child = subprocess.Popen([*command, "backup", "--data", str(data), str(target)])
        time.sleep(took * (0.7 + number * 0.09))
        child.send_signal(signal.SIGKILL)
        child.wait()
        restored = main(["restore", "--data", str(tmp_path / f"new{number}"), str(target)])
        assert restored == (0 if (target / "FORMAT").exists() else 1)
        if restored == 0:
            assert main(["export", "--data", str(tmp_path / f"new{number}"), os.devnull]) == 0


def test_archive_that_fails_before_its_first_piece_is_a_problem_and_leaves_no_copy(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(data=str(tmp_path / "data"))

    def fail(*_: object, **__: object) -> Iterator[bytes]:
        raise StoreUnwritableError("the disk is full")
        yield b""

    monkeypatch.setattr(backup, "tar_of", fail)
    problem_of(server.client.post("/backups", json={}), 507)
    assert list((tmp_path / "data" / backup.OUTGOING).iterdir()) == []
