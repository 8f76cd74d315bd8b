"""docs/performance.md says what the kept results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks import report, results


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("line_plot", "bar_plot"):
        monkeypatch.setattr(report, name, lambda *_, **__: None)


@pytest.mark.usefixtures("without_plots")
def test_the_page_has_the_figures_of_the_kept_results() -> None:
    page = report.PAGE.read_text("utf-8")
    assert report.written(page) == page, "run python -m benchmarks.report"


def test_every_plot_of_the_page_is_there() -> None:
    folder = report.PAGE.parent
    named = {part.partition(")")[0] for part in report.PAGE.read_text("utf-8").split("](plots/")[1:]}
    assert named
    assert {name for name in named if not (folder / "plots" / name).is_file()} == set()


@pytest.mark.usefixtures("without_plots")
def test_a_part_without_a_place_is_an_error() -> None:
    with pytest.raises(SystemExit, match="has no place for"):
        report.written("# A page without places\n")


def test_results_are_kept_with_their_conditions(tmp_path: Path) -> None:
    assert results.kept("x", folder=tmp_path) is None
    results.keep("x", {"lines": [[1, 2.5]]}, folder=tmp_path)
    found = results.kept("x", folder=tmp_path)
    assert found is not None and found["figures"] == {"lines": [[1, 2.5]]}
    assert {"command", "date", "python", "processor", "cores", "load"} == set(found["conditions"])
    json.loads((tmp_path / "x.json").read_text("utf-8"))
