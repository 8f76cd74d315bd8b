"""Files of a folder as they are at one moment, held open so that they can be copied while it goes on."""

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
"""Marks are written in place."""


class PinnedFiles(contextlib.ExitStack):
    """Open files and databases of a folder, whoever deletes or writes them afterwards; closed at the end.

    Small files are read at once. Others grow at their end only or are replaced as a whole: what they held at
    that moment stays readable. A database is read in one transaction, which sees it as it was.
    """

    def __init__(self, folder: Path, files: Sequence[str], databases: Sequence[str]) -> None:
        """Take hold of files; nobody may write them meanwhile.

        Args:
            folder: where they are.
            files: patterns of their names.
            databases: names of SQLite files, each in use or not.

        Raises:
            StoreUnwritableError: one cannot be read.
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
        """Write all of them into another folder, and through to its disk.

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
    """A copy of a SQLite database as a connection sees it.

    Raises: StoreUnwritableError.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(target)) as copy:
            keep_private(target)
            source.backup(copy)
    except sqlite3.Error as error:
        raise StoreUnwritableError(f"{target} cannot be written: {error}") from error
