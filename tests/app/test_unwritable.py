"""A start where nothing, or too little, can be written ends with a sentence, never with a stack trace."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from quadrill.app.cli import main

SERVE = [sys.executable, "-m", "quadrill.app.cli", "serve", "--port", "0"]


def refused(command: list[str], most_bytes: int | None = None) -> str:
    """What a start that fails says."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUADRILL_")}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, preexec_fn=limit, env=environment, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("quadrill: ")
    return ended.stderr


def test_a_folder_that_cannot_be_written_is_told_also_with_read_only(tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_text("<urn:a> <urn:p> <urn:b> .\n")
    data = tmp_path / "data"
    assert main(["load", "--data", str(data), str(tmp_path / "a.nq")]) == 0
    command = [*SERVE, "--read-only", "--data", str(data)]
    if os.geteuid() == 0:
        found = shutil.which("setpriv")
        if found is None:
            pytest.skip("who may write everywhere needs setpriv to give that up")
        command = [found, "--bounding-set", "-dac_override,-dac_read_search,-fowner", *command]
    writable = [path for path in (data, *data.rglob("*")) if not path.is_symlink()]
    try:
        for path in writable:
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        told = refused(command)
    finally:
        for path in writable:
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
    assert "cannot be written" in told
    assert "also with --read-only" in told


@pytest.mark.always("2000")
@pytest.mark.parametrize("most_bytes", [0, 2_000, 30_000])
def test_a_full_disk_at_the_start_is_told(tmp_path: Path, most_bytes: int) -> None:
    refused([*SERVE, "--data", str(tmp_path / "data")], most_bytes)


@pytest.mark.always("3000")
@pytest.mark.parametrize("most_bytes", [10, 3_000])
def test_a_restore_into_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, most_bytes: int) -> None:
    data, saved, new = tmp_path / "data", tmp_path / "saved", tmp_path / "new"
    (tmp_path / "a.nq").write_text("<urn:a> <urn:p> <urn:b> .\n" * 2)
    assert main(["load", "--data", str(data), str(tmp_path / "a.nq")]) == 0
    assert main(["backup", "--data", str(data), str(saved)]) == 0
    command = [sys.executable, "-m", "quadrill.app.cli", "restore", "--data", str(new), str(saved)]
    told = refused(command, most_bytes)
    assert "cannot be written: [Errno 27] File too large" in told and len(told.splitlines()) == 2
    assert list(new.iterdir()) == []
    assert main(["restore", "--data", str(new), str(saved)]) == 0
