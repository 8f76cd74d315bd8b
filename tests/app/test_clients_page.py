"""The programs of the cookbook's page on other clients print what the server has."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.app.conftest import Start
from tests.app.connectors.processes import cookbook_blocks, cookbook_commands


def test_each_program_of_the_page_reads_the_feed_or_the_store(start_server: Start) -> None:
    server = start_server()
    subprocess.run(["sh", "-ec", cookbook_commands("clients", server.url)], check=True, capture_output=True)
    programs = [
        re.sub("http://127.0.0.1:7878/", server.url, each) for each in cookbook_blocks("clients", "python")
    ]
    assert len(programs) == 5
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for program in programs
    ]
    printed = [each.communicate(timeout=60)[0] for each in running]
    assert [each.returncode for each in running] == [0] * 5
    assert ["http://example.org/a" in text for text in printed[:3]] == [True] * 3
    assert ["kitchen" in text for text in printed[3:]] == [True] * 2
