"""One real server for all suites, started as a user would, on a free loopback port."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.program import Program
from tests.w3c.endpoint import Endpoint


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("w3c") / "server.log"
    with log.open("wb") as stderr:
        server = Program(
            *["serve", "--data", ":memory:", "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=Path(log).parent,
        )
        try:
            assert server.stdout is not None
            ready = server.stdout.readline().decode()
            assert ready.startswith("Quadrill is ready at "), f"{ready!r} {log.read_text()}"
            with httpx.Client(base_url=ready.split()[-1], timeout=30) as client:
                yield Endpoint(client)
        finally:
            server.terminate()
            server.wait(20)
            if server.stdout is not None:
                server.stdout.close()
