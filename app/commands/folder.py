"""Parsers of the commands on a data folder, such as ``backup``, ``check`` and ``token``.

The implementation of a command is imported when the command is executed, because the import is slow.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .arguments import add_client_command, add_command, add_data_options

EXPORT_FORMATS = ("nq", "trig", "jsonld")
ROLES = ("read", "push", "write", "admin")


def add_commands(commands: Any) -> None:
    """Add the commands on a data folder, such as ``backup``, ``export`` and ``token``, to the parser."""
    migrating = add_command(
        commands,
        "migrate",
        _migrate,
        "upgrade a data folder and its registry to this version's formats",
        "migrate --data ./quadrill",
    )
    saving = add_client_command(
        commands,
        "backup",
        _backup,
        "copy all data of a server or of a data folder",
        "backup monday",
        "backup monday --data ./quadrill",
        further="The data folder of --data must not be open in a server",
    )
    saving.add_argument("folder", type=Path, metavar="DIR", help="a new folder for the backup")
    restoring = add_command(
        commands,
        "restore",
        _restore,
        "create a data folder from a backup",
        "restore monday --data ./restored",
    )
    restoring.add_argument("folder", type=Path, metavar="DIR", help="the backup: a folder or a tar archive")
    export = add_client_command(
        commands,
        "export",
        _export,
        "write all quads of a server or of a data folder to a file",
        "export all.nq.gz",
        "export --data ./quadrill all.trig",
        further="The ending of the file name selects the format and the compression",
    )
    export.add_argument("file", nargs="?", help="the file; default: standard output")
    export.add_argument("--format", choices=EXPORT_FORMATS, help="default: by the file's ending, else nq")
    export.add_argument(
        "--inferred",
        action="store_true",
        help="export the graphs of rule sets and of the reports of shapes, too",
    )
    checking = add_command(
        commands,
        "check",
        _check,
        "report which files of a data folder are damaged, without changing them",
        "check --data ./quadrill",
    )
    repairing = add_command(
        commands,
        "repair",
        _repair,
        "drop the damaged parts of a data folder",
        "repair --drop-damaged --data ./quadrill",
    )
    repairing.add_argument(
        "--drop-damaged",
        action="store_true",
        required=True,
        help="drop damaged parts, move damaged files into the subfolder damaged, and report the losses",
    )
    for parser in (migrating, saving, restoring, export, checking, repairing):
        add_data_options(parser)
    _add_tokens(commands)


def _add_tokens(commands: Any) -> None:
    parser = add_command(
        commands,
        "token",
        None,
        "create, list and remove bearer tokens of a data folder",
        "token add write --label ada",
        "token list --data ./quadrill",
        further="Once a token exists, every request needs a token",
    )
    add_data_options(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    add = add_command(
        actions,
        "add",
        _add_token,
        "create a token and print it; it is never shown again",
        "token add read --label page",
        is_action=True,
    )
    add.add_argument("role", choices=ROLES, help="the token's role, which limits its requests")
    add.add_argument("--label", default="", help="a text that names the token's owner or purpose")
    listing = add_command(
        actions,
        "list",
        _list_tokens,
        "list tokens with the first digits of their hashes",
        "token list",
        is_action=True,
    )
    remove = add_command(
        actions, "remove", _remove_token, "remove a token", "token remove 5f0c2a", is_action=True
    )
    remove.add_argument("hash", help="the first digits of the token's hash, as token list prints them")
    for action in (add, listing, remove):
        # The options --data and --config of a command with actions are accepted before and after the action's
        # name.
        add_data_options(action, default=argparse.SUPPRESS)
        action.add_argument("--create", action="store_true", help="make the data folder if there is none yet")


def _migrate(options: argparse.Namespace) -> int:
    from .offline import migrate

    return migrate(options)


def _backup(options: argparse.Namespace) -> int:
    from .offline import backup

    return backup(options)


def _restore(options: argparse.Namespace) -> int:
    from .offline import restore

    return restore(options)


def _export(options: argparse.Namespace) -> int:
    from .offline import export

    return export(options)


def _check(options: argparse.Namespace) -> int:
    from .damage import check

    return check(options)


def _repair(options: argparse.Namespace) -> int:
    from .damage import repair

    return repair(options)


def _add_token(options: argparse.Namespace) -> int:
    from .tokens import add

    return add(options)


def _list_tokens(options: argparse.Namespace) -> int:
    from .tokens import show

    return show(options)


def _remove_token(options: argparse.Namespace) -> int:
    from .tokens import remove

    return remove(options)
