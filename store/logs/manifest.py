"""A mark of RocksDB's durable list of files, so that a truncated list is detected.

RocksDB accepts a truncated MANIFEST file and opens an older set of files, so quads are lost without an error.
A MANIFEST file only grows, until the next start begins a new MANIFEST file with a higher number. A mark file
next to the database therefore holds the number, size and check sum of the MANIFEST file at the last open or
flush. Entries of the MANIFEST file after the marked size are either commits after the checkpoint, which
recovery applies again, or files whose absence RocksDB reports.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

from ..errors import DAMAGED, StoreFormatError
from .marks import LogMark

_MARK = struct.Struct("<QQI")
_CHUNK = 1 << 20
_NAME = "MANIFEST-"


def note_manifest(database: Path) -> None:
    """Write the size and check sum of the present MANIFEST file to its mark file."""
    with suppress(OSError):
        number = _number(database)
        if number is None:
            return
        with _path(database, number).open("rb") as file:
            size, check = _sum(file.fileno(), os.fstat(file.fileno()).st_size)
            os.fsync(file.fileno())  # the MANIFEST file must be durable before its mark
        data = _MARK.pack(number, size, check)
        mark = os.open(LogMark.mark_path(database), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(mark, data + zlib.crc32(data).to_bytes(4, "little"), 0)
        finally:
            os.close(mark)


def require_manifest(database: Path) -> None:
    """Compare the MANIFEST file of a closed database with its mark.

    A missing or damaged mark file, which holds the size and check sum of the MANIFEST file, is ignored. A
    MANIFEST file with a number above the marked number is accepted, because a process may have ended between
    creating and marking the file.

    Raises:
        StoreFormatError: the MANIFEST file lost durable bytes, or is not the marked file.
    """
    try:
        data = LogMark.mark_path(database).read_bytes()
    except OSError:
        return
    marked, own = data[: _MARK.size], data[_MARK.size :]
    if len(marked) < _MARK.size or zlib.crc32(marked).to_bytes(4, "little") != own:
        return
    noted, durable, wanted = _MARK.unpack(marked)
    number = _number(database)
    if number is None or number < noted:
        raise _damaged(database, f"{_NAME}{noted:06} is not its list of files any more")
    if number > noted:
        return
    path = _path(database, number)
    try:
        with path.open("rb") as file:
            size, check = _sum(file.fileno(), durable)
    except OSError as error:
        raise _damaged(database, f"{path.name} cannot be read: {error.strerror}") from error
    if size < durable:
        raise _damaged(database, f"{path.name} has {size} bytes, {durable} were durable")
    if check != wanted:
        raise _damaged(database, f"the check sum of the first {size} bytes of {path.name} is wrong")


def _number(database: Path) -> int | None:
    """Return the number of RocksDB's current MANIFEST file; None if it is unknown."""
    try:
        name = (database / "CURRENT").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    number = name.removeprefix(_NAME)
    return int(number) if name.startswith(_NAME) and number.isdecimal() else None


def _path(database: Path, number: int) -> Path:
    return database / f"{_NAME}{number:06}"


def _sum(file: int, size: int) -> tuple[int, int]:
    """Return how many of the first ``size`` bytes of a file exist, and their check sum."""
    check = done = 0
    while chunk := os.pread(file, min(_CHUNK, size - done), done):
        check, done = zlib.crc32(chunk, check), done + len(chunk)
    return done, check


def _damaged(database: Path, what: str) -> StoreFormatError:
    return StoreFormatError(f"the database {database} is damaged: {what}", hint=DAMAGED)
