"""A long steady run against a real server: memory, files and latency have to stay flat.

Run: ``make soak``, or ``python -m benchmarks.soak [--minutes 30] [--pushes 10] [--elements 20] [--seed N]
[--keep FILE]``. Needs the extra ``bench``. The load, all of it random from ``--seed``:

    pushes          so many a second to three streams, arrival-stamped, with new IRIs all the time
    probe           five pushes a second with the time of sending; a subscriber that stays tells their age
    commits         one update a second over a bounded set of subjects
    registrations   a query comes and the oldest goes, every five seconds; one is paused, resumed, replayed
    clients         an event stream is opened, resumed from its last id and left, twice a second

Every ten seconds one line: resident memory, threads, open files, files and bytes in the data folder, push to
event p50 and p99 of the interval, load of the machine. At the end the second half is compared with the
first, the points go to a file with ``--keep``, and the plot to ``docs/plots/soak.svg``. Fails when a request
got an answer it should not get, an id came twice or was skipped, or memory or files grew.

``make soak HOURS=4``, or ``python -m benchmarks.soak --hours 4``, runs another load (``soak_hours.py``)
with the default settings: 182 pushes a second of terms that never come again, 5 updates a second, 19
queries and 5 feeds. It prints a line a minute and fails when resident memory grows by 2 % or more from the
middle of the run to its end; with four hours the middle is an hour after `retention` has passed.
``--set retention=3m`` changes a setting for a shorter run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .soak_hours import LongLoad
from .soak_load import Load, SoakError

# Bounds that are reached within minutes, so that what grows after them grows for ever.
BOUNDS = {"retention": "2m", "input_log_bytes": str(32 << 20), "feed_history": "500"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of the server. Memory (PSS) and bytes are MB, latencies ms over the interval."""

    minutes: float
    memory: float
    threads: int
    open_files: int
    files: int
    megabytes: float
    p50: float
    p99: float
    load: float


