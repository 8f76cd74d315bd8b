"""The page docs/commands.md, made of the parsers: ``python -m tests.app.commands.page`` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from quadrill.app.cli import COMMANDS, build_parser

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"

HEAD = """# The command line

`quadrill COMMAND --help` tells the same as this page, which is made of it (`python -m
tests.app.commands.page`).

- **The server** of a command is that of `--server`, else of the variable `QUADRILL_SERVER`, else
  `http://127.0.0.1:7878/`; `example.org:8080` needs no scheme. The token is that of `--token`, else of
  `QUADRILL_TOKEN`.
- **Exit codes**: 0 done, 1 failed, 2 wrong usage. What failed is one sentence on standard error, with the
  place in a text and a hint how to mend it where there is one.
- **Answers go to standard output**, what was done is told on standard error, so that pipes carry data
  alone. Tables are as wide as the terminal, with colours unless `NO_COLOR` is set; where standard output
  is no terminal they are plain text.
- **`--json`** prints JSON on standard output: one object, or for a list one object a line; `sources` and
  `sinks` print one array.
- **Endings of files decide**: formats of RDF (`.ttl`, `.nt`, `.nq`, `.trig`, `.jsonld`, `.rdf`), of
  records (`.ndjson`, `.json`, `.csv`), of answers (`--to` with `.csv`, `.tsv`, `.json`, `.xml`), dialects
  (`.cqels`, `.rspql`, `.csparql`), declarations (`.toml`, `.yaml`), packings (`.gz`, `.bz2`, `.zst`).
- **Completion** of commands, options and names that the server has: `source <(quadrill completion bash)`.
"""


def written() -> str:
    """The page."""
    lines = [HEAD]
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
