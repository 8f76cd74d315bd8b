"""``quadrill check`` tells damage in a data folder, ``quadrill repair`` goes on without it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.app.upkeep import backup
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.chaos.damaged_folder import DurableLife, E, ManualClock, make_folder, seen_of

LATER = 1_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "data"
    make_folder(folder, closed=False)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def flip(path: Path, place: int) -> bytes:
    """Damage 16 bytes; what the file has then."""
    data = bytearray(path.read_bytes())
    for at in range(place, place + 16):
        data[at] ^= 0x5A
    path.write_bytes(data)
    return bytes(data)


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["check", "--json", "--data", str(folder)])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_folder_is_whole_and_stays_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def contents() -> dict[Path, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
        return {path: path.read_bytes() for path in files}

    before = contents()
    code, document = checked(folder, capsys)
    assert (code, document["whole"]) == (0, True)
    found = {each["file"]: each for each in document["files"]}
    assert found["changes.sqlite"]["facts"]["version"] == 19
    assert found["quads"]["facts"]["quads"] == 19
    assert found["registry.sqlite"]["facts"]["queries"] == 4
    assert contents() == before
    assert main(["check", "--data", str(folder)]) == 0
    assert "whole    changes.sqlite: change log (version 19" in capsys.readouterr().out
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert contents() == before


def test_a_restored_folder_that_went_on_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with QuadStore.open(tmp_path / "old") as store:
        for number in range(2):
            store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        store.backup(tmp_path / "saved")
    folder = tmp_path / "new"
    backup.restore(tmp_path / "saved", folder)
    with QuadStore.open(folder) as store:
        store.begin_epoch_of_copy()
        for number in range(2, 4):
            store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        version = store.reader.version
    code, document = checked(folder, capsys)
    assert (code, document["whole"]) == (0, True), document
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert not (folder / "damaged").exists()
    with QuadStore.open(folder) as store:
        assert store.reader.version == version > 2**40
    with closing(sqlite3.connect(folder / "changes.sqlite")) as db, db:
        db.execute("DELETE FROM commits WHERE version = ?", [version - 1])
    code, document = checked(folder, capsys)
    assert code == 1, "where the epoch began one is missing"


def test_a_damaged_middle_of_the_journal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = seen_of(shutil.copytree(folder, folder.parent / "undamaged"))
    path = sorted((folder / "engine" / "input").glob("*.log"))[-2]
    data = flip(path, path.stat().st_size // 2)
    with pytest.raises(ReportedError, match="damaged behind record .* at byte .* records behind") as caught:
        seen_of(folder)
    assert "quadrill repair --drop-damaged" in str(caught.value.hint)
    code, document = checked(folder, capsys)
    damaged = [each for each in document["files"] if not each["whole"]]
    assert code == 1 and [each["file"] for each in damaged] == [path.relative_to(folder).as_posix()]
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "records of the journal lost: " in told and f"seqs of the stream {E}s continue at" in told
    assert [kept.read_bytes() for kept in (folder / "damaged").rglob("*.log")] == [data]
    assert checked(folder, capsys)[0] == 0
    seen = seen_of(folder)
    assert seen["version"] == expected["version"] and seen["quads"] == expected["quads"]
    assert seen["registered"] == expected["registered"]
    assert seen["next"]["first_seq"] > expected["next"]["first_seq"], "no seq is given twice"
    for name, events in seen["feeds"].items():
        ids = [number for number, _, _ in expected["feeds"][name] if number is not None]
        assert all(number is None or number > 0 for number, _, _ in events) and ids is not None


def test_a_journal_that_was_cut_short(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of most lost records nothing is left, also where some bytes of one are."""
    expected = seen_of(shutil.copytree(folder, folder.parent / "undamaged"))
    cut, *later = sorted((folder / "engine" / "input").glob("*.log"))[-3:]
    cut.write_bytes(cut.read_bytes()[:150])
    for path in later:
        path.unlink()
    with pytest.raises(ReportedError, match="damaged behind record|lacks its records"):
        seen_of(folder)
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    capsys.readouterr()
    assert checked(folder, capsys)[0] == 0
    assert seen_of(folder)["next"]["first_seq"] > expected["next"]["first_seq"], "no seq is given twice"


@pytest.mark.always("changes.sqlite*")
@pytest.mark.parametrize("file", ["changes.sqlite-wal", "changes.sqlite", "registry.sqlite-wal"])
def test_what_sqlite_lost(folder: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = seen_of(shutil.copytree(folder, folder.parent / "undamaged"))
    (folder / file).unlink()
    with pytest.raises(ReportedError):
        seen_of(folder)
    assert checked(folder, capsys)[0] == 1
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    capsys.readouterr()
    seen = seen_of(folder)
    assert seen["quads"] == expected["quads"] and seen["count"] == expected["count"]
    assert seen["version"] == expected["version"] + file.startswith("changes")
    assert {each.name for each in seen["registered"]} == {each.name for each in expected["registered"]}


def test_a_registry_in_another_database_is_left_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in folder.glob("registry.sqlite*"):
        path.unlink()
    settings = tmp_path / "quadrill.toml"
    settings.write_text('registry_url = "postgresql://nobody:secret@127.0.0.1:1/registry"\n')
    given = ["--data", str(folder), "--config", str(settings)]
    assert main(["check", "--json", *given]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["whole"] and "registry.sqlite" not in told
    shutil.rmtree(folder / "quads")
    assert main(["repair", "--drop-damaged", *given]) == 0
    assert "registry.sqlite" not in capsys.readouterr().out
    assert not list(folder.glob("registry.sqlite*"))


def test_missing_quads_are_made_again_from_the_change_log(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = seen_of(shutil.copytree(folder, folder.parent / "undamaged"))
    shutil.rmtree(folder / "quads")
    with pytest.raises(ReportedError, match="is gone, its change log is at version"):
        seen_of(folder)
    assert main(["repair", "--drop-damaged", "--data", str(folder)]) == 0
    assert "rebuilt from the change log" in capsys.readouterr().out
    seen = seen_of(folder)
    assert seen["quads"] == expected["quads"] and seen["version"] == expected["version"]
    assert checked(folder, capsys)[0] == 0


def test_a_folder_in_use_or_without_data_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    life = DurableLife(folder, ManualClock(LATER))
    # Each waits a while for the folder: both at once.
    commands = [[*command, "--data", str(folder)] for command in (["check"], ["repair", "--drop-damaged"])]
    with ThreadPoolExecutor(len(commands)) as pool:
        assert list(pool.map(main, commands)) == [1, 1]
    assert capsys.readouterr().err.count("in use by another process") == len(commands)
    life.stop()
    assert main(["check", "--data", str(tmp_path / "nothing")]) == 1
    assert "there is no data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["repair", "--data", str(folder)])
    assert "--drop-damaged" in capsys.readouterr().err
