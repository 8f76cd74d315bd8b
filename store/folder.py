"""The data folder: its format version and its lock.

    FORMAT            one line, ``quadrill-data 1``
    PLACE             the number that the file system gave to this file: in a copy it has another one
    LOCK              held while a process uses the folder
    quads/            the Oxigraph (RocksDB) database
    changes.sqlite    the change log (`logs.change_log`)
    *.mark            what of a log, or of the list of files of quads/, is known to be durable (`logs.marks`)
    damaged/          what was put aside because it could not be read
    frozen/           copies of the database while somebody reads an older version (`frozen`)

Other files (the registry's, input logs) may stand beside these.
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
_PATIENCE = 3.0
"""Seconds to wait for the lock: a server killed a moment ago may have left a process that ends soon."""


def keep_private(database: Path) -> None:
    """Let only the user of this process read a SQLite file and the files that SQLite keeps next to it.

    SQLite gives new ones the mode of the database, but does not change those of earlier releases.
    """
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):  # it does not exist, or belongs to somebody else
            os.chmod(f"{database}{suffix}", 0o600)


class DataFolder:
    """A folder that this process holds; `close` lets it go."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> DataFolder:
        """Make or take the folder.

        Raises:
            StoreUnwritableError: the folder cannot be made or written.
            StoreLockedError: another process holds it.
            StoreFormatError: it is not ours, or of another version.
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
            with suppress(
                OSError
            ):  # on a full disk closing tries once more to write what could not be written
                lock.close()
            raise
        return cls(path, lock)

    @property
    def quads(self) -> Path:
        """The database folder."""
        return self.path / "quads"

    @property
    def changes(self) -> Path:
        """The change log's file."""
        return self.path / "changes.sqlite"

    @property
    def is_copy(self) -> bool:
        """True for a copy of another folder, or a backup; a moved folder is none where it keeps its disk."""
        place = self.path / PLACE
        try:
            return place.read_text(encoding="utf-8", errors="replace").strip() != str(place.stat().st_ino)
        except FileNotFoundError:
            return False  # new, or of a release before this file

    def mark_original(self) -> None:
        """Note that the folder is no copy, or not any more.

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
        """Let the folder go."""
        self._lock.close()


def mark_as_copy(path: Path) -> None:
    """Note that a folder goes its own way from here on: whoever opens it begins a new epoch.

    Raises: OSError.
    """
    (path / PLACE).write_text("copy\n", encoding="utf-8")


def is_new(path: Path) -> bool:
    """True when no data is there: opening it would make an empty data folder."""
    return not any((path / name).exists() for name in ("FORMAT", "CURRENT", "quads", "changes.sqlite"))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises: OSError.
    """
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def write_format(path: Path) -> None:
    """Write the FORMAT file, whole or not at all."""
    try:
        write_whole(path / "FORMAT", f"{_NAME} {FORMAT_VERSION}\n".encode())
    except OSError as error:
        raise _unwritable(path, error) from error


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power failure."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def looked_at(path: Path) -> Iterator[None]:
    """Keep other processes off a data folder without writing to it.

    Raises:
        StoreLockedError: another process uses it.
        StoreFormatError: it is no data folder.
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
    """The version of a folder's format.

    Raises:
        StoreFormatError: it does not say one.
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
    until = time.monotonic() + _PATIENCE
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
