"""Spark as the runtime of a job: a session, and the tasks of batches as RDD operations."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from quadrill.store.bulk.java import java_home, spark_missing
from quadrill.store.errors import ReportedError

from .inputs import InputPart
from .tasks import DRIVER, Evaluating, Reading, evaluate_part, read_part

_RETRIES = 4
"""Number of times that a task is tried, also in local mode, because a Python worker may be killed."""
ACCEPT_S = 4.0
"""Seconds within which a cluster's master must accept the job."""
GRANT_S = 3.0
"""Seconds within which a cluster's master must name a worker for an accepted job."""
_START_S = 120.0
"""Seconds within which Java, or the processes of a worker, must start on a slow machine."""
_CONNECTING, _CONNECTED, _GRANTED = (
    "Connecting to master", "Connected to Spark cluster", "Granted executor ID"
)  # fmt: skip
"""Messages of Spark's log at the steps of a start on a cluster."""
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.client.name = org.apache.spark.deploy.client
logger.client.level = info
logger.cluster.name = org.apache.spark.scheduler.cluster
logger.cluster.level = info
"""
"""The configuration of Spark's log, which has the steps of a start."""


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
        try:
            with _redirected(log):
                self._context = self._started(master)
        except BaseException:
            _kill_java()
            raise

    def _started(self, master: str) -> Any:
        found: list[Any] = []
        failed: list[BaseException] = []

        def start() -> None:
            try:
                found.append(_session(master, self.log).sparkContext)
            except BaseException as error:
                failed.append(error)

        clustered = master.startswith("spark://")
        if clustered:
            threading.Thread(target=start, daemon=True).start()
            self._wait_for_worker(master, lambda: bool(failed) or (bool(found) and _has_worker(found[0])))
        else:
            start()
        if failed:
            raise SparkFailedError(f"Spark cannot start with the master {master}: {reason_of(failed[0])}")
        return found[0]

    def _wait_for_worker(self, master: str, done: Callable[[], bool]) -> None:
        """Wait until a cluster has accepted the job and given it a worker, which Spark's log tells.

        Raises SparkFailedError if the master does not accept the job, or names no worker for it.
        """
        steps = (
            (_CONNECTING, ACCEPT_S, _CONNECTED, "did not accept the job: check spark.authenticate.secret"),
            (_CONNECTED, GRANT_S, _GRANTED, "has no free worker for the job"),
        )
        began: dict[str, float] = {}
        limit = time.monotonic() + _START_S
        while not done():
            now = time.monotonic()
            log = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
            for begin, seconds, end, message in steps:
                if begin in log and end not in log and now > began.setdefault(begin, now) + seconds:
                    raise SparkFailedError(f"the Spark master {master} {message}")
            if now > limit:
                raise SparkFailedError(f"no worker of {master} started within {_START_S:g} s")
            time.sleep(0.1)

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


def _has_worker(context: Any) -> bool:
    return bool(context._jsc.sc().getExecutorMemoryStatus().size() > 1)


def _session(master: str, log: Path) -> Any:
    """Start a session whose Java process writes to ``log`` instead of the standard streams."""
    os.environ["JAVA_HOME"] = java_home() or ""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    from pyspark.sql import SparkSession

    settings = log.with_suffix(".properties").absolute()
    settings.write_text(_LOGGING, encoding="utf-8")
    try:
        builder = (
            SparkSession.builder.master(_with_retries(master))
            .appName("quadrill run")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{settings}")
            .config("spark.driver.memory", os.environ.get("QUADRILL_SPARK_MEMORY") or "1g")
            .config("spark.task.maxFailures", str(_RETRIES))
            .config("spark.python.worker.reuse", "true")
            .config("spark.shuffle.service.removeShuffle", "true")
        )
        if master.startswith("local"):
            builder = builder.config("spark.driver.host", "localhost").config(
                "spark.driver.bindAddress", "127.0.0.1"
            )
        else:
            # Where the workers reach the driver, as for the Spark of bulk loads.
            for name, variable in (("host", "SPARK_DRIVER_HOST"), ("bindAddress", "SPARK_DRIVER_BIND")):
                if variable in os.environ:
                    builder = builder.config(f"spark.driver.{name}", os.environ[variable])
        return builder.getOrCreate()
    finally:
        settings.unlink(missing_ok=True)


@contextmanager
def _redirected(log: Path) -> Iterator[None]:
    """Let the processes that start in the block write to a log file instead of the standard streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for each in (*kept, file):
            os.close(each)


def _kill_java() -> None:
    """Kill the Java process of a session that did not start, whose regular end would take up to a minute."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkContext._active_spark_context = None
    if gateway is not None:
        gateway.proc.kill()


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
