"""A killed compaction of a mirror: the mirror is the old or the new one, and done again it is new."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.quads.quad_store import QuadStore
from tests.store.bulk.mirrored import lines, lines_of

PROGRAM = """
import os, signal, sys
from pathlib import Path
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.quads.quad_store import QuadStore

folder, point = sys.argv[1:]

def children(parent):
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = status.read_text().rpartition(")")[2].split()
        if int(fields[1]) == parent:
            yield int(status.parent.name)

def staged(stage):
    if stage == point:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"driver in {stage}" == point:
        for child in children(os.getpid()):
            os.kill(child, signal.SIGKILL)

with QuadStore.open(folder) as store:
    make_mirror(store, Path(folder) / "mirror", memory="1g", staged=staged, compact=True)
"""


def quads(first: int, last: int, predicate: str) -> list[Quad]:
    return [
        Quad(NamedNode(f"urn:s{number}"), NamedNode(predicate), Literal(number))
        for number in range(first, last)
    ]


def wait_for_children(folder: Path) -> None:
    """A killed process leaves a child that ends by itself; nothing writes any more behind that."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        told = [each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if each.exists()]
        if not any(b"spark_child" in each and str(folder).encode() in each for each in told):
            return
        time.sleep(0.2)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
@pytest.mark.timeout(1800)
def test_a_killed_compaction_leaves_the_old_mirror_or_the_new_one_and_completes_when_run_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with QuadStore.open(folder) as store:
        store.writer.apply(add=[*quads(0, 50, "urn:kept"), *quads(0, 50, "urn:changed")])
        make_mirror(store, folder / "mirror", memory="1g")
        contents = {store.reader.version: lines_of(store)}
    for round_, point in enumerate(("merge", "write", "driver in write", "swap")):
        with QuadStore.open(folder) as store:
            store.writer.apply(
                add=quads(50 + round_, 51 + round_, "urn:changed"),
                remove=quads(round_, round_ + 1, "urn:changed"),
            )
            contents[store.reader.version] = lines_of(store)
        died = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder), point],
            check=False,
            timeout=400,
            stderr=subprocess.PIPE,
        )
        if point.startswith("driver"):
            assert b"Spark failed (exit code -9)" in died.stderr
        else:
            assert died.returncode == -signal.SIGKILL
        wait_for_children(folder)
        mirror = Mirror.open(folder / "mirror")
        assert mirror is not None
        assert lines(mirror) == contents[mirror.version]
    with QuadStore.open(folder) as store:
        store.writer.apply(add=quads(99, 100, "urn:changed"))
        compacted = make_mirror(store, folder / "mirror", memory="1g", compact=True)
        assert compacted.version == store.reader.version
        assert lines(compacted) == lines_of(store)
    assert len(list((folder / "mirror").glob("quads-*"))) <= 2
    assert not list(folder.glob("mirror-work-*"))
