"""The command ``quadrill version``, which prints the version of the program."""

from __future__ import annotations

import argparse
import platform
import sqlite3
from typing import Any

from quadrill.store.documents.release import release_of

from . import output
from .arguments import add_command


def add_commands(commands: Any) -> None:
    """Add the command ``version`` to the command line parser."""
    add_command(
        commands,
        "version",
        _version,
        "print the version",
        "version",
        "version --json",
        further="For bug reports, --json adds the versions of Python, Oxigraph and SQLite, and the platform",
    )


def _version(options: argparse.Namespace) -> int:
    if options.json:
        output.print_json(
            {
                "quadrill": release_of(),
                "python": platform.python_version(),
                "pyoxigraph": release_of("pyoxigraph"),
                "sqlite": sqlite3.sqlite_version,
                "platform": platform.platform(),
            }
        )
    else:
        print(f"quadrill {release_of()}")
    return 0
