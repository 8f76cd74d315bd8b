"""Size of the data folder and of its disk, measured at most once a minute."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

KEPT_SECONDS = 60.0
"""Seconds for which a measurement is returned again, because a folder may have many files."""
MOST_FILES = 100_000
"""Number of files after which a measurement ends; the size of further files is missing then."""


class DiskFigures(NamedTuple):
    """Bytes of the files in the data folder; free bytes and size of the disk that has the folder."""

    data: int
    free: int
    size: int


class Disk:
    """Measurements of a data folder and its disk, for metrics and the overview."""

    def __init__(self, folder: Path) -> None:
        """Create the measurements of a folder that exists; the first call of `figures` measures."""
        self._folder = folder
        self._lock = threading.Lock()
        self._figures = DiskFigures(0, 0, 0)
        self._until = float("-inf")

    def figures(self) -> DiskFigures:
        """Return the newest measurement, at most `KEPT_SECONDS` old."""
        with self._lock:
            if time.monotonic() >= self._until:
                usage = shutil.disk_usage(self._folder)
                data = sum(islice(_sizes(str(self._folder)), MOST_FILES))
                self._figures = DiskFigures(data, usage.free, usage.total)
                self._until = time.monotonic() + KEPT_SECONDS
            return self._figures


def _sizes(folder: str) -> Iterator[int]:
    """Yield the size in bytes of each file below a folder, except files and folders that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        yield from _sizes(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue
    except OSError:
        return
