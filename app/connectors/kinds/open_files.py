"""The files that a source reads concurrently, and the next lines of each.

Names begin in their order, a bounded number at once. When more wait, the first one that was read to its end
makes room and is read no more: all names up to it are done, apart from those that are open still.
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
"""A last line without its end is taken once its file has not changed for so long: its writer may go on.

Of files that are read together all may have writers, which write parts of lines where they buffer.
"""
_WAIT_S, _WAIT_TIMES = 1.0, 10
"""Pause before an unchanged unreadable file is retried: seconds, or a multiple of an attempt's duration."""


@dataclass(eq=False)
class FileCursor:
    """One file that is read, and its lines that were read from the disk and have not entered.

    Attributes:
        tail: follows the name.
        ended: whether the last look found no further line and none can come from a rotated file.
        error: why it could not be read at the last look.
        failed: whether that is so until the file or the source's declaration changes.
        state: inode and size as of the last look, from before it.
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
        """True if lines wait to enter the stream."""
        return self._block is not None

    @property
    def header(self) -> bytes:
        """The line with the names of the fields, empty where there is none."""
        return b"" if self._block is None else self._block.header

    def look(self, grace_s: float, *, last: bool) -> None:
        """Read the next lines where none wait; the line of the ``last`` name counts once it has an end."""
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
            self.ended = False  # renamed between two looks
        except READ_ERRORS as error:
            self._fail(f"{shown(name)} cannot be read: {error}", began)
        except ConnectorFailedError as error:
            self._fail(error.message, began, failed=True)

    def _fail(self, told: str, began: float, *, failed: bool = False) -> None:
        self.ended, self.error, self.failed = False, told, failed
        now = time.monotonic()
        self._again = now + max(_WAIT_S, _WAIT_TIMES * (now - began))

    def lines(self, most: int) -> list[bytes]:
        """Return the next lines, at most so many."""
        return [] if self._block is None else self._block.lines[self._taken : self._taken + most]

    def marks(self, number: int) -> tuple[FileMark | None, list[FileMark]]:
        """The marks of the file and of those rotated before it, once so many waiting lines have entered."""
        if self._block is None or not number:
            return self.tail.mark, self.tail.earlier
        return self.tail.marks(self._block.reader, self._block.mark(self._taken + number))

    def enter(self, number: int) -> None:
        """Remove waiting lines that have entered the stream."""
        assert self._block is not None
        self._taken += number
        self.tail.passed(self._block.reader, self._block.mark(self._taken))
        if self._taken == len(self._block.lines):
            self._block = None


class OpenFiles:
    """The files of a source that are read, by name.

    Attributes:
        done: names up to this one are read no more, apart from the open ones; None before the first.
        grace_s: so long after the last change of a file its last line may still get its end.
    """

    def __init__(self, follow: Callable[[str], FileTail]) -> None:
        self._follow = follow
        self._files: dict[str, FileCursor] = {}
        self.done: str | None = None
        self.grace_s = IN_ORDER_S
        # Inode and size of files when they were left.
        self._ends: dict[str, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[FileCursor]:
        return iter([self._files[name] for name in sorted(self._files)])

    def __len__(self) -> int:
        return len(self._files)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return sorted(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def open(self, name: str) -> FileCursor:
        """Start reading the file of a name."""
        made = self._files[name] = FileCursor(self._follow(name))
        return made

    def waiting(self, names: Sequence[str]) -> list[str]:
        """The names, in order, that are still to be begun."""
        first = 0 if self.done is None else bisect_right(names, self.done)
        return [name for name in names[first:] if name not in self]

    def open_next(self, names: Sequence[str], most: int) -> bool:
        """Begin with further names; files read to their ends make room. Return True if one began."""
        began = False
        for each in list(self):
            if each.tail.mark is None and each.tail.name not in names:  # gone before a line of it was read
                self._files.pop(each.tail.name).tail.close()
        for name in self.waiting(names):
            if len(self) >= most and not self._leave_one(name):
                break
            self.open(name)
            began = True
        while len(self) > most and self._leave_one(max(self._files)):
            pass
        if len(self) >= most:
            # Names before all open ones can never have their turn.
            before = [name for name in self.waiting(names) if name < min(self._files)]
            self.done = max([*before, *filter(None, [self.done])], default=None)
        return began

    def look(self, names: Sequence[str], outside: Collection[str]) -> None:
        """Look for further lines of all files, but those whose links lead ``outside``."""
        last, known = max([*names[-1:], *self._files], default=""), {*names, *self._files}
        for each in self:
            if each.tail.name not in outside:
                each.tail.listed = known
                self._look_at(each, last=each.tail.name == last)

    def take_ends(self) -> dict[str, tuple[int, int]]:
        """Return inode and size of the files left since the last call, when they were left."""
        ends, self._ends = self._ends, {}
        return ends

    def close(self) -> None:
        """Close all files."""
        for each in self:
            each.tail.close()

    def _look_at(self, file: FileCursor, *, last: bool) -> None:
        """Look for further lines; after an error the name is followed anew from its place.

        What was open may go on behind bytes that it could not read.
        """
        before, tail = file.error, file.tail
        file.look(self.grace_s, last=last)
        if file.error is not None and file.error is not before:
            tail.close()
            file.tail = self._follow(tail.name)
            file.tail.mark, file.tail.earlier = tail.mark, tail.earlier

    def _leave_one(self, behind: str) -> bool:
        """Leave the first file before a name that was read to its end; False where there is none."""
        for each in self:
            name = each.tail.name
            if each.ended and name < behind:
                self._look_at(each, last=False)  # what came since the last look
            if each.ended and name < behind:
                self._ends[name] = each.state
                self.done = max(name, self.done or name)
                self._files.pop(name).tail.close()
                return True
        return False


def state_of(name: str) -> tuple[int, int]:
    """Inode and size of a file, zeros where there is none."""
    with suppress(OSError):
        found = os.stat(name)
        return found.st_ino, found.st_size
    return 0, 0


def _is_fresh(name: str, seconds: float) -> bool:
    """Return whether a file was changed within the last ``seconds``."""
    with suppress(OSError):
        return abs(time.time() - os.stat(name).st_mtime) < seconds
    return False
