"""Positions in files, recognised by inode and content, and detection of rotated files."""

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
"""Bytes of a fingerprint: from the start of the file, and from before the place. CSV files share their first
bytes, so that the bytes before the place count as well; files shorter than both are compared whole."""
_MOST_SIBLINGS = 1_000
"""Maximum number of a folder's newest files that are compared with a position."""
READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Errors of unreadable files, including partially compressed and damaged files."""
_OPENERS: Mapping[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_PACKED = (*_OPENERS, ".zst")
_GENERATION = re.compile(r"[.\-_]\d[\d.\-_:T]*(\.(gz|bz2|xz|zst))?|\.old")
"""Suffixes that rotations append to a name: `.1`, `.2.gz`, `-20260501`, `.old`."""


def shown(name: str) -> str:
    """Return a file name as text; bytes that are not UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class OpenFile:
    """An open file, decompressed according to its name.

    Attributes:
        path: its name when it was opened; a rotation changes the name, not the open file.
        inode: the number of its inode.
    """

    def __init__(self, path: str, folders: Sequence[Path]) -> None:
        """Open a file below one of the folders; raises HttpError 403, InputError, OSError for others."""
        require_below(path, folders)
        real = os.path.realpath(path)
        opener = _OPENERS.get(Path(path).suffix)
        # Unbuffered, because a buffer could return old content of a rewritten file.
        self._file = cast("IO[bytes]", opener(real) if opener else open(real, "rb", buffering=0))
        self.path = path
        self.packed = opener is not None
        self.inode = self.stat().st_ino
        # Of a packed file the bytes read last: what is read next begins among them, and seeking is slow.
        self._at, self._recent = 0, b""

    def stat(self) -> os.stat_result:
        """Return the file's current size, times and inode."""
        return os.fstat(self._file.fileno())

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from an offset on, at most ``size``."""
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
        """Return the first line with its end, at most so many bytes."""
        line = self.read(0, min(most, HEAD))
        while b"\n" not in line and len(line) < most and len(more := self.read(0, 2 * len(line))) > len(line):
            line = more
        return line[: line.find(b"\n") + 1]

    def last_line_end(self, most: int) -> int:
        """Return the offset after the last complete line."""
        at = end = 0
        while chunk := self.read(at, most):
            last = chunk.rfind(b"\n") + 1
            end = at + last if last else end
            at += len(chunk)
        return end

    def close(self) -> None:
        """Close it."""
        self._file.close()


def digest(data: bytes) -> str:
    """A short digest of some bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class FileMark(NamedTuple):
    """The place in one file: its inode, what was read of it, and fingerprints of the bytes read.

    ``head`` is of the first bytes, ``tail`` of those before ``offset``, both empty for a place of an earlier
    release; ``changed_ns`` is when the file was changed last, as of the last read.
    """

    inode: int
    offset: int = 0
    head: str = ""
    tail: str = ""
    changed_ns: int = 0

    @classmethod
    def in_file(cls, file: OpenFile, offset: int = 0) -> Self:
        """The mark of an offset of an open file."""
        start = max(0, offset - TAIL)
        head, tail = file.read(0, min(offset, HEAD)), file.read(start, offset - start)
        return cls(file.inode, offset, digest(head), digest(tail), file.stat().st_mtime_ns)

    def fits(self, file: OpenFile) -> bool:
        """Return True if a file begins with the bytes read before, according to the fingerprints."""
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
        """Return True for a copy made before the last read, which has no unread bytes."""
        try:
            return bool(self.head) and not file.packed and HEAD <= file.stat().st_size and self._begins(file)
        except OSError:
            return False

    def _begins(self, file: OpenFile) -> bool:
        return digest(file.read(0, min(self.offset, HEAD))) == self.head


class Generation(NamedTuple):
    """A file that a rotation may have made, in the order in which rotations make them."""

    changed_ns: int
    number: int
    """How often it was renamed since, negative, where its name ends in a number."""
    path: str
    inode: int


def generations(name: str, but: Collection[str] = ()) -> list[Generation]:
    """Return the files in the folder that may be rotated forms of a file, oldest first, except ``but``."""
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
                    continue  # the file was renamed in the meantime
    except OSError:
        return []
    paths = {each.path for each in found}
    # A file under compression exists twice.
    found = [each for each in found if _unpacked(each.path) not in paths - {each.path}]
    return sorted(found)[-_MOST_SIBLINGS:]


def generation_of(file: OpenFile, siblings: Iterable[Generation]) -> Generation:
    """Return the position of an open file in the order of rotated files."""
    found = Generation(file.stat().st_mtime_ns, 0, file.path, file.inode)
    return next((each for each in siblings if each.inode == file.inode), found)


def is_rotated(path: str, name: str) -> bool:
    """Return True where a path is a file's name with something behind it, or with a number before its end."""
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
    """The names that are no rotated files of other ones."""
    known = set(names)

    def rotated(name: str) -> bool:
        cuts = [place for place, letter in enumerate(name) if letter in ".-_"]
        return any(name[:cut] in known and _GENERATION.fullmatch(name[cut:]) for cut in cuts)

    return [each for each in names if not rotated(each)]


def require_below(path: str, folders: Sequence[Path]) -> None:
    """Raise HttpError 403 for a place outside of the folders, also by way of a link, else InputError."""
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
