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
    ours = {(work, given): rate for work, engine, given, rate, *_ in figures["lines"] if engine == OURS}
    rows = []
    for work, engine, given, rate, wall, verdict in figures["lines"]:
        one, many = (ours[work, f"bytes, {size} a push"] for size in ("1", "100"))
        ratios: tuple[object, ...] = ("", "") if engine == OURS or not rate else (one / rate, many / rate)
        rows.append((f"{work}: {engine}", given, round(rate), round(wall), *ratios, verdict))
    head = ("work and engine", "given", "elements/CPU s", "elements/s", "ours with 1 a push is times this",
            "with 100", "rows")  # fmt: skip
    return table(head, rows)


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
        for name, unit, reach, aim, measured, less, note, reached in group["lines"]:
            bound = f"{'≤' if less else '≥'} {reach:,g}"
            rows.append(
                (name, f"{bound} {unit}", aim, measured, f"{reached:g}", group["million_steps"], note)
            )
    head = ("target", "reach", "aim", "measured", "times what must be reached", "million steps/s", "")
    return table(head, rows)
