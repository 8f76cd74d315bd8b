"""The part of docs/performance.md about peers and targets."""

from __future__ import annotations

from typing import Any

from .report_server import Table

OURS = "Quadrill"


def peers(found: dict[str, Any], table: Table) -> str:
    """What `benchmarks.peers` kept."""
    figures = found["figures"]
    return "\n\n".join([_conditions(figures), _in_process(figures, table), _small(figures, table),
                        _events(figures, table)])  # fmt: skip


def _conditions(figures: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    told = [f"Versions: {versions}. The machine did {figures['million_steps']:g} million steps a second of "
            f"the loop of `benchmarks/speed.py`; the run took {figures['seconds']:,} s."]  # fmt: skip
    if figures["real_time"]:
        told.append("All of it ran in the real-time class of a machine busy with other work.")
    told += [f"**{name} was not run**: {reason}." for name, reason in figures["not_run"].items()]
    return " ".join(told)


def _in_process(figures: dict[str, Any], table: Table) -> str:
    """One line a workload, in elements a CPU second; then how peers got their elements, and their rows."""
    by_work: dict[str, dict[tuple[str, str], tuple[float, float, str]]] = {}
    for work, engine, given, rate, wall, verdict in figures["lines"]:
        by_work.setdefault(work, {})[engine, given] = (rate, wall, verdict)
    rows = []
    for work, found in by_work.items():
        ours = [found[OURS, f"bytes, {size} a push"] for size in ("1", "100", "1,000")]
        others = [found.get(each) for each in _OTHERS]
        right = [each[0] for each in others if each is not None and not each[2].startswith(("wrong", "not"))]
        ratios = [each[0] / max(right) for each in ours[:2]]
        rows.append((work, *map(_rate, ours), *map(_rate, others), *ratios))
    head = ("work", "Quadrill, 1 a push", "100", "1,000", "polling loop", "rsp-rs", "RSP-JS",
            "1 a push compared with the best right peer", "100 a push")  # fmt: skip
    details = [
        (f"{work}: {engine}", given, round(rate), round(wall), verdict)
        for work, engine, given, rate, wall, verdict in figures["lines"]
        if engine not in (OURS, "polling loop")
    ]
    more = ("work and engine", "given", "elements/CPU s", "elements/s", "rows")
    return f"Elements a CPU second:\n\n{table(head, rows)}\n\n{table(more, details)}"


_OTHERS = (("polling loop", "bytes"), ("rsp-rs", "terms"), ("rsp-js", "terms"))


def _rate(found: tuple[float, float, str] | None) -> str:
    """A rate, marked when the rows are wrong."""
    if found is None:
        return ""
    rate, _, verdict = found
    told = f"{rate:,.0f}"
    return told if verdict in ("equal", "expected") else f"{told} ({verdict.partition(':')[0]})"


def _small(figures: dict[str, Any], table: Table) -> str:
    rates = {(work, clients, server): rate for work, clients, server, rate, _ in figures["http"]}
    rows = []
    for work, clients, server, rate, _ in figures["http"]:
        if work != "events" and server == OURS:
            base = rates.get((work, clients, "oxigraph serve"))
            rows.append((work, clients, round(rate), "not run" if base is None else round(base),
                         "" if base is None else rate / base))  # fmt: skip
    return table(("request", "clients", "Quadrill, /s", "`oxigraph serve`, /s", "ratio"), rows)


def _events(figures: dict[str, Any], table: Table) -> str:
    rows = [
        (server, clients, round(rate, 1), verdict)
        for work, clients, server, rate, verdict in figures["http"]
        if work == "events"
    ]
    return table(("events of the join with static data", "clients", "events/s", "rows"), rows)


def targets(found: dict[str, Any], table: Table) -> str:
    """What `benchmarks.targets` kept."""
    rows = []
    for group in found["figures"]["groups"].values():
        when = f"{group['time'][-5:]}, {group['load']:g}, {group['million_steps']:g}"
        for name, unit, reach, aim, measured, less, note, reached in group["lines"]:
            bound = f"{'≤' if less else '≥'} {reach:,g} {unit}"
            rows.append((name, bound, aim, measured, f"{reached:g}", when, note))
    head = ("target", "reach", "aim", "measured", "times what must be reached",
            "UTC, load, million steps/s", "")  # fmt: skip
    return table(head, rows)
