"""The plots of the documentation: the same figures give the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.plots import bar_plot, line_plot


def test_the_same_lines_give_the_same_bytes_with_title_and_units(tmp_path: Path) -> None:
    series = {"compiled": [(1.0, 2.0), (10.0, 3.0)], "recomputed": [(1.0, 20.0), (10.0, 400.0)]}
    drawn = [
        line_plot(
            "t", series, title="Time", x="triples", y="µs", log_x=True, log_y=True, folder=tmp_path / str(run)
        )
        for run in range(2)
    ]
    text = drawn[0].read_text("utf-8")
    assert text == drawn[1].read_text("utf-8")
    assert all(f">{word}</text>" in text for word in ("Time", "triples", "µs", "compiled", "recomputed"))
    assert len(text) < 40_000


def test_bars_stand_under_the_names_of_their_groups(tmp_path: Path) -> None:
    path = bar_plot("b", ["Q1", "Q2"], {"ours": [1, 2]}, title="T", y="µs", folder=tmp_path)
    text = path.read_text("utf-8")
    assert ">Q1</text>" in text and ">Q2</text>" in text


def test_a_logarithmic_axis_refuses_what_it_can_not_show(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="above 0"):
        bar_plot("b", ["Q1"], {"ours": [0]}, title="T", y="µs", log_y=True, folder=tmp_path)


def test_a_series_has_one_figure_for_each_group(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 figures for 1 groups"):
        bar_plot("b", ["Q1"], {"ours": [1, 2]}, title="T", y="µs", folder=tmp_path)
