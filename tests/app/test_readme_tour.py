"""The README's tour is run as it is printed, against a server of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
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
