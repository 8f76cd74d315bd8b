"""The script of docs/backups.md makes a backup that can be restored, and deletes old ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quadrill.app import running
from quadrill.app.config import load_settings

PAGE = Path(__file__).parent.parent.parent / "docs" / "backups.md"


def script() -> str:
    """The first shell block of the page."""
    found = re.search(r"```sh\n(#!/bin/sh\n.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.process
def test_the_script_makes_a_backup_and_keeps_seven(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    for day in range(1, 10):
        (backups / f"2025-01-{day:02}T021500Z").mkdir(parents=True)
    (backups / "2025-02-01T021500Z.part").mkdir()
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "quadrill").symlink_to(Path(sys.executable).parent / "quadrill")
    settings = load_settings(overrides={"data": str(tmp_path / "live"), "port": 0}, environment={})
    with running.serve(settings) as server:
        server.services.store.writer.update("INSERT DATA { <urn:a> <urn:b> 1 }")
        environment = {
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "BACKUPS": str(backups),
            "QUADRILL_SERVER": server.url,
        }
        done = subprocess.run(
            ["sh", "-c", script()], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    kept = sorted(path.name for path in backups.iterdir())
    assert kept[:7] == [*(f"2025-01-{day:02}T021500Z" for day in range(4, 10)), "2025-02-01T021500Z.part"]
    (new,) = kept[7:]
    for command in (
        ["restore", str(backups / new), "--data", str(tmp_path / "restored")],
        ["export", "--data", str(tmp_path / "restored"), str(tmp_path / "all.nq")],
    ):
        subprocess.run(
            [commands / "quadrill", *command], env=environment, check=True, capture_output=True, timeout=120
        )
    assert (tmp_path / "all.nq").read_text("utf-8").startswith("<urn:a> <urn:b> ")
