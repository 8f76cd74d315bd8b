"""Session, progress reports and termination of Spark child processes.

A Spark child process writes each progress report as a line of JSON to its standard output. A Spark child
process ends when its standard input ends, because this happens when its parent process ends. Child processes
use only the DataFrame API of Spark, so Spark can run locally or on a cluster. The workers of a Spark cluster
need this package, and the data folders under the same paths.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def session() -> Any:
    """Create a Spark session configured by environment variables; local mode uses all cores."""
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    return (
        SparkSession.builder.master(os.environ.get("QUADRILL_SPARK_MASTER") or f"local[{cores}]")
        .appName("quadrill")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.bindAddress", os.environ.get("SPARK_DRIVER_BIND", "127.0.0.1"))
        .config("spark.driver.host", os.environ.get("SPARK_DRIVER_HOST", "127.0.0.1"))
        .config("spark.driver.memory", os.environ.get("QUADRILL_SPARK_MEMORY") or "2g")
        .config("spark.sql.shuffle.partitions", str(4 * cores))
        .config("spark.sql.caseSensitive", "true")  # column names are SPARQL variables
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )


def finish(spark: Any) -> None:
    """Stop the Spark session and its processes."""
    spark.stop()


def tell(**report: Any) -> None:
    """Report progress values to the parent process as a line of JSON."""
    print(json.dumps(report), flush=True)


def uri(path: Path) -> str:
    """Return a local path as a file URI without percent-encoding, as Spark requires."""
    return f"file://{path.absolute()}"


def end_with_parent() -> None:
    """Wait until standard input ends, which happens at the parent's end, and exit this process."""
    # Bytes are read without sys.stdin, because its lock would be held when the interpreter ends.
    while os.read(0, 1):
        pass
    os._exit(1)
