"""A load whose process is killed: the store is the old or the new one, and running it again completes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.bulk.java import spark_missing
from quadrill.store.quads.quad_store import QuadStore
from tests.program import Program

pytestmark = pytest.mark.process
ROWS = 3_000
PROGRAM = """
import os, signal, sys
from pathlib import Path
from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

folder, file, engine, point = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def report(progress):
    if progress.stage == point and (progress.rows or engine == "spark"):
        die()
    if point == f"driver in {progress.stage}":
        for child in children(os.getpid()):
            os.kill(child, signal.SIGKILL)

def children(parent):
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = status.read_text().rpartition(")")[2].split()
        if int(fields[1]) == parent:
            yield int(status.parent.name)

if point == "closing":
    import quadrill.store.bulk.work as work
    work.Work.close = die
with QuadStore.open(folder, StoreOptions(reached=lambda name: die() if name == point else None)) as store:
    options = LoadOptions((file,), engine=engine, exact_bytes=0, memory="1g")
    BulkLoader(store, Path(folder) / "loads").run(options, report=report)
"""


def killed_then_run_again(tmp_path: Path, engine: str, point: str) -> None:
    file = tmp_path / "a.nq"
    file.write_text("".join(f"_:s{n} <urn:p> <urn:o{n}> <urn:g> .\n" for n in range(ROWS)) + "bad\n")
    folder = tmp_path / "data"
    with QuadStore.open(folder) as store:
        store.writer.update("INSERT DATA { <urn:before> <urn:p> 1 }")
    died = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(file), engine, point],
        check=False,
        timeout=200,
        stderr=subprocess.PIPE,
    )
    if point.startswith("driver"):
        assert b"Spark failed (exit code -9)" in died.stderr
    else:
        assert died.returncode == -signal.SIGKILL
    with QuadStore.open(folder) as store:
        assert store.reader.quad_count in (1, ROWS + 1)
        assert sum(store.reader.graph_counts().values()) == len(store.reader.quads_for_pattern())
        options = LoadOptions((str(file),), engine=engine, exact_bytes=0, memory="1g")
        summary = BulkLoader(store, folder / "loads").run(options)
        assert summary.resumed
        assert (summary.rows, summary.bad) == (ROWS, 1)
        assert store.reader.quad_count == len(store.reader.quads_for_pattern()) == ROWS + 1


@pytest.mark.always("commit", "after-bulk")
@pytest.mark.parametrize("point", ["parse", "commit", "after-bulk", "closing"])
def test_a_killed_direct_load_leaves_old_or_new_and_completes_when_run_again(
    tmp_path: Path, point: str
) -> None:
    killed_then_run_again(tmp_path, "oxigraph", point)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "point", ["parse", "sort", "commit", "after-bulk", "closing", "driver in parse", "driver in sort"]
)
def test_a_killed_spark_load_leaves_old_or_new_and_completes_when_run_again(
    tmp_path: Path, point: str
) -> None:
    killed_then_run_again(tmp_path, "spark", point)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
def test_a_killed_spark_load_does_not_parse_finished_files_again(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in "ab":
        (tmp_path / f"{name}.nt").write_text(
            "".join(f"<urn:{name}{n}> <urn:p> <urn:o> .\n" for n in range(10))
        )
    folder = tmp_path / "data"
    pattern = str(tmp_path / "*.nt")
    died = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), pattern, "spark", "sort"], check=False, timeout=200
    )
    assert died.returncode == -signal.SIGKILL
    first, second = sorted((folder / "loads").glob("*/parsed/0*.parquet"))
    # One file is lost, of the other a row: a second run parses the first again and takes the other as it is.
    first.unlink()
    rows = parquet.read_table(second)
    parquet.write_table(rows.slice(1), second)
    with QuadStore.open(folder) as store:
        options = LoadOptions((pattern,), engine="spark", memory="1g")
        summary = BulkLoader(store, folder / "loads").run(options)
        assert summary.resumed
        assert summary.rows == store.reader.quad_count == 19


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.4, 0.8, 1.6])
def test_a_server_killed_at_any_time_of_a_load_has_the_old_store_or_the_new_one(
    tmp_path: Path, delay: float
) -> None:
    rows = 60_000
    (tmp_path / "a.nq").write_text(
        "".join(f"_:s{n} <urn:p> <urn:o{n}> <urn:g{n % 3}> .\n" for n in range(rows)) + "bad\n"
    )
    folder = tmp_path / "data"
    with QuadStore.open(folder) as store:
        store.writer.update("INSERT DATA { <urn:before> <urn:p> 1 }")
    arguments = ["serve", "--data", str(folder), "--port", "0"]
    environment = os.environ | {"QUADRILL_LOAD_FOLDERS": str(tmp_path)}
    server = Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().decode().split()[-1]
        asked = httpx.post(f"{address}loads", json={"source": "a.nq", "engine": "oxigraph"})
        assert asked.status_code == 202
        time.sleep(delay)
    finally:
        server.kill()
        server.communicate()
    with QuadStore.open(folder) as store:
        before = store.reader.quad_count
        assert before in (1, rows + 1)
        assert (
            len(store.reader.quads_for_pattern())
            == sum(store.reader.graph_counts().values())
            == store.reader.quad_count
        )
        options = LoadOptions((str(tmp_path / "a.nq"),), engine="oxigraph")
        summary = BulkLoader(store, folder / "loads").run(options)
        assert (summary.rows, summary.bad) == (rows, 1)
        # A load that had ended is done once more, with blank nodes of its own.
        times = 2 if before > 1 and not summary.resumed else 1
        assert store.reader.quad_count == times * rows + 1
