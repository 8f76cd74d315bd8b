"""The figures of docs/comparison.md are those of docs/performance.md."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def rows(page: str) -> list[tuple[str, ...]]:
    """The rows of a page's tables, as cells."""
    lines = re.findall(r"^\| (.*) \|$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines]


def test_every_figure_was_measured() -> None:
    measured = {(each[0], each[1]): each for each in rows("performance.md")}
    by_name = {each[0]: each for each in rows("performance.md")}
    figures = [
        each for each in rows("comparison.md") if any(re.search(r"\d,\d{3}", cell) for cell in each[1:])
    ]
    assert len(figures) == 13
    for name, *cells in figures:
        known = measured.get((name, cells[0])) or by_name[name]
        missing = [cell for cell in cells if cell and not any(own.startswith(cell) for own in known[1:])]
        assert missing == [], name
