"""``python -m benchmarks.recovery [ELEMENTS]``: what a checkpoint stops, how long a start takes.

One process fills the windows of two queries through the whole engine (journal, windows, native evaluation,
feeds), makes checkpoints while it goes on taking elements, and ends without a word; another one recovers the
folder. Printed are the longest time for which the engine's loop stood still, wall and CPU seconds, the size
of the file and the parts of the recovery.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.logs.journal import Journal
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry, default_url

from .latency import real_time
from .results import keep

S = "http://example.org/s"
QUERIES = {
    "rows": "PREFIX : <http://example.org/> SELECT ?x ?v WHERE { STREAM :s [RANGE 10h] { ?x :seen ?v } }",
}
BATCH = 5_000
START = 1_700_000_000_000


class Life:
    """The engine over a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = QuadStore.open(folder)
        self.registry = Registry.open(default_url(folder))
        self.journal = Journal.open(folder / "engine")
        self.engine = Engine(
            self.store,
            self.registry,
            clock=Clock(),
            settings=EngineSettings(
                checkpoint_ms=3_600_000, retention_ms=0, queue_elements=1 << 30, idle_timeout_ms=0
            ),
            journal=self.journal,
        )
        self.engine.start()

    def push(self, first: int, count: int) -> None:
        """One push of ``count`` elements of one triple each."""
        lines = [
            f"<http://example.org/x{n}> <http://example.org/seen> {n % 1000} ."
            for n in range(first, first + count)
        ]
        self.engine.streams.push(
            PushCall(S, "text/turtle", at=START + first, each="triple"), "\n".join(lines).encode()
        )


def resident_mb() -> int:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


def fill(folder: Path, elements: int) -> None:
    """Fill the windows and make checkpoints."""
    life = Life(folder)
    for name, text in QUERIES.items():
        life.engine.queries.register(Registration.from_json({"query": text}, name=name))
    began = time.perf_counter()
    for first in range(0, elements, BATCH):
        life.push(first, BATCH)
        life.engine.sync(600)
    print(f"filled in {time.perf_counter() - began:.1f} s, resident {resident_mb()} MB", flush=True)
    assert life.engine.recovery is not None
    checkpoints = life.engine.recovery.checkpoints
    for _ in range(2):
        gaps: list[float] = []
        stop = threading.Event()

        def beat(stop: threading.Event = stop, gaps: list[float] = gaps) -> None:
            while not stop.is_set():
                began = time.perf_counter()
                life.engine.sync(600)
                gaps.append(time.perf_counter() - began)
                time.sleep(0.001)

        beater = threading.Thread(target=beat)
        beater.start()
        made = checkpoints.made
        began = time.perf_counter()
        life.engine.parts.sequencer.call(lambda: checkpoints._write(in_copy=True))
        while checkpoints.made == made:
            time.sleep(0.01)
        took = time.perf_counter() - began
        stop.set()
        beater.join()
        print(
            f"checkpoint {took:.2f} s, stopped {checkpoints.stopped_s * 1000:.0f} ms, longest wait "
            f"of an input {max(gaps) * 1000:.0f} ms, {checkpoints.size / 1e6:.0f} MB",
            flush=True,
        )
        write(
            folder,
            "checkpoints",
            [
                round(checkpoints.stopped_s * 1000),
                round(max(gaps) * 1000),
                round(took, 1),
                checkpoints.size >> 20,
            ],
        )
    os._exit(0)


def recover(folder: Path) -> None:
    """Start over the folder."""
    began = time.perf_counter()
    cpu = time.process_time()
    life = Life(folder)
    assert life.engine.recovery is not None
    print(
        f"start {time.perf_counter() - began:.2f} s (CPU {time.process_time() - cpu:.2f}), "
        f"{life.engine.recovery.report}, resident {resident_mb()} MB",
        flush=True,
    )
    spent = [round(time.perf_counter() - began, 1), round(time.process_time() - cpu, 1), resident_mb()]
    write(folder, "starts", spent)
    os._exit(0)


def write(folder: Path, kind: str, line: list[float]) -> None:
    """Tell the first process."""
    with (folder / "figures").open("a") as file:
        file.write(json.dumps([kind, line]) + "\n")


def main(arguments: list[str]) -> None:
    """Both processes."""
    if arguments and arguments[0] == "fill":
        return fill(Path(arguments[1]), int(arguments[2]))
    if arguments and arguments[0] == "recover":
        return recover(Path(arguments[1]))
    elements = arguments[0] if arguments else "1000000"
    print(f"{elements} elements, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for phase in (["fill", folder, elements], ["recover", folder]):
            subprocess.run([sys.executable, "-m", "benchmarks.recovery", *phase], check=True)
        figures: dict[str, Any] = {"elements": int(elements), "real_time": real_time()}
        for line in (Path(folder) / "figures").read_text().splitlines():
            kind, spent = json.loads(line)
            figures.setdefault(kind, []).append(spent)
    keep("recovery", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
