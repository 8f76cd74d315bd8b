"""OpenFiles: the files that a file source reads concurrently, and their next lines.

A file source opens a limited number of files in the order of their names. When another file waits at the
limit of open files, the source finishes and closes the open file with the lowest name of those that were read
to their ends and have lower names than the waiting file. When a file is finished, all files with lower names
count as finished too, except files that are still open.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import ConnectorFailedError
from .file_marks import READ_ERRORS, FileMark, shown
from .file_tail import Block, FileTail

IN_ORDER_S, TOGETHER_S = 2.0, 60.0
"""Seconds without a change after which a last line without a line end is read: for files read in order, and
for files read concurrently.

The time for files read concurrently is longer because each of these files may have a writer that buffers its
output and writes parts of lines.
"""
_WAIT_S, _WAIT_TIMES = 1.0, 10
"""Pause before the next attempt to read an unchanged unreadable file: the maximum of ``_WAIT_S`` seconds and
``_WAIT_TIMES`` times the duration of the failed attempt."""


@dataclass(eq=False)
class FileCursor:
    """One open file, and its lines that were read from disk and have not yet entered the stream.

    Attributes:
        tail: the FileTail that follows the file name across rotations.
        ended: True if the last check found no further line and no rotated file is still being read.
        error: why the file could not be read at the last check; None if it was readable.
        failed: True if the file stays unreadable until it or the declaration of the source changes.
        state: inode and size of the file just before the last check for new lines.
    """

    tail: FileTail
    ended: bool = False
    error: str | None = None
    failed: bool = False
    state: tuple[int, int] = (0, 0)
    _again: float = 0.0
    _block: Block | None = None
    _taken: int = 0

    @property
    def unread(self) -> bool:
        """True if lines that were read from the file wait to enter the stream."""
        return self._block is not None

    @property
    def header(self) -> bytes:
        """The CSV header line with the field names; empty if the file has no header line."""
        return b"" if self._block is None else self._block.header

    def read_next(self, grace_s: float, *, last: bool) -> None:
        """Read the file's next lines if none wait; with ``last``, skip a last line without a line end."""
        name, began = self.tail.name, time.monotonic()
        state = state_of(name)
        if self._block is not None or (
            self.error is not None and state == self.state and began < self._again
        ):
            return
        known, self.state = self.state, state
        try:
            self._block, self._taken, self.error = self.tail.block(), 0, None
            if self._block is not None or last:
                self.ended = False
            elif not self.ended or state != known:
                self.ended = False
                rest = self.tail.rest()
                if rest is None or not _is_fresh(name, grace_s):
                    self._block = rest
                    self.ended = rest is None and self.tail.mark is not None and not self.tail.leaves
        except FileNotFoundError:
            self.ended = False  # a rotation has renamed the file, and its name is free
        except READ_ERRORS as error:
            self._fail(f"{shown(name)} cannot be read: {error}", began)
        except ConnectorFailedError as error:
            self._fail(error.message, began, failed=True)

    def _fail(self, reason: str, began: float, *, failed: bool = False) -> None:
        self.ended, self.error, self.failed = False, reason, failed
        now = time.monotonic()
        self._again = now + max(_WAIT_S, _WAIT_TIMES * (now - began))

    def lines(self, most: int) -> list[bytes]:
        """Return at most ``most`` of the file's lines that wait to enter the stream."""
        return [] if self._block is None else self._block.lines[self._taken : self._taken + most]

    def marks(self, number: int) -> tuple[FileMark | None, list[FileMark]]:
        """Return the marks of the file and its rotated files as of after the next ``number`` lines."""
        if self._block is None or not number:
            return self.tail.mark, self.tail.earlier
        return self.tail.marks(self._block.reader, self._block.mark(self._taken + number))

    def enter(self, number: int) -> None:
        """Remove the first ``number`` waiting lines of the file, which have entered the stream."""
        assert self._block is not None
        self._taken += number
        self.tail.passed(self._block.reader, self._block.mark(self._taken))
        if self._taken == len(self._block.lines):
            self._block = None


