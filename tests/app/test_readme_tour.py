"""The README's commands are run as they are printed: the tour against a server, then all in one shell."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from quadrill.app import running
from quadrill.app.config import load_settings

README = Path(__file__).parent.parent.parent / "README.md"
ADDRESS = "http://127.0.0.1:7878/"


def commands() -> list[str]:
    """The tour's commands, without the one that starts the server."""
    tour = README.read_text("utf-8").split("## Five minutes with curl", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sh\n(.*?)```", tour, flags=re.DOTALL)
    # A command ends where a line ends outside of quotes.
    found = [one for block in blocks for one in re.findall(r"(?:'[^']*'|[^'\n])+", block)]
    return [command for command in found if not command.startswith(".venv/bin/quadrill")]


def run(command: str, address: str, *options: str) -> tuple[int, str]:
    """Run one of the commands against the server at ``address``; its exit code and what it printed."""
    curl = " ".join(["curl -sS --fail-with-body --noproxy '*'", *options, ""])
    text = command.replace(ADDRESS, address).replace("curl ", curl, 1)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour needs curl")
def test_every_command_of_the_tour_does_what_the_readme_says() -> None:
    (listen,) = (command for command in commands() if "curl -N" in command)
    printed: dict[str, str] = {}
    with running.serve(load_settings(overrides={"data": ":memory:", "port": 0}, environment={})) as server:
        for command in commands():
            if command == listen:
                continue
            if "DELETE" in command:
                _, feed = run(listen, server.url, "--max-time 1")
            code, printed[command] = run(command, server.url)
            assert code == 0, f"{command}\n{printed[command]}"
    rooms, answer = (text for text in printed.values() if text.startswith(("sensor,", "room,")))
    assert rooms.split()[1] == "http://example.org/s1,http://example.org/kitchen"
    assert sorted(answer.split()[1:]) == ["http://example.org/attic,24", "http://example.org/kitchen,21.5"]
    assert any("RANGE 10s" in text for command, text in printed.items() if "explain" in command)
    inserted = re.findall(r'event: insert\ndata: .*?"at":(\d+).*?/(kitchen|attic)"', feed)
    assert inserted == [("1767268801000", "kitchen"), ("1767268802000", "attic")]


ENDLESS = ("watch", "top")
"""Commands, besides the server and the feed, that run until somebody stops them."""


def shell_script(port: int) -> str:
    """All shell blocks of the README but the two that install, as one script that stops endless commands."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert [("pip install" in each) for each in blocks[:3]] == [True, True, False]
    text = re.sub(r" +# .*$", "", "".join(blocks[2:]), flags=re.MULTILINE)
    text = text.replace("127.0.0.1:7878", f"127.0.0.1:{port}")
    lines = ["set -eu", f"export QUADRILL_SERVER=http://127.0.0.1:{port}"]
    for command in re.findall(r"(?:'[^']*'|\\\n|[^'\n])+", text):
        command = command.replace(".venv/bin/quadrill", f"{Path(sys.executable).parent}/quadrill")
        if " serve" in command:
            lines += [f"{command} --port {port} & server=$!", "trap 'kill $server' EXIT"]
            lines += [f"until curl -sf http://127.0.0.1:{port}/health/ready; do sleep 0.1; done"]
        elif "curl -N" in command:
            lines += [f"timeout 60 {command} &"]
        elif any(each in command for each in ENDLESS):
            lines += [f"timeout 3 {command} || test $? = 124"]
        else:
            lines += [re.sub(r"^curl", "curl -sS --fail-with-body", command)]
    return "\n".join(lines)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour needs curl")
def test_every_command_of_the_readme_runs_in_one_shell() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    script = shell_script(port)
    assert script.count("curl") > 9 and script.count("quadrill ") == 7
    done = subprocess.run(
        ["bash", "-c", script], cwd=README.parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "AA1141" in done.stdout and "event: insert" in done.stdout and "warm-rooms" in done.stdout
