"""Bulk loads and static parts: the direct pipeline and the store against Spark, side by side.

Run: ``python -m benchmarks.bulk [--lines N ...] [--plots]`` (250,000 and 1,000,000 lines by default; each
size takes minutes, ten million lines most of an hour). ``--work FOLDER`` keeps data and measurements there,
and the same command goes on behind the last one, with what ``--minutes`` left out. Papers with authors,
years and venues as N-Quads, one line in 10,000 malformed and one in eight there twice. Every measurement is a
process of its own; its seconds are wall clock and processor time of the process with all that it starts
(Java, Spark's workers), its memory is the most they had together. The rows of each static part are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.text import static_text
from quadrill.continuous.language import parse
from quadrill.continuous.rows import Solution
from quadrill.continuous.spark import SparkTables
from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from .results import keep

SIZES = (250_000, 1_000_000)
PARTS = {
    "co-authors of two papers": """SELECT ?a ?b (COUNT(?p) AS ?n) {
  ?p :author ?a . ?p :author ?b FILTER(?a != ?b) } GROUP BY ?a ?b HAVING(COUNT(?p) > 1)""",
    "papers by venue and year": """SELECT ?v ?y (COUNT(?p) AS ?n) {
  ?p :partOf ?v . ?p :year ?y } GROUP BY ?v ?y""",
    "2011 Q3, any author": """SELECT ?auth ?coAuth ?coAuthorName ?any {
  ?p :author ?auth . ?p :author ?coAuth . ?auth :name ?any .
  ?coAuth :name ?coAuthorName FILTER(?auth != ?coAuth) }""",
    "2011 Q4, any author": """SELECT ?auth ?editor ?editorName ?any { ?p :author ?auth . ?p :partOf ?volume .
  ?volume :editor ?editor . ?editor :name ?editorName . ?auth :name ?any }""",
    "recent papers": "SELECT ?p ?a ?y { ?p :author ?a . ?p :year ?y FILTER(?y >= 2020) }",
}
"""The co-author self-join, two scans, and static parts of the papers' queries without their constants."""
_PREFIX = "PREFIX : <http://example.org/>\n"
_XSD = "http://www.w3.org/2001/XMLSchema#"


@dataclass(slots=True)
class Cost:
    """What a process and all that it started took, and the load of the machine at its end."""

    seconds: float = 0.0
    processor: float = 0.0
    megabytes: float = 0.0
    load: float = 0.0


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
    cost.seconds, cost.load = round(time.monotonic() - began, 1), round(os.getloadavg()[0], 1)
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
            with store.reader.query(static_text(query.root, columns, None)) as answer:
                found = _told(row[: len(columns)] for row in answer.rows())
        else:
            mirrored = Mirror.open(Path(folder) / "mirror")
            assert mirrored is not None
            _, (result,) = SparkTables(mirrored).tables(store, [(query.root, columns)])
            if isinstance(result, UnsupportedError):
                raise result
            found = _told(result)
        return found | {"part_seconds": round(time.perf_counter() - began, 2)}


