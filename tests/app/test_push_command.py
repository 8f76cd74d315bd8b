"""`quadrill push STREAM -`: lines enter as they come, also while the server is away; what did not is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from tests.program import Program

pytestmark = pytest.mark.process


def line(number: int) -> str:
    return json.dumps({"at": 1_000 * number, "data": f"<urn:{number}> <urn:p> <urn:o> ."}) + "\n"


def piped(url: str, *arguments: str) -> subprocess.Popen[str]:
    return Program(
        "push", "--server", url, *arguments,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip


def accepted(url: str) -> int:
    answer = httpx.get(f"{url}streams/s")
    return int(answer.json()["accepted"]) if answer.status_code == 200 else 0


def wait_for(url: str, number: int) -> None:
    deadline = time.monotonic() + 60
    while accepted(url) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_lines_enter_as_they_come_also_when_the_server_was_away(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running.serve(Settings(data=data, port=0)) as first:
        url = first.url
        process = piped(url, "s", "-", "--type", "application/x-ndjson")
        assert process.stdin is not None
        process.stdin.write(line(1))
        process.stdin.flush()
        wait_for(url, 1)
        process.stdin.write(line(2) + "\n" + line(3))
        process.stdin.flush()
        wait_for(url, 3)
    process.stdin.write(line(4))
    process.stdin.flush()
    time.sleep(0.5)
    port = int(url.rstrip("/").rpartition(":")[2])
    with running.serve(Settings(data=data, port=port)):
        process.stdin.write(line(5) + line(1))
        out, error = process.communicate(timeout=60)
        assert accepted(url) == 6
    told = json.loads(out)
    assert (told["first_seq"], told["last_seq"], told["accepted"]) == (1, 6, 6)
    assert told["dropped"] == 1 and "1 element was late and dropped" in error and process.returncode == 1


def test_an_interrupt_ends_the_input_and_bad_lines_are_told_by_their_number(tmp_path: Path) -> None:
    with running.serve(Settings(data=":memory:", port=0)) as server:
        process = piped(server.url, "s", "-", "--type", "application/x-ndjson", "--partial", "--batch", "2")
        assert process.stdin is not None
        process.stdin.write(line(1) + line(2) + line(3) + '{"at": 4000, "data": "nonsense"}\n' + line(5))
        process.stdin.flush()
        wait_for(server.url, 4)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        assert "line 4: " in error and "1 element was bad" in error
        assert json.loads(out)["accepted"] == 4 and process.returncode == 1


def test_a_server_that_stays_away_is_given_up() -> None:
    process = piped("http://127.0.0.1:1", "s", "-", "--type", "application/x-ndjson", "--retry", "0.3")
    _, error = process.communicate(line(1), timeout=60)
    assert process.returncode == 1 and "no server answers" in error
