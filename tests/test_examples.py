"""The commands of the examples print what their page and the README say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from quadrill.app.cli import main

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
STATED = re.findall(r"```sh\n([^`]*)```\n\n```text\n(.*?)```", PAGE + README, re.DOTALL)


@pytest.mark.parametrize(("command", "answer"), STATED)
def test_an_example_prints_the_stated_answer(
    command: str, answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == ".venv/bin/quadrill"
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.out == answer
    assert re.fullmatch(r"(#  time  .*\n)?", printed.err), "no warnings, only the names of the columns"


def test_every_query_is_run_and_every_language_is_there() -> None:
    others = (".md", ".ipynb")
    queries = {path.name for path in EXAMPLES.iterdir() if path.suffix not in others and path.is_file()}
    assert {name.rpartition(".")[2] for name in queries} == {"cqels", "rspql", "csparql"}
    run = {name for name in queries for command, _ in STATED if f"examples/{name} " in command}
    assert run == queries


def test_the_query_that_the_readme_shows_is_the_one_that_it_runs() -> None:
    (shown,) = re.findall(r"```cqels\n(.*?)```", README, re.DOTALL)
    assert (EXAMPLES / "fog.cqels").read_text("utf-8").endswith(shown)
    assert len(STATED) == 4
