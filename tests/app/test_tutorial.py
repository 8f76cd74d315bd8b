"""The tutorial's commands are run as they are printed, against the demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.tutorial import START, blocks, page_of
from tests.program import Program

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose .venv/bin/quadrill is this program."""
    program = tmp_path / ".venv" / "bin" / "quadrill"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m quadrill.app.cli "$@"\n', "utf-8")
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    """The address of a running demo."""
    arguments = ["demo", "--port", "0", "--data", "data"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with Program(*arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            yield page_of(demo.stdout)[0]
        finally:
            demo.terminate()


def test_every_command_of_the_tutorial_does_what_the_page_says(folder: Path, server: str) -> None:
    first, *others = blocks()
    assert first == START
    environment = os.environ | {"QUADRILL_SERVER": server, "NO_COLOR": "1"}
    printed = []
    for block in others:
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        printed.append(done.stdout)
    everything = "\n".join(printed)
    assert "<http://example.org/nyc/airport/SFO>" in printed[0]
    assert len(re.findall(r"^\+  2013-\S+  \w+  .*  \d+$", everything, re.MULTILINE)) >= 3
    assert re.search(r"^\+  2013-\S+  \w+  San Francisco Intl  home$", everything, re.MULTILINE)
    assert re.search(r"^\+  2026-01-01T12:00:00Z  \S*s1\S*  21\.5$", everything, re.MULTILINE)
    assert "star" in everything and "static table" in everything
