"""A mark beside a log: which of its numbers were durable, so that a log that lost its end is not believed.

A log alone cannot tell a file that lost its newest records from one that never had them. The mark is written
behind each sync of its log and hardly ever synced itself: a killed process leaves an exact one, a power
failure perhaps an older one, and nothing leaves one that is ahead of its log.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

MARK = struct.Struct("<QQQ")
"""First, last, and both by exclusive or: a mark that is damaged says nothing."""


class LogMark:
    """The first and the last number that a log is known to hold, as they were when the mark was opened.

    Attributes:
        first: the oldest number kept; 0 when that is not known.
        last: the newest durable one; 0 when nothing is known.
        file: the open file; negative where it cannot be opened.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        """Open or make a mark; one that cannot be opened says nothing, and nothing is noted there.

        ``write``: False only looks at one.
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
    def beside(path: Path) -> Path:
        """The path of the mark of a log."""
        return path.with_name(f"{path.name}.mark")

    def note(self, last: int) -> None:
        """Write what is durable now; where the disk refuses, the mark stays behind, which is harmless."""
        try:
            os.pwrite(self.file, MARK.pack(0, last, last), 0)
        except OSError:
            return

    def sync(self) -> None:
        """Let the mark survive a power failure.

        Raises:
            OSError: the disk refuses; what was noted may be lost, and is noted anew before the next time.
        """
        os.fsync(self.file)

    def remove(self) -> None:
        """Delete the mark: from now on nothing is known."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
