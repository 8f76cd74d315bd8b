"""Every command: its help, JSON, misspelt options and values, no server, and the table of exit codes."""

from __future__ import annotations

import argparse
import ast
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app.cli import COMMANDS, build_parser, main
from quadrill.app.commands.hints import with_commands
from quadrill.app.commands.parser import CommandParser
from quadrill.store.documents.similar import did_you_mean
from tests.app.conftest import Start
from tests.program import Program

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
NAMES = [name for group in COMMANDS.values() for name in group]
TABLE = {"0", "1", "2", "130"}
"""Exit codes of all commands."""
ARGUMENTS: dict[str, tuple[str, int]] = {
    "serve": ("--port 99999", 1),
    "demo": ("--from 2020-01-01 --port 0", 1),
    "top": ("--once", 1),
    "jobs": ("", 1),
    "query": ("ASK{}", 1),
    "update": ("CLEAR", 1),
    "load": ("a.ttl", 1),
    "export": ("all.nq", 1),
    "mirror": ("--show", 1),
    "rules": ("", 1),
    "shapes": ("", 1),
    "validate": ("missing.ttl", 2),
    "register": ("q.cqels", 1),
    "queries": ("", 1),
    "watch": ("q --count 1", 1),
    "explain": ("q", 1),
    "pause": ("q", 1),
    "resume": ("q", 1),
    "refresh": ("q", 1),
    "replay": ("q", 1),
    "drop": ("q", 1),
    "run": ("missing.cqels", 1),
    "push": ("r a.ttl --retry 0", 1),
    "streams": ("", 1),
    "declare": ("r", 1),
    "map": ("r record.json", 1),
    "sources": ("", 1),
    "source": ("s", 1),
    "sinks": ("", 1),
    "sink": ("s", 1),
    "apply": ("it.toml", 1),
    "dump": ("", 1),
    "backup": ("saved", 1),
    "restore": ("missing --data d", 1),
    "check": ("--data :memory:", 1),
    "repair": ("--drop-damaged --data :memory:", 1),
    "migrate": ("--data a.ttl", 1),
    "token": ("remove 00 --data :memory:", 1),
    "version": ("", 0),
    "completion": ("bash", 0),
}
"""Arguments with which a command reaches a server, a file or its end, and the exit code without a server."""
HTTP = re.compile(
    r"\b(?:GET|PUT|POST|PATCH|DELETE)\b|(?<![\w:/.<])/(?:queries|streams|store|jobs|health|mirror)\b"
)


def parsers(parser: CommandParser) -> Iterator[CommandParser]:
    for each in parser.actions().values():
        yield each
        yield from parsers(each)


