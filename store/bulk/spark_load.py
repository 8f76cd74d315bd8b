"""Parsing of the sources of a bulk load with Spark, which runs in a child process to free its memory.

    chunks of source files -> parse (one Spark task per chunk) -> deduplicate and sort -> part files

Spark runs the same parsing code as the direct pipeline, so dataset, quarantine and statistics are the same.
The output of each chunk and of each later stage is written atomically, so an interrupted load repeats only
unfinished chunks or the sorting.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..errors import StoreUnwritableError
from .direct import Advance
from .java import java_home
from .work import LoadError, LoadFolder

LOG = "spark.log"


def prepare_spark(
    work: LoadFolder,
    master: str | None,
    memory: str,
    max_bad: int | None,
    advance: Advance,
    staged: Callable[[str], None] = lambda stage: None,
) -> None:
    """Write the part files of a bulk load with Spark; `direct.prepare_direct` describes the arguments.

    ``staged`` receives the name of a stage, ``parse`` or ``sort``, before ``advance`` is called for the
    stage.

    Raises:
        LoadError: the sources have more bad lines than ``max_bad``, or Spark failed; in the second case the
            hint has the path of Spark's log.
        StoreUnwritableError: Spark's log cannot be written.
    """
    if all(work.done(chunk.index) for chunk in work.chunks):
        return
    run_child(
        ["load", str(work.folder), "-1" if max_bad is None else str(max_bad)],
        work.folder / LOG,
        master,
        memory,
        advance,
        staged=staged,
    )


def run_child(
    arguments: list[str],
    log: Path,
    master: str | None,
    memory: str,
    advance: Advance,
    *,
    module: str = "quadrill.store.bulk.spark_child",
    seconds: float | None = None,
    staged: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Run a child process that uses Spark, report its progress, and return its last progress values.

    The Spark child process is killed if it runs for more than ``seconds``.

    Raises:
        LoadError: the Spark child process failed, or ran longer than ``seconds``.
        StoreUnwritableError: the log file of the Spark child process cannot be written.
    """
    began = time.monotonic()
    environment = os.environ | {
        "JAVA_HOME": java_home() or "",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "QUADRILL_SPARK_MASTER": master or "",
        "QUADRILL_SPARK_MEMORY": memory,
    }
    try:
        errors = log.open("wb")
    except OSError as error:
        raise StoreUnwritableError(f"{log} cannot be written: {error.strerror}") from error
    with errors:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,  # the Spark process exits when its input ends, that is, with this process
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        timer = None if seconds is None else threading.Timer(seconds, _end, [child])
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            last = _follow(child, advance, staged)
            code = child.wait()
        finally:
            if timer is not None:
                timer.cancel()
            if child.poll() is None:
                _end(child)
                child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
    if "error" in last:
        raise LoadError(last["error"])
    if code and seconds is not None and time.monotonic() - began >= seconds:
        raise LoadError(f"Spark took longer than {seconds:g} s", hint=f"Its log is {log}.")
    if code:
        raise LoadError(f"Spark failed (exit code {code}): {_last_line(log)}", hint=f"Its log is {log}.")
    return last


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child process and, on systems with process groups, also its own child processes."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _follow(
    child: subprocess.Popen[bytes], advance: Advance, staged: Callable[[str], None]
) -> dict[str, Any]:
    # A child's progress report contains only changed values; the other values are those of earlier reports.
    last: dict[str, Any] = {}
    stream: IO[bytes] | None = child.stdout
    assert stream is not None
    for line in stream:
        if line.startswith(b"{"):
            report = json.loads(line)
            last |= report
            if "stage" in report:
                staged(report["stage"])
            advance(last.get("rows", 0), last.get("bytes", 0), last.get("bad", 0))
    return last


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [each for each in lines if "Error" in each or "Exception" in each]
    return (errors or lines or ["no message"])[-1][:300]
