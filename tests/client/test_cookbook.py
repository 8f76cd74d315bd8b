"""The program of the cookbook's page on Python does what the page says."""

from __future__ import annotations

import ast
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


def test_the_notebook_of_the_examples_runs(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="it makes data frames")
    pytest.importorskip("anywidget", reason="it shows widgets")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    server = start_server()
    cells = json.loads((PAGE.parents[2] / "examples" / "client.ipynb").read_text("utf-8"))["cells"]
    programs = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = [shown_by(text.replace("http://127.0.0.1:7878", server.url), names) for text in programs]
    names["server"].close()
    assert shown[1:4] == ["readings", "running", 3]
    assert sorted(map(tuple, shown[4].values.tolist())) == [
        ("http://example.org/cellar", 14),
        ("http://example.org/kitchen", 22),
    ]
    chart, table, live = (each for each in shown if type(each).__module__.startswith("quadrill."))
    assert [line["name"][19:] for line in chart.content["lines"]] == ["cellar", "kitchen"]
    assert table.content["columns"] == ["room", "mean"]
    assert live.ended and len(live.frame) == 2 and "warmth, 2 rows" in live._repr_html_()
    assert [(number, kind) for number, kind, _ in shown[-2]] == [(1, "insert"), (2, "insert")]


def shown_by(program: str, names: dict[str, Any]) -> Any:
    """The value of the last line of a cell, which a notebook shows; None if it is no expression."""
    *statements, last = ast.parse(program).body
    exec(compile(ast.Module([*statements], []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return None
