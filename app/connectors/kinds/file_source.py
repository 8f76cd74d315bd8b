"""A source that reads a file as it grows, or the files of a folder one after the other, line by line."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from lzma import LZMAError
from pathlib import Path
from typing import Any

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ...http.errors import HttpError
from ..declaration import Member, flag, number, one_of, text
from ..errors import ConnectorError
from ..source import N_QUADS, Source, SourceContext
from .file_marks import Mark, require_below, without_generations
from .file_tail import Block, FileTail, Reader

_FORMATS = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
}
_LINES_OF_RDF = ("application/n-triples", "application/n-quads")


class FileSource(Source):
    """Complete lines of a file that grows, is rotated or cut; of a folder, files in the order of their names.

    Each line is a record; of N-Triples and N-Quads an element. The last line of a file counts without its
    end once there is a file behind it. The position is a name, inode and offset, and what recognises them.
    """

    members = (
        Member("path", text, "the file, or a pattern of names such as logs/*.ndjson", required=True),
        Member("from", one_of("start", "end"), "where it begins in what is there at first", default="start"),
        Member(
            "every",
            lambda value, name: max(10, duration_ms(value, name, positive=True)),
            "the time between two looks at a file that has ended",
            default=500,
        ),
        Member("header", flag, "of CSV: the first line of each file names the fields", default=True),
        Member("max_line", number(1, 1 << 28), "the longest line, in bytes", default=16 << 20),
    )
    guarantee = "each line enters exactly once"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Raises HttpError 403 for a place outside of the folders, InputError without a format."""
        require_below(given["path"], folders)
        if given["format"] is None and _format_of(given["path"]) is None:
            told = f"the name {given['path']} does not tell its format"
            raise InputError(told, code="member", hint="Declare the member format")

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        super().__init__(given, context)
        # Inode and size of files when they were read to their ends.
        self._seen: dict[str, tuple[int, int]] = {}
        # Inode and size of the files that are behind the place, as of the last look; None before the first.
        self._passed: dict[str, tuple[int, int]] | None = None
        # Links that lead out of the folders, each with the place that was told.
        self._outside: dict[str, str] = {}
        # The files that are read, by name; what is before the first of them is read no more.
        self._tails: dict[str, FileTail] = {}
        self._first: str | None = None

    def run(self) -> None:
        """Read on and on."""
        context = self.context
        self._tails, self._first = {}, None
        if context.position is not None:
            self._restore(context.position)
        try:
            while True:
                names, listed = self._names()
                if not names and self._first is None:
                    raise ConnectorError(f"there is no file {self.given['path']}")
                context.connected()
                self._tell_passed([name for name in names if name < (self._first or "")])
                if not self._read_some(names, listed):
                    context.sleep(self.given["every"] / 1000)
                context.sleep(0)
        except FileNotFoundError:
            context.sleep(self.given["every"] / 1000)  # renamed between two looks
        except (OSError, EOFError, LZMAError) as error:
            raise ConnectorError(f"{self.given['path']} cannot be read: {error}") from error
        finally:
            for each in self._tails.values():
                each.close()

    # --- which files ----------------------------------------------------------------------------

    def _names(self) -> tuple[list[str], list[str]]:
        """The files that are read for themselves, in order, and all files that the path names."""
        path = self.given["path"]
        found = sorted(glob.glob(path) if glob.has_magic(path) else [path])
        listed = [each for each in found if os.path.isfile(each) and self._is_inside(each)]
        return without_generations(listed), listed

    def _is_inside(self, name: str) -> bool:
        """Return False for a link that leads out of the folders, which becomes one dead letter."""
        try:
            require_below(name, self.context.folders)
        except HttpError as error:
            leads = os.path.realpath(name)
            if self._outside.get(name) != leads:
                self._outside[name] = leads
                self.context.refuse(name.encode(), f"the link is skipped: {error.message}")
            return False
        self._outside.pop(name, None)
        return True

    def _tell_passed(self, names: Sequence[str]) -> None:
        """Tell what has come since the last look into files of these names, which are read no more."""
        before, now = self._passed, {name: _state_of(name) for name in names}
        self._passed = now
        if before is None:
            return
        for name, state in now.items():
            came = before[name] != state if name in before else name not in self._seen
            if came and state[1]:
                told = "what was written here is not read: the source is at a file whose name comes later"
                self.context.refuse(name.encode(), told)

    def _read_some(self, names: Sequence[str], listed: Sequence[str]) -> bool:
        """Bring in the next lines, of the first file that has some; False where there are none now."""
        first = self._first
        waiting = sorted({name for name in names if first is None or name >= first} | {*self._tails})
        waiting = [name for name in waiting if name not in self._outside]
        for place, name in enumerate(waiting):
            tail = self._tails.get(name) or self._tail(name, names, listed)
            tail.listed = names
            state, last = _state_of(name), place + 1 == len(waiting)
            block = tail.block()
            if tail.mark is None:
                continue
            if first != name:
                first = self._first = name
            if block is None and not last:
                block = tail.rest()
            if block is not None:
                self._bring(tail, block)
                return True
            self._keep_place()
            if last or tail.leaves:
                return False
            self._seen = {each: seen for each, seen in self._seen.items() if each in names}
            self._seen[name] = state
            self._tails.pop(name).close()
        return False

    def _tail(self, name: str, names: Sequence[str], listed: Sequence[str]) -> FileTail:
        """Begin to follow a file."""
        csv = self._type_of(name).startswith("text/csv")
        made = self._tails[name] = FileTail(
            name,
            self.context.folders,
            csv and self.given["header"],
            self.given["max_line"],
            self._first is None and self.given["from"] == "end",
            self._lost,
        )
        if self._first is None and not glob.has_magic(self.given["path"]):
            made.since_ns = self.context.created_ms * 1_000_000
        made.first = {each for each in listed if each not in names and each.startswith(name)}
        return made

    def _type_of(self, name: str) -> str:
        return self.given["format"] or _format_of(name) or ""

    def _lost(self, name: str, told: str) -> None:
        self.context.lose(name, told)

    # --- places ---------------------------------------------------------------------------------

    def _restore(self, position: str) -> None:
        """Go on from a position; those of earlier releases have no fingerprints."""
        name, inode, offset, *further = json.loads(position)
        known = further[0] if further else {}
        self._first = name
        tail = self._tail(name, (), ())
        tail.mark = Mark(inode, offset, *known.get("mark", ()))
        tail.earlier = [Mark(*each) for each in known.get("earlier", ())]

    def _position(self, tail: FileTail, reader: Reader | None = None, mark: Mark | None = None) -> str:
        """The position once the file of a reader is read up to a mark."""
        found, earlier = tail.mark, tail.earlier
        if reader is not None and mark is not None:
            found, earlier = tail.marks(reader, mark)
        assert found is not None
        known = {"mark": found[2:], "earlier": earlier}
        return json.dumps([tail.name, found.inode, found.offset, known], separators=(",", ":"))

    def _keep_place(self) -> None:
        """Keep where the source is when a file was replaced or begun, of which no line has entered."""
        assert self._first is not None
        tail, kept = self._tails[self._first], self.context.position
        assert tail.mark is not None
        if kept is None or json.loads(kept)[:3] != [tail.name, tail.mark.inode, tail.mark.offset]:
            self.context.push(b"", N_QUADS, position=self._position(tail))

    # --- lines ----------------------------------------------------------------------------------

    def _bring(self, tail: FileTail, block: Block) -> None:
        """Bring in the lines of a block, not too many at a time."""
        media_type, done = self._type_of(tail.name), 0
        each = "triple" if media_type.partition(";")[0] in _LINES_OF_RDF else None
        while done < len(block.lines):
            lines = block.lines[done : done + self.given["batch"]]

            def place(number: int, before: int = done) -> str:
                return self._position(tail, block.reader, block.mark(before + number))

            self.context.push_lines(lines, media_type, place, header=block.header, each=each)
            done += len(lines)
        tail.passed(block.reader, block.mark(done))


def _format_of(path: str) -> str | None:
    return _FORMATS.get(Path(path.removesuffix(".gz")).suffix)


def _state_of(name: str) -> tuple[int, int]:
    """Inode and size of a file, zeros where there is none."""
    try:
        found = os.stat(name)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_size
