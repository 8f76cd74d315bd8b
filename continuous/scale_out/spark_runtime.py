"""Spark as the runtime of a job: a session, and the tasks of batches as RDD operations."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from quadrill.store.bulk.java import java_home, spark_missing
from quadrill.store.errors import ReportedError

from .inputs import InputPart
from .tasks import DRIVER, Evaluating, Reading, evaluate_part, read_part

_RETRIES = 4
"""Number of times that a task is tried, also in local mode, because a Python worker may be killed."""
START_S = 9.0
"""Seconds within which a cluster must have accepted the job and given it a worker."""


class SparkFailedError(ReportedError):
    """Error that Spark cannot start, or that a task failed."""

    code = "spark"


def check_installed() -> None:
    """Raise SparkFailedError if Java or PySpark is missing."""
    missing = spark_missing()
    if missing is not None:
        raise SparkFailedError(missing)


def check_master(master: str) -> None:
    """Raise SparkFailedError if no master of a cluster can be reached."""
    if not master.startswith("spark://"):
        return
    addresses = master[len("spark://") :].split(",")
    for each in addresses:
        host, _, port = each.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), timeout=2):
            return
    raise SparkFailedError(f"no Spark master answers at {master}")


class SparkRuntime:
    """One Spark session, whose messages go to a log file."""

    def __init__(self, master: str, log: Path) -> None:
        """Start Spark; raises SparkFailedError within some seconds if it cannot start."""
        check_installed()
        check_master(master)
        self.log = log
        self._context = self._started(master)

    def _started(self, master: str) -> Any:
        found: list[Any] = []
        failed: list[BaseException] = []

        def start() -> None:
            try:
                found.append(_session(master, self.log).sparkContext)
            except BaseException as error:
                failed.append(error)

        if not master.startswith("spark://"):
            start()
        else:
            thread = threading.Thread(target=start, daemon=True)
            thread.start()
            thread.join(START_S)
        if failed:
            raise SparkFailedError(f"Spark cannot start with the master {master}: {reason_of(failed[0])}")
        if not found:
            raise SparkFailedError(f"the Spark master {master} did not accept the job within {START_S:g} s")
        return found[0]

    @property
    def partitions(self) -> int:
        """The number of tasks that run at once."""
        return int(self._context.defaultParallelism)

    def read(self, work: Reading, parts: Sequence[InputPart]) -> tuple[Any, list[dict[str, Any]]]:
        """Read parts; return a handle of the rows, and the figures of the parts."""
        from pyspark import StorageLevel

        slices = max(1, min(len(parts), 4 * self.partitions))
        read = self._context.parallelize(list(parts), slices).mapPartitions(partial(read_part, work))
        read.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return read, read.filter(_is_figure).map(_value).collect()
        except Exception as error:
            raise SparkFailedError(
                f"Spark failed: {reason_of(error)}", hint=f"Its log is {self.log}."
            ) from error

    def evaluate(self, work: Evaluating, rows: Any) -> list[dict[str, Any]]:
        """Evaluate all partitions; return their results."""
        if rows is None:
            given = self._context.parallelize([], work.partitions)
        else:
            given = rows.filter(_is_row).partitionBy(work.partitions, _itself)
        try:
            found: list[dict[str, Any]] = given.mapPartitionsWithIndex(partial(evaluate_part, work)).collect()
        except Exception as error:
            raise SparkFailedError(
                f"Spark failed: {reason_of(error)}", hint=f"Its log is {self.log}."
            ) from error
        return found

    def release(self, rows: Any) -> None:
        """Release the rows of a batch."""
        if rows is not None:
            rows.unpersist()

    def stop(self) -> None:
        """Stop Spark and its processes."""
        with suppress(Exception):
            self._context.stop()


def _session(master: str, log: Path) -> Any:
    """Start a session whose Java process writes to ``log`` instead of the standard streams."""
    os.environ["JAVA_HOME"] = java_home() or ""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    from pyspark.sql import SparkSession

    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    try:
        builder = (
            SparkSession.builder.master(_with_retries(master))
            .appName("quadrill run")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "WARN")
            .config("spark.driver.memory", os.environ.get("QUADRILL_SPARK_MEMORY") or "1g")
            .config("spark.task.maxFailures", str(_RETRIES))
            .config("spark.python.worker.reuse", "true")
            .config("spark.shuffle.service.removeShuffle", "true")
        )
        if master.startswith("local"):
            builder = builder.config("spark.driver.host", "localhost").config(
                "spark.driver.bindAddress", "127.0.0.1"
            )
        secret = os.environ.get("QUADRILL_SPARK_SECRET")
        if secret:
            builder = builder.config("spark.authenticate", "true").config("spark.authenticate.secret", secret)
        return builder.getOrCreate()
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for each in (*kept, file):
            os.close(each)


def _with_retries(master: str) -> str:
    """Return a local master that tries a failed task again.

    >>> _with_retries("local[2]"), _with_retries("local"), _with_retries("spark://h:7077")
    ('local[2,4]', 'local[1,4]', 'spark://h:7077')
    """
    if master == "local":
        return f"local[1,{_RETRIES}]"
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{_RETRIES}]", master)


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure of Spark in one line, without its stack trace."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("\tat", "  File"))
    ]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    found = (named or lines or [type(error).__name__])[-1 if named else 0]
    return found[:300]


def _is_figure(record: tuple[int, Any]) -> bool:
    return record[0] == DRIVER


def _is_row(record: tuple[int, Any]) -> bool:
    return record[0] != DRIVER


def _value(record: tuple[int, Any]) -> Any:
    return record[1]


def _itself(partition: int) -> int:
    return partition
