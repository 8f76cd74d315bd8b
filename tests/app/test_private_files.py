"""Nobody but the server's user reads the databases of a data folder, whoever made the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.upkeep import backup

from .conftest import Start

TEXT = "SELECT ?s WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k> ?o } }"
DATABASES = ("registry.sqlite", "changes.sqlite")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """The modes of all SQLite files, those that SQLite keeps next to a database included."""
    found = (path for path in folder.rglob("*.sqlite*") if path.suffix != ".mark")
    return {path.name: oct(path.stat().st_mode & 0o777) for path in found}


@pytest.mark.parametrize("known", ["empty", "other files", "an earlier release", "a killed earlier release"])
def test_databases_are_private_in_a_folder_that_existed(
    start_server: Start, tmp_path: Path, known: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    if known == "other files":
        (folder / "notes.txt").write_text("mine")
    if "earlier" in known:
        with running.serve(Settings(data=str(folder), port=0)):
            pass
        for name in DATABASES:
            (folder / name).chmod(0o644)
            if "killed" in known:
                for suffix in ("-wal", "-shm"):
                    (folder / f"{name}{suffix}").touch(0o644)
    live = start_server(data=str(folder), token="an admin token of some length")
    live.client.headers["Authorization"] = "Bearer an admin token of some length"
    assert live.client.put("/queries/q", json={"query": TEXT}).status_code == 201
    assert live.update("INSERT DATA { <urn:a> <urn:b> <urn:c> }").status_code < 300
    found = modes(folder)
    assert found.keys() >= {name + end for name in DATABASES for end in ("", "-wal", "-shm")}
    assert set(found.values()) == {"0o600"}, found
    assert folder.stat().st_mode & 0o777 == 0o755, "the folder's own mode is its owner's business"


def test_databases_of_a_backup_are_private(start_server: Start, tmp_path: Path) -> None:
    live = start_server(data=str(tmp_path / "data"))
    target = tmp_path / "backup"
    services = live.services
    backup.make(services.store, services.registry, services.engine.pin_files, target)
    assert set(modes(target).values()) == {"0o600"}, modes(target)
