"""Room in the write-ahead log of a SQLite file, made beforehand.

A sync of a file that grew has to write where its new blocks are, too, which may take milliseconds; what is
written over takes a fraction of one. SQLite writes its log over from the beginning after each checkpoint, and
takes zeros, like all that is left of earlier rounds, for nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FRAMES = 1_000 + 24
"""SQLite begins a checkpoint at a thousand frames; the commit that reaches them may have some more."""
_FRAME_BYTES = 4096 + 24


def make_room(database: Path) -> None:
    """Let the log of an open database be as large as it gets; without space on the disk it grows."""
    with suppress(OSError):
        file = os.open(f"{database}-wal", os.O_WRONLY)
        try:
            size = os.fstat(file).st_size
            os.pwrite(file, bytes(max(0, _FRAMES * _FRAME_BYTES - size)), size)
            os.fdatasync(file)
        finally:
            os.close(file)
