"""Functions that add commands and arguments to the command line parser, and read files named by arguments."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quadrill.store.errors import ReportedError

from ..setting_values import SERVER_VARIABLE

DEFAULT_SERVER = "http://127.0.0.1:7878/"
DIALECTS = ("cqels", "rspql", "csparql", "sparql")
_DIALECT_ENDINGS = {".cqels": "cqels", ".rspql": "rspql", ".csparql": "csparql"}
"""Dialects of query texts by the ending of a query file's name."""
Run = Callable[[argparse.Namespace], int]


class UsageError(ReportedError):
    """Error that the command line has invalid or contradictory arguments; the exit code is 2."""

    code = "usage"


class OfflineError(ReportedError):
    """Error that a file of a command cannot be read or has invalid content."""

    code = "offline"


class _Help(argparse.HelpFormatter):
    """Help formatter that wraps paragraphs and leaves indented lines, which are examples, unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        return "\n".join(each if each.startswith("  ") else textwrap.fill(each, width) for each in lines)


def add_command(
    commands: Any,
    name: str,
    run: Run | None,
    summary: str,
    *examples: str,
    further: str = "",
    json_help: str = "print JSON on standard output: one object, or one object per line for a list",
    is_action: bool = False,
) -> argparse.ArgumentParser:
    """Add a command with the option ``--json`` to a group of sub-parsers and return the command's parser.

    ``run`` executes the command and returns its exit code. The help text consists of the summary, the text
    ``further`` and the examples. The options of an action are also accepted before the action's name.
    """
    shown = "\n".join(f"  quadrill {each}" for each in examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{f' {further}.' if further else ''}",
        epilog=f"{'examples' if len(examples) > 1 else 'example'}:\n{shown}",
        formatter_class=_Help,
    )
    parser.set_defaults(summary=summary)
    if run is not None:
        parser.set_defaults(run=run)
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS if is_action else False, help=json_help
    )
    if is_action:
        # Errors in the arguments of an action are reported by the parser of the action.
        parser.set_defaults(parser=parser)
    return parser


def add_client_command(
    commands: Any, name: str, run: Run | None, summary: str, *examples: str, further: str = ""
) -> argparse.ArgumentParser:
    """Add a command with the options ``--server`` and ``--token``, and return its parser."""
    parser = add_command(commands, name, run, summary, *examples, further=further)
    add_server_options(parser)
    return parser


def add_actions(parser: argparse.ArgumentParser, run: Run) -> Any:
    """Add a group of actions to a command's parser; ``run`` is executed if no action is given."""
    parser.set_defaults(run=run)
    return parser.add_subparsers(dest="action", metavar="ACTION", title="actions")


def add_action(actions: Any, name: str, run: Run, summary: str, *examples: str) -> argparse.ArgumentParser:
    """Add an action that calls a server, with server options before or after its name."""
    parser = add_command(actions, name, run, summary, *examples, is_action=True)
    add_server_options(parser, argparse.SUPPRESS)
    return parser


def add_server_options(parser: argparse.ArgumentParser, default: Any = None) -> None:
    """Add the options ``--server`` and ``--token`` to a command's parser."""
    parser.add_argument(
        "--server",
        metavar="URL",
        default=default,
        help=f"the server (default: the variable {SERVER_VARIABLE}, else {DEFAULT_SERVER})",
    )
    parser.add_argument(
        "--token", default=default, help="bearer token (default: the variable QUADRILL_TOKEN)"
    )


def add_data_options(parser: argparse.ArgumentParser, further: str = "", default: Any = None) -> None:
    """Add the options ``--data`` and ``--config`` to a parser; their help texts end with ``further``."""
    parser.add_argument("--data", metavar="DIR", default=default, help=f"data folder{further}")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, default=default, help=f"TOML file with settings{further}"
    )


def query_path(name: str, what: str = "") -> str:
    """Return the URL path of a continuous query, relative to the address of the server."""
    return f"queries/{quote(name, safe='')}{what}"


def stream_address(name: str, what: str = "") -> tuple[str, dict[str, str]]:
    """Return the URL path and query parameters of a stream, which is given by its name or its IRI."""
    if ":" in name:
        return f"streams{what}", {"iri": name}
    return f"streams/{quote(name, safe='')}{what}", {}


def dialect_of(file: Path | None) -> str | None:
    """Return the dialect that the ending of a query file's name selects; None for any other ending."""
    return None if file is None else _DIALECT_ENDINGS.get(file.suffix)


def read_text(file: Path | None) -> str:
    """Read a UTF-8 file, or standard input for None; raise OfflineError when the bytes are not UTF-8."""
    try:
        return sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OfflineError(f"{file or 'standard input'} is not UTF-8") from error


def json_of(text: str, file: object) -> Any:
    """Parse the JSON text of a file; raise OfflineError with line and column of a syntax error."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise OfflineError(f"{file} is not valid JSON, {place}: {error.msg}") from error


def members_of(given: Iterable[str], option: str, form: str = "NAME=JSON") -> dict[str, Any]:
    """Parse the values ``NAME=JSON`` of a repeated option; a value that is not valid JSON becomes a string.

    Raises: UsageError with the option and its expected form, when a value has no ``=``.
    """
    members: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"{option} {each} is not {form}")
        try:
            members[name] = json.loads(value)
        except ValueError:
            members[name] = value
    return members


def media_type_of(file: Path) -> str:
    """Return the RDF media type for a file name's ending; raise UsageError for an unknown ending."""
    # The list of RDF formats is imported here and not at module level, because the import is slow and few
    # commands need the list.
    from quadrill.store.formats import guess_rdf_format

    kind = guess_rdf_format(file.name)
    if kind is None:
        raise UsageError(
            f"the ending of {file} names no known format", hint="Give --type, for instance text/turtle."
        )
    return kind.media_type


def split_pair(given: str) -> tuple[str, str]:
    """Return the stream and the source of an option ``--stream NAME=SOURCE``; raises UsageError."""
    name, equals, source = given.rpartition("=")
    if not equals or not name or not source:
        raise UsageError(f"--stream {given} is not NAME=FILE")
    return name, source
