"""``python -m benchmarks.report``: plots and tables of docs/performance.md from the results that were kept.

Nothing is measured here. Each part of the page between ``<!-- NAME -->`` and ``<!-- end of NAME -->`` is
written from ``benchmarks/results/NAME.json``, its plots go to ``docs/plots/``; a part without results
stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import report_peers, report_server, report_static
from .plots import bar_plot, line_plot
from .results import kept

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; figures to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(_cell(each) for each in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def conditions(found: dict[str, Any]) -> str:
    """One sentence: command, machine and load."""
    given = found["conditions"]
    return (
        f"`{given['command']}`, {given['date']}, {given['python']}, {given['cores']} shared cores"
        f" ({given['processor']}), load {given['load']}."
    )


def native(found: dict[str, Any]) -> str:
    """The conference's queries: compiled, operators, recomputed."""
    lines = found["figures"]["lines"]
    queries = [line[0] for line in lines]
    series = {
        "compiled": [line[1] for line in lines],
        "operators one by one": [line[3] for line in lines],
        "recomputed": [line[4] for line in lines],
        "Oxigraph polled": [line[5] for line in lines],
    }
    bar_plot(
        "conference",
        queries,
        series,
        title="Conference queries: time of one event",
        x=f"{found['figures']['triples']:,} static triples",
        y="µs",
        log_y=True,
    )
    head = (
        "query",
        "compiled",
        "with windows",
        "operators",
        "recomputed",
        "Oxigraph polled",
        "polled / with windows",
        "rows an event",
    )
    return table(head, lines) + "\n\n![Time of one event](plots/conference.svg)"


def debs(found: dict[str, Any]) -> str:
    """The challenge: reports a second and delays by window."""
    figures = found["figures"]
    lines = figures["lines"]
    again = {(minutes, mode): spent for minutes, mode, spent in figures["recomputed"]}
    cpu = {mode: [(line[0], line[3]) for line in lines if line[1] == mode] for mode in ("Q1", "Q2", "both")}
    recomputed = {
        f"{mode} recomputed": [(minutes, spent) for (minutes, each), spent in again.items() if each == mode]
        for mode in ("Q1", "Q2")
    }
    line_plot(
        "debs",
        cpu | recomputed,
        title=f"DEBS 2015: time of one report ({figures['rate']} a minute)",
        x="window (minutes)",
        y="CPU time (µs)",
        log_y=True,
    )
    delays = {mode: [(line[0], line[4]) for line in lines if line[1] == mode] for mode in cpu}
    line_plot(
        "debs-delay",
        delays,
        title="DEBS 2015: mean delay of an output line",
        x="window (minutes)",
        y="delay (ms)",
    )
    head = (
        "window and query",
        "reports/s",
        "CPU µs a report",
        "delay ms, mean",
        "delay ms, p99",
        "lines",
        "recomputed µs",
        "ratio",
    )
    rows = []
    for minutes, mode, rate, spent, mean, last, number in lines:
        whole = again.get((minutes, mode))
        rows.append(
            (
                f"{minutes} min, {mode}",
                rate,
                spent,
                mean,
                last,
                int(number),
                "" if whole is None else whole,
                "" if whole is None else whole / spent,
            )
        )
    return table(head, rows) + "\n\n![Time of one report](plots/debs.svg) ![Delay](plots/debs-delay.svg)"


def batches(found: dict[str, Any]) -> str:
    """The whole engine by the size of a push."""
    head = ("query", "items a push", "items/s", "CPU µs an item", "reading", "accepting", "in queries",
            "p50", "p99")  # fmt: skip
    return table(head, found["figures"]["lines"])


def ingest(found: dict[str, Any]) -> str:
    """Rates of the formats."""
    figures = found["figures"]
    short = [_short(line[0]) for line in figures["lines"]]
    series = {"decode": [line[3] / 1000 for line in figures["lines"]]}
    bar_plot("ingest", short, series, title="Reading pushes", y="thousand triples/s")
    head = ("format", "MB", "elements", "decode, triples/s")
    readers = ", ".join(f"{name} {rate:,}" for name, rate in figures["readers"].items())
    return (
        table(head, figures["lines"])
        + f"\n\nN-Triples lines alone, quads a second: {readers}.\n\n![Reading pushes](plots/ingest.svg)"
    )


