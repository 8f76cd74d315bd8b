"""The data folder: format version, lock, and what is refused."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from pyoxigraph import Store

from quadrill.store.errors import StoreFormatError, StoreLockedError, StoreUnwritableError
from quadrill.store.folder import FORMAT_VERSION, DataFolder
from quadrill.store.quads.quad_store import QuadStore


def test_a_new_folder_is_made_with_its_format(tmp_path: Path) -> None:
    QuadStore.open(tmp_path / "a" / "b").close()
    assert (tmp_path / "a" / "b" / "FORMAT").read_text() == f"quadrill-data {FORMAT_VERSION}\n"


def test_a_folder_with_other_files_may_become_a_data_folder(tmp_path: Path) -> None:
    (tmp_path / "registry.sqlite").write_bytes(b"")
    QuadStore.open(tmp_path).close()
    assert (tmp_path / "quads").is_dir()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("quadrill-data 99\n", "data format 99"),
        ("something else\n", "no format of Quadrill"),
        ("", "no format"),
    ],
)
def test_an_unknown_format_is_refused_and_left_alone(tmp_path: Path, text: str, match: str) -> None:
    QuadStore.open(tmp_path).close()
    (tmp_path / "FORMAT").write_text(text)
    with pytest.raises(StoreFormatError, match=match) as caught:
        QuadStore.open(tmp_path)
    assert caught.value.hint, "the way out"
    assert (tmp_path / "FORMAT").read_text() == text


def test_a_database_without_a_format_is_refused(tmp_path: Path) -> None:
    QuadStore.open(tmp_path).close()
    (tmp_path / "FORMAT").unlink()
    with pytest.raises(StoreFormatError, match="no FORMAT file"):
        QuadStore.open(tmp_path)


def test_a_folder_of_oxigraph_itself_is_refused_with_the_way_to_move(tmp_path: Path) -> None:
    Store(str(tmp_path)).flush()
    with pytest.raises(StoreFormatError, match="database of Oxigraph itself") as caught:
        QuadStore.open(tmp_path)
    assert "oxigraph dump" in str(caught.value.hint)


def test_an_older_format_is_refused(tmp_path: Path) -> None:
    QuadStore.open(tmp_path).close()
    (tmp_path / "FORMAT").write_text(f"quadrill-data {FORMAT_VERSION - 1}\n")
    with pytest.raises(StoreFormatError, match="there is no upgrade"):
        QuadStore.open(tmp_path)


@pytest.mark.process
def test_a_folder_in_use_is_refused_with_the_process_that_holds_it(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data"):
        with pytest.raises(StoreLockedError, match="in use by another process") as caught:
            QuadStore.open(tmp_path / "data")
        assert "another folder" in str(caught.value.hint)
        code = f"""
from quadrill.store.errors import StoreLockedError
from quadrill.store.folder import FORMAT_VERSION, DataFolder
from quadrill.store.quads.quad_store import QuadStore
try:
    QuadStore.open({str(tmp_path / "data")!r})
except StoreLockedError as error:
    print(error.message)
"""
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert "in use by another process (process " in child.stdout, child.stderr
    QuadStore.open(tmp_path / "data").close()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not copied here")
def test_a_start_waits_for_what_a_killed_server_left(tmp_path: Path) -> None:
    """A copy of the process that was just begun closes the lock a moment after the server is dead."""
    code = f"""
import os, time
from pathlib import Path
from quadrill.store.folder import DataFolder
held = DataFolder.open(Path({str(tmp_path / "data")!r}))
if os.fork() == 0:
    time.sleep(0.7)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        server.kill()
        server.wait()
        DataFolder.open(tmp_path / "data").close()


def test_a_database_that_another_program_holds_is_refused(tmp_path: Path) -> None:
    QuadStore.open(tmp_path / "data").close()
    other = Store(str(tmp_path / "data" / "quads"))
    with pytest.raises(StoreLockedError, match="database .* in use"):
        QuadStore.open(tmp_path / "data")
    del other
    QuadStore.open(tmp_path / "data").close()


def test_a_folder_that_cannot_be_made_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritableError, match="cannot be written") as caught:
        QuadStore.open(tmp_path / "file" / "data")
    assert "permissions" in str(caught.value.hint)


def test_a_new_folder_on_a_full_disk_is_refused_with_a_hint(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as a full disk: files are made, nothing is written
    try:
        with pytest.raises(StoreUnwritableError, match=f"{tmp_path} cannot be written: File") as caught:
            DataFolder.open(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint
    DataFolder.open(tmp_path).close()


def test_a_damaged_database_is_refused_and_lets_the_folder_go(tmp_path: Path) -> None:
    QuadStore.open(tmp_path).close()
    (tmp_path / "quads" / "CURRENT").write_text("nonsense\n")
    for _ in range(2):
        with pytest.raises(StoreFormatError, match="database .* is damaged"):
            QuadStore.open(tmp_path)
