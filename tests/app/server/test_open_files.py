"""A server without descriptors left: it neither spins nor dies, and goes on when there are some again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from quadrill.app.server.connection_loop import ConnectionLimits, within_open_files
from tests.program import Program

resource = pytest.importorskip("resource")
LIMIT = 200


@pytest.fixture
def crowded() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server that had more descriptors when it began than there are now; its port and process."""
    environment = os.environ | {"QUADRILL_MAX_CONNECTIONS_PER_ADDRESS": "100000"}
    arguments = ["serve", "--data", ":memory:", "--port", "0"]
    with Program(*arguments, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        try:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
            yield int(url.rstrip("/").rpartition(":")[2]), process
        finally:
            process.send_signal(signal.SIGKILL)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def alive(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return client.recv(1000).startswith(b"HTTP/1.1 200 ")
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_without_descriptors_the_server_waits_and_goes_on(
    crowded: tuple[int, subprocess.Popen[str]],
) -> None:
    port, process = crowded
    assert alive(port)
    with ExitStack() as stack:
        for _ in range(LIMIT + 100):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            half.sendall(b"GET /health")
        time.sleep(0.5)
        before = cpu_seconds(process.pid)
        time.sleep(1.0)
        assert cpu_seconds(process.pid) - before < 0.5
    deadline = time.monotonic() + 10
    while not alive(port):
        assert time.monotonic() < deadline
        assert process.poll() is None


def test_no_more_connections_are_taken_than_there_are_descriptors() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        pytest.skip("there is no limit")
    assert within_open_files(ConnectionLimits(connections=10**9)).connections < most
    assert within_open_files(ConnectionLimits(connections=10)).connections == 10