PARSERS = {each.prog.removeprefix("quadrill "): each for each in parsers(build_parser(""))}
CHOICES = [
    (command, action.option_strings[0] if action.option_strings else "", str(choice))
    for command, parser in PARSERS.items()
    for action in parser._actions
    if action.choices is not None and not isinstance(action, argparse._SubParsersAction)
    for choice in list(action.choices)[-1:]
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUADRILL_SERVER", "127.0.0.1:1")
    for name, text in {
        "a.ttl": "<urn:a> <urn:b> <urn:c> .",
        "q.cqels": "SELECT ?s { STREAM <urn:r> [NOW] { ?s ?p ?o } }",
        "record.json": "{}",
        "it.toml": '[prefixes]\nex = "http://e/"\n',
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def ended(line: list[str]) -> int:
    """The exit code of a command line in this process."""
    try:
        return main(line)
    except SystemExit as left:
        assert isinstance(left.code, int)
        return left.code


def told(capsys: Capture) -> str:
    """What a command said on standard error, which names no HTTP request."""
    said = capsys.readouterr().err
    assert not HTTP.search(said), said
    assert "Traceback" not in said
    return said


def misspelt(word: str) -> str:
    return word[:1] + word[2:] if len(word) > 2 else word + word[-1]


def test_the_table_of_arguments_has_all_commands() -> None:
    assert list(ARGUMENTS) == NAMES


@pytest.mark.parametrize("command", PARSERS)
def test_help_has_an_example(command: str, capsys: Capture) -> None:
    assert ended([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: quadrill {command} ")
    assert re.search(rf"^examples?:\n  quadrill {command}\b", said, re.MULTILINE)
    assert "--json" in said


@pytest.mark.parametrize("command", NAMES)
def test_without_a_server_a_command_fails_with_a_sentence_and_the_code_of_the_table(
    command: str, folder: Path, capsys: Capture
) -> None:
    arguments, code = ARGUMENTS[command]
    said = []
    for line in ([command, *arguments.split(), "--json"], ["--json", command, *arguments.split()]):
        assert ended(line) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        assert not HTTP.search(err) and "Traceback" not in err
        for each in out.splitlines():
            json.loads(each)
        said.append((out, re.sub("(?m)^[^{q].*$", "", err)))
        if code:
            assert err.startswith(("quadrill: ", "{")) or "\nquadrill: " in err
    assert said[0] == said[1], "an option means the same before and after the command"


@pytest.mark.parametrize("command", PARSERS)
def test_a_misspelt_option_is_answered_by_the_right_one(command: str, capsys: Capture) -> None:
    options = [each for each in PARSERS[command]._option_string_actions if each.startswith("--")]
    for option in options:
        # A prefix of an option is accepted, so the second letter is left out.
        wrong = f"--{misspelt(option[2:])}"
        arguments = [*command.split(), wrong] if command != "token" else ["token", "list", wrong]
        parser = PARSERS["token list" if command == "token" else command]
        if any(each.startswith(wrong) for each in parser._option_string_actions):
            continue
        assert ended(arguments) == 2
        said = told(capsys)
        if "the command line lacks" not in said:
            assert f"there is no option {wrong}" in said and option in said.partition("Did you mean")[2]
    line = [*command.split(), "--jsn", *(["x"] * 3)]
    assert ended(line) == 2
    told(capsys)


@pytest.mark.parametrize(("command", "option", "value"), CHOICES)
def test_a_misspelt_value_is_answered_by_the_right_one(
    command: str, option: str, value: str, capsys: Capture
) -> None:
    wrong = misspelt(value)
    assert ended([*command.split(), *filter(None, [option]), wrong]) == 2
    said = told(capsys)
    assert f"{wrong} is not one of " in said
    assert not did_you_mean(wrong, [value]) or value in said.partition("Did you mean")[2]


@pytest.mark.parametrize(
    ("line", "sentence", "hint"),
    [
        ("queriez", "there is no command queriez", "Did you mean queries"),
        ("--json queriez", "there is no command queriez", "Did you mean queries"),
        ("--json", "no command is given", "quadrill --help lists all."),
        ("streams shw r", "streams: there is no action shw", "Did you mean show?"),
        ("serve --port 78x8", "serve: --port: 78x8 is not a whole number", "quadrill serve --help"),
        ("push readings", "push: the command line lacks file", "For instance: quadrill push readings"),
        ("queries --server", "queries: --server: the value is missing", "quadrill queries --help"),
        ("streams show a b", "streams show: the argument b is superfluous", "quadrill streams show --help"),
        ("query --file q.cqel", "q.cqel: No such file or directory", "Did you mean q.cqels?"),
    ],
)
def test_a_slip_is_answered_by_what_was_meant(
    line: str, sentence: str, hint: str, folder: Path, capsys: Capture
) -> None:
    assert ended(line.split()) in (1, 2)
    first, second, *_ = told(capsys).splitlines()
    assert first == f"quadrill: {sentence}"
    assert second.startswith("Hint: ") and hint in second


def test_options_stand_before_between_and_after_arguments() -> None:
    for line in (
        "load --graph urn:g a.ttl b.ttl",
        "load a.ttl --graph urn:g b.ttl",
        "load a.ttl b.ttl --graph urn:g",
    ):
        options, unknown = build_parser("load").parse_known_args(line.split())
        assert (options.files, options.graph, unknown) == ([Path("a.ttl"), Path("b.ttl")], "urn:g", []), line
    options, _ = build_parser("push").parse_known_args("push --type text/csv readings --wait -".split())
    assert (options.stream, options.file, options.type, options.wait) == ("readings", "-", "text/csv", True)
    options, _ = build_parser("query").parse_known_args(["query", "--json", "--", "--x"])
    assert options.text == "--x"


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_an_option_as_well(option: str, capsys: Capture) -> None:
    assert ended([option]) == 0 and main(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("quadrill ")


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("quadrill.app.commands.version._version", interrupted)
    assert main(["version"]) == 130


def test_the_page_has_the_table_of_exit_codes() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    _, _, table = page.partition("| exit code | meaning |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert {row.split("|")[1].strip().strip("`") for row in rows} == TABLE
    assert {str(code) for _, code in ARGUMENTS.values()} <= TABLE


def texts_of_hints() -> Iterator[tuple[str, str]]:
    """File and text of each hint in the code, and of each text of a language that names a request."""
    for top in ("app", "continuous", "store"):
        for path in sorted((ROOT / top).rglob("*.py")):
            source = path.read_text("utf-8")
            if not HTTP.search(source):
                continue
            is_text = path.match("continuous/language/*.py") or path.match("app/describing/waiting.py")
            nodes = list(ast.walk(ast.parse(source)))
            parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in nodes:
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    yield str(path), text_of(node.value)
                elif isinstance(node, ast.Constant | ast.JoinedStr) and is_text and id(node) not in parts:
                    text = text_of(node)
                    if HTTP.search(text) and "\n" not in text:
                        yield str(path), text


def text_of(node: ast.AST) -> str:
    """The text of an expression, with a word in place of each variable."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "source" if ast.unparse(node.value) == "role" else "name"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def test_commands_show_commands_where_the_server_names_requests() -> None:
    hints = list(texts_of_hints())
    assert sum(bool(HTTP.search(text)) for _, text in hints) > 12
    left = {(path, text) for path, text in hints if HTTP.search(with_commands(text))}
    assert not left, "add each request to app/commands/hints.py, with the command that sends it"


def test_an_unknown_name_is_answered_by_similar_names(
    start_server: Start, folder: Path, capsys: Capture
) -> None:
    server = start_server()
    (folder / "alert.cqels").write_text("SELECT ?s { STREAM <http://localhost/readings> [NOW] { ?s ?p ?o } }")
    assert main(["register", "alert.cqels", "--server", server.url]) == 0
    capsys.readouterr()
    for line, name in (
        ("watch alrt --count 1", "alert"),
        ("pause alrt", "alert"),
        ("drop alrt", "alert"),
        ("explain alrt", "alert"),
        ("streams show readingz", "readings"),
        ("streams dead-letters readingz", "readings"),
        ("streams show http://localhost/readingz", "http://localhost/readings"),
    ):
        assert main([*line.split(), "--server", server.url]) == 1
        assert f"Hint: Did you mean {name}?" in told(capsys), line


def test_commands_on_a_data_folder_print_json(
    start_server: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with_data = start_server(data=str(folder / "data"))
    assert main(["backup", "saved", "--server", with_data.url]) == 0
    capsys.readouterr()

    def printed(line: str) -> dict[str, object]:
        assert main([*line.split(), "--json"]) == 0, line
        (document,) = [json.loads(each) for each in [capsys.readouterr().out]]
        assert isinstance(document, dict)
        return document

    assert printed("restore saved --data copy") == {"data": str(folder / "copy"), "backup": "saved"}
    assert set(printed("migrate --data copy")) == {"revision"}
    assert printed("check --data copy")["whole"] is True
    repaired = printed("repair --drop-damaged --data copy")
    assert repaired["whole"] is True and repaired["report"] == ["nothing is damaged"]
    made = printed("token add read --label me --data copy")
    assert (made["role"], made["label"], len(str(made["token"]))) == ("read", "me", len(str(made["token"])))
    del made["token"]
    assert printed("token list --data copy") == made
    assert printed(f"token remove {made['hash']} --data copy") == {"removed": made["hash"]}
    assert set(printed("completion bash")) == {"shell", "script"}
    (folder / "r.ndjson").write_text(json.dumps({"at": 1000, "data": "<urn:a> <urn:b> <urn:c> ."}) + "\n")
    event = printed("run q.cqels --stream urn:r=r.ndjson")
    assert (event["id"], event["event"]) == (1, "insert")
    assert main(["run", "q.cqels", "--json", "--format", "rows"]) == 2
    assert main(["validate", "a.ttl", "--json", "--format", "ttl"]) == 2


@pytest.mark.process
def test_a_server_prints_one_json_object_per_line(tmp_path: Path) -> None:
    server = Program(
        "--json", "serve", "--data", str(tmp_path / "data"), "--port", "0",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert ready["event"] == "ready" and ready["url"].startswith("http://127.0.0.1:")
    finally:
        server.send_signal(signal.SIGTERM)
        out, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    assert out == ""
    records = [json.loads(line) for line in errors.splitlines()]
    assert all(set(each) >= {"at", "level", "logger", "message"} for each in records)
