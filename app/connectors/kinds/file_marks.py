"""Positions of file sources in files, recognised by inode and content, and detection of rotated files."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, cast

from quadrill.store.errors import InputError

from ...http.errors import HttpError

HEAD, TAIL = 1024, 4096
"""Numbers of bytes in the two fingerprints of a file mark: at the start of the file, and before the offset.

To recognise a file, the bytes before the offset are compared too, because CSV files often start with the same
header line.
"""
_MOST_SIBLINGS = 1_000
"""Maximum number of files of a folder in which a file source looks for rotated files; the newest are used."""
READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Exceptions for unreadable files, including incomplete and damaged compressed files."""
_OPENERS: Mapping[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_PACKED = (*_OPENERS, ".zst")
_GENERATION = re.compile(r"[.\-_]\d[\d.\-_:T]*(\.(gz|bz2|xz|zst))?|\.old")
"""Pattern of the suffixes that rotations append to a file name: `.1`, `.2.gz`, `-20260501`, `.old`."""


def shown(name: str) -> str:
    """Return a file name as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class OpenFile:
    """A file that a file source has opened; a suffix like `.gz` of its name says how to decompress it.

    Attributes:
        path: the file's path when the source opened it; a rotation may rename the open file.
        packed: True if the file is compressed.
        inode: the inode number of the file.
    """

    def __init__(self, path: str, folders: Sequence[Path]) -> None:
        """Open a file for a source; raise HttpError 403 outside of ``folders``, InputError or OSError."""
        require_below(path, folders)
        real = os.path.realpath(path)
        opener = _OPENERS.get(Path(path).suffix)
        # Uncompressed files are read unbuffered: a buffer could return old content of a rewritten file.
        self._file = cast("IO[bytes]", opener(real) if opener else open(real, "rb", buffering=0))
        self.path = path
        self.packed = opener is not None
        self.inode = self.stat().st_ino
        # The bytes of a compressed file that were read last: the next read starts within these bytes, and
        # seeking in a compressed file is slow.
        self._at, self._recent = 0, b""

    def stat(self) -> os.stat_result:
        """Return the current size, times and inode of the file; size is the compressed size."""
        return os.fstat(self._file.fileno())

    def read(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` decompressed bytes of the file, starting at ``offset``."""
        found = b""
        if self.packed and self._at <= offset <= self._at + len(self._recent):
            found = self._recent[offset - self._at :][:size]
        else:
            self._file.seek(offset)
        if len(found) < size or not self.packed:
            while len(found) < size and (more := self._file.read(size - len(found))):
                found += more
            if self.packed:
                self._at, self._recent = offset, found
        return found

    def first_line(self, most: int) -> bytes:
        """Return the file's first line with its line end; empty if ``most`` bytes have no line end."""
        line = self.read(0, min(most, HEAD))
        while b"\n" not in line and len(line) < most and len(more := self.read(0, 2 * len(line))) > len(line):
            line = more
        return line[: line.find(b"\n") + 1]

    def last_line_end(self, most: int) -> int:
        """Return the offset after the file's last complete line; ``most`` is the size of each read."""
        at = end = 0
        while chunk := self.read(at, most):
            last = chunk.rfind(b"\n") + 1
            end = at + last if last else end
            at += len(chunk)
        return end

    def close(self) -> None:
        """Close the opened file."""
        self._file.close()


def digest(data: bytes) -> str:
    """Return the 8-byte BLAKE2b digest of some bytes of a file, as hexadecimal text."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class FileMark(NamedTuple):
    """A source's position in a file: the inode, the offset after the read bytes, and their fingerprints.

    ``head`` is the digest of the file's first bytes, ``tail`` the digest of the bytes before ``offset``. Both
    digests of a file mark are empty in a position that an earlier release stored. ``changed_ns`` is the
    modification time of the file at the last read, in nanoseconds.
    """

    inode: int
    offset: int = 0
    head: str = ""
    tail: str = ""
    changed_ns: int = 0

    @classmethod
    def in_file(cls, file: OpenFile, offset: int = 0) -> Self:
        """Return the mark of an offset in an open file, with fingerprints of the bytes before the offset."""
        start = max(0, offset - TAIL)
        head, tail = file.read(0, min(offset, HEAD)), file.read(start, offset - start)
        return cls(file.inode, offset, digest(head), digest(tail), file.stat().st_mtime_ns)

    def fits(self, file: OpenFile) -> bool:
        """Return True if a file begins with the bytes that were read up to this mark, by its fingerprints.

        A file mark without fingerprints, or of the start of a file, is compared with a file by the inode.
        """
        if not self.offset:
            return file.inode == self.inode
        if not self.head:
            return file.inode == self.inode and (file.packed or file.stat().st_size >= self.offset)
        start = max(0, self.offset - TAIL)
        try:
            return self._begins(file) and digest(file.read(start, self.offset - start)) == self.tail
        except READ_ERRORS:
            return False

    def covers(self, file: OpenFile) -> bool:
        """Return True if an uncompressed file of at least 1 KiB begins with the bytes of the mark's head."""
        try:
            return bool(self.head) and not file.packed and HEAD <= file.stat().st_size and self._begins(file)
        except OSError:
            return False

    def _begins(self, file: OpenFile) -> bool:
        return digest(file.read(0, min(self.offset, HEAD))) == self.head


class Generation(NamedTuple):
    """A file that may be a rotated form of another file; tuples sort from the oldest to the newest file."""

    changed_ns: int
    number: int
    """The negated number at the end of the rotated file's name, 0 without one; rotations increment it."""
    path: str
    inode: int


def generations(name: str, but: Collection[str] = ()) -> list[Generation]:
    """Return files that may be rotated forms of the file ``name``, oldest first, without paths in ``but``."""
    folder, base = os.path.split(name)
    stem = base.removesuffix(Path(base).suffix)
    found = []
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                if not each.name.startswith(stem) or each.name == base or each.path in but:
                    continue
                try:
                    if each.is_file():
                        found.append(_generation(each.path, each.stat(), base))
                except OSError:
                    continue  # a rotation renamed the file after the folder was listed
    except OSError:
        return []
    paths = {each.path for each in found}
    # While a rotated file is being compressed, both forms exist: the source uses the uncompressed form.
    found = [each for each in found if _unpacked(each.path) not in paths - {each.path}]
    return sorted(found)[-_MOST_SIBLINGS:]


def generation_of(file: OpenFile, siblings: Iterable[Generation]) -> Generation:
    """Return the place of an open file in the order of rotated files, the oldest file first."""
    found = Generation(file.stat().st_mtime_ns, 0, file.path, file.inode)
    return next((each for each in siblings if each.inode == file.inode), found)


def is_rotated(path: str, name: str) -> bool:
    """Return True if ``path`` is ``name`` with a suffix, or with a number or date before the extension."""
    folder, base = os.path.split(name)
    stem, suffix = base.removesuffix(Path(base).suffix), Path(base).suffix
    own_folder, own = os.path.split(path)
    if own_folder != folder:
        return False
    if own.startswith(base) and own[len(base) : len(base) + 1] in tuple(".-_~"):
        return True
    middle = _unpacked(own).removesuffix(suffix)[len(stem) :] if own.startswith(stem) else ""
    return _GENERATION.fullmatch(middle) is not None


def without_generations(names: Sequence[str]) -> list[str]:
    """Return the file names of a list, except names of rotated forms of other files in the list."""
    known = set(names)

    def rotated(name: str) -> bool:
        cuts = [place for place, letter in enumerate(name) if letter in ".-_"]
        return any(name[:cut] in known and _GENERATION.fullmatch(name[cut:]) for cut in cuts)

    return [each for each in names if not rotated(each)]


def require_below(path: str, folders: Sequence[Path]) -> None:
    """Raise HttpError 403 for a path or link target outside ``folders``, InputError for a relative path."""
    real = Path(os.path.realpath(path))
    if not Path(path).is_absolute() or ".." in Path(path).parts:
        raise InputError(f"path is {path!r}, it must be absolute and without ..", code="member")
    if not any(real.is_relative_to(folder) for folder in folders):
        raise HttpError(
            403,
            f"{path} is not below a folder that sources may read",
            code="outside-source-folders",
            hint="The setting source_folders lists them.",
        )


def _generation(path: str, stat: os.stat_result, base: str) -> Generation:
    number = re.search(r"\.(\d{1,6})$", _unpacked(os.path.basename(path)))
    return Generation(stat.st_mtime_ns, -int(number[1]) if number else 0, path, stat.st_ino)


def _unpacked(path: str) -> str:
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in _PACKED else path