def _short(name: str) -> str:
    """The name of a format under a bar, on two lines where it is long."""
    for words, fewer in ((", an element a triple", "\neach"), (", one element", "\none"), ("F M", "F\nM")):
        name = name.replace(words, fewer)
    return name


def memory(found: dict[str, Any]) -> str:
    """Resident memory and dictionary over ten million elements."""
    lines = found["figures"]["lines"]
    millions = [(line[0] / 1e6, line) for line in lines]
    line_plot(
        "memory",
        {"resident memory": [(at, line[1]) for at, line in millions]},
        title="Ever-new subjects through windows of ten seconds",
        x="elements (million)",
        y="MB",
    )
    line_plot(
        "memory-dictionary",
        {"entries": [(at, line[2] / 1000) for at, line in millions]},
        title="Entries of the term dictionary",
        x="elements (million)",
        y="thousand entries",
    )
    head = ("elements", "resident MB", "dictionary entries", "elements retained", "MB on disk", "seconds")
    chosen = [lines[0], *lines[9::30], lines[-1]]
    return (
        table(head, [(int(line[0]), *line[1:]) for line in chosen])
        + "\n\n![Resident memory](plots/memory.svg) ![Dictionary](plots/memory-dictionary.svg)"
    )


def report2010(found: dict[str, Any]) -> str:
    """Figure 5 of the report of 2010: static parts kept, evaluated again, and no engine at all."""
    lines = found["figures"]["lines"]
    bar_plot(
        "report2010",
        [f"{line[1]}, {line[0]:,}/s" for line in lines],
        {
            "static parts kept": [line[2] for line in lines],
            "Oxigraph polled": [line[5] for line in lines],
            "static parts evaluated again": [line[3] for line in lines],
        },
        title="Queries of the report of 2010: time of one event",
        x=f"{found['figures']['triples']:,} static triples",
        y="µs",
        log_y=True,
    )
    head = ("events a second", "query", "kept", "evaluated again", "evaluated again / kept",
            "Oxigraph polled", "polled / kept", "rows an event")  # fmt: skip
    return table(head, lines) + "\n\n![Time of one event](plots/report2010.svg)"


def routing(found: dict[str, Any]) -> str:
    """The policies of the papers."""
    return table(found["figures"]["columns"], found["figures"]["lines"])


def uncertainty(found: dict[str, Any]) -> str:
    """Filters with uncertainty functions before and behind a join, and where their place is chosen."""
    lines = found["figures"]["lines"]
    half = [line for line in lines if line[1] == 0.5]
    line_plot(
        "uncertainty",
        {
            "before the join": [(line[0], line[2]) for line in half],
            "behind it": [(line[0], line[3]) for line in half],
        },
        title="A filter with an uncertainty function that half of the rows pass",
        x="partners of an event in the join",
        y="µs an event",
        log_x=True,
    )
    head = ("partners of an event", "share that passes", "before the join", "behind the join", "chosen")
    return table(head, lines) + "\n\n![Before or behind the join](plots/uncertainty.svg)"


def lazy_variables(found: dict[str, Any]) -> str:
    """BINDs in windows, at once, lazily and written behind the joins."""
    head = ("expression", "partners of an event", "at once", "lazily", "written behind the join", "rows")
    return table(head, found["figures"]["lines"])


def tunnel(found: dict[str, Any]) -> str:
    """Figures 1 and 2 of the RSP-QL* paper: filters early and late, probabilities inside and behind."""
    figures = found["figures"]
    filters, binds = figures["filters"], figures["binds"]
    line_plot(
        "tunnel",
        {
            f"{name}, {words}": [(line[1], line[place]) for line in filters if line[0] == name]
            for name in dict.fromkeys(line[0] for line in filters)
            for place, words in ((2, "early"), (3, "late"))
        },
        title=f"Queries of the tunnel, {figures['sectors']:,} sectors",
        x="probability that a filter asks for",
        y="ms an execution",
        log_y=True,
    )
    first = table(("query", "probability", "filter early, ms", "late, ms", "rows"), filters)
    head = ("query", "bound in the window, ms", "behind the joins, ms", "nothing remembered, ms", "rows")
    return f"{first}\n\n{table(head, binds)}\n\n![Queries of the tunnel](plots/tunnel.svg)"


