"""Fragments of changelog.d are well formed, and a release is composed of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "changelog.d"
CHANGELOG = ROOT / "CHANGELOG.md"
OTHER_FILES = {"README.md", "template.jinja"}
MOST_CHARACTERS = 400
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]


def faults(name: str, text: str) -> list[str]:
    """What a contributor has to correct in a fragment."""
    problems = []
    if not re.fullmatch(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md", name):
        problems.append(f"the name is not NAME.KIND.md with KIND one of {', '.join(KINDS)}")
    if not re.match(r"[A-Z0-9`]", text):
        problems.append("the sentence does not begin with a capital letter, a number or a backtick")
    if not text.endswith(".\n"):
        problems.append("the sentence does not end with a full stop and a line feed")
    if re.search(r"\n\s*(\n|[-*#] )", text):
        problems.append("it is more than one paragraph")
    if len(text) > MOST_CHARACTERS:
        problems.append(f"it has {len(text)} characters, more than {MOST_CHARACTERS}")
    return problems


def test_every_fragment_is_well_formed() -> None:
    fragments = [path for path in FOLDER.iterdir() if path.name not in OTHER_FILES]
    problems = {path.name: faults(path.name, path.read_text("utf-8")) for path in fragments}
    assert {name: wrong for name, wrong in problems.items() if wrong} == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("12.bugfix.md", "A query ends.\n"),
        ("Windows.added.md", "A window.\n"),
        ("windows.added.txt", "A window.\n"),
        ("windows.md", "A window.\n"),
        ("windows.added.md", "a window.\n"),
        ("windows.added.md", "A window"),
        ("windows.added.md", "- A window.\n"),
        ("windows.added.md", "A window.\n\nAnd another.\n"),
        ("windows.added.md", "Two windows:\n- one.\n"),
        ("windows.added.md", ""),
        ("windows.added.md", "A window" * 60 + ".\n"),
    ],
)
def test_a_malformed_fragment_is_refused(name: str, text: str) -> None:
    assert faults(name, text)


def test_a_release_is_composed_of_the_fragments(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="needs the dev extra")
    shutil.copytree(FOLDER, tmp_path / FOLDER.name, ignore=shutil.ignore_patterns("*.*.md"))
    for path in (ROOT / "pyproject.toml", CHANGELOG):
        shutil.copy(path, tmp_path)
    fragments = {
        "b-windows.fixed.md": "`[NEWEST 2]` holds\ntwo elements.\n",
        "a-views.fixed.md": "A view is written once.\n",
        "routes.added.md": "There is a route.\n",
        "old.removed.md": "A member is gone.\n",
    }
    for name, text in fragments.items():
        assert not faults(name, text)
        (tmp_path / FOLDER.name / name).write_text(text)
    command = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--yes",
        "--version",
        "9.0.0",
        "--date",
        "2030-01-01",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    before, marker, older = CHANGELOG.read_text("utf-8").partition(SETTINGS["start_string"])
    assert marker
    assert (tmp_path / "CHANGELOG.md").read_text("utf-8") == (
        f"{before}{marker}\n## 9.0.0 - 2030-01-01\n\n"
        "### Fixed\n- A view is written once.\n- `[NEWEST 2]` holds\n  two elements.\n\n"
        "### Added\n- There is a route.\n\n"
        "### Removed\n- A member is gone.\n"
        f"{older}"
    )
    assert {path.name for path in (tmp_path / FOLDER.name).iterdir()} == OTHER_FILES
