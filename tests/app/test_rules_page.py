"""The commands of the pages on rules print what the pages state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.conftest import LiveServer, Start

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```(sh|text)\n(.*?)```", re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the pages need curl")


def run_page(name: str, server: LiveServer) -> int:
    """Run the commands of a page; check and count the stated outputs, in which the times may be others."""
    stated, printed = 0, ""
    for kind, text in BLOCK.findall((DOCS / name).read_text("utf-8")):
        if kind == "sh":
            printed = run(text, server)
            continue
        assert TIME.sub("TIME", printed).endswith(TIME.sub("TIME", text)), f"{text}\n{printed}"
        stated += 1
    return stated


def run(commands: str, server: LiveServer) -> str:
    """Run shell commands against a server, and return what they print."""
    ours = commands.replace("http://127.0.0.1:7878/", server.url)
    ours = ours.replace("curl ", "curl -sS --fail-with-body ")
    ours = re.sub("^quadrill ", f"{sys.executable} -m quadrill.app.cli ", ours, flags=re.MULTILINE)
    environment = os.environ | {"QUADRILL_SERVER": server.url}
    done = subprocess.run(
        ["sh", "-ec", ours], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout.replace("\r", "")


def test_commands_of_the_concepts_print_the_stated_answers(start_server: Start) -> None:
    server = start_server()
    assert run_page("concepts/rules.md", server) == 5
    assert server.client.get("/rules/family").json()["strata"] == [[0]]


def test_commands_of_the_cookbook_print_the_stated_answers(start_server: Start) -> None:
    server = start_server()
    assert run_page("cookbook/rules.md", server) == 6
    assert server.client.get("/rules/network").json()["strata"] == [[0, 1], [2]]
