"""``python -m benchmarks.tutorial``: follows docs/tutorial.md in a fresh copy, with a clock.

The repository is cloned, the first command of the page installs it and starts the demo, the picture counts as
seen once the page answers and a query has its first row. Then the other commands are run in their order. To
what the machine takes the time is added that a person takes to read: 200 words a minute, commands included.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
START = "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/quadrill demo\n"
WORDS_A_MINUTE = 200
FIRST_QUERY = ".venv/bin/quadrill watch very-late"
AIMS = {"picture": 60.0, "query": 300.0}
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
WAIT_SECONDS = 240.0


def blocks() -> list[str]:
    """The commands of the page, a block each."""
    return BLOCK.findall(PAGE.read_text("utf-8"))


def words_until(text: str) -> int:
    """How many words a reader of the page has read at the end of the block that holds a text."""
    page = PAGE.read_text("utf-8")
    return len(page[: page.index("```", page.index(text))].split())


def page_of(lines: Iterable[str]) -> tuple[str, str]:
    """The address of the server, and that of the page, of what the demo prints."""
    server = None
    for line in lines:
        found = re.search(r"https?://\S+", line)
        if found is not None and server is None:
            server = found[0]
        elif server is not None:
            return server, found[0] if found is not None else server
    raise RuntimeError("the demo ended before it was ready")


def main() -> int:
    """Follow the page; 1 when an aim is missed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="quadrill-tutorial-") as folder:
        began = time.monotonic()
        subprocess.run(["git", "clone", "-q", str(ROOT), f"{folder}/quadrill"], check=True)
        environment = os.environ | {
            "QUADRILL_PORT": str(port),
            "QUADRILL_SERVER": f"127.0.0.1:{port}",
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
        }
        environment.pop("PYTHONPATH", None)
        first, *others = blocks()
        with subprocess.Popen(
            ["bash", "-c", first],
            cwd=f"{folder}/quadrill",
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as demo:
            assert demo.stdout is not None
            try:
                server, picture = page_of(demo.stdout)
                see(server, picture)
                taken = {"picture": time.monotonic() - began}
                print(f"from the clone to the first picture: {taken['picture']:.0f} s")
                for block in others:
                    at = time.monotonic()
                    subprocess.run(
                        ["bash", "-euc", block],
                        cwd=f"{folder}/quadrill",
                        env=environment,
                        check=True,
                        stdout=subprocess.DEVNULL,
                        timeout=WAIT_SECONDS,
                    )
                    print(f"{time.monotonic() - at:6.1f} s  {block.splitlines()[0]}")
                    if FIRST_QUERY in block:
                        read = words_until(FIRST_QUERY) / WORDS_A_MINUTE * 60
                        machine = time.monotonic() - began
                        taken["query"] = machine + read
                        print(f"to the first own query: {machine:.0f} s, and {read:.0f} s to read")
                print(f"to the end: {time.monotonic() - began:.0f} s without reading")
            finally:
                os.killpg(demo.pid, signal.SIGINT)
    missed = [name for name, aim in AIMS.items() if taken[name] > aim]
    print(f"missed: {', '.join(missed)}" if missed else "both aims are met: 60 s and 300 s")
    return 1 if missed else 0


def see(server: str, picture: str) -> None:
    """Wait until the page answers and one of the demo's queries has a row."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + WAIT_SECONDS
    with direct.open(picture, timeout=30) as page:
        assert page.status == 200
    address = f"{server}queries/late-departures/results?from=0"
    request = urllib.request.Request(address, headers={"Accept": "text/event-stream"})
    with direct.open(request, timeout=WAIT_SECONDS) as feed:
        while not feed.readline().startswith(b"data:"):
            if time.monotonic() > deadline:
                raise TimeoutError("no row of the demo came")


if __name__ == "__main__":
    raise SystemExit(main())
