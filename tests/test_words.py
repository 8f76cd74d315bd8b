"""What the repository says speaks of the project alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Built from pieces, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
    "|".join(["/" + "work/", "/" + "opt/quadrill", r"\b" + "issue" + r" [2-8]\b", "/" + "root/"])
)
TEXT_SUFFIXES = {".py", ".md", ".toml", ".lark", ".js", ".css", ".html", ".yaml", ".yml", ".txt", ".rsp", ""}


def _tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout: the list of tracked files is not to be had")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name]


def test_no_machine_path_or_foreign_number_stands_in_a_tracked_text() -> None:
    offenders = []
    for path in _tracked_files():
        if path.suffix not in TEXT_SUFFIXES or "tests/w3c/data" in path.as_posix() or not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                offenders.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert offenders == []