def _assignment(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


_AS_WRITTEN = argparse.RawDescriptionHelpFormatter


def look(process: int, folder: Path, ages: deque[float], began: float) -> Sample:
    """The server of this moment with its processes, and the latencies since the last look."""
    family = [each for each in map(_process, [process, *_children(process)]) if each is not None]
    found = [ages.popleft() for _ in range(len(ages))]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return Sample(
        minutes=round((time.monotonic() - began) / 60, 3),
        memory=round(sum(each[0] for each in family) / 1024, 1),
        threads=sum(each[1] for each in family),
        open_files=sum(each[2] for each in family),
        files=len(files),
        megabytes=round(sum(_size(path) for path in files) / 1e6, 2),
        p50=round(statistics.median(found), 2) if found else float("nan"),
        p99=round(sorted(found)[int(len(found) * 0.99)], 2) if found else float("nan"),
        load=round(os.getloadavg()[0], 2),
    )


def _process(number: int) -> tuple[int, int, int] | None:
    """KB of memory, threads and open files of a process; None when it has ended.

    Pages that several processes share count once in all (PSS): a copy of the server writes each checkpoint.
    """
    folder = Path(f"/proc/{number}")
    try:
        lines = [*folder.joinpath("smaps_rollup").read_text("ascii").splitlines()[1:]]
        lines += folder.joinpath("status").read_text("ascii").splitlines()
        figures = dict(line.split(":", 1) for line in lines if ":" in line)
        return int(figures["Pss"].split()[0]), int(figures["Threads"]), len(os.listdir(folder / "fd"))
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return None


def _children(process: int) -> list[int]:
    """The processes that the server has started: the writer of event streams, workers."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [int(each) for each in task.read_text(encoding="ascii").split()]
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # forgotten in the meantime
        return 0


@contextmanager
def server(folder: Path, bounds: Mapping[str, str] = BOUNDS) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of its own process over a data folder: its address and the process."""
    command = [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", str(folder), "--port", "0"]
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in bounds.items()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready at " not in line:
            raise SoakError(f"the server did not start: {line!r}")
        yield line.split("ready at ")[1].strip(), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def run(options: argparse.Namespace) -> tuple[list[Sample], Load]:
    """Load a server for so long and look at it every ten seconds."""
    folder = Path(tempfile.mkdtemp(prefix="quadrill-soak-"))
    samples: list[Sample] = []
    try:
        bounds = {} if options.hours else BOUNDS
        with server(folder / "data", {**bounds, **dict(options.set)}) as (url, process):
            load = (LongLoad if options.hours else Load)(url, options)
            began = time.monotonic()
            threads = load.start()
            print("  ".join(f"{name:>10}" for name in Sample.__dataclass_fields__), flush=True)
            while not load.stopping.wait(options.every):
                samples.append(look(process.pid, folder, load.ages, began))
                print("  ".join(f"{value:>10}" for value in asdict(samples[-1]).values()), flush=True)
                if time.monotonic() - began >= options.minutes * 60:
                    load.stopping.set()
            for thread in threads:
                thread.join(5)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return samples, load


def grown(samples: Sequence[Sample], warm_minutes: float) -> list[str]:
    """What the last third has more of than the middle one, without the time before ``warm_minutes``."""
    steady = [sample for sample in samples if sample.minutes >= warm_minutes]
    third = len(steady) // 3
    if third < 3:
        return []
    found = []
    for name, allowed in (("memory", 1.10), ("open_files", 1.25), ("files", 1.25), ("threads", 1.25)):
        middle = statistics.median(getattr(sample, name) for sample in steady[third : 2 * third])
        end = statistics.median(getattr(sample, name) for sample in steady[2 * third :])
        print(f"{name}: {middle:g} in the middle third, {end:g} in the last")
        if end > middle * allowed:
            found.append(f"{name} grew from {middle:g} to {end:g}")
    return found


def grown_by_half(samples: Sequence[Sample]) -> list[str]:
    """Whether resident memory at the end is 2 % or more above that of the middle of the run.

    Both are medians over a tenth of the run, because memory swings with each checkpoint.
    """
    tenth = max(1, len(samples) // 10)
    half = len(samples) // 2
    middle = statistics.median(sample.memory for sample in samples[half : half + tenth])
    end = statistics.median(sample.memory for sample in samples[-tenth:])
    growth = end / middle - 1
    print(f"memory: {middle:g} MB in the middle of the run, {end:g} at its end ({growth:+.1%})")
    return [f"memory grew by {growth:.1%} in the second half"] if growth >= 0.02 else []


def plot(samples: Sequence[Sample], minutes: float) -> Path:
    """The plot of the documentation."""
    from .plots import line_plot

    lines: dict[str, Callable[[Sample], float]] = {
        "resident memory (MB)": lambda sample: sample.memory,
        "data folder (MB)": lambda sample: sample.megabytes,
        "open files": lambda sample: sample.open_files,
        "files in the data folder": lambda sample: sample.files,
        "push to event, p99 (ms)": lambda sample: sample.p99,
        "push to event, p50 (ms)": lambda sample: sample.p50,
    }
    series = {
        label: [(sample.minutes, value) for sample in samples if (value := figure(sample)) > 0]
        for label, figure in lines.items()
    }
    title = f"A server under steady load for {minutes:g} minutes"
    return line_plot("soak", series, title=title, x="minutes", y="", log_y=True)


def main(arguments: list[str] | None = None) -> int:
    """Soak, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_WRITTEN)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--hours", type=float, help="run the long load with the default settings")
    parser.add_argument("--pushes", type=float, help="pushes a second: 10, with --hours 182")
    parser.add_argument("--elements", type=int, help="new subjects of one push: 20, with --hours 2")
    parser.add_argument("--updates", type=float, default=5.0, help="updates a second with --hours")
    parser.add_argument("--every", type=float, help="seconds between two samples: 10, with --hours 60")
    parser.add_argument("--set", type=_assignment, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep", type=Path, help="write the points there as JSON")
    parser.add_argument("--no-plot", action="store_true")
    options = parser.parse_args(arguments)
    options.pushes = options.pushes or (182.0 if options.hours else 10.0)
    options.elements = options.elements or (2 if options.hours else 20)
    options.every = options.every or (60.0 if options.hours else 10.0)
    options.minutes = options.hours * 60 if options.hours else options.minutes
    print(f"seed {options.seed}; {os.cpu_count()} cores", flush=True)
    samples, load = run(options)
    print(", ".join(f"{number} {name}" for name, number in sorted(load.done.items())))
    if options.keep is not None:
        document: dict[str, Any] = {"done": dict(load.done), "samples": [asdict(each) for each in samples]}
        options.keep.write_text(json.dumps(document), encoding="utf-8")
    problems = [f"{type(failure).__name__}: {failure}" for failure in load.failures]
    problems += grown_by_half(samples) if options.hours else grown(samples, min(5.0, options.minutes / 6))
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems and not options.no_plot and not options.hours:
        print(f"drawn: {plot(samples, options.minutes)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
