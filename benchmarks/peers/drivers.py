"""Runs a workload of a grid on rsp-rs or RSP-JS, each in a process of its own with a driver that is here."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .rows import Row, of_debug, of_object
from .tools import FOLDER, HERE, RSP_JS, RSP_RS, Peer
from .workloads import ONE, Workload

PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Driven:
    """Elements timed, CPU seconds of the process, wall clock seconds, and the rows of the timed part."""

    elements: int
    cpu: float
    wall: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Driver:
    """A peer, the command before and behind the common arguments, and how it writes a row."""

    peer: Peer
    before: Sequence[str]
    behind: Sequence[str]
    row: Callable[[str], Row]

    def run(self, work: Workload, items: int, given: str) -> Driven:
        """The workload with elements ``given`` as ready ``terms`` or as ``bytes``."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "query").write_text(work.queries[0], "utf-8")
            (folder / "static").write_text(work.static_triples(), "utf-8")
            elements = work.elements(work.filling + items)
            (folder / "elements").write_text(
                "".join(f"{each.at}\t{each.line}\n" for each in elements), "utf-8"
            )
            files = [str(folder / name) for name in ("query", "static", "elements")]
            command = [*self.before, *files, ONE, str(work.begin), given, "rows", *self.behind]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        head, *lines = done.stdout.splitlines()
        number, cpu, wall, _ = head.split()
        return Driven(int(number), float(cpu), float(wall), tuple(map(self.row, lines)))


DRIVERS = (
    Driver(RSP_RS, (str(RSP_RS.made),), (), of_debug),
    Driver(RSP_JS, ("node", str(HERE / "rsp-js" / "driver.js")), (str(FOLDER / "rsp-js"),), of_object),
)
