"""The figures of docs/comparison.md are those of docs/performance.md; statements about others have sources.

No test can see whether another store does what its documentation says. What the table says of rule sets is
tested elsewhere: cycles in tests/continuous/rules/test_refusals.py, versions in test_service_law.py,
explanations in test_why.py, emitted changes in tests/app/test_entailment.py. What it says of shapes is
tested in tests/w3c/test_shacl.py, tests/continuous/shapes/test_service_law.py, and test_shape_writes.py,
test_shape_feeds.py and test_stream_shapes.py in tests/app.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from quadrill.continuous.rules.definition import BUILT_IN

DOCS = Path(__file__).parent.parent / "docs"

_NO_SOURCE = ("as after an insertion", "one process", "one server")
"""Cells that need no link, because the row above or the system's other cells have it."""


def rows(page: str, heading: str = "") -> list[tuple[str, ...]]:
    """The rows of the tables of a page, or of its section with a heading, as cells."""
    text = (DOCS / page).read_text("utf-8")
    section = text.partition(heading)[2].partition("\n## ")[0] if heading else text
    lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
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


def test_the_sentences_about_servers_have_the_ratios_of_the_table() -> None:
    text = (DOCS / "comparison.md").read_text("utf-8")
    ratio = {
        (name, int(clients)): float(cell)
        for name, clients, *_, cell in rows("comparison.md", "## In figures: servers\n")[1:]
    }
    assert ratio["look-up", 1] > 1, "with one client, Quadrill answers more look-ups a second"
    times = re.search(r"a look-up takes ([\d.]+) times", " ".join(text.split()))
    assert times is not None and float(times.group(1)) == round(1 / ratio["look-up", 8], 1)
    least, most = sorted(round(1 / ratio["insert one quad", clients], 1) for clients in (1, 8))
    assert f"A write takes {least} to {most} times as long" in " ".join(text.split())


@pytest.mark.parametrize(
    ("heading", "columns"), [("## Patterns in time, and stores\n", 8), ("## Rules\n", 6), ("## Shapes\n", 5)]
)
def test_every_statement_about_the_rules_and_shapes_of_others_has_a_source(
    heading: str, columns: int
) -> None:
    table = [each for each in rows("comparison.md", heading) if len(each) == columns]
    assert len(table) > 8
    for _, _, *others in table[1:]:
        for cell in others:
            assert not cell or cell in _NO_SOURCE or "](https://" in cell, cell


def test_what_the_page_says_of_built_in_sets_and_the_licence_is_so() -> None:
    cells = {each[0]: each[1] for each in rows("comparison.md", "## Rules\n")}
    assert tuple(re.findall(r"`([\w-]+)`", cells["built-in sets"])) == BUILT_IN
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    assert cells["licence"] == project["license"]
    of_shapes = {each[0]: each[1] for each in rows("comparison.md", "## Shapes\n")}
    assert of_shapes["licence"] == project["license"]
