"""docs/papers.md: every row has a living module or test, or a reason; every numbered item has a row."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "papers.md").read_text("utf-8")
REFERENCE = re.compile(r"`((?:app|continuous|store|tests|benchmarks|docs)/[\w./-]+)(?:::(\w+))?`")
REASON = re.compile(r"\*\*(?:Otherwise|Not yet|Outside):\*\* \S.{10,}")

SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
ROWS = [
    (section.partition("\n")[0], *[cell.strip() for cell in line.strip("|").split(" | ")])
    for section in SECTIONS
    for line in section.splitlines()
    if line.startswith("| ") and not line.startswith("| item ")
]

ITEMS = json.loads((ROOT / "tests" / "data" / "paper-items.json").read_text("utf-8"))["papers"]
"""What each paper numbers, by the numbers of its captions, and what it defines without a number."""


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The functions of a Python file, those of classes too."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].rpartition('(')[2][:12]}-{row[1]}"[:60])
def test_a_row_has_a_living_module_or_test_or_a_reason(row: tuple[str, ...]) -> None:
    assert len(row) == 4, f"a row has item, what and here: {row[1:]}"
    here = row[3]
    references = REFERENCE.findall(here)
    assert references or REASON.search(here), "neither a module, nor a test, nor a reason"
    dead = [
        f"{path}::{name}" if name else path
        for path, name in references
        if not (ROOT / path).is_file() or (name and name not in functions_of(ROOT / path))
    ]
    assert dead == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].rpartition('(')[2][:12]}-{row[1]}"[:60])
def test_a_missing_thing_is_never_called_there(row: tuple[str, ...]) -> None:
    bold = re.findall(r"\*\*([^*]+)\*\*", row[3])
    assert set(bold) <= {"Otherwise:", "Not yet:", "Outside:"}


@pytest.mark.parametrize("paper", ITEMS)
def test_every_numbered_item_of_a_paper_has_a_row(paper: str) -> None:
    items = [row[1] for row in ROWS if paper in row[0]]
    assert len(items) == len(set(items)) > 4, "an item has one row"
    missing = [
        wanted
        for wanted in (*ITEMS[paper]["numbered"], *ITEMS[paper]["named"])
        if not any(re.match(rf"{re.escape(wanted)}(?!['\\w])", item) for item in items)
    ]
    assert missing == []


@pytest.mark.parametrize("paper", ITEMS)
def test_the_numbers_of_a_kind_have_no_gap(paper: str) -> None:
    kinds: dict[str, list[int]] = {}
    for item in ITEMS[paper]["numbered"]:
        if match := re.fullmatch(r"(.*?\D)(\d+)\)?'?", item):
            kinds.setdefault(match[1] + "'" * item.endswith("'"), []).append(int(match[2]))
    for kind, numbers in kinds.items():
        assert numbers == list(range(1, len(numbers) + 1)), kind


def test_every_section_of_the_page_is_of_a_paper_with_items() -> None:
    assert [name for name in ITEMS if not any(name in row[0] for row in ROWS)] == []
    assert {row[0] for row in ROWS if not any(name in row[0] for name in ITEMS)} == set()


def test_every_query_of_the_papers_is_named() -> None:
    queries = (ROOT / "tests" / "data" / "paper-queries").glob("*.cqels")
    ours = {"report2010-Q1", "report2010-Q2", "report2010-Q3", "report2010-Q4"}
    ours |= {f"{name}p" for name in ours} | {"debs2015-Q1-as-printed", "debs2015-Q2-as-printed"}
    unnamed = {path.stem for path in queries if path.name not in PAGE} - ours
    assert unnamed == set()
