"""What all tests have in common."""

import gc
import os

import pytest

# Spark's processes live for seconds here: compiling their code well costs more than it gains.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collecting thousands of tests made stays: no search for garbage looks through it again."""
    gc.collect()
    gc.freeze()
