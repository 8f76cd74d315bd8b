"""Small plots for the documentation: lines and bars as SVG in ``docs/plots/``.

Needs the extra ``bench`` (matplotlib). The same figures give the same bytes: text stays text, and nothing in
a file depends on the time, the machine or the installed fonts.

    line_plot("memory", {"window of 10 s": [(0, 90), (1, 91)]}, title="Resident memory",
              x="elements (million)", y="MB")
    bar_plot("conference", ["Q1", "Q2"], {"compiled": [9.5, 214], "recomputed": [93, 832]},
             title="Time of one event", y="µs", log_y=True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PLOTS = Path(__file__).parent.parent / "docs" / "plots"
# Distinct in grey and for the colour-blind (Okabe and Ito), in the order in which series are drawn.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^vP*"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "quadrill",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def line_plot(
    name: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = True,
    folder: Path = PLOTS,
) -> Path:
    """One line for each series.

    Args:
        name: the file's name without its suffix.
        series: what the legend calls a line, and its points (x, y).
        title: the heading.
        x: what is along the horizontal axis, with its unit.
        y: what is along the vertical axis, with its unit.
        log_x: a logarithmic horizontal axis; every x above 0 then.
        log_y: a logarithmic vertical axis; every y above 0 then.
        from_zero: the vertical axis begins at 0, unless it is logarithmic.
        folder: where to write it.

    Returns:
        The file written.

    Raises:
        ValueError: there is no point at all, or a logarithmic axis has a figure that is not above 0.
    """
    points = [point for line in series.values() for point in line]
    _check([at for at, _ in points], log_x, f"{name}: x")
    _check([value for _, value in points], log_y, f"{name}: y")

    def draw(axes: Axes) -> None:
        for place, (label, line) in enumerate(series.items()):
            ends = [at for at, _ in line], [value for _, value in line]
            marker = MARKERS[place % len(MARKERS)] if len(line) <= 40 else ""
            axes.plot(*ends, color=COLOURS[place % len(COLOURS)], marker=marker, markersize=4, label=label)
        if log_x:
            axes.set_xscale("log")
        axes.set_xlabel(x)
        if not log_y and from_zero:
            axes.set_ylim(bottom=0)

    return _save(name, draw, title, y, log_y, len(series), folder)


def bar_plot(
    name: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    y: str,
    x: str = "",
    log_y: bool = False,
    folder: Path = PLOTS,
) -> Path:
    """Bars side by side: one for each series in each group.

    Args:
        name: the file's name without its suffix.
        groups: what stands under each group of bars.
        series: what the legend calls a colour, and its figure in each group; NaN leaves a bar out.
        title: the heading.
        y: what the bars show, with its unit.
        x: what the groups are.
        log_y: a logarithmic axis; every figure above 0 then.
        folder: where to write it.

    Returns:
        The file written.

    Raises:
        ValueError: a series has not one figure for each group, or a logarithmic axis a figure not above 0.
    """
    for label, figures in series.items():
        if len(figures) != len(groups):
            raise ValueError(f"{name}: {label!r} has {len(figures)} figures for {len(groups)} groups")
    _check([figure for figures in series.values() for figure in figures], log_y, f"{name}: y")
    width = 0.8 / max(1, len(series))

    def draw(axes: Axes) -> None:
        for place, (label, figures) in enumerate(series.items()):
            left = [group + (place - (len(series) - 1) / 2) * width for group in range(len(groups))]
            axes.bar(left, figures, width * 0.95, color=COLOURS[place % len(COLOURS)], label=label)
        axes.set_xticks(range(len(groups)), groups)
        axes.grid(visible=False, axis="x")
        if x:
            axes.set_xlabel(x)

    return _save(name, draw, title, y, log_y, len(series), folder)


def _check(figures: Sequence[float], logarithmic: bool, where: str) -> None:
    if not figures:
        raise ValueError(f"{where}: nothing to draw")
    if logarithmic and any(figure <= 0 for figure in figures):
        raise ValueError(f"{where}: a logarithmic axis holds figures above 0 only, not {min(figures)}")


def _save(
    name: str, draw: Callable[[Axes], None], title: str, y: str, log_y: bool, series: int, folder: Path
) -> Path:
    """Draw on fresh axes under our style and write the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if log_y:
            axes.set_yscale("log")
        axes.set_ylabel(y)
        axes.set_title(title, fontsize=10)
        axes.set_axisbelow(True)
        if series > 1:
            axes.legend(fontsize=8)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    # Trailing blanks of the writer's own lines only make noise in reviews.
    path.write_text("\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()) + "\n", "utf-8")
    return path
