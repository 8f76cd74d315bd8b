"""Links of the documents lead somewhere, and the README's commands are those that CI runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "changelog.d/README.md",
    "examples/README.md",
)
DOCUMENTS = sorted([*(ROOT / page for page in PAGES), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_of_a_document_leads_to_a_file(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text("utf-8")) if "://" not in target]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert missing == []


PATH = re.compile(
    r"`((?:app|continuous|store|migrations|static|tests|benchmarks|docker|docs|examples)/[\w./-]+\.\w+)"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_that_a_document_names_is_there(document: Path) -> None:
    named = sorted(set(PATH.findall(document.read_text("utf-8"))))
    # `static/` is a folder of `continuous/` as well.
    assert [
        path for path in named if not ((ROOT / path).exists() or (ROOT / "continuous" / path).exists())
    ] == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    (command,) = [line for line in readme if " -m pytest" in line]
    assert command == (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1]