class OpenFiles:
    """The files that a file source has open, by name.

    Attributes:
        done: files with names up to this name were read completely, except open files; None before the first
            finished file.
        grace_s: seconds without a change after which a last line without a line end is read.
    """

    def __init__(self, follow: Callable[[str], FileTail]) -> None:
        self._follow = follow
        self._files: dict[str, FileCursor] = {}
        self.done: str | None = None
        self.grace_s = IN_ORDER_S
        # Inode and size of each file at the time when the source finished reading it.
        self._ends: dict[str, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[FileCursor]:
        return iter([self._files[name] for name in sorted(self._files)])

    def __len__(self) -> int:
        return len(self._files)

    @property
    def names(self) -> list[str]:
        """The sorted names of the files that the source has open."""
        return sorted(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def open(self, name: str) -> FileCursor:
        """Start following a file name, and return the cursor of the file."""
        made = self._files[name] = FileCursor(self._follow(name))
        return made

    def waiting(self, names: Sequence[str]) -> list[str]:
        """Return the names of files that the source still has to open, in the given order."""
        first = 0 if self.done is None else bisect_right(names, self.done)
        return [name for name in names[first:] if name not in self]

    def open_next(self, names: Sequence[str], most: int) -> bool:
        """Open unread files up to ``most``, and close files read to their ends; return True if any opened."""
        began = False
        for each in list(self):
            # an unread file was removed from the folder
            if each.tail.mark is None and each.tail.name not in names:
                self._files.pop(each.tail.name).tail.close()
        for name in self.waiting(names):
            if len(self) >= most and not self._finish_one(name):
                break
            self.open(name)
            began = True
        while len(self) > most and self._finish_one(max(self._files)):
            pass
        if len(self) >= most:
            # Unread files with names before those of all open files are never opened, so they count as
            # finished.
            before = [name for name in self.waiting(names) if name < min(self._files)]
            self.done = max([*before, *filter(None, [self.done])], default=None)
        return began

    def read_next(self, names: Sequence[str], outside: Collection[str]) -> None:
        """Read the next lines of all open files, except the links in ``outside`` to forbidden folders."""
        last, known = max([*names[-1:], *self._files], default=""), {*names, *self._files}
        for each in self:
            if each.tail.name not in outside:
                each.tail.listed = known
                self._read_next_of(each, last=each.tail.name == last)

    def take_ends(self) -> dict[str, tuple[int, int]]:
        """Return the final inode and size of the files that the source has finished since the last call."""
        ends, self._ends = self._ends, {}
        return ends

    def close(self) -> None:
        """Close all files that the file source has open."""
        for each in self:
            each.tail.close()

    def _read_next_of(self, file: FileCursor, *, last: bool) -> None:
        """Read the next lines of an open file; after an error, follow its name with a new FileTail.

        After a read error, a new FileTail starts at the same mark, because the failed reader could skip
        bytes.
        """
        before, tail = file.error, file.tail
        file.read_next(self.grace_s, last=last)
        if file.error is not None and file.error is not before:
            tail.close()
            file.tail = self._follow(tail.name)
            file.tail.mark, file.tail.earlier = tail.mark, tail.earlier

    def _finish_one(self, behind: str) -> bool:
        """Close the first file before ``behind`` that was read to its end; return False if none was."""
        for each in self:
            name = each.tail.name
            if each.ended and name < behind:
                self._read_next_of(each, last=False)  # read lines that a writer appended since the last check
            if each.ended and name < behind:
                self._ends[name] = each.state
                self.done = max(name, self.done or name)
                self._files.pop(name).tail.close()
                return True
        return False


def state_of(name: str) -> tuple[int, int]:
    """Return inode number and size of a file; zeros if the file does not exist."""
    with suppress(OSError):
        found = os.stat(name)
        return found.st_ino, found.st_size
    return 0, 0


def _is_fresh(name: str, seconds: float) -> bool:
    """Return True if a file was changed within the last ``seconds`` seconds."""
    with suppress(OSError):
        return abs(time.time() - os.stat(name).st_mtime) < seconds
    return False
