"""A mark next to a log holds the durable record numbers, so that a truncated log is detected.

A log alone cannot show whether its newest records were lost or never existed. The mark file of a log is
written after each sync of the log, and is rarely synced. After a killed process the mark file is exact; after
a power failure it may be older than its log; it is never newer than its log.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

MARK = struct.Struct("<QQQ")
"""The layout of a mark file: first and last record number, and their exclusive or, to detect damage."""


class LogMark:
    """The file that marks the first and the last durable record number of a log.

    Attributes:
        first: the log's oldest record number when the mark was opened; 0 if unknown.
        last: the newest durable record number when the mark was opened; 0 if unknown.
        file: the descriptor of the mark's file; negative if the file is not open.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        """Open or create a log's mark file; if it cannot be opened, `note` has no effect.

        ``write``: False opens an existing mark file for reading only.
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
        """Return the path of the mark file of a log."""
        return path.with_name(f"{path.name}.mark")

    def note(self, last: int) -> None:
        """Write the newest durable record number to the mark; if the disk refuses, the older mark stays."""
        try:
            os.pwrite(self.file, MARK.pack(0, last, last), 0)
        except OSError:
            return

    def sync(self) -> None:
        """Sync the mark file, so that it survives a power failure.

        Raises:
            OSError: the disk refuses the sync; the newest marked record number may be lost.
        """
        os.fsync(self.file)

    def remove(self) -> None:
        """Close and delete the mark file, so that no durable record number is known any more."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the mark file of the log."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
