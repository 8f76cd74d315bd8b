"""Figures of benchmarks: ``benchmarks/results/NAME.json``, with the machine and command behind them."""

from __future__ import annotations

import json
import os
import platform
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


def keep(name: str, figures: Any, *, folder: Path = FOLDER) -> Path:
    """Write the figures of this run; the last run of a benchmark is the one that the report shows."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    document = {"conditions": conditions(), "figures": figures}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def kept(name: str, *, folder: Path = FOLDER) -> dict[str, Any] | None:
    """What `keep` wrote, with ``conditions`` and ``figures``; None before the first run."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def conditions() -> dict[str, Any]:
    """Command, day, machine and load of this run."""
    module = sys.modules["__main__"].__spec__
    command = (
        f"python -m {module.name.removesuffix('.__main__')}" if module is not None else Path(sys.argv[0]).name
    )
    return {
        "command": " ".join([command, *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "python": interpreter(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def interpreter() -> str:
    """Version and build of this Python: one that is not optimised takes a tenth to a quarter longer.

    Builds of distributions do not say how they were made: they are told by where they are.
    """
    if "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")):
        build = "optimised"
    else:
        build = "the system's" if sys.base_prefix == "/usr" else "built without --enable-optimizations"
    return f"{platform.python_implementation()} {platform.python_version()} ({build})"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
