"""The command ``quadrill``: its sub-commands, each in a module of :mod:`quadrill.app.commands`.

Exit codes: 0 done, 1 failed (one sentence on standard error), 2 wrong usage, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from quadrill.store.documents.similar import did_you_mean
from quadrill.store.errors import ReportedError

from .commands.arguments import UsageError
from .commands.hints import with_commands
from .commands.parser import USAGE, CommandParser, command_first, complain

OK, FAILED, INTERRUPTED = 0, 1, 130
COMMANDS = {
    "A server": {"serve": "serve", "demo": "serve", "top": "top", "jobs": "jobs"},
    "Data": {
        "query": "query",
        "update": "query",
        "load": "load",
        "export": "folder",
        "mirror": "mirror",
        "rules": "rules",
        "shapes": "shapes",
        "validate": "validate",
    },
    "Continuous queries": {
        "register": "register",
        "queries": "queries",
        "watch": "watch",
        "explain": "explain",
        "pause": "queries",
        "resume": "queries",
        "refresh": "queries",
        "replay": "queries",
        "drop": "queries",
        "run": "run",
    },
    "Streams": {"push": "push", "streams": "streams", "declare": "streams", "map": "mapping"},
    "Sources, sinks and declarations": {
        "sources": "connectors",
        "source": "connectors",
        "sinks": "connectors",
        "sink": "connectors",
        "apply": "apply",
        "dump": "apply",
    },
    "Data folders": {
        "backup": "folder",
        "restore": "folder",
        "check": "folder",
        "repair": "folder",
        "migrate": "folder",
        "token": "folder",
    },
    "The program": {"version": "version", "completion": "completion"},
}
"""Commands by heading, in the order of the help text; each value is the command's module in ``commands``."""
_MODULES = {command: module for group in COMMANDS.values() for command, module in group.items()}
_ALONE = ("-h", "--help", "-V", "--version")
"""Options that need no command."""
_COMPLETING = "_ARGCOMPLETE"
"""Environment variable that a shell sets when it requests completions of a command line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line program ``quadrill`` and return the exit code."""
    # Python is kept from importing httpx's own command line program, whose dependencies no command of
    # quadrill uses.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    if _COMPLETING in os.environ:
        from .commands.completing import complete

        complete(build_parser(""))
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if arguments and arguments[0].startswith("-") and arguments[0] not in _ALONE:
        arguments = command_first(arguments, build_parser("").actions())
    asked = arguments[0] if arguments else ""
    parser = build_parser(asked)
    if not asked.startswith("-") and asked not in _MODULES:
        _refuse(parser, asked)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.refuse(unknown)
    try:
        code: int = options.run(options)
    except ReportedError as error:
        return _fail(error, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Standard output is replaced, because the reader of the pipe, such as `head`, has exited, and Python
        # would fail to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}", _similar_file(error))
        return _failed(options)
    return code


def build_parser(asked: str) -> CommandParser:
    """Build a parser with the commands of one module: the module of the command ``asked``.

    If ``asked`` names no command, the parser has all commands. A command imports its dependencies when it
    runs, because a client command needs neither store nor engine, whose import takes longer than its request.
    """
    parser = CommandParser(
        prog="quadrill",
        usage="quadrill COMMAND [OPTION ...]",
        description="A SPARQL triple store whose queries can stay open.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", "-V", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(
        prog="quadrill", dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for module in dict.fromkeys([_MODULES[asked]] if asked in _MODULES else _MODULES.values()):
        import_module(f".commands.{module}", __package__).add_commands(commands)
    for command in commands.choices.values():
        # An unknown option is reported with the usage of its command, not with the list of all commands.
        command.set_defaults(parser=command)
    if asked not in _MODULES:
        parser.epilog = _overview(commands)
    return parser


class _Version(argparse.Action):
    """Option that prints Quadrill's version, read from the distribution metadata when the option is given."""

    def __init__(self, option_strings: Sequence[str], dest: str, **further: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **further)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from quadrill.store.documents.release import release_of

        print(f"quadrill {release_of()}")
        parser.exit()


def _overview(commands: Any) -> str:
    """Return the list of all commands by heading, with a one-sentence summary of each command."""
    lines = []
    for group, names in COMMANDS.items():
        lines.append(f"{group}:")
        lines += [f"    {name:10}  {commands.choices[name].get_default('summary')}" for name in names]
        lines.append("")
    lines.append("quadrill COMMAND --help lists the options of a command, with examples.")
    lines.append("A server shows the documentation at /ui/docs.")
    return "\n".join(lines)


def _refuse(parser: argparse.ArgumentParser, asked: str) -> NoReturn:
    """Report an unknown command, suggest commands of similar spelling, and exit with code 2."""
    meant = did_you_mean(asked, _MODULES)
    complain(
        f"there is no command {asked}" if asked else "no command is given",
        f"{meant} quadrill --help lists all.".lstrip(),
    )
    parser.exit(USAGE)


def _hint(text: str | None) -> str | None:
    return None if text is None else with_commands(text)


def _similar_file(error: OSError) -> str | None:
    """Return a question that names files with names similar to that of a missing file; None without any."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str | os.PathLike):
        return None
    path = Path(error.filename)
    if not path.parent.is_dir():
        return None
    meant = did_you_mean(path.name, (each.name for each in path.parent.iterdir()))
    return meant or None


def _failed(options: argparse.Namespace) -> int:
    """Return the exit code of a command that failed; a command can replace 1 by another one."""
    code: int = getattr(options, "failed", FAILED)
    return code


def _fail(error: ReportedError, options: argparse.Namespace) -> int:
    """Print each fault of an error with its place, excerpt and hint, and return the exit code."""
    faults = getattr(error, "faults", None) or (
        {"message": error.message, "hint": error.hint}
        | {name: getattr(error, name, None) for name in ("line", "column", "excerpt")},
    )
    for fault in faults:
        line, column, message = fault["line"], fault["column"], fault["message"]
        place = f"line {line}: " if column is None else f"line {line}, column {column}: "
        has_place = line is None or place.removesuffix(": ") in message
        excerpt = f"\n{fault['excerpt']}" if fault["excerpt"] else ""
        complain(f"{'' if has_place else place}{with_commands(message)}{excerpt}", _hint(fault["hint"]))
    return USAGE if isinstance(error, UsageError) else _failed(options)


if __name__ == "__main__":
    sys.exit(main())
