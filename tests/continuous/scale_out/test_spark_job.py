"""``quadrill run --engine spark`` in processes of its own: answers, kills at each stage, restarts, refusals.

Each run starts a Spark of its own, because the tests kill it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quadrill.store.bulk.java import spark_missing

from . import jobs
from .test_law import QUERIES, elements

S = jobs.STREAMS[0]


@pytest.fixture
def spark() -> None:
    missing = spark_missing()
    if missing:
        pytest.skip(missing)


pytestmark = [pytest.mark.spark, pytest.mark.process]


def command(folder: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "quadrill.app.cli", "run", str(folder / "q.txt"), "--engine", "spark"),
        *("--checkpoint", str(folder / "job"), "--stream", f"{S}=files:{folder / 'in'}"),
        *("--sink", f"files:{folder / 'out'}", "--master", "local[2]", "--key-groups", "5", *more),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.txt").write_text(jobs.HEAD + QUERIES["groups by the key"])
    each = elements(random.Random(7), 240, single=False)
    for part in range(8):
        jobs.write(tmp_path / "in", f"{part}.ndjson", each[part * 30 : part * 30 + 30], part + 1)
    return tmp_path


def finish(folder: Path, *more: str) -> dict[str, int]:
    found = subprocess.run(command(folder, *more), capture_output=True, text=True, timeout=200, check=False)
    assert found.returncode == 0, found.stderr
    totals: dict[str, int] = json.loads(found.stderr.splitlines()[-1])
    return totals


def compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = jobs.reference(capsys, folder / "q.txt", {S: f"files:{folder / 'in'}"})
    assert expected
    assert jobs.answers_of(folder / "out") == expected


def test_a_job_gives_the_events_of_one_engine(
    spark: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = finish(folder, "--once", "--files-per-batch", "3")
    assert totals == {"batches": 3, "elements": 240, "late": 0, "key_groups": totals["key_groups"]}
    compare(folder, capsys)


def children(pid: int) -> Iterator[tuple[int, str]]:
    """All processes below a process, with their command lines."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError):
                continue
            if parent == pid:
                yield int(entry.name), line
                yield from children(int(entry.name))


def wait_for(what: Callable[[], bool], seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["plan", "sink", "commit"])
def test_a_killed_driver_continues(
    spark: None, stage: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = subprocess.Popen(command(folder, "--once", "--files-per-batch", "1"), stderr=subprocess.DEVNULL)
    try:
        reached = {
            "plan": lambda: (folder / "job" / "00000003.plan").exists(),
            "sink": lambda: len(list((folder / "out").glob("0000000[345]*.ndjson"))) > 0,
            "commit": lambda: (folder / "job" / "00000003.commit").exists(),
        }[stage]
        wait_for(reached)
        running.kill()
    finally:
        running.kill()
        running.wait()
    totals = finish(folder, "--once", "--master", "local[1]")
    assert totals["batches"] > 0
    compare(folder, capsys)


@pytest.mark.slow
def test_a_killed_python_worker_is_replaced(
    spark: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = subprocess.Popen(command(folder, "--once", "--files-per-batch", "1"), stderr=subprocess.DEVNULL)
    killed = 0
    try:
        wait_for(lambda: (folder / "job" / "00000001.plan").exists())
        while running.poll() is None:
            workers = [pid for pid, line in children(running.pid) if "pyspark.daemon" in line]
            for pid in workers[1:2]:
                if killed < 3:
                    killed += 1
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
        assert running.returncode == 0
    finally:
        running.kill()
        running.wait()
    assert killed
    compare(folder, capsys)


@pytest.mark.slow
def test_sigterm_ends_after_the_batch(spark: None, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = subprocess.Popen(command(folder), stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: (folder / "job" / "00000001.commit").exists())
        running.terminate()
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
    finally:
        running.kill()
        running.wait()
    assert json.loads(errors.splitlines()[-1])["elements"] == 240
    finish(folder, "--once")
    compare(folder, capsys)
