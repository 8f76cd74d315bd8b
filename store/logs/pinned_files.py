"""Open files of a folder whose content at one moment can be copied while writers continue."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..errors import StoreUnwritableError
from ..folder import keep_private
from .reading import reading

_SMALL = 4096
"""Files of at most this many bytes are read at once, because small mark files are overwritten in place."""


class PinnedFiles(contextlib.ExitStack):
    """Open files and databases of a folder, readable as they were even after later writes or deletions.

    Small files of the folder are read immediately. Larger files of the folder only grow at their end or are
    replaced as a whole, so their content at that moment stays readable. Each SQLite database of the folder is
    read in one transaction, which sees a fixed state.
    """

    def __init__(self, folder: Path, files: Sequence[str], databases: Sequence[str]) -> None:
        """Open the folder's files and databases; no thread may write them during this call.

        Args:
            folder: the folder of the files.
            files: glob patterns of file names.
            databases: names of SQLite files, which may be in use or missing.

        Raises:
            StoreUnwritableError: a file cannot be read.
        """
        super().__init__()
        self._files: list[tuple[str, IO[bytes], int]] = []
        self._databases: list[tuple[str, sqlite3.Connection]] = []
        try:
            for path in (path for pattern in files for path in sorted(folder.glob(pattern))):
                file: IO[bytes] = self.enter_context(path.open("rb"))
                size = os.fstat(file.fileno()).st_size
                if size <= _SMALL:
                    file = io.BytesIO(file.read(size))
                self._files.append((str(path.relative_to(folder)), file, size))
            for name in databases:
                if (folder / name).exists():
                    database = self.enter_context(reading(folder / name))
                    database.execute("BEGIN")
                    database.execute("SELECT count(*) FROM sqlite_master").fetchone()
                    self._databases.append((name, database))
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise StoreUnwritableError(f"the files in {folder} cannot be read: {error}") from error

    def copy_to(self, target: Path) -> None:
        """Copy all opened files and databases into another folder; the copies of files are synced.

        Raises: StoreUnwritableError.
        """
        try:
            for name, file, size in self._files:
                path = target / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with path.open("wb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)
                    copy.truncate(size)
                    copy.flush()
                    os.fsync(copy.fileno())
            for name, database in self._databases:
                copy_database(database, target / name)
        except OSError as error:
            raise StoreUnwritableError(f"{target} cannot be written: {error.strerror}") from error


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Copy a SQLite database, as a connection sees it, to ``target``.

    Raises: StoreUnwritableError.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(target)) as copy:
            keep_private(target)
            source.backup(copy)
    except sqlite3.Error as error:
        raise StoreUnwritableError(f"{target} cannot be written: {error}") from error
