"""``python -m benchmarks [NAME ...]``: runs the named benchmarks, all of them without a name.

Each prints its own table: ratios measured side by side in one run. Some keep their figures in
``benchmarks/results/``, from which docs/performance.md and its plots are then written (`benchmarks.report`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Modules that only help others.
PARTS = {
    "__init__",
    "__main__",
    "challenge",
    "conference",
    "drive",
    "plots",
    "polling",
    "report",
    "report_peers",
    "report_server",
    "report_static",
    "request_cost",
    "results",
    "speed",
    "taxi",
}
# Takes half an hour: `make soak`. Repeats parts of others: `make targets`. Two versions: `make ratios`.
APART = {"ratios", "soak", "targets"}


def names() -> list[str]:
    """The benchmarks that can be run."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in PARTS | APART)


def main(arguments: list[str]) -> int:
    """Runs them one after the other, each in a process of its own; the number of those that failed."""
    unknown = set(arguments) - set(names())
    if unknown:
        print(
            f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(names())}", file=sys.stderr
        )
        return 2
    failed = 0
    for name in arguments or names():
        print(f"== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode != 0
    failed += subprocess.run([sys.executable, "-m", "benchmarks.report"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