def _told(rows: Iterable[Solution]) -> dict[str, int]:
    """How many rows, and a sum that is the same for the same multiset, in whichever order and process."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(blake2b(str(row).encode(), digest_size=8).digest())
    return {"rows": count, "sum": total % (1 << 61)}


WORK: dict[str, Callable[..., Any]] = {"load": load, "mirror": mirror, "part": part}


# --- the run ----------------------------------------------------------------------------------------


class Measurements:
    """What was measured so far, kept in a file so that another run goes on behind it."""

    def __init__(self, file: Path, minutes: float | None) -> None:
        self._file = file
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self._known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def of(self, lines: int, arguments: list[str]) -> dict[str, Any] | None:
        """Cost and answer of a measurement, taken now if it was not before; None without time left."""
        name = f"{lines} {' '.join(each for each in arguments if not each.startswith('/'))}"
        if name not in self._known:
            if self._until is not None and time.monotonic() > self._until:
                return None
            cost, told = measured(arguments)
            self._known[name] = asdict(cost) | (told or {})
            self._file.write_text(json.dumps(self._known, indent=1))
            print(f"{name:<48} {_shown(cost)}  {told or ''}", flush=True)
        found: dict[str, Any] = self._known[name]
        return found


def run_size(lines: int, work: Path, measurements: Measurements, parts_count: int) -> dict[str, Any]:
    """Everything at one size, in a folder of its own below ``work``, as far as there is time."""
    folder = work / str(lines)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "papers.nq"
    if not file.exists():
        draft = folder / "papers.new"
        write_lines(draft, lines)
        draft.rename(file)
    stored = str(folder / "oxigraph")
    loads = {
        "oxigraph": measurements.of(lines, ["load", "oxigraph", str(file), stored]),
        "mirror": measurements.of(lines, ["mirror", stored]),
        "spark": measurements.of(lines, ["load", "spark", str(file), str(folder / "spark")]),
    }
    shutil.rmtree(folder / "spark", ignore_errors=True)
    _same("loads", [loads["oxigraph"], loads["spark"]], "added", "bad")
    parts = {}
    for name in list(PARTS)[:parts_count]:
        answers = {
            engine: measurements.of(lines, ["part", engine, name, stored]) for engine in ("oxigraph", "spark")
        }
        _same(name, list(answers.values()), "rows", "sum")
        parts[name] = answers
    return {"lines": lines, "loads": loads, "parts": parts}


def _same(name: str, answers: list[dict[str, Any] | None], *members: str) -> None:
    if len({tuple(each[member] for member in members) for each in answers if each is not None}) > 1:
        raise SystemExit(f"the engines differ in {name!r}")


def _shown(cost: Cost) -> str:
    return f"{cost.seconds:7.1f} s wall {cost.processor:7.1f} s processor {cost.megabytes:7.0f} MB"


def draw(figures: list[dict[str, Any]]) -> None:
    """The plots of docs/bulk.md."""
    from .plots import line_plot

    engines = {"oxigraph": "direct", "spark": "Spark", "mirror": "mirror"}
    line_plot(
        "bulk-loads",
        {label: _line(figures, "loads", engine) for engine, label in engines.items()},
        title="Processor time of a load",
        x="lines (million)",
        y="seconds",
    )
    line_plot(
        "static-parts-spark",
        {
            f"{name}, {'store' if engine == 'oxigraph' else 'Spark'}": _line(figures, "parts", name, engine)
            for name in list(PARTS)[:2]
            for engine in ("oxigraph", "spark")
        },
        title="Processor time of a static part, starts included",
        x="lines (million)",
        y="seconds",
    )


def _line(figures: list[dict[str, Any]], *path: str) -> list[tuple[float, float]]:
    """Processor time by millions of lines, of the sizes at which it was measured."""
    points = []
    for each in figures:
        cost: Any = each
        for name in path:
            cost = cost and cost.get(name)
        if cost is not None:
            points.append((each["lines"] / 1e6, cost["processor"]))
    return points


def main() -> None:
    """Measure, or be the process that is measured."""
    if sys.argv[1:2] and sys.argv[1] in WORK:
        print(json.dumps(WORK[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--parts", type=int, default=len(PARTS), help="so many of the static parts")
    parser.add_argument("--work", type=Path, help="keep data and measurements here, and go on with them")
    parser.add_argument("--minutes", type=float, help="begin no measurement later than that")
    parser.add_argument("--plots", action="store_true", help="draw the plots of the documentation")
    options = parser.parse_args()
    missing = spark_missing()
    if missing:
        raise SystemExit(missing)
    with tempfile.TemporaryDirectory(prefix="quadrill-bench-") as below:
        work: Path = (options.work or Path(below)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        measurements = Measurements(work / "measurements.json", options.minutes)
        figures = [run_size(lines, work, measurements, options.parts) for lines in options.lines]
    keep("bulk", figures)
    if options.plots:
        draw(figures)


if __name__ == "__main__":
    main()
