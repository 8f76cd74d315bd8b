"""Session, progress reports and termination of Spark child processes.

Reports are lines of JSON on standard output. The process ends when its standard input does: that is its
parent's end. Only the DataFrame API is used, so a cluster does as well as local mode; its workers need this
package and the folders under the same paths.
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
        .config("spark.sql.caseSensitive", "true")  # as variables are
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )


def finish(spark: Any) -> None:
    """Stop Spark; nothing of it is left."""
    spark.stop()


def tell(**report: Any) -> None:
    """Report progress to the parent process."""
    print(json.dumps(report), flush=True)


def uri(path: Path) -> str:
    """Return a local path as a URI without encoded characters, as Spark requires."""
    return f"file://{path.absolute()}"


def end_with_parent() -> None:
    """End this process when its standard input ends, that is, when the parent ended."""
    while os.read(0, 1):  # not sys.stdin, whose lock would be held at the end of the interpreter
        pass
    os._exit(1)
