"""Reading of arguments: texts in files or on standard input, and errors for what cannot be meant."""

from __future__ import annotations

import sys
from pathlib import Path

from quadrill.store.errors import QuadrillError
from quadrill.store.formats import guess_rdf_format


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


def media_type_of(file: Path) -> str:
    """The media type that a file's name tells; raises UsageError when it tells none."""
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise UsageError(
            f"the name of {file} does not tell its format", hint="Give --type, for instance text/turtle."
        )
    return kind.media_type
