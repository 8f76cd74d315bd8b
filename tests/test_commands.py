"""The commands that run tests are the same wherever they stand, and the fast one has what it must have."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ORACLES = (
    "continuous/evaluate/test_random_queries.py",
    "continuous/evaluate/test_w3c_as_continuous.py",
    "continuous/expressions/test_oracle.py",
    "continuous/operators/test_laws.py",
    "continuous/output/test_law.py",
    "continuous/plan/test_native_oracle.py",
    "continuous/remote/test_law.py",
    "continuous/test_engine_law.py",
    "continuous/test_scenarios.py",
    "continuous/windows/test_windows_obey_their_definition.py",
    "store/test_rdflib_oracle.py",
    "store/test_update_laws.py",
)
"""Files without which a fast run would not tell whether answers are right."""


def recipe(target: str) -> list[str]:
    """What make does for a target, as words."""
    found = re.search(rf"^{target}:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def test_continuous_integration_ends_with_the_command_of_the_readme() -> None:
    command = (ROOT / ".ci" / "run").read_text().rstrip().splitlines()[-1]
    assert command in (ROOT / "README.md").read_text().splitlines()
    assert shlex.split(command)[-4:] == recipe("test")[-4:] == ["-n", "auto", "--dist", "loadfile"]


def test_the_fast_run_has_the_laws_and_oracles_and_starts_nothing() -> None:
    words = recipe("test-fast")
    arguments = words[words.index("pytest") + 1 :]
    for option in ("-n", "--dist"):
        place = arguments.index(option)
        del arguments[place : place + 2]
    folders = arguments[-2:]
    assert folders == ["tests/continuous", "tests/store"]
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            assert "LiveServer" not in file.read_text(), file
    # Only the files of the list are collected: all files of the two folders take a minute.
    oracles = [f"tests/{each}" for each in ORACLES]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-qq"]
    # Options of the run that this test is in, as -vv, would change what is printed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    collected = subprocess.run(
        [*command, *arguments[:-2], *oracles], cwd=ROOT, env=environment, capture_output=True, text=True
    ).stdout
    assert sorted(line.partition(": ")[0] for line in collected.splitlines() if ": " in line) == oracles
