"""A server in a process of its own, which a test can kill; commands of the documentation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.program import Program


class Served:
    """The process and a client of it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.client = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def accepted(self, stream: str) -> int:
        """How many elements the stream has taken."""
        answer = self.client.get("/streams", params={"iri": stream})
        return int(answer.json()["accepted"]) if answer.status_code == 200 else 0

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def served(data: Path, **settings: str) -> Iterator[Served]:
    """A server over a data folder; it is killed at the end."""
    arguments = ["serve", "--data", str(data), "--port", "0"]
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in settings.items()}
    with Program(*arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        made = Served(process, process.stdout.readline().split()[-1])
        try:
            yield made
        finally:
            made.client.close()
            made.kill()


def cookbook_commands(page: str, url: str) -> str:
    """The shell commands of a page of the cookbook, for a server."""
    return "".join(cookbook_blocks(page, "sh")).replace("http://127.0.0.1:7878/", url)


def cookbook_blocks(page: str, language: str) -> list[str]:
    """The blocks of a language that a page of the cookbook has."""
    text = (Path(__file__).parents[3] / "docs" / "cookbook" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