def fairness(found: dict[str, Any]) -> str:
    """The latency of a query alone and while slow ones run."""
    head = ("slow query", "p50 alone, ms", "p99 alone, ms", "p50 with slow query, ms",
            "p99 with slow query, ms", "longest, ms", "ratio of p99", "still busy at the end")  # fmt: skip
    return table(head, found["figures"]["lines"])


def pauses(found: dict[str, Any]) -> str:
    """The longest pauses, by who decides what a collection of garbage looks at."""
    head = ("static rows", "collections by", "pushes", "median ms", "p99 ms", "longest ms",
            "longest collection of old objects, ms", "such collections", "terms forgotten")  # fmt: skip
    return table(head, found["figures"]["lines"])


def experiments(found: dict[str, Any]) -> str:
    """Experiment 2 of 2011: static data of growing size."""
    figures = found["figures"]
    sizes = figures["sizes"]
    names = figures["queries"]
    line_plot(
        "static-size",
        {name: [(line[0], line[1 + place]) for line in sizes] for place, name in enumerate(names)},
        title="Conference queries over static data of growing size",
        x="static triples",
        y="µs an event",
        log_x=True,
    )
    return f"{table(('static triples', *names), sizes)}\n\n![Static size](plots/static-size.svg)"


def instances(found: dict[str, Any]) -> str:
    """Experiment 3 of 2011, Tables 2 and 3 of 2010: many instances of a query."""
    lines = found["figures"]["lines"]
    line_plot(
        "instances",
        {
            query: [(line[1], line[2]) for line in lines if line[0] == query and line[1]]
            for query in dict.fromkeys(line[0] for line in lines)
        },
        title="Instances of a query at a time",
        x="instances",
        y="µs an event",
        log_x=True,
        log_y=True,
    )
    shown = [(line[0], line[1] or "one, no constant", *line[2:]) for line in lines]
    head = ("query", "instances", "µs an event", "times one", "answers an event", "ms to register one")
    return f"{table(head, shown)}\n\n![Instances](plots/instances.svg)"


def families(found: dict[str, Any]) -> str:
    """Queries that differ in one constant, of several kinds."""
    told = ("ms to register one", "first push, ms", "times one")
    head = ("query", "queries", "µs an event", "times one", "answers an event", *told)
    return table(head, found["figures"]["lines"])


def windows(found: dict[str, Any]) -> str:
    """Windows of different widths on one stream."""
    head = ("windows", "MB of Python objects", "µs an element")
    return table(head, found["figures"]["lines"])


def slides(found: dict[str, Any]) -> str:
    """Windows of one to many slides."""
    head = ("things", "slides in a window", "µs a slide", "in the evaluator")
    return table(head, found["figures"]["lines"])


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "native": native,
    "debs": debs,
    "batches": batches,
    "ingest": ingest,
    "memory": memory,
    "report2010": report2010,
    "routing": routing,
    "uncertainty": uncertainty,
    "lazy_variables": lazy_variables,
    "tunnel": tunnel,
    "fairness": fairness,
    "pauses": pauses,
    "experiments": experiments,
    "instances": instances,
    "families": families,
    "windows": windows,
    "slides": slides,
    "peers": lambda found: report_peers.peers(found, table),
    "targets": lambda found: report_peers.targets(found, table),
    "latency": lambda found: report_server.latency(found, table),
    "fanout": lambda found: report_server.fanout(found, table),
    "recovery": lambda found: report_server.recovery(found, table),
    "static_parts": lambda found: report_static.static_parts(found, table),
}


def written(page: str) -> str:
    """The page with every part that has results and a place in it, rewritten."""
    for name, part in PARTS.items():
        found = kept(name)
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if found is None:
            continue
        if place.search(page) is None:
            raise SystemExit(f"docs/performance.md has no place for {name}")
        text = f"{conditions(found)}\n\n{part(found)}\n"
        page = place.sub(lambda match, text=text: match[1] + text + match[2], page)  # type: ignore[misc]
    return page


def main() -> int:
    page = PAGE.read_text("utf-8")
    PAGE.write_text(written(page), "utf-8")
    print(f"{PAGE.name} and its plots follow the results that are kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
