"""All commands: their help, their page, their start, JSON of all that ask a server."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app import cli
from quadrill.app.cli import COMMANDS, build_parser, main
from tests.app.commands.page import PAGE, written
from tests.app.conftest import Start

HEAVY = {"lark", "pyoxigraph", "flask", "rdflib", "sqlalchemy", "rich", "httpx._client", "argcomplete"}
QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
LIVE = "SELECT ?s ?o ?n WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } ?s <urn:name> ?n }"


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from all_parsers(each)


PARSERS = {each.prog: each for each in all_parsers(build_parser("")) if each.prog != "quadrill"}


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_has_an_example_and_says_it_in_words(name: str) -> None:
    parser = PARSERS[name]
    examples = [line.strip() for line in (parser.epilog or "").splitlines()[1:]]
    assert examples and all(example.startswith(name) for example in examples)
    assert (parser.description or "")[0].isupper()
    assert all(action.help for action in parser._actions if action.dest not in ("action", "help", "shell"))


def test_every_module_of_commands_is_in_the_table_of_the_command_line() -> None:
    folder = Path(cli.__file__).parent / "commands"
    modules = {path.stem for path in folder.glob("*.py") if "\ndef add_commands(" in path.read_text("utf-8")}
    assert modules == {module for group in COMMANDS.values() for module in group.values()}


@pytest.mark.parametrize("name", PARSERS)
def test_what_asks_a_server_has_json(name: str) -> None:
    options = {option for action in PARSERS[name]._actions for option in action.option_strings}
    assert ("--server" in options) <= {"--json", "--token"}.issubset(options)


def test_the_page_of_commands_is_that_of_the_parsers() -> None:
    assert PAGE.read_text("utf-8") == written(), "run python -m tests.app.commands.page"


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--version",
        "version",
        "query --help",
        "queries",
        "streams",
        "top --once",
        "run --help",
        "serve --help",
    ],
)
def test_a_command_begins_only_what_it_needs(line: str) -> None:
    code = f"""
import sys
from quadrill.app.cli import main
try:
    main({line.split()!r})
except SystemExit:
    pass
print(*sorted(name for name, module in sys.modules.items() if module is not None), file=sys.stderr)
"""
    environment = os.environ | {"QUADRILL_SERVER": "127.0.0.1:1"}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    loaded = set(told.stderr.splitlines()[-1].split())
    assert not HEAVY & loaded
    assert not {"quadrill.app.wiring", "quadrill.continuous.engine"} & loaded


def test_what_is_no_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["regis", "x.cqels"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "there is no command regis" in told and "Did you mean register" in told


def test_help_is_a_command_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["help"], ["help", "query"]):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 0
    assert "run a SPARQL query" in capsys.readouterr().out


def test_nothing_said_names_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "quadrill --help lists all" in capsys.readouterr().err


# --- every command that asks a server, with --json ---------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "q.cqels": QUERY,
        "live.cqels": LIVE,
        "names.ttl": '<urn:a> <urn:name> "Ada" .',
        "r.ndjson": json.dumps({"at": 1000, "data": "<urn:a> <urn:v> <urn:x> ."}) + "\n",
        "late.ndjson": json.dumps({"at": 1, "data": "<urn:a> <urn:v> <urn:x> ."}) + "\n",
        "record.json": '{"a": 1}',
        "mapping.rq": "CONSTRUCT { <urn:s> <urn:p> ?a } WHERE { }",
        "ask.rq": "ASK { ?s ?p ?o }",
        "grand.rq": "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }",
        "shapes.ttl": "<urn:S> <http://www.w3.org/ns/shacl#targetClass> <urn:P> .",
        "it.toml": '[prefixes]\nex = "http://e/"\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


WALK: list[tuple[str, int]] = [
    ("update INSERT_DATA", 0),
    ("query ask.rq", 0),
    ("load names.ttl", 0),
    ("register q.cqels", 0),
    ("register live.cqels", 0),
    ("queries", 0),
    ("queries q", 0),
    ("push r r.ndjson --wait", 0),
    ("push r late.ndjson", 1),
    ("watch q --from 0 --count 1", 0),
    ("explain q", 0),
    ("explain live --analyze", 0),
    ("explain live.cqels", 0),
    ("pause q", 0),
    ("resume q", 0),
    ("refresh live", 0),
    ("replay q", 0),
    ("streams", 0),
    ("streams list", 0),
    ("streams show r", 0),
    ("streams heartbeat r 5000", 0),
    ("streams reset-time r", 0),
    ("streams dead-letters r", 0),
    ("streams retry r --all", 0),
    ("streams declare d --option lateness=2s", 0),
    ("declare e --mapping mapping.rq", 0),
    ("map e record.json", 0),
    ("streams drop d", 0),
    ("source in --set kind=file --set stream=http://e/s --set path=FOLDER/log.nt", 0),
    ("sources", 0),
    ("sink out --set kind=webhook --set url=http://127.0.0.1:9/ --set query=q", 0),
    ("sinks", 0),
    ("sink out --delete", 0),
    ("source in --delete", 0),
    ("apply it.toml", 0),
    ("dump", 0),
    ("jobs", 0),
    ("jobs list", 0),
    ("jobs show LOAD", 0),
    ("jobs cancel LOAD", 1),
    ("rules put family grand.rq --into urn:inferred", 0),
    ("rules", 0),
    ("rules list", 0),
    ("rules show family", 0),
    ("rules delete family", 0),
    ("shapes put people shapes.ttl --mode warn", 0),
    ("shapes", 0),
    ("shapes list", 0),
    ("shapes get people", 0),
    ("shapes report people", 0),
    ("shapes delete people", 0),
    ("mirror --show", 1),
    ("top --once --interval 0.1", 0),
    ("export all.nq", 0),
    ("backup saved", 0),
    ("drop q", 0),
]


def test_everything_is_said_in_json(
    start_server: Start, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(
        data=str(folder / "data"),
        source_folders=(str(folder),),
        load_folders=(str(folder / "inside"),),
        remote_hosts=("127.0.0.1:9",),
    )
    monkeypatch.setenv("QUADRILL_SERVER", server.url.removeprefix("http://"))
    (folder / "inside").mkdir()
    (folder / "inside" / "a.nt").write_text("<urn:c> <urn:p> <urn:d> .\n")
    assert main(["load", "--json", "inside/a.nt"]) == 0
    (job,) = lines(capsys.readouterr().out)
    assert job["added"] == 1 and job["version"] == 1
    for line, code in WALK:
        words = line.replace("FOLDER", str(folder)).replace("LOAD", job["job"]).split()
        words = ["INSERT DATA { <urn:a> <urn:b> 1 }" if word == "INSERT_DATA" else word for word in words]
        assert main([*words, "--json"]) == code, (line, capsys.readouterr().err)
        told = capsys.readouterr()
        if code == 0 or line.startswith("push"):
            assert lines(told.out) or line.split()[0] in ("queries", "jobs"), line
        else:
            assert told.err.startswith("quadrill: "), line
    walked = {line.split()[0] for line, _ in WALK}
    asking = {
        name.split()[1]
        for name, parser in PARSERS.items()
        if any("--server" in action.option_strings for action in parser._actions)
    }
    assert walked == asking


def lines(out: str) -> list[object]:
    """The values of the lines of an output."""
    return [json.loads(line) for line in out.splitlines()]


def test_json_of_an_export_needs_a_file(start_server: Start) -> None:
    assert main(["export", "--json", "--server", start_server().url]) == 2
