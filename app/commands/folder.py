"""Parsers of the commands on a data folder; the implementation of a command is imported at its execution."""

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
        "bring data folder and registry to this version's format",
        "migrate --data ./quadrill",
    )
    saving = add_client_command(
        commands,
        "backup",
        _backup,
        "copy all that a server or a data folder keeps",
        "backup monday",
        "backup monday --data ./quadrill",
        further="With --data it is a folder that no server has open",
    )
    saving.add_argument("folder", type=Path, metavar="DIR", help="a new folder for the backup")
    restoring = add_command(
        commands,
        "restore",
        _restore,
        "make a data folder of a backup",
        "restore monday --data ./restored",
    )
    restoring.add_argument("folder", type=Path, metavar="DIR", help="the backup: a folder or a tar archive")
    export = add_client_command(
        commands,
        "export",
        _export,
        "write all quads",
        "export all.nq.gz",
        "export --data ./quadrill all.trig",
        further="The ending of the file tells the format, and whether it is packed",
    )
    export.add_argument("file", nargs="?", help="the file; standard output without it")
    export.add_argument("--format", choices=EXPORT_FORMATS, help="default: that of the file's name, else nq")
    checking = add_command(
        commands,
        "check",
        _check,
        "tell what is whole and what is damaged in a data folder; nothing is changed",
        "check --data ./quadrill",
    )
    checking.add_argument("--json", action="store_true", help="write a JSON document")
    repairing = add_command(
        commands,
        "repair",
        _repair,
        "go on without what is damaged in a data folder",
        "repair --drop-damaged --data ./quadrill",
    )
    repairing.add_argument(
        "--drop-damaged",
        action="store_true",
        required=True,
        help="put what is damaged aside, and tell what is lost",
    )
    for parser in (migrating, saving, restoring, export, checking, repairing):
        add_data_options(parser)
    _add_tokens(commands)


def _add_tokens(commands: Any) -> None:
    parser = add_command(
        commands,
        "token",
        None,
        "make, list and remove bearer tokens of a data folder",
        "token add write --label ada",
        "token list --data ./quadrill",
        further="From the first one on every request needs one",
    )
    add_data_options(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    add = add_command(
        actions, "add", _add_token, "make a token and print it, once", "token add read --label page"
    )
    add.add_argument("role", choices=ROLES, help="what it may do")
    add.add_argument("--label", default="", help="whose it is")
    listing = add_command(
        actions, "list", _list_tokens, "list tokens by the first digits of their hashes", "token list"
    )
    remove = add_command(actions, "remove", _remove_token, "remove a token", "token remove 5f0c2a")
    remove.add_argument("hash", help="the first digits of its hash, as listed")
    for action in (add, listing, remove):
        # --data and --config are accepted before and after the action's name.
        add_data_options(action, default=argparse.SUPPRESS)


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
