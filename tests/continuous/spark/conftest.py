"""The Spark session that all tests of this folder share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from quadrill.store.bulk.java import java_home, spark_missing


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A small local session."""
    missing = spark_missing()
    if missing:
        pytest.skip(missing)
    from quadrill.store.bulk.spark_session import session

    os.environ["JAVA_HOME"] = java_home() or ""
    # Workers run our functions: with the Python that has them, not the first one of the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["QUADRILL_SPARK_MEMORY"] = "1g"
    made = session()
    made.conf.set("spark.sql.shuffle.partitions", "2")
    made.conf.set("spark.sql.adaptive.enabled", "false")
    yield made
    made.stop()
