"""The commands ``quadrill check`` and ``quadrill repair``, which find and repair damage in a data folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from quadrill.store.folder import looked_at

from ..config import load_settings
from ..upkeep.check import Findings
from ..upkeep.check import check as checked
from ..upkeep.repair import repair as repaired
from . import output
from .arguments import OfflineError

DAMAGED = 1
"""Exit code of a check or repair after which a file is damaged."""


def check(options: argparse.Namespace) -> int:
    """Execute ``quadrill check``: print the state of a data folder's files; return 1 if a file is damaged."""
    folder, registry_url = _data(options)
    with looked_at(folder):
        found = checked(folder, registry_url)
    if options.json:
        print(json.dumps(_document(folder, found), indent=2))
    else:
        _print(found)
    return 0 if found.whole else DAMAGED


def repair(options: argparse.Namespace) -> int:
    """Execute ``quadrill repair``: drop damaged parts of a data folder, and print what is lost."""
    folder, registry_url = _data(options)
    with looked_at(folder):
        found, lost = repaired(folder, registry_url)
    if options.json:
        output.print_json({**_document(folder, found), "report": lost})
    else:
        for sentence in lost:
            print(sentence)
        _print(found)
    return 0 if found.whole else DAMAGED


def _document(folder: Path, found: Findings) -> dict[str, Any]:
    return {
        "data": str(folder),
        "whole": found.whole,
        "files": [each.to_json() for each in found.findings],
    }


def _data(options: argparse.Namespace) -> tuple[Path, str]:
    """Return the data folder of the options or settings, and the setting ``registry_url``."""
    given = {"data": options.data} if options.data else {}
    settings = load_settings(overrides=given, file=options.config)
    if settings.data_folder is None:
        raise OfflineError("a store in memory has no files", hint="Name a data folder with --data.")
    return settings.data_folder, settings.registry_url


def _print(found: Findings) -> None:
    """Print one line for each checked file, and below it one line for each fault or note."""
    for each in found.findings:
        facts = ", ".join(f"{name} {value}" for name, value in each.facts.items())
        state = "DAMAGED" if each.faults else "whole"
        print(f"{state:8} {each.file}: {each.what}{f' ({facts})' if facts else ''}")
        for line in (*each.faults, *each.notes):
            print(f"         {line}")
