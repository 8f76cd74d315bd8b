"""FileTail: follows one file name across rotations and returns each complete line once, starting at a mark.

The states of a file that a FileTail follows:

    located   The named file or a rotated file has the content of the mark; the source reads on from the mark.
    rotated   Another file has the name: the rest of the old file is read, then files rotated later, then the
              new file.
    lost      No file has the content of the mark: the loss is reported, and the files rotated later are read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from quadrill.store.errors import InputError

from ...http.errors import HttpError
from ..errors import ConnectorFailedError
from .file_marks import (
    HEAD,
    TAIL,
    FileMark,
    Generation,
    OpenFile,
    digest,
    generation_of,
    generations,
    is_rotated,
)

_CHUNK = 1 << 20
_GRACE_S = 2.0
"""Seconds for which a rotated file is still read, because its writer may keep the file open for a moment."""
_MOST_EARLIER = 5
"""Maximum number of stored marks of rotated files, by which the source recognises their compressed copies."""
_MOST_LOOKS = 20
"""Maximum number of folder listings per search for a rotated file, because rotations rename files."""
_COARSE_NS = 50_000_000
"""Nanoseconds after a change of a file in which a further change may leave its modification time the same."""


class ReplacedError(Exception):
    """A followed file no longer has the content that was read; raised and caught only in file sources."""


class Block(NamedTuple):
    """Lines of a followed file; ``start`` is the offset of the bytes ``seen``, ``first`` of the lines."""

    reader: TailReader
    lines: list[bytes]
    header: bytes
    seen: bytes
    start: int
    first: int
    changed_ns: int

    def mark(self, number: int) -> FileMark:
        """Return the file mark of the position after the first ``number`` lines of this block."""
        before = self.reader.mark
        end = self.first + sum(map(len, self.lines[:number]))
        place = end - self.start
        head = digest(self.seen[: min(end, HEAD)]) if self.start == 0 else before.head
        tail = digest(self.seen[max(0, place - TAIL) : place])
        return FileMark(before.inode, end, head, tail, self.changed_ns)


@dataclass(eq=False)
class TailReader:
    """An open file and the mark up to which it was read; a rotated file is read until the time ``until``."""

    file: OpenFile
    mark: FileMark
    header: bool
    longest: int
    until: float = float("inf")
    _idle: tuple[int, int] | None = None
    _header: bytes = b""

    def block(self, *, whole: bool = False) -> Block | None:
        """Return the file's next complete lines or None; with ``whole``, also a last line without a line end.

        Raises:
            ReplacedError: the followed file no longer has the bytes that were read.
            ConnectorFailedError: a line of the file is longer than the declaration's ``max_line``.
        """
        stat = self.file.stat()
        state = stat.st_size, stat.st_mtime_ns
        if self._idle is not None and not whole:
            if state == self._idle:
                return None
            if self.file.packed:
                raise ReplacedError  # the compressed file has to be opened again to read bytes appended since
        mark, size = self.mark, _CHUNK
        header = self._header
        if self.header and (not header or not self.file.packed):
            self._header = header = self.file.first_line(self.longest)
            if not header:
                return None
        if not mark.head and mark.offset:
            self.mark = mark = FileMark.in_file(self.file, mark.offset)
        start = max(0, mark.offset - TAIL)
        first = max(mark.offset, len(header))
        while True:
            seen = self.file.read(start, first - start + size)
            if mark.offset and (
                digest(seen[: mark.offset - start]) != mark.tail
                or (start and not self.file.packed and not mark.fits(self.file))
            ):
                raise ReplacedError
            came = seen[first - start :]
            end = came.rfind(b"\n") + 1
            if end or len(came) < size:
                break
            if len(came) > self.longest:
                raise self._too_long()
            size *= 2
        if not end and len(came) > self.longest:
            raise self._too_long()
        end = len(came) if whole else end
        if not end:
            fresh = time.time_ns() - stat.st_mtime_ns < _COARSE_NS
            self._idle = None if fresh else state
            return None
        return Block(self, lines_of(came[:end]), header, seen, start, first, stat.st_mtime_ns)

    def _too_long(self) -> ConnectorFailedError:
        message = f"a line of {self.file.path} is longer than {self.longest:,} bytes (max_line)"
        return ConnectorFailedError(message)


@dataclass(eq=False)
class FileTail:
    """A file name that a source follows across rotations, such as those of logrotate.

    Attributes:
        name: the path of the followed file.
        mark: the mark up to which the current file was read; None before a file was opened.
        earlier: the marks up to which files that were rotated earlier were read, oldest file first.
        listed: names of files that the source follows separately, and that are not rotated forms of this
            file.
        first: names of the rotated files to read before the followed file itself.
        since_ns: rotated files changed at or after this time are also read before the followed file.
    """

    name: str
    folders: Sequence[Path]
    header: bool
    longest: int
    from_end: bool
    lost: Callable[[str, str], None]
    mark: FileMark | None = None
    earlier: list[FileMark] = field(default_factory=list)
    listed: Collection[str] = ()
    first: Collection[str] = ()
    since_ns: int = 1 << 63
    _reader: TailReader | None = None
    _leaving: list[TailReader] = field(default_factory=list)
    _restored: bool = False
    # The place of the file being read in the order of rotated files (None if it is not rotated), and the
    # later rotated files.
    _place: Generation | None = None
    _rotated: list[Generation] = field(default_factory=list)

    def block(self) -> Block | None:
        """Return the next lines of the followed file, or None if it has none yet; see also `passed`."""
        if not self._restored:
            self._restored = True
            self._find_earlier()
        for rotated in list(self._leaving):
            with suppress(ReplacedError):
                if (found := rotated.block()) is not None:
                    return found
                if time.monotonic() < rotated.until and len(self._leaving) <= _MOST_EARLIER:
                    continue
                if (found := rotated.block(whole=True)) is not None:
                    return found
            self._leaving.remove(rotated)
            rotated.file.close()
        while True:
            if self._reader is None:
                self._reader = self._locate()
            reader = self._reader
            if reader is None:
                return None
            try:
                found = reader.block()
                if found is None and self._is_rotated():
                    # Read lines that the file's writer wrote just before the rotation.
                    found = reader.block()
                    if found is None:
                        self._leave(reader)
                        continue
            except ReplacedError:
                self._close()
                continue
            return found

    @property
    def leaves(self) -> bool:
        """True while at least one rotated file is still read, because its grace period has not ended."""
        return bool(self._leaving)

    def rest(self) -> Block | None:
        """Return the current file's last line if it has no line end; None if there is no such line."""
        try:
            return None if self._reader is None else self._reader.block(whole=True)
        except ReplacedError:
            return None

    def passed(self, reader: TailReader, mark: FileMark) -> None:
        """Record that the lines of a file have entered the stream up to a mark."""
        self.earlier = [mark if each == reader.mark else each for each in self.earlier]
        if reader is self._reader:
            self.mark = mark
        reader.mark = mark
        reader._idle = None

    def marks(self, reader: TailReader, mark: FileMark) -> tuple[FileMark | None, list[FileMark]]:
        """Return the marks of current and rotated files as if ``reader`` had read its file up to ``mark``."""
        earlier = [mark if each == reader.mark else each for each in self.earlier]
        return (mark if reader is self._reader else self.mark), earlier

    def close(self) -> None:
        """Close the current file and all rotated files that are still open."""
        self._close()
        for each in self._leaving:
            each.file.close()
        self._leaving.clear()

    # --- which file -----------------------------------------------------------------------------

    def _locate(self) -> TailReader | None:
        """Open the file whose content was read up to the stored mark, or else the next file."""
        live, mark = self._open_live(), self.mark
        if mark is None:
            return self._begin(live)
        if live is not None and live.inode == mark.inode and mark.fits(live):
            return self._reader_of(live, mark)
        found, covered = self._find(mark)
        if found is not None:
            if live is not None:
                live.close()
            return self._reader_of(found, mark._replace(inode=found.inode))
        if live is None:
            return None
        behind = Generation(mark.changed_ns, 1, "", 0)
        if covered is not None:
            behind = max(behind, covered)
        elif mark.offset:
            self.lost(
                self.name,
                f"its content was replaced after byte {mark.offset:,}; later lines of "
                "that file are lost, because no rotated file next to it begins with the lines already read",
            )
        self.earlier = [*self.earlier, mark][-_MOST_EARLIER:]
        return self._after(behind, live)

    def _find(self, mark: FileMark) -> tuple[OpenFile | None, Generation | None]:
        """Return a rotated file that was read up to a mark, or else a copy of it without unread bytes."""
        covered = None
        siblings = generations(self.name)
        # Several rotated files may begin with the same bytes, and a copy was changed after the last read:
        # files changed after the last read are compared with the mark first, the oldest file before newer
        # ones.
        later = [each for each in siblings if each.changed_ns >= mark.changed_ns]
        others = [each for each in reversed(siblings) if each.changed_ns < mark.changed_ns]
        same = [each for each in siblings if each.inode == mark.inode]
        for each in [*same, *later, *others]:
            file = self._open(each.path)
            if file is None:
                continue
            if mark.fits(file):
                return file, None
            if covered is None and mark.covers(file) and file.stat().st_size <= mark.offset:
                covered = each
            file.close()
        return None, covered

    def _begin(self, live: OpenFile | None) -> TailReader | None:
        """Return a reader of the current file at its end (``from: end``), or of the oldest file to read."""
        if self.from_end and live is not None:
            end = live.last_line_end(self.longest)
            return self._reader_of(live, FileMark.in_file(live, end))
        rotated = [
            each
            for each in generations(self.name)
            if each.path in self.first
            or (
                each.changed_ns >= self.since_ns
                and is_rotated(each.path, self.name)
                and each.path not in self.listed
            )
        ]
        for each in rotated if not self.from_end else ():
            if (file := self._open(each.path)) is not None:
                if live is not None:
                    live.close()
                return self._reader_of(file, FileMark(file.inode))
        return None if live is None else self._reader_of(live, FileMark(live.inode))

    def _after(self, behind: Generation, live: OpenFile) -> TailReader:
        """Return a reader of the oldest file rotated after the file ``behind``, or of the current file."""
        fresh, looks = False, 0
        while self._rotated or not fresh:
            if not self._rotated:
                fresh, looks, self._rotated = True, looks + 1, self._rotated_after(behind)
                continue
            each = self._rotated.pop(0)
            file = self._open(each.path)
            if file is not None and file.inode == each.inode and not self._is_known(file):
                live.close()
                self._place = each
                return self._reader_of(file, FileMark(file.inode))
            if (file is None or file.inode != each.inode) and looks < _MOST_LOOKS:
                fresh, self._rotated = False, []  # a rotation renamed the file after the folder was listed
            if file is not None:
                file.close()
        self._place = None
        return self._reader_of(live, FileMark(live.inode))

    def _rotated_after(self, behind: Generation) -> list[Generation]:
        found = generations(self.name, self.listed)
        return [each for each in found if each[:2] > behind[:2] and is_rotated(each.path, self.name)]

    def _is_known(self, file: OpenFile) -> bool:
        """Return True for a rotated file that is empty or was already read under another name."""
        return not file.stat().st_size or any(mark.offset and mark.fits(file) for mark in self.earlier)

    def _is_rotated(self) -> bool:
        """Return True if a rotation has given the followed name to another file."""
        assert self._reader is not None
        try:
            return not os.path.samestat(os.stat(self.name), self._reader.file.stat())
        except OSError:
            return False

    def _leave(self, reader: TailReader) -> None:
        """Start a rotated file's grace period, and open the file rotated next, or else the current file."""
        live = self._open_live()
        if live is None:
            return
        behind = self._place or generation_of(reader.file, generations(self.name))
        self.earlier = [*self.earlier, reader.mark][-_MOST_EARLIER:]
        reader.until = time.monotonic() + _GRACE_S
        self._leaving.append(reader)
        self._reader = self._after(behind, live)

    def _find_earlier(self) -> None:
        """Open files that were rotated before the source started, and read them for the grace period."""
        marks = {mark.inode: mark for mark in self.earlier if mark.offset}
        for each in generations(self.name) if marks else ():
            mark = marks.get(each.inode)
            file = None if mark is None else self._open(each.path)
            if mark is None or file is None:
                continue
            if mark.fits(file):
                until = time.monotonic() + _GRACE_S
                self._leaving.append(TailReader(file, mark, self.header, self.longest, until))
            else:
                file.close()

    def _reader_of(self, file: OpenFile, mark: FileMark) -> TailReader:
        self.mark = mark
        return TailReader(file, mark, self.header, self.longest)

    def _open(self, path: str) -> OpenFile | None:
        """Open a rotated file; return None if the file is missing or may not be read."""
        with suppress(FileNotFoundError, PermissionError, HttpError, InputError):
            return OpenFile(path, self.folders)
        return None

    def _open_live(self) -> OpenFile | None:
        """Open the file with the followed name; raise HttpError 403 for a link to a forbidden folder."""
        with suppress(FileNotFoundError):
            return OpenFile(self.name, self.folders)
        return None

    def _close(self) -> None:
        self._place, self._rotated = None, []
        if self._reader is not None:
            self._reader.file.close()
            self._reader = None


def lines_of(block: bytes) -> list[bytes]:
    """Split the bytes of a file into lines with their ends; only LF ends a line."""
    lines = block.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])
