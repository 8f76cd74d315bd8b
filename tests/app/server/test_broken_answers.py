"""An answer that breaks off never looks complete to its client, whatever tells its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from tests.app.conftest import LiveServer, Start
from tests.app.server.proxies import haproxy, nginx
from tests.app.server.test_departed_clients import Proxy, connected, post
from tests.app.test_server import read_all
from tests.program import Program

VALUES = " ".join(map(str, range(200)))
ENDLESS = "SELECT * {" + "".join(f" VALUES ?{name} {{ {VALUES} }}" for name in "abcde") + " }"
PARTIAL_FILE, RECEIVE_ERROR = 18, 56
"""The codes with which curl ends when a transfer was cut, and when the connection was reset."""


@pytest.fixture(scope="module")
def limited() -> Iterator[LiveServer]:
    """A server whose answers break off at 20,000 rows."""
    with running.serve(Settings(data=":memory:", port=0, max_result_rows=20_000)) as found:
        server = LiveServer(found)
        yield server
        server.client.close()


def ends_by_reset(client: socket.socket) -> bool:
    """Read to the end; True when it is a reset, False when it looks like the end of an answer."""
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    return False


def test_answer_over_http_1_0_that_runs_out_of_time_ends_by_a_reset(server: LiveServer) -> None:
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(post("/query?timeout=4", ENDLESS, "1.0"))
        assert client.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
        assert ends_by_reset(client)


@pytest.mark.parametrize("setting", [{"max_result_rows": 20_000}, {"max_result_bytes": 1_000_000}])
def test_answer_over_http_1_0_that_is_too_large_ends_by_a_reset(
    start_server: Start, setting: dict[str, int]
) -> None:
    with contextlib.closing(connected(start_server(**setting).url)) as client:
        client.sendall(post("/query", ENDLESS, "1.0"))
        assert ends_by_reset(client)


def test_answer_over_http_1_0_that_is_stopped_ends_by_a_reset(server: LiveServer) -> None:
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(post("/query", ENDLESS, "1.0"))
        client.recv(1000)
        (process,) = server.client.get("/processes").json()["processes"]
        assert server.client.delete(f"/processes/{process['id']}").status_code == 204
        assert ends_by_reset(client)


def test_answer_over_http_1_0_ends_by_a_reset_when_the_server_is_killed(tmp_path: Path) -> None:
    process = Program("serve", "--data", str(tmp_path), "--port", "0", stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split("ready at ")[1].strip()
        with contextlib.closing(connected(url)) as client:
            client.sendall(post("/query", ENDLESS, "1.0"))
            client.recv(1000)
            os.kill(process.pid, signal.SIGKILL)
            assert ends_by_reset(client)
    finally:
        assert process.stdout is not None
        process.stdout.close()
        process.kill()
        process.wait()


def test_slow_reader_over_http_1_0_sees_a_reset_when_it_is_cut(start_server: Start) -> None:
    server = start_server(request_timeout=0.5)
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(post("/query", ENDLESS, "1.0"))
        time.sleep(4)
        assert ends_by_reset(client)


def test_whole_answer_over_http_1_0_ends_without_a_reset(server: LiveServer) -> None:
    text = "SELECT * {" + "".join(f" VALUES ?{name} {{ {VALUES} }}" for name in "ab") + " }"
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(post("/query", text, "1.0"))
        answer = read_all(client)
    assert b"Content-Length" not in answer.partition(b"\r\n\r\n")[0]
    assert answer.endswith(b"]}}") or answer.rstrip().endswith(b"}")
    assert answer.count(b'"a"') == 40_001


def test_broken_chunked_answer_has_no_last_chunk(server: LiveServer) -> None:
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(post("/query?timeout=4", ENDLESS))
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(1 << 20):
                answer = answer[-100:] + piece
    assert not answer.endswith(b"0\r\n\r\n")
    assert re.search(rb"\r\n\Z", answer)


@pytest.mark.always("None-*", "nginx----*", "haproxy-mode http-*")
@pytest.mark.parametrize(
    ("proxy", "more", "version"),
    [
        (None, "", "--http1.0"),
        (None, "", "--http1.1"),
        (nginx, "", "--http1.1"),
        (nginx, "proxy_http_version 1.1;", "--http1.1"),
        (nginx, "proxy_buffering off;", "--http1.1"),
        (haproxy, "mode http", "--http1.1"),
        (haproxy, "mode tcp", "--http1.1"),
    ],
)
def test_curl_reports_an_answer_that_breaks_off(
    limited: LiveServer, tmp_path: Path, proxy: Proxy | None, more: str, version: str
) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    with contextlib.ExitStack() as stack:
        url = limited.url if proxy is None else stack.enter_context(proxy(tmp_path, limited.url, more))
        target = f"{url}query?query={quote(ENDLESS)}"
        done = subprocess.run(
            [curl, "-sS", version, "-o", os.devnull, target], capture_output=True, text=True
        )
    assert done.returncode in (PARTIAL_FILE, RECEIVE_ERROR), done.stderr
