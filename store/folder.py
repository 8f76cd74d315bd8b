"""The data folder: its format version and its lock.

    FORMAT            one line, ``quadrill-data 1``
    PLACE             the inode number of this file, which differs in a copy of the folder
    LOCK              held while a process uses the folder
    quads/            the Oxigraph (RocksDB) database
    changes.sqlite    the change log (`logs.change_log`)
    *.mark            the durable extent of a log or of the list of files of quads/ (`logs.marks`)
    damaged/          damaged files and records that were moved out of the way
    frozen/           copies of the database for readers of older versions (`frozen`)

The data folder may contain further files, such as the registry and the input logs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import StoreFormatError, StoreLockedError, StoreUnwritableError

FORMAT_VERSION = 1

_NAME = "quadrill-data"
PLACE = "PLACE"
_LOCK_WAIT_S = 3.0
"""Maximum wait in seconds for a data folder's lock, which child processes of a killed server may hold."""


def keep_private(database: Path) -> None:
    """Let only the user of this process read a SQLite file and the files that SQLite keeps next to it.

    SQLite creates its files with the mode of the database, but does not change existing files.
    """
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):  # the SQLite file is missing or has another owner
            os.chmod(f"{database}{suffix}", 0o600)


class DataFolder:
    """A data folder that this process has locked; `close` releases the lock."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> DataFolder:
        """Create the data folder if necessary, and lock it.

        Raises:
            StoreUnwritableError: the data folder cannot be created or written.
            StoreLockedError: another process has locked the folder.
            StoreFormatError: the folder is no data folder, or has another format version.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = open(path / "LOCK", "a+", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _take(lock, path)
            _check_format(path)
        except BaseException:
            # On a full disk, closing the lock file tries to write its buffered bytes again, and fails again.
            with suppress(OSError):
                lock.close()
            raise
        return cls(path, lock)

    @property
    def quads(self) -> Path:
        """The folder of the Oxigraph database."""
        return self.path / "quads"

    @property
    def changes(self) -> Path:
        """The path of the change log's file."""
        return self.path / "changes.sqlite"

    @property
    def is_copy(self) -> bool:
        """True for a copy or backup of a data folder, but not for a folder moved on the same disk."""
        place = self.path / PLACE
        try:
            return place.read_text(encoding="utf-8", errors="replace").strip() != str(place.stat().st_ino)
        except FileNotFoundError:
            return False  # the data folder is new, or was written by an older release

    def mark_original(self) -> None:
        """Record in the file PLACE that the data folder is an original and not a copy.

        Raises: StoreUnwritableError.
        """
        if (self.path / PLACE).exists() and not self.is_copy:
            return
        draft = self.path / f"{PLACE}.new"
        try:
            draft.unlink(missing_ok=True)
            with draft.open("w", encoding="utf-8") as file:
                file.write(f"{os.fstat(file.fileno()).st_ino}\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path / PLACE)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Release the lock of the data folder."""
        self._lock.close()


def mark_as_copy(path: Path) -> None:
    """Record that a folder is a copy, so that the next process that opens the folder begins a new epoch.

    Raises: OSError.
    """
    (path / PLACE).write_text("copy\n", encoding="utf-8")


def is_new(path: Path) -> bool:
    """Return True if the folder has no data, so that opening would create an empty data folder."""
    return not any((path / name).exists() for name in ("FORMAT", "CURRENT", "quads", "changes.sqlite"))


def write_whole(path: Path, data: bytes) -> None:
    """Write and sync a file atomically, so that a crash leaves its old or its new content.

    Raises: OSError.
    """
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def write_format(path: Path) -> None:
    """Write the data folder's FORMAT file, which holds its format version, atomically."""
    try:
        write_whole(path / "FORMAT", f"{_NAME} {FORMAT_VERSION}\n".encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def sync_folder(path: Path) -> None:
    """Sync a folder to disk, so that its file names survive a power failure."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def looked_at(path: Path) -> Iterator[None]:
    """Lock a data folder for a ``with`` block without writing to the folder.

    Raises:
        StoreLockedError: another process uses the data folder.
        StoreFormatError: the folder has no data.
    """
    if is_new(path):
        raise StoreFormatError(f"there is no data in the folder {path}", hint="name another one with --data")
    with ExitStack() as held:
        if (path / "LOCK").exists():
            _hold(held.enter_context(open(path / "LOCK", encoding="utf-8")), path)
        yield


_FORMAT_LOST = (
    f"it is one line, {_NAME} and a number: copy the file of a backup of this folder, or restore that"
)


def format_of(path: Path) -> int:
    """Return the format version of a data folder.

    Raises:
        StoreFormatError: the folder's FORMAT file is missing or states no version.
    """
    file = path / "FORMAT"
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreFormatError(f"{file} cannot be read: {error}", hint=_FORMAT_LOST) from error
    name, _, number = text.partition(" ")
    if name != _NAME or not number.isdigit():
        raise StoreFormatError(
            f"{file} says {text[:60]!r}, which is no format of Quadrill", hint=_FORMAT_LOST
        )
    return int(number)


def _check_format(path: Path) -> None:
    file = path / "FORMAT"
    if not file.exists():
        if (path / "CURRENT").exists():
            raise StoreFormatError(
                f"{path} is a database of Oxigraph itself, not a Quadrill data folder",
                hint="dump it with `oxigraph dump` and load the dump into a new folder",
            )
        if (path / "quads").exists() or (path / "changes.sqlite").exists():
            raise StoreFormatError(
                f"{path} holds a database but no FORMAT file", hint="restore the folder from a backup"
            )
        write_format(path)
        return
    found = format_of(path)
    if found > FORMAT_VERSION:
        raise StoreFormatError(
            f"{path} has data format {found}, this Quadrill knows formats up to {FORMAT_VERSION}",
            hint="use the newer Quadrill that wrote it",
        )
    if found < FORMAT_VERSION:
        raise StoreFormatError(f"{path} has data format {found}, from which there is no upgrade")


def _hold(lock: IO[str], path: Path) -> None:
    until = time.monotonic() + _LOCK_WAIT_S
    try:
        while True:
            try:
                _lock_file(lock)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return
    except OSError as error:
        lock.seek(0)
        holder = lock.read(20).strip()
        raise StoreLockedError(
            f"the data folder {path} is in use by another process{f' (process {holder})' if holder else ''}",
            hint="stop that server, or give another folder with --data",
        ) from error


def _take(lock: IO[str], path: Path) -> None:
    _hold(lock, path)
    try:
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    except OSError as error:
        raise _unwritable(path, error) from error


if os.name == "nt":  # pragma: no cover - not run on this platform

    def _lock_file(lock: IO[str]) -> None:
        import msvcrt

        lock.seek(1024)
        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]

else:

    def _lock_file(lock: IO[str]) -> None:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unwritable(path: Path, error: OSError) -> StoreUnwritableError:
    return StoreUnwritableError(
        f"the data folder {path} cannot be written: {error.strerror or error}",
        hint="check the path, its permissions and free space, or give another folder with --data; a server "
        "writes to its folder also with --read-only: let it have a copy",
    )
