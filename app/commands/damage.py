"""``quadrill check`` and ``quadrill repair``: what is damaged in a data folder, and going on without it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from quadrill.store.folder import looked_at

from ..config import load_settings
from ..upkeep.check import Found, check
from ..upkeep.repair import repair
from .given import OfflineError, add_command, add_data_options

DAMAGED = 1


def add_commands(commands: Any) -> None:
    """Add the two commands."""
    summary = "tell what is whole and what is damaged in a data folder; nothing is changed"
    checking = add_command(commands, "check", _check, summary)
    checking.add_argument("--json", action="store_true", help="write a JSON document")
    summary = "go on without what is damaged in a data folder"
    repairing = add_command(commands, "repair", _repair, summary)
    repairing.add_argument(
        "--drop-damaged",
        action="store_true",
        required=True,
        help="put what is damaged aside, and tell what is lost",
    )
    for parser in (checking, repairing):
        add_data_options(parser)


def _check(options: argparse.Namespace) -> int:
    folder, registry_url = _data(options)
    with looked_at(folder):
        found = check(folder, registry_url)
    if options.json:
        files = [each.to_json() for each in found.findings]
        print(json.dumps({"data": str(folder), "whole": found.whole, "files": files}, indent=2))
    else:
        _print(found)
    return 0 if found.whole else DAMAGED


def _repair(options: argparse.Namespace) -> int:
    folder, registry_url = _data(options)
    with looked_at(folder):
        found, told = repair(folder, registry_url)
    for sentence in told:
        print(sentence)
    _print(found)
    return 0 if found.whole else DAMAGED


def _data(options: argparse.Namespace) -> tuple[Path, str]:
    """The data folder, and the setting for a registry elsewhere."""
    given = {"data": options.data} if options.data else {}
    settings = load_settings(overrides=given, file=options.config)
    if settings.data_folder is None:
        raise OfflineError("a store in memory has no files", hint="Name a data folder with --data.")
    return settings.data_folder, settings.registry_url


def _print(found: Found) -> None:
    """A line for each file, and one for each fault."""
    for each in found.findings:
        facts = ", ".join(f"{name} {value}" for name, value in each.facts.items())
        state = "DAMAGED" if each.faults else "whole"
        print(f"{state:8} {each.file}: {each.what}{f' ({facts})' if facts else ''}")
        for fault in each.faults:
            print(f"         {fault}")
