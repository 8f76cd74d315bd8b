"""The program of the cookbook's page on Python does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Start, start_server

__all__ = ["start_server"]

PAGE = Path(__file__).parents[2] / "docs" / "cookbook" / "python.md"


def test_the_programs_run_and_print_what_the_page_says(
    start_server: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas", reason="the page has data frames")
    server = start_server()
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks[:3]] == ["python", "python", "text"]
    names: dict[str, Any] = {}
    printed = ""
    for number, (kind, text) in enumerate(blocks):
        if kind == "python":
            assert number or "http://127.0.0.1:7878" in text
            exec(text.replace("http://127.0.0.1:7878", server.url), names)
            printed = capsys.readouterr().out
        if number == 0:
            assert printed == "1 accepted, 0 late and dropped\n1 insert [{'s': 'urn:sensor/1', 'v': 21}]\n"
        elif kind == "text":
            assert printed == text


def test_the_notebook_of_the_examples_runs(start_server: Start) -> None:
    pytest.importorskip("pandas", reason="its last cells make a data frame")
    server = start_server()
    cells = json.loads((PAGE.parents[2] / "examples" / "client.ipynb").read_text("utf-8"))["cells"]
    programs = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for program in programs[:-2]:
        exec(program.replace("http://127.0.0.1:7878", server.url), names)
    frame = eval(programs[-2], names)
    assert sorted(map(tuple, frame.values.tolist())) == [
        ("http://example.org/cellar", 14),
        ("http://example.org/kitchen", 22),
    ]
    *imports, last = programs[-1].splitlines()
    exec("\n".join(imports), names)
    events = eval(last, names)
    assert [(number, kind) for number, kind, _ in events] == [(1, "insert"), (2, "insert")]
