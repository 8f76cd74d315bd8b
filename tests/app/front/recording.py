"""Records the requests again: ``python -m tests.app.front.recording [SCENARIO …]``.

Each scenario runs twice, and is written only if both runs agree.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .replay import RECORDED, differences, run, write
from .scenarios import all_scenarios


def main(names: list[str]) -> int:
    """Record the scenarios named, all without a name; return how many did not repeat."""
    unstable = 0
    scenarios = [scenario for scenario in all_scenarios() if not names or scenario.name in names]
    if not names:
        for file in RECORDED.glob("*.jsonl"):
            file.unlink()
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            outcome = run(scenario, Path(first))
            found = [*differences(scenario, outcome, run(scenario, Path(second), outcome))]
        print(
            f"{scenario.name}: {sum(map(len, outcome.answers))} answers",
            *(text[:1500] for text in found[:6]),
            sep="\n  ",
        )
        unstable += bool(found)
        write(scenario, outcome)
    return unstable


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
