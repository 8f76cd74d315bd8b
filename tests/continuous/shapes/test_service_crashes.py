"""After a crash at any step of a commit, PUT or DELETE, the restart has the right results and reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ...examples import ALL

ROOT = Path(__file__).parents[3]


@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", ["commits", "replaced", "removed"])
def test_killed_at_each_step_reports_are_complete_after_a_restart(scenario: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.continuous.shapes.crash_child"]
    child = subprocess.run(
        [*command, str(tmp_path), scenario, "1" if ALL else "5"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 15
