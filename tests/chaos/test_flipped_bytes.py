"""Whatever byte of a data folder is damaged: a start gives the same, or is refused, or tells what is gone.

A folder of a real run, as a killed server leaves it and as a stopped one does, is copied for each case,
damaged in one place and opened. ``QUADRILL_CHAOS_SEEDS``: how many cases of a kind there are for each file.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .damaged_folder import KINDS, Case, files_of, judge, make_folder, seen_of

ALLOWED = {"same", "refused", "told", "reset"}
SEEDS = int(os.environ.get("QUADRILL_CHAOS_SEEDS", "3"))
FIXED = [
    Case("engine/input/*.log", "bytes", 1),
    Case("engine/input/*.log", "bit", 2),
    Case("engine/input/*.log", "cut", 3),
    Case("engine/input/*.log", "gone", 0),
    Case("engine/input.mark", "bytes", 1),
    Case("engine/checkpoint", "bit", 1),
    Case("engine/checkpoint", "gone", 0),
    Case("engine/results.sqlite*", "zeros", 1),
    Case("engine/results.sqlite*", "gone", 0),
    Case("engine/tables.sqlite*", "zeros", 1),
    Case("changes.sqlite*", "bit", 1),
    Case("changes.sqlite*", "bytes", 2),
    Case("changes.sqlite*", "gone", 0),
    Case("registry.sqlite*", "bit", 1),
    Case("registry.sqlite*", "bytes", 2),
    Case("registry.sqlite*", "gone", 0),
    Case("quads/*.sst", "bytes", 1),
    Case("quads/*.log", "cut", 1),
    Case("quads/MANIFEST-*", "bit", 1),
    Case("quads/CURRENT", "gone", 0),
    Case("FORMAT", "bit", 1),
]
"""For every run of the tests; a pattern names the largest file that it fits."""


class Made(NamedTuple):
    """A folder, and what is seen of it when nothing is damaged."""

    folder: Path
    expected: dict[str, Any]


@pytest.fixture(scope="module", params=["killed", "stopped"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp(request.param)
    make_folder(base / "data", closed=request.param == "stopped")
    whole = Case("LOCK", "bit", 0)
    copies = [whole.copy_of(base / "data", base) for _ in range(2)]
    expected, again = map(seen_of, copies)
    assert expected["told"] is None and expected == again, "an undamaged folder gives the same each time"
    return Made(base / "data", expected)


@pytest.mark.always("killed-*")
@pytest.mark.parametrize("case", FIXED, ids=lambda case: f"{case.what} of {case.file}")
def test_a_damaged_file_is_never_silently_less(made: Made, tmp_path: Path, case: Case) -> None:
    found = sorted(made.folder.glob(case.file), key=lambda path: path.stat().st_size)
    found = [path for path in found if path.stat().st_size and not path.name.endswith("-shm")]
    if not found:
        pytest.skip("there is no such file in this folder")
    case = Case(found[-1].relative_to(made.folder).as_posix(), case.what, case.seed)
    verdict = judge(made.folder, tmp_path, case, made.expected)
    assert verdict.split(":")[0] in ALLOWED, f"{case}: {verdict}"


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_no_damage_of_any_file_is_silently_less(made: Made, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    wrong = []
    for file in files_of(made.folder):
        for what in KINDS:
            for seed in range(SEEDS if what != "gone" else 1):
                case = Case(file, what, seed)
                verdict = judge(made.folder, tmp_path, case, made.expected)
                tally[verdict.split(":")[0]] += 1
                if verdict.split(":")[0] not in ALLOWED:
                    wrong.append(f"{case}: {verdict}")
    print(dict(tally))
    assert not wrong, "\n".join(wrong)
    assert sum(tally.values()) >= 150
