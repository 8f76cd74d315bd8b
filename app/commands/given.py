"""Commands and their arguments: texts in files or on standard input, and errors for what cannot be meant."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from quadrill.store.errors import QuadrillError


class UsageError(QuadrillError):
    """The command line asks for something that cannot be; the exit code is 2."""

    code = "usage"


class OfflineError(QuadrillError):
    """A file that a command needs is not as it should be."""

    code = "offline"


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """The parser of a command that ``run`` runs."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def add_data_options(parser: argparse.ArgumentParser, further: str = "") -> None:
    """The options that name a data folder, with something ``further`` in their help."""
    parser.add_argument("--data", metavar="DIR", help=f"data folder{further}")
    parser.add_argument("--config", metavar="FILE", type=Path, help=f"TOML file with settings{further}")


def read_text(file: Path | None) -> str:
    """The text of a file, or without one of standard input; raises OfflineError when it is none."""
    try:
        return sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OfflineError(f"{file or 'standard input'} is not UTF-8") from error


def json_of(text: str, file: object) -> Any:
    """The JSON value of a text that stands in a file; raises OfflineError with the place of what is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise OfflineError(f"{file} is no JSON, {place}: {error.msg}") from error


def members_of(given: Iterable[str], option: str, form: str = "NAME=JSON") -> dict[str, Any]:
    """The members that an option gives as ``NAME=JSON``, where what is no JSON is a text.

    Raises: UsageError, which names the option and the form that it has.
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
    """The media type that a file's name tells; raises UsageError when it tells none."""
    # Few commands need to know formats of RDF, which take long to begin.
    from quadrill.store.formats import guess_rdf_format

    kind = guess_rdf_format(file.name)
    if kind is None:
        raise UsageError(
            f"the name of {file} does not tell its format", hint="Give --type, for instance text/turtle."
        )
    return kind.media_type
