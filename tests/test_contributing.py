"""CONTRIBUTING.md, the hooks of a commit and the workflow name commands and files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs the yaml extra")

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
CI = (ROOT / ".ci" / "run").read_text("utf-8")


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_every_target_of_make_exists() -> None:
    pages = [PAGE, *(path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.*"))]
    named = {
        target
        for line in re.findall(r"(?:^|`|run: )make ([a-z -]+)", "\n".join(pages), re.MULTILINE)
        for target in line.split()
    }
    assert {"dev", "check", "test-fast", "changelog", "ratios"} <= named
    targets = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
    assert sorted(named - targets) == []


def test_every_test_that_the_tables_name_exists() -> None:
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+\.py)`", PAGE))
    existing = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 10
    assert sorted(named - existing) == []


def test_every_name_of_code_in_the_tables_stands_in_the_file_of_its_row() -> None:
    checked = 0
    for path, content in re.findall(r"^\| `([\w./]+\.\w+)`[^|]* \| (.*?) \| .*? \|$", PAGE, re.MULTILINE):
        text = (ROOT / path).read_text("utf-8")
        for name in re.findall(r"`(_?[A-Za-z]\w+)`", content):
            checked += 1
            assert re.search(rf"\b{name}\b", text), f"{path} does not have {name}"
    assert checked > 20


def test_a_commit_runs_the_commands_of_make() -> None:
    (local,) = loaded(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        command, *arguments = hook["entry"].split()
        assert command.startswith(".venv/bin/")
        assert command.replace(".venv/bin/", "$(BIN)/") in MAKEFILE
        for file in arguments:
            assert not file.startswith("tests/") or (ROOT / file).is_file()


def test_the_workflow_runs_ci_and_compares_two_versions_in_a_separate_job() -> None:
    jobs = loaded(".github/workflows/ci.yml")["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert ".ci/run" in commands["test"]
    assert [command.split()[:2] for command in commands["ratios"]] == [["make", "ratios"]]
    assert "ratios" not in CI
    assert "ratios" not in " ".join(commands["test"])
