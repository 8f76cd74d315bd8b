"""Bulk loads and static parts: the direct pipeline and the store against Spark, side by side.

Run: ``python -m benchmarks.bulk [--lines N ...] [--plots]`` (250,000 and 1,000,000 lines by default; each
size takes minutes). Papers with authors, years and venues as N-Quads, one line in 10,000 malformed and one in
eight there twice. Every measurement is a process of its own; its seconds are wall clock and processor time of
the process with all that it starts (Java, Spark's workers), its memory is the most they had together. The
rows of each static part are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.language import parse
from quadrill.continuous.reference.background import static_text
from quadrill.continuous.spark import SparkTables
from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, make_mirror
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads import QuadStore

from .results import keep

SIZES = (250_000, 1_000_000)
PARTS = {
    "co-authors of two papers": """SELECT ?a ?b (COUNT(?p) AS ?n) {
  ?p :author ?a . ?p :author ?b FILTER(?a != ?b) } GROUP BY ?a ?b HAVING(COUNT(?p) > 1)""",
    "papers by venue and year": """SELECT ?v ?y (COUNT(?p) AS ?n) {
  ?p :partOf ?v . ?p :year ?y } GROUP BY ?v ?y""",
    "recent papers": "SELECT ?p ?a ?y { ?p :author ?a . ?p :year ?y FILTER(?y >= 2020) }",
    "2011 Q3, any author": """SELECT ?auth ?coAuth ?coAuthorName ?any {
  ?p :author ?auth . ?p :author ?coAuth . ?auth :name ?any .
  ?coAuth :name ?coAuthorName FILTER(?auth != ?coAuth) }""",
    "2011 Q4, any author": """SELECT ?auth ?editor ?editorName ?any { ?p :author ?auth . ?p :partOf ?volume .
  ?volume :editor ?editor . ?editor :name ?editorName . ?auth :name ?any }""",
}
"""The co-author self-join, two scans, and static parts of the papers' queries without their constants."""
_PREFIX = "PREFIX : <http://example.org/>\n"
_XSD = "http://www.w3.org/2001/XMLSchema#"


@dataclass(slots=True)
class Cost:
    """What a process and all that it started took."""

    seconds: float = 0.0
    processor: float = 0.0
    megabytes: float = 0.0


def write_lines(file: Path, lines: int) -> None:
    """The data: about three authors a paper, a volume and two editors for 60 papers, names."""
    chosen = random.Random(1)
    authors = max(1, lines // 20)
    space = "http://example.org/"
    with file.open("w") as out:
        written = paper = 0

        def write(subject: str, predicate: str, term: str) -> None:
            nonlocal written
            line = f"<{space}{subject}> <{space}{predicate}> {term} ."
            out.write(f"{line if chosen.random() > 1e-4 else line[:-5]}\n")
            twice = chosen.random() < 0.125
            if twice:
                out.write(f"{line}\n")
            written += 1 + twice

        for number in range(1, authors + 1):
            write(f"author{number}", "name", f'"Author {number}"')
        while written < lines:
            paper += 1
            write(f"paper{paper}", "year", f'"{chosen.randint(1980, 2026)}"^^<{_XSD}integer>')
            write(f"paper{paper}", "partOf", f"<{space}volume{paper // 60}>")
            for _ in range(chosen.randint(1, 5)):
                number = min(chosen.randint(1, authors), chosen.randint(1, authors))
                write(f"paper{paper}", "author", f"<{space}author{number}>")
            if not paper % 60:
                for _ in range(2):
                    write(f"volume{paper // 60}", "editor", f"<{space}author{chosen.randint(1, authors)}>")


def measured(arguments: list[str]) -> tuple[Cost, Any]:
    """Run this module with arguments in a session of its own; its cost, and what it printed last."""
    began = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bulk", *arguments], stdout=subprocess.PIPE, start_new_session=True
    )
    cost, ended = Cost(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(child.pid, cost, ended))
    watcher.start()
    told, _ = child.communicate()
    cost.seconds = round(time.monotonic() - began, 1)
    ended.set()
    watcher.join()
    if child.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return cost, json.loads(told.splitlines()[-1]) if told.strip() else None


def _watch(root: int, cost: Cost, ended: threading.Event) -> None:
    """Sample the process and its descendants; a process counts what it had used when it was seen last."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    used: dict[int, float] = {}
    known = {root}
    while not ended.wait(0.1):
        memory = 0
        for pid, parent, seconds, pages in sorted(_processes(ticks)):
            if pid in known or parent in known:
                known.add(pid)
                used[pid] = max(seconds, used.get(pid, 0.0))
                memory += pages * page
        cost.processor = round(sum(used.values()), 1)
        cost.megabytes = max(cost.megabytes, round(memory / 1e6))


def _processes(ticks: int) -> list[tuple[int, int, float, int]]:
    """Every process: number, parent, seconds of processor time, resident pages."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds = (int(fields[11]) + int(fields[12])) / ticks
        found.append((int(file.parent.name), int(fields[1]), seconds, int(fields[21])))
    return found


