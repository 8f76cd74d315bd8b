"""Killed at named points and at random moments: nothing acknowledged is lost, nothing is half applied."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadrill.store.quads.quad_store import QuadStore

from .crash_child import PREFIX, step

pytestmark = pytest.mark.process

CHILD = Path(__file__).with_name("crash_child.py")


def run_child(
    folder: Path, point: str = "-", passes: int = 0, threads: int = 1, seconds: float | None = None
) -> list[tuple[int, int, int]]:
    """Run the child until it dies; its acknowledged (thread, number, version)."""
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), point, str(passes), str(threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if seconds is not None:
            assert child.stdout is not None
            child.stdout.readline()  # it is writing
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGKILL, err
    lines = [line.split() for line in out.splitlines() if line.startswith("ack ") and len(line.split()) == 4]
    return [(int(thread), int(number), int(version)) for _, thread, number, version in lines]


def check_folder(folder: Path, acks: list[tuple[int, int, int]], threads: int = 1) -> int:
    """Open the folder and check every promise; returns the version."""
    store = QuadStore.open(folder)
    try:
        version = store.reader.version
        assert version >= max((ack[2] for ack in acks), default=0)
        commits = list(store.commits_after(0))
        assert [commit.version for commit in commits] == list(range(1, version + 1))
        for thread in range(threads):
            found = store.reader.solutions(PREFIX + f"SELECT ?n {{ ex:t{thread} ex:n ?n }}")[1]
            assert len(found) <= 1
            last = int(found[0][0].value) if found else 0
            assert last >= max((number for owner, number, _ in acks if owner == thread), default=0)
            # All three operations of each request, or none of them.
            traces = store.reader.solutions(PREFIX + f"SELECT ?o {{ GRAPH ex:g{thread} {{ ?s ex:p ?o }} }}")[
                1
            ]
            assert sorted(int(row[0].value) for row in traces) == list(range(1, last + 1))
            blanks = store.reader.solutions(PREFIX + f"SELECT ?at {{ ?b ex:of ex:t{thread} ; ex:at ?at }}")[1]
            assert [int(row[0].value) for row in blanks] == ([last] if last else [])
        rebuilt = QuadStore.open(None)
        for commit in commits:
            rebuilt.writer.apply(
                add=commit.added, remove=commit.removed, create=commit.created, drop=commit.dropped
            )
        everything = store.reader.quads_for_pattern()
        assert set(everything) == set(rebuilt.reader.quads_for_pattern())
        assert store.reader.graph_counts() == rebuilt.reader.graph_counts()
        assert store.reader.quad_count == len(everything)
        # And it goes on.
        assert store.writer.update(step(99, 1)).version == version + 1
        store.writer.update(PREFIX + "DELETE WHERE { ex:t99 ?p ?o } ; DELETE WHERE { ?b ?p ex:t99 }")
        return store.reader.version
    finally:
        store.close()


@pytest.mark.always("*-7")
@pytest.mark.parametrize("passes", [0, 7])
@pytest.mark.parametrize("point", ["before-log", "after-log", "after-apply", "after-flush"])
def test_killed_at_a_named_point_of_a_commit(tmp_path: Path, point: str, passes: int) -> None:
    acks = run_child(tmp_path / "data", point, passes if point != "after-flush" else 0)
    if point != "after-flush":
        assert len(acks) == passes
    check_folder(tmp_path / "data", acks)


def test_killed_after_the_log_the_commit_is_made_at_the_next_start(tmp_path: Path) -> None:
    run_child(tmp_path / "data", "after-log", 3)
    store = QuadStore.open(tmp_path / "data")
    try:
        assert store.reader.version == 4, "three were acknowledged, the fourth was durable"
        assert store.reader.solutions(PREFIX + "SELECT ?n { ex:t0 ex:n ?n }")[1][0][0].value == "4"
    finally:
        store.close()


def test_killed_before_the_log_the_commit_never_was(tmp_path: Path) -> None:
    run_child(tmp_path / "data", "before-log", 3)
    store = QuadStore.open(tmp_path / "data")
    try:
        assert store.reader.version == 3
        assert store.reader.solutions(PREFIX + "SELECT ?n { ex:t0 ex:n ?n }")[1][0][0].value == "3"
    finally:
        store.close()


def test_killed_during_recovery_it_recovers_at_the_next_start(tmp_path: Path) -> None:
    acks = run_child(tmp_path / "data", "after-log", 5)
    for _ in range(2):
        run_child(tmp_path / "data", "in-recovery", 2)
    check_folder(tmp_path / "data", acks)


def test_killed_at_random_moments_with_many_writers(tmp_path: Path) -> None:
    _random_kills(tmp_path / "data", rounds=4, threads=4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    for seed in range(6):
        _random_kills(tmp_path / f"data{seed}", rounds=10, threads=1 + seed, seed=seed)


def _random_kills(folder: Path, rounds: int, threads: int, seed: int) -> None:
    chance = random.Random(seed)
    acks: list[tuple[int, int, int]] = []
    for _ in range(rounds):
        acks += run_child(folder, threads=threads, seconds=chance.uniform(0.0, 0.3))
    check_folder(folder, acks, threads)


def test_quads_that_lost_their_newest_commits_with_the_power_are_brought_up_from_the_log(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    store = QuadStore.open(folder)
    for number in range(1, 6):
        store.writer.update(step(0, number))
    # What an unsynced database may be after a power failure: an older prefix of its writes.
    store.checkpoint_quads(tmp_path / "older")
    for number in range(6, 12):
        store.writer.update(step(0, number))
    store.backup(tmp_path / "copy")  # the folder as a crash leaves it: no checkpoint mark
    store.close()
    shutil.rmtree(tmp_path / "copy" / "quads")
    shutil.copytree(tmp_path / "older", tmp_path / "copy" / "quads")
    check_folder(tmp_path / "copy", [(0, 11, 11)])


def test_a_bulk_load_cut_off_after_loading_is_counted_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    code = f"""
import os, signal
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.formats import rdf_format
def reached(point):
    if point == "after-bulk":
        os.kill(os.getpid(), signal.SIGKILL)
store = QuadStore.open({str(folder)!r}, StoreOptions(reached=reached))
store.writer.update("INSERT DATA {{ <http://a> <http://p> 0 }}")
lines = "".join(f"<http://a> <http://p> <http://o{{n}}> . " for n in range(100))
store.writer.bulk_load(lines.encode(), rdf_format("text/turtle"))
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert child.returncode == -signal.SIGKILL, child.stderr
    store = QuadStore.open(folder)
    try:
        assert store.reader.quad_count == len(store.reader.quads_for_pattern())
        loaded = store.reader.quad_count - 1
        assert loaded in (0, 100), "all or nothing"
        if loaded:
            last = list(store.commits_after(0))[-1]
            assert (store.reader.version, last.version, last.exact, last.graphs["default"].added) == (
                2,
                2,
                False,
                100,
            )
    finally:
        store.close()
