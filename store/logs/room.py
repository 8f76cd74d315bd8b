"""Preallocation of the write-ahead log of a SQLite file.

Syncing a file that grew also writes metadata of its new blocks, which may take milliseconds; syncing
overwritten blocks takes a fraction of a millisecond. SQLite overwrites its write-ahead log from the beginning
after each checkpoint, and ignores zeros and frames of earlier rounds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FRAMES = 1_000 + 24
"""Number of preallocated frames: SQLite begins a checkpoint after 1,000 frames and the rest of a commit."""
_FRAME_BYTES = 4096 + 24


def make_room(database: Path) -> None:
    """Extend an open SQLite database's write-ahead log with zeros to its usual maximum size."""
    with suppress(OSError):
        file = os.open(f"{database}-wal", os.O_WRONLY)
        try:
            size = os.fstat(file).st_size
            os.pwrite(file, bytes(max(0, _FRAMES * _FRAME_BYTES - size)), size)
            os.fdatasync(file)
        finally:
            os.close(file)
