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


# docs/glossary.md, "Retired words". A word in `code`, such as a member of the HTTP API, does not count.
RETIRED = re.compile(
    r"(?<![a-z])(told|telling|settle[sd]?|settling|anew|once more|whoever|beside|companions?|seats?"
    r"|common[ _]plans?|let[ _](?:[a-z]+ )?go|lets (?:[a-z]+ )?go|letting (?:[a-z]+ )?go|so long(?! as)"
    r"|work(?:s|ed|ing)?[ _](?:[a-z]+ )?off|goes on from|gone on with"
    r"|(?:put|kept|laid)[ _]aside|taken[ _]back"
    r"|(?:hold|holds|held|holding)[ _](?:[a-z]+ )?back|in line(?! \d| [A-Z`{]|[_:\[])"
    r"|in line (?:behind|before|for)|crowd|patience|intake"
    r"|short cuts?|plain requests?)(?![a-z])",
    re.IGNORECASE,
)
# Members of documents and columns of data files that have a retired word in their name, in quotes.
PUBLIC_NAMES = re.compile(r'"(?:anew_because|seats|told)"')
REVISED = {"app", "continuous", "store", "docs", "README.md", "CONTRIBUTING.md"}


def _retired_words(path: Path) -> list[str]:
    text = PUBLIC_NAMES.sub("", re.sub(r"`[^`\n]*`", "", path.read_text("utf-8", errors="replace")))
    return [match[0] for match in RETIRED.finditer(text)]


def test_no_retired_word_is_used() -> None:
    used = {
        str(path.relative_to(ROOT)): words
        for path in _tracked_files()
        if path.suffix in {".py", ".md"}
        and path.relative_to(ROOT).parts[0] in REVISED
        and path.name != "glossary.md"
        and (words := _retired_words(path))
    }
    assert used == {}, "docs/glossary.md says which words to use instead"
