"""The page docs/commands.md, made of the parsers: ``python -m tests.app.commands.page`` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from quadrill.app.cli import COMMANDS, build_parser

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"

HEAD = """# The command line

`quadrill COMMAND --help` prints the texts of this page. The page is generated from them by `python -m
tests.app.commands.page`.

- **Server**: a command calls the server of `--server`, else of the variable `QUADRILL_SERVER`, else
  `http://127.0.0.1:7878/`; `example.org:8080` needs no scheme. It sends the token of `--token`, else of
  `QUADRILL_TOKEN`.
- **Options** stand before or after the command, and between its arguments. `-V` prints the version.
- **Errors**: a failed command prints one sentence on standard error, with the place of an error in a text,
  and a hint if there is one. For a misspelt command, option, value, file or name, the hint suggests similar
  ones.
- **Answers go to standard output**, messages about completed actions to standard error, so that a pipe
  carries only data. Tables fit the width of the terminal, with colours unless `NO_COLOR` is set. If
  standard output is not a terminal, tables are plain text, and no cell is cut.
- **`--json`** prints JSON on standard output: one object, or for a list one object per line. `sources`
  and `sinks` print one array. `serve` and `demo` print one object per line while they run, and `serve` also
  writes its log as one object per line.
- **The ending of a file name selects** the format of RDF (`.ttl`, `.nt`, `.nq`, `.trig`, `.jsonld`,
  `.rdf`), of records (`.ndjson`, `.json`, `.csv`), of answers (`--to` with `.csv`, `.tsv`, `.json`,
  `.xml`) and of declarations (`.toml`, `.yaml`), the dialect (`.cqels`, `.rspql`, `.csparql`), and the
  compression (`.gz`, `.bz2`, `.zst`).
- **Completion** of commands, options and the server's names: `source <(quadrill completion bash)`.
"""
EXIT_CODES = {
    "0": "The command did what it says. `serve` and `demo` were stopped by Ctrl-C or SIGTERM, or the reader "
    "of a pipe has ended.",
    "1": "The command failed. `validate` found violations, `check` or `repair` found damage, `push` met late "
    "or bad elements, `source` or `sink` shows one that has failed, or a job has failed.",
    "2": "The command line is wrong, or `validate` could not check the data.",
    "130": "Ctrl-C interrupted the command. `push` from standard input first sends the lines that it has "
    "read, and ends with 0 or 1.",
}
"""Meaning of each exit code."""


def written() -> str:
    """The page."""
    lines = [HEAD, "| exit code | meaning |\n|---|---|"]
    lines += [*(f"| `{code}` | {meaning} |" for code, meaning in EXIT_CODES.items()), ""]
    commands = _choices(build_parser(""))
    for group, names in COMMANDS.items():
        lines.append(f"## {group}\n")
        for name in names:
            lines += _command(commands[name], "###")
    return "\n".join(lines).rstrip() + "\n"


def _command(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    name = parser.prog.removeprefix("quadrill ")
    yield f"{level} {name}\n"
    yield f"{parser.description}\n"
    yield f"```sh\n{_examples(parser)}\n```\n"
    rows = [_row(action) for action in parser._actions if _is_shown(action)]
    if rows:
        yield "| argument | what |\n|---|---|\n" + "\n".join(rows) + "\n"
    for action in _choices(parser).values():
        yield from _command(action, level + "#")


def _examples(parser: argparse.ArgumentParser) -> str:
    _, _, shown = (parser.epilog or "").partition(":\n")
    return "\n".join(line.strip() for line in shown.splitlines())


def _is_shown(action: argparse.Action) -> bool:
    common = {"help", "server", "token", "json"}
    return action.dest not in common and not isinstance(action, argparse._SubParsersAction)


def _row(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    value = ""
    if action.choices is not None:
        value = " \\| ".join(map(str, action.choices))
    elif action.option_strings and action.nargs != 0:
        value = str(action.metavar or action.dest.upper())
    if action.nargs in ("*", "+"):
        name += " …"
    shown = f"`{name}`" + (f" {value}" if value else "")
    told = (action.help or "") % {"default": action.default}
    return f"| {shown} | {told.replace('|', chr(92) + '|')} |"


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
