"""The program of the cookbook's page on Python does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.app.conftest import Start, start_server

__all__ = ["start_server"]

PAGE = Path(__file__).parents[2] / "docs" / "cookbook" / "python.md"


def test_the_program_runs(start_server: Start, capsys: pytest.CaptureFixture[str]) -> None:
    server = start_server()
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert "http://127.0.0.1:7878" in program
    exec(program.replace("http://127.0.0.1:7878", server.url), {})
    assert capsys.readouterr().out == "1 insert [{'s': 'urn:sensor/1', 'v': 21}]\n"
