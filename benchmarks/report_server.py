"""The parts of docs/performance.md about a whole server: latencies, subscribers, checkpoints and starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from .plots import bar_plot


class Table(Protocol):
    """`benchmarks.report.table`."""

    def __call__(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str: ...  # noqa: D102


def _class(figures: dict[str, Any]) -> str:
    told = "All of it ran in the real-time class of a machine busy with other work.\n\n"
    return told if figures["real_time"] else ""


def latency(found: dict[str, Any], table: Table) -> str:
    """From a push to its event, by rate and by stage."""
    figures = found["figures"]
    lines = figures["lines"]
    bar_plot(
        "latency",
        [f"{line[0]}/s" for line in lines],
        {"median": [line[1] for line in lines], "99th percentile": [line[2] for line in lines]},
        title="From the beginning of a push to its event at a subscriber",
        x=f"pushes, of {figures['most']} a second at most",
        y="ms",
    )
    head = ("pushes a second", "event p50 ms", "p99", "answer p50 ms", "p99", "CPU of the server")
    split = ", ".join(f"{name} {value:g}" for name, value in figures["stages"].items())
    return (
        f"{_class(figures)}{table(head, lines)}\n\nThe server took {figures['most']} pushes of one element "
        f"a second over {figures['connections']} connections at most. At half of that, 99 % within ms "
        f"by stage: {split}.\n\n"
        "![Latency](plots/latency.svg)"
    )


def fanout(found: dict[str, Any], table: Table) -> str:
    """Many subscribers of one feed, the engine idle and busy."""
    figures = found["figures"]
    lines = figures["lines"]
    bar_plot(
        "fanout",
        [line[0] for line in lines],
        {"median": [line[2] for line in lines], "99th percentile": [line[3] for line in lines]},
        title=f"{figures['subscribers']:,} subscribers, {figures['rate']} events a second",
        x="who writes event streams, and the engine",
        y="ms from push to arrival",
        log_y=True,
    )
    head = ("event streams by, engine", "delivered", "event p50 ms", "p99", "CPU of the server")
    return f"{_class(figures)}{table(head, lines)}\n\n![Fan-out](plots/fanout.svg)"


def recovery(found: dict[str, Any], table: Table) -> str:
    """Checkpoints of large windows, and the start behind them."""
    figures = found["figures"]
    head = ("checkpoint", "queries stopped ms", "longest wait of an input ms", "written in s", "MiB")
    rows = [[number, *line] for number, line in enumerate(figures["checkpoints"], 1)]
    spent, cpu, memory = figures["starts"][0]
    return (
        f"{_class(figures)}{table(head, rows)}\n\nA start with {figures['elements']:,} live quads took "
        f"{spent} s, {cpu} s of it CPU time; the process then held {memory} MB."
    )
