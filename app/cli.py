"""The command ``quadrill``: its sub-commands, each in a module of :mod:`quadrill.app.commands`.

Exit codes: 0 done, 1 failed (one sentence on standard error), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from quadrill.store.errors import QuadrillError

from .commands.given import UsageError

OK, FAILED, USAGE = 0, 1, 2
MODULES = {
    "serve": ("serve", "demo"),
    "push": ("push",),
    "client": ("query", "update", "register", "queries", "watch", "replay", "drop"),
    "records": ("declare", "map"),
    "apply": ("apply", "dump"),
    "connectors": ("sources", "source", "sinks", "sink"),
    "load": ("load",),
    "mirror": ("mirror",),
    "explain": ("explain",),
    "offline": ("migrate", "backup", "restore", "export"),
    "damage": ("check", "repair"),
    "run": ("run",),
    "tokens": ("token",),
}
"""Modules of the package ``commands`` and what they have, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, unknown = build_parser(arguments[0] if arguments else "").parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        code: int = options.run(options)
    except QuadrillError as error:
        return _fail(error)
    except KeyboardInterrupt:
        return OK
    except BrokenPipeError:
        # The reader, `head` for instance, has enough. What Python would flush at exit has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"quadrill: {where}{error.strerror or error}", file=sys.stderr)
        return FAILED
    return code


def build_parser(asked: str) -> argparse.ArgumentParser:
    """The parser of the module that has the command that is asked for, else of all.

    A client needs no store and no engine, and importing them takes longer than its work.
    """
    parser = argparse.ArgumentParser(
        prog="quadrill",
        description="A SPARQL triple store whose queries can stay open.",
    )
    parser.add_argument("--version", action="version", version=f"quadrill {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in [name for name, has in MODULES.items() if asked in has] or MODULES:
        import_module(f".commands.{module}", __package__).add_commands(commands)
    for command in commands.choices.values():
        # What a command does not know is told with its own usage, not with the list of all commands.
        command.set_defaults(parser=command)
    return parser


def _fail(error: QuadrillError) -> int:
    faults = getattr(error, "faults", None) or (
        {"message": error.message, "hint": error.hint}
        | {name: getattr(error, name, None) for name in ("line", "column", "excerpt")},
    )
    for fault in faults:
        line, column, message = fault["line"], fault["column"], fault["message"]
        place = f"line {line}: " if column is None else f"line {line}, column {column}: "
        told = line is None or place.removesuffix(": ") in message
        print(f"quadrill: {'' if told else place}{message}", file=sys.stderr)
        if fault["excerpt"]:
            print(fault["excerpt"], file=sys.stderr)
        if fault["hint"]:
            print(f"Hint: {fault['hint']}", file=sys.stderr)
    return USAGE if isinstance(error, UsageError) else FAILED


def _version() -> str:
    try:
        return version("quadrill")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