# --- what a measured process does -----------------------------------------------------------------


def load(engine: str, file: str, folder: str) -> dict[str, Any]:
    """One load into a new data folder."""
    with QuadStore.open(folder) as store:
        summary = BulkLoader(store, Path(folder) / "loads").run(LoadOptions((file,), engine=engine))
    return {"added": summary.added, "bad": summary.bad}


def mirror(folder: str) -> None:
    """The mirror of a data folder."""
    with QuadStore.open(folder) as store:
        make_mirror(store, Path(folder) / "mirror")


def part(engine: str, name: str, folder: str) -> dict[str, Any]:
    """One static part by the store or by Spark; how many rows, a sum over them, the seconds it took."""
    query = parse(_PREFIX + PARTS[name], dialect="sparql")
    columns: tuple[Var, ...] = query.columns
    with QuadStore.open(folder) as store:
        began = time.perf_counter()
        if engine == "oxigraph":
            _, rows = store.solutions(static_text(query.root, columns, None))
            found = [row[: len(columns)] for row in rows]
        else:
            mirrored = Mirror.open(Path(folder) / "mirror")
            assert mirrored is not None
            _, (result,) = SparkTables(mirrored).tables(store, [(query.root, columns)])
            if isinstance(result, UnsupportedError):
                raise result
            found = result
        seconds = time.perf_counter() - began
    # The same for the same multiset, in whichever order and process.
    told = sum(int.from_bytes(blake2b(str(row).encode(), digest_size=8).digest()) for row in found)
    return {"rows": len(found), "sum": told % (1 << 61), "seconds": round(seconds, 2)}


WORK: dict[str, Callable[..., Any]] = {"load": load, "mirror": mirror, "part": part}


# --- the run ----------------------------------------------------------------------------------------


def run_size(lines: int) -> dict[str, Any]:
    """Everything at one size."""
    figures: dict[str, Any] = {"lines": lines, "loads": {}, "parts": {}}
    with tempfile.TemporaryDirectory(prefix="quadrill-bench-") as work:
        file = Path(work) / "papers.nq"
        write_lines(file, lines)
        told = {}
        for engine in ("oxigraph", "spark"):
            cost, told[engine] = measured(["load", engine, str(file), f"{work}/{engine}"])
            figures["loads"][engine] = asdict(cost)
            print(f"{lines:>10,} lines  load {engine:<9} {_shown(cost)}  {told[engine]}", flush=True)
        if told["oxigraph"] != told["spark"]:
            raise SystemExit("the engines loaded different quads")
        cost, _ = measured(["mirror", f"{work}/oxigraph"])
        figures["loads"]["mirror"] = asdict(cost)
        print(f"{lines:>10,} lines  mirror         {_shown(cost)}", flush=True)
        for name in PARTS:
            answers = {}
            for engine in ("oxigraph", "spark"):
                cost, answers[engine] = measured(["part", engine, name, f"{work}/oxigraph"])
                figures["parts"].setdefault(name, {})[engine] = asdict(cost) | answers[engine]
                seconds, rows = answers[engine]["seconds"], answers[engine]["rows"]
                shown = f"{name:<26}{engine:<9}{seconds:8.2f} s  {_shown(cost)}  {rows:,} rows"
                print(f"{lines:>10,} lines  {shown}", flush=True)
            if len({(each["rows"], each["sum"]) for each in answers.values()}) != 1:
                raise SystemExit(f"the engines differ in the rows of {name!r}")
    return figures


def _shown(cost: Cost) -> str:
    return f"{cost.seconds:7.1f} s wall {cost.processor:7.1f} s processor {cost.megabytes:7.0f} MB"


def draw(figures: list[dict[str, Any]]) -> None:
    """The plots of docs/bulk.md."""
    from .plots import line_plot

    engines = {"oxigraph": "direct", "spark": "Spark", "mirror": "mirror"}
    line_plot(
        "bulk-loads",
        {
            label: [(each["lines"] / 1e6, each["loads"][engine]["processor"]) for each in figures]
            for engine, label in engines.items()
        },
        title="Processor time of a load",
        x="lines (million)",
        y="seconds",
    )
    line_plot(
        "static-parts-spark",
        {
            f"{name}, {'store' if engine == 'oxigraph' else 'Spark'}": [
                (each["lines"] / 1e6, each["parts"][name][engine]["processor"]) for each in figures
            ]
            for name in list(PARTS)[:2]
            for engine in ("oxigraph", "spark")
        },
        title="Processor time of a static part, starts included",
        x="lines (million)",
        y="seconds",
    )


def main() -> None:
    """Measure, or be the process that is measured."""
    if sys.argv[1:2] and sys.argv[1] in WORK:
        print(json.dumps(WORK[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--plots", action="store_true", help="draw the plots of the documentation")
    options = parser.parse_args()
    missing = spark_missing()
    if missing:
        raise SystemExit(missing)
    figures = [run_size(lines) for lines in options.lines]
    keep("bulk", figures)
    if options.plots:
        draw(figures)


if __name__ == "__main__":
    main()
