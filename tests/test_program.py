"""Forked programs behave as processes that Python starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import Program, run

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked"),
]


def test_output_errors_and_exit_code_are_those_of_the_command() -> None:
    shown, wrong = run("query", "--help"), run("nonsense")
    assert (shown.returncode, shown.stderr) == (0, "") and shown.stdout.startswith("usage: quadrill query")
    assert (wrong.returncode, wrong.stdout) == (2, "") and "there is no command nonsense" in wrong.stderr


def test_folder_and_environment_are_the_given_ones(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:a> <urn:p> <urn:b> .\n")
    loaded = run("load", "--data", "data", "a.nt", cwd=tmp_path)
    assert loaded.returncode == 0 and (tmp_path / "data").is_dir(), loaded.stderr
    assert "<urn:a>" in run("export", "--data", "data", cwd=tmp_path).stdout
    address = "http://127.0.0.1:1/"
    assert address in run("query", "ASK {}", env={**os.environ, "QUADRILL_SERVER": address}).stderr


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_a_server_is_a_child_that_signals_end(number: signal.Signals, code: int) -> None:
    arguments = ["serve", "--data", ":memory:", "--port", "0"]
    with Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        url = server.stdout.readline().split()[-1]
        assert run("query", "--server", url, input="ASK { <urn:a> ?p ?o }").stdout.strip() == "false"
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(fields[1]) == os.getpid()
        assert server.poll() is None
        server.send_signal(number)
        assert server.wait(20) == code
