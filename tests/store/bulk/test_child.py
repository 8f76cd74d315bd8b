"""The process of Spark work as its parent sees it: progress, failures, its end. No Spark is needed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from quadrill.store.bulk import LoadCancelledError, LoadError
from quadrill.store.bulk.parsing import ParseRules
from quadrill.store.bulk.sources import cut, find_sources
from quadrill.store.bulk.spark_load import run_child
from quadrill.store.bulk.spark_parse import chunk_rows, counted

pytestmark = pytest.mark.process


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that the child runs; the path of its file."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return tmp_path / "spark_stand_in.py"


def run(module: Path, code: str, **options: object) -> list[tuple[object, ...]]:
    module.write_text(code)
    told: list[tuple[object, ...]] = []
    run_child(
        [],
        module.with_name("log"),
        None,
        "1g",
        lambda *figures: told.append(figures),
        module=module.stem,
        staged=lambda stage: told.append((stage,)),
        **options,  # type: ignore[arg-type]
    )
    return told


def test_stages_and_figures_are_told_in_order(module: Path) -> None:
    code = """print('{"stage": "parse"}', flush=True)
print("some other line")
print('{"stage": "sort", "rows": 3, "bytes": 4, "bad": 5}')"""
    assert run(module, code) == [("parse",), (0, 0, 0), ("sort",), (3, 4, 5)]


def test_figures_that_are_not_told_stay_what_they_were(module: Path) -> None:
    code = """print('{"stage": "parse", "rows": 3, "bytes": 4}', flush=True)
print('{"stage": "sort"}')
print('{"bad": 1}')"""
    assert run(module, code) == [("parse",), (3, 4, 0), ("sort",), (3, 4, 0), (3, 4, 1)]


def test_rows_and_bytes_of_chunks_that_are_being_parsed_count(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file, counts = tmp_path / "a.nt", tmp_path / "counts"
    counts.mkdir()
    line = "<urn:s> <urn:p> <urn:{}> .\n"
    file.write_text("".join(line.format(number) for number in range(100_000)))
    sources = find_sources([file])
    (chunk,) = cut(sources)
    told = []
    for _ in chunk_rows(sources, chunk, ParseRules(None, None, ""), True, counts / "0"):
        told.append(counted(counts))
    assert told == sorted(told) and len(set(told)) > 2
    assert told[-1] == (100_000, file.stat().st_size)


def test_what_the_child_says_is_the_error(module: Path) -> None:
    with pytest.raises(LoadError, match="too many"):
        run(module, """print('{"error": "too many"}')""")


def test_a_child_that_fails_is_an_error_with_its_last_words(module: Path) -> None:
    with pytest.raises(LoadError, match=r"exit code 1\): ValueError: no space"):
        run(module, "raise ValueError('no space')")


def test_a_child_that_takes_too_long_is_ended_with_all_that_it_started(module: Path) -> None:
    code = """import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("PLACE", "w").write(str(child.pid))
time.sleep(60)"""
    place = module.with_name("pid")
    began = time.monotonic()
    with pytest.raises(LoadError, match=r"longer than 1\.5 s"):
        run(module, code.replace("PLACE", str(place)), seconds=1.5)
    assert time.monotonic() - began < 30
    started = Path("/proc") / place.read_text()
    while started.exists() and " Z " not in (started / "stat").read_text():
        assert time.monotonic() - began < 30, "what the child had started goes on"
        time.sleep(0.05)


def test_a_cancelled_child_is_ended(module: Path) -> None:
    def cancel(*_: int) -> None:
        raise LoadCancelledError("cancelled")

    module.write_text("""import time
print('{"rows": 1}', flush=True)
time.sleep(60)""")
    began = time.monotonic()
    with pytest.raises(LoadCancelledError):
        run_child([], module.with_name("log"), None, "1g", cancel, module=module.stem)
    assert time.monotonic() - began < 30
