"""Every scenario file is a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.continuous.engine import MakeEvaluator

from .engines import reference_evaluator
from .scenarios import read, run

FOLDER = Path(__file__).parent.parent / "scenarios"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.rsp")), ids=lambda path: path.stem)
@pytest.mark.parametrize("make", [None, reference_evaluator], ids=["native", "reference"])
def test_the_scenario_tells_what_it_says(path: Path, make: MakeEvaluator | None) -> None:
    run(read(path), make)


def test_there_are_scenarios_for_every_window_and_output() -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.rsp"))
    for word in (
        "[NOW]",
        "[ALL]",
        "[RANGE ",
        "SLIDE",
        "STEP",
        "[TRIPLES",
        "RANGE TRIPLES",
        "ELEMENTS",
        '"dstream"',
        '"changes"',
        "RSTREAM",
        "ISTREAM",
        "COMPUTED EVERY",
        "CONSTRUCT",
        "ASK",
        "LATENESS",
        "FROM NAMED",
    ):
        assert word in texts, word
