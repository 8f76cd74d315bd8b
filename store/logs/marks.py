"""A mark next to a log holds the durable record numbers, so that a truncated log is detected.

A log alone cannot show whether its newest records were lost or never existed. The mark is written after each
sync of its log, and is rarely synced. After a killed process the mark is exact; after a power failure the
mark may be older than its log; the mark is never newer than its log.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

MARK = struct.Struct("<QQQ")
"""The first number, the last number, and their exclusive or, which detects a damaged mark."""


class LogMark:
    """The file that marks the first and the last durable record number of a log.

    Attributes:
        first: the log's oldest record number when the mark was opened; 0 if unknown.
        last: the newest durable record number when the mark was opened; 0 if unknown.
        file: the descriptor of the mark's file; negative if the file is not open.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        """Open or create a mark; if the file cannot be opened, `note` has no effect.

        ``write``: False opens an existing mark for reading only.
        """
        self._path = path
        self.first = self.last = 0
        self.file = -1
        with contextlib.suppress(OSError):
            self.file = os.open(path, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY, 0o600)
            data = os.read(self.file, MARK.size + 1)
            if len(data) == MARK.size:
                first, last, check = MARK.unpack(data)
                if check == first ^ last:
                    self.first, self.last = first, last

    @staticmethod
    def mark_path(path: Path) -> Path:
        """Return the path of a log's mark."""
        return path.with_name(f"{path.name}.mark")

    def note(self, last: int) -> None:
        """Write the newest durable number; if the disk refuses, the older mark stays, which is harmless."""
        try:
            os.pwrite(self.file, MARK.pack(0, last, last), 0)
        except OSError:
            return

    def sync(self) -> None:
        """Sync the mark, so that it survives a power failure.

        Raises:
            OSError: the disk refuses the sync; the newest marked number may be lost.
        """
        os.fsync(self.file)

    def remove(self) -> None:
        """Close and delete the mark, so that no durable number is known any more."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file of the mark."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
