"""The commands of the page on rules print what the page states."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.app.conftest import Start

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "rules.md"
BLOCK = re.compile(r"```(sh|text)\n(.*?)```", re.DOTALL)


def test_commands_of_the_page_print_the_stated_answers(start_server: Start) -> None:
    server = start_server()
    printed, stated = "", 0
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "text":
            assert printed.endswith(text), text
            stated += 1
            continue
        commands = text.replace("http://127.0.0.1:7878/", server.url).replace("curl ", "curl -sSf ")
        done = subprocess.run(["sh", "-ec", commands], capture_output=True, text=True, check=True)
        printed = done.stdout.replace("\r", "")
    assert stated == 3
    assert server.client.get("/rules/family").json()["strata"] == [[0], [1]]
