"""What a command line gives: texts in files or on standard input, and what cannot be meant."""

from __future__ import annotations

import sys
from pathlib import Path

from quadrill.store.errors import QuadrillError


class UsageError(QuadrillError):
    """The command line asks for something that cannot be; the exit code is 2."""

    code = "usage"


class OfflineError(QuadrillError):
    """A file that a command needs is not as it should be."""

    code = "offline"


def read_text(file: Path | None) -> str:
    """The text of a file, or without one of standard input; raises OfflineError when it is none."""
    try:
        return sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OfflineError(f"{file or 'standard input'} is not UTF-8") from error
