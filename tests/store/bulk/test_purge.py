"""Old folders of loads are let go, by age and by size; nothing stays in the system's temporary folder."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from quadrill.store.bulk import BulkLoader, LoadOptions, RetentionLimits
from quadrill.store.bulk.purge import purge
from quadrill.store.quads.quad_store import QuadStore

NOW = 1_000_000.0


def load_folder(below: Path, name: str, age: float, size: int) -> Path:
    folder = below / name
    folder.mkdir()
    file = folder / "quarantine.ndjson"
    file.write_bytes(b"x" * size)
    for each in (file, folder):
        os.utime(each, (NOW - age, NOW - age))
    return folder


def test_folders_older_than_the_limit_go(tmp_path: Path) -> None:
    old, young = load_folder(tmp_path, "old", 101, 1), load_folder(tmp_path, "young", 99, 1)
    assert purge(tmp_path, RetentionLimits(seconds=100), now=NOW) == [old]
    assert list(tmp_path.iterdir()) == [young]


def test_above_the_size_the_oldest_go_and_the_running_load_stays(tmp_path: Path) -> None:
    running = load_folder(tmp_path, "running", 9, 100)
    oldest, _, youngest = (load_folder(tmp_path, f"n{age}", age, 10) for age in (3, 2, 1))
    assert purge(tmp_path, RetentionLimits(bytes=20), spared=running, now=NOW) == [oldest]
    assert purge(tmp_path, RetentionLimits(bytes=19), spared=running, now=NOW) == [tmp_path / "n2"]
    assert sorted(tmp_path.iterdir()) == [youngest, running]


def test_no_folder_is_nothing_to_purge(tmp_path: Path) -> None:
    assert purge(tmp_path / "none", RetentionLimits()) == []


def test_a_load_lets_the_quarantine_of_an_older_one_go(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text('<urn:s> <urn:p> "1" .\nbad\n')
    (tmp_path / "b.nt").write_text('<urn:s> <urn:p> "2" .\nbad\n')
    store = QuadStore.open(None)
    loader = BulkLoader(store, tmp_path / "loads", RetentionLimits(bytes=0))
    first = loader.run(LoadOptions((str(tmp_path / "a.nt"),)))
    second = loader.run(LoadOptions((str(tmp_path / "b.nt"),)))
    assert first.quarantine and not Path(first.quarantine).exists()
    assert second.quarantine and Path(second.quarantine).exists()


def test_the_quarantine_of_a_store_in_memory_ends_with_its_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.nt").write_text('<urn:s> <urn:p> "1" .\nbad\n')
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    loader = BulkLoader(QuadStore.open(None), None)
    summary = loader.run(LoadOptions((str(tmp_path / "a.nt"),)))
    assert summary.quarantine is not None
    assert '"line": 2' in Path(summary.quarantine).read_text()
    del loader
    gc.collect()
    assert list(temporary.iterdir()) == []
