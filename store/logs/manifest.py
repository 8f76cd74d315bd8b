"""How much of the list of its files RocksDB had made durable, so that one that is cut short is not believed.

RocksDB takes a MANIFEST that ends early for one that never was longer, and opens an older set of files: quads
are gone without a word. A manifest only grows, until the next start begins another one with a higher number.
So its number, size and check sum are marked beside the database whenever that is opened or flushed: what
comes later lists either commits behind the checkpoint, which are made again, or files whose absence is told.
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
    """Mark the list of files that a database has now; where the disk refuses, the mark stays behind."""
    with suppress(OSError):
        number = _number(database)
        if number is None:
            return
        with _path(database, number).open("rb") as file:
            size, check = _sum(file.fileno(), os.fstat(file.fileno()).st_size)
            os.fsync(file.fileno())  # the mark is never ahead of it
        data = _MARK.pack(number, size, check)
        mark = os.open(LogMark.beside(database), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(mark, data + zlib.crc32(data).to_bytes(4, "little"), 0)
        finally:
            os.close(mark)


def require_manifest(database: Path) -> None:
    """Compare the list of files of a database that is not open with what was marked.

    A mark that is damaged says nothing. A list with a higher number was begun by a start that ended before it
    could mark it.

    Raises:
        StoreFormatError: it lost what was durable, or it is another one.
    """
    try:
        data = LogMark.beside(database).read_bytes()
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
    """The number of the list that is in force."""
    try:
        name = (database / "CURRENT").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    number = name.removeprefix(_NAME)
    return int(number) if name.startswith(_NAME) and number.isdecimal() else None


def _path(database: Path, number: int) -> Path:
    return database / f"{_NAME}{number:06}"


def _sum(file: int, size: int) -> tuple[int, int]:
    """How many of the first bytes there are, and their check sum."""
    check = done = 0
    while chunk := os.pread(file, min(_CHUNK, size - done), done):
        check, done = zlib.crc32(chunk, check), done + len(chunk)
    return done, check


def _damaged(database: Path, what: str) -> StoreFormatError:
    return StoreFormatError(f"the database {database} is damaged: {what}", hint=DAMAGED)
