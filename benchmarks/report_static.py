"""The part of docs/performance.md on static parts: commits, probes and registrations by size."""

from __future__ import annotations

from typing import Any

from .plots import line_plot
from .report_server import Table


def static_parts(found: dict[str, Any], table: Table) -> str:
    """What `benchmarks.static_parts` kept."""
    figures = found["figures"]
    sizes: list[dict[str, Any]] = figures["sizes"]
    changes = {f"{each['triples']:,} triples": each["changes"] for each in sizes}
    line_plot(
        "static-updates",
        {name: [(line[0], line[4]) for line in lines] for name, lines in changes.items()},
        title="From the begin of a commit to the updated table",
        x="quads in the commit",
        y="CPU time (ms)",
        log_x=True,
        log_y=True,
    )
    line_plot(
        "static-probes",
        {"one look-up": [(each["triples"], each["probe_us"]) for each in sizes]},
        title="An event that looks one row of a static table up",
        x="triples in the store",
        y="CPU time per event (us)",
        log_x=True,
    )
    commits = table(
        ("triples", "quads", "commit, ms", "table, ms", "writer's CPU, ms", "all CPU, ms",
         "full evaluation, ms", "full evaluation / table"),
        [
            (each["triples"], quads, commit, shown, writer, spent, each["anew_ms"], each["anew_ms"] / shown)
            for each in sizes
            for quads, commit, writer, shown, spent in each["changes"]
        ],
    )  # fmt: skip
    registrations = table(
        ("triples", "rows", "answered, s", "running, s", "CPU, s", "longest pause of others, ms",
         "µs an event", "bytes a row, resident", "load"),
        [
            (
                each["triples"],
                each["rows"],
                *(figure / 1000 for figure in each["registered"][:3]),
                each["registered"][3],
                each["probe_us"],
                round(each["held_mb"] * 1e6 / each["rows"]),
                each["load"],
            )
            for each in sizes
        ],
    )  # fmt: skip
    return (
        f"{commits}\n\n{registrations}\n\nA row takes {figures['bytes_per_row']:.0f} bytes of Python's "
        "memory (`tracemalloc`; 20,000 rows of two columns, with their terms and the query's index).\n\n"
        "![From a commit to the updated table](plots/static-updates.svg) "
        "![An event that looks one row up](plots/static-probes.svg)"
    )
