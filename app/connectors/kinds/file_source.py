"""File source: reads the lines of a growing file, or of the files that match a pattern."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ...http.errors import HttpError
from ..declaration import DeclarationMember, flag, number, one_of, text
from ..errors import ConnectorError, ConnectorFailedError
from ..source import N_QUADS, Source, SourceContext
from .file_marks import FileMark, require_below, shown, without_generations
from .file_tail import FileTail
from .open_files import IN_ORDER_S, TOGETHER_S, FileCursor, OpenFiles, state_of

_FORMATS = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
}
_MOST_PUSHES = 16
"""Maximum number of pushes of a file source between two listings of its folder."""
_LINES_OF_RDF = ("application/n-triples", "application/n-quads")


class FileSource(Source):
    """A source that reads the complete lines of one growing file, or of all files that match a pattern.

    Each line of a followed file is a record; each line of N-Triples or N-Quads is an element. If the records
    of the stream have an event time, each file is a partition: the source reads at most ``files`` files
    concurrently, and always reads next from the file with the lowest event time. If the records have no event
    time, the file source reads one file after the other in the order of their names. A last line without a
    line end is read only in files that are not the last file of the pattern. The position of a file source
    contains the name, inode, offset and fingerprints of each file that is being read.
    """

    members = (
        DeclarationMember(
            "path", text, "the file, or a pattern of names such as logs/*.ndjson", required=True
        ),
        DeclarationMember(
            "from",
            one_of("start", "end"),
            "where to start reading the files that exist at first",
            default="start",
        ),
        DeclarationMember(
            "every",
            lambda value, name: max(10, duration_ms(value, name, positive=True)),
            "the time between two checks of a file for new lines",
            default=500,
        ),
        DeclarationMember(
            "header", flag, "whether the first line of each CSV file names the fields", default=True
        ),
        DeclarationMember(
            "files",
            number(1, 256),
            "maximum number of files read concurrently if records have an event time",
            default=32,
        ),
        DeclarationMember("max_line", number(1, 1 << 28), "the longest line, in bytes", default=16 << 20),
    )
    guarantee = "each line enters exactly once"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Raise HttpError 403 for a file outside of ``folders``, InputError for a file of unknown format."""
        require_below(given["path"], folders)
        if given["format"] is None and _format_of(given["path"]) is None:
            message = f"the name {given['path']} does not show the format of the file"
            raise InputError(message, code="member", hint="Declare the member format")

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        super().__init__(given, context)
        # Inode and size of the completely read files at the last check for changes; None before the first
        # check.
        self._left: dict[str, tuple[int, int]] | None = None
        # Already reported links that lead out of the allowed folders, with their targets, and already
        # reported unreadable files.
        self._outside: dict[str, str] = {}
        self._unreadable: set[str] = set()
        self._open = OpenFiles(self._tail)
        # The rotated files of the last listing of the folder, and the files that the source reads from their
        # ends.
        self._rotated: list[str] = []
        self._at_end: Collection[str] = ()
        # True if the source's stream has a separate event time for each file.
        self._partitioned = False

    def run(self) -> None:
        """Push the lines of the files into the stream until the source is stopped."""
        context, self._open = self.context, OpenFiles(self._tail)
        self._partitioned = False
        if context.position is not None:
            self._restore(context.position)
        try:
            while True:
                names = self._names()
                if context.position is None:
                    self._begin(names)
                if not names and not len(self._open):
                    raise ConnectorError(f"there is no file {self.given['path']}")
                context.connected()
                if not self._read_some(names):
                    context.sleep(self.given["every"] / 1000)
                context.sleep(0)
        finally:
            self._open.close()

    # --- which files ----------------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Return the sorted names of the files to read, without rotated forms of other files."""
        path = self.given["path"]
        found = sorted(glob.glob(path) if glob.has_magic(path) else [path])
        listed = [each for each in found if os.path.isfile(each) and self._is_inside(each)]
        known = {*without_generations([*listed, *self._open.names]), *self._open.names}
        self._rotated = [each for each in listed if each not in known]
        return [each for each in listed if each in known]

    def _is_inside(self, name: str) -> bool:
        """Return False for a link that leads out of the allowed folders, and store one dead letter for it."""
        try:
            require_below(name, self.context.folders)
        except HttpError as error:
            leads = os.path.realpath(name)
            if self._outside.get(name) != leads:
                self._outside[name] = leads
                self.context.refuse(os.fsencode(name), f"the link is skipped: {error.message}")
            return False
        self._outside.pop(name, None)
        return True

    def _begin(self, names: Sequence[str]) -> None:
        """Start at the ends of the existing files if the declaration has ``from: end``."""
        if self.given["from"] == "end":
            self._at_end = frozenset(names)
            most = self.given["files"]
            self._open.done = names[-most - 1] if len(names) > most else None
            self._open.open_next(names, most)
            self._open.read_next(names, self._outside)
            self._keep_place()
            self._at_end = ()

    def _tail(self, name: str) -> FileTail:
        """Return a new FileTail, which follows a file name across rotations."""
        csv = self._type_of(name).startswith("text/csv")
        made = FileTail(
            name,
            self.context.folders,
            csv and self.given["header"],
            self.given["max_line"],
            name in self._at_end,
            self._lost,
        )
        made.since_ns = self.context.created_ms * 1_000_000
        made.first = {each for each in self._rotated if each.startswith(name)}
        return made

    def _report_unread(self, names: Sequence[str]) -> None:
        """Store a dead letter for each completely read file that has changed since the last check."""
        done = self._open.done or ""
        now = {name: state_of(name) for name in names if name <= done and name not in self._open}
        before, self._left, ends = self._left, now, self._open.take_ends()
        if before is None:  # at the first check only files that this run finished are known
            before = {name: state for name, state in now.items() if name not in ends}
        for name, state in now.items():
            known = before.get(name, ends.get(name))
            if known != state and state[1]:
                reason = "new lines of this file are not read: the source already reads a later file"
                self.context.refuse(os.fsencode(name), reason)

    def _report_errors(self) -> None:
        """Report unreadable files; the source reads other files if each file has its own event time.

        Raises:
            ConnectorError: a file is unreadable, and files have no separate event times, so that later files
                wait.
            ConnectorFailedError: the file for which later files wait stays unreadable until it or the
                declaration changes.
        """
        wrong = [each for each in self._open if each.error is not None]
        errors = {each.tail.name: str(each.error) for each in wrong}
        if errors and not self._partitioned:
            raised = ConnectorFailedError if any(each.failed for each in wrong) else ConnectorError
            raise raised(min(errors.values()))
        for name in errors.keys() - self._unreadable:
            self.context.refuse(os.fsencode(name), errors[name])
        self._unreadable = set(errors)
        if errors:
            self.context.figures.error = min(errors.values())

    # --- lines ----------------------------------------------------------------------------------

    def _read_some(self, names: Sequence[str]) -> bool:
        """Push lines of files until the folder has to be listed again; return False if no lines were new."""
        brought = False
        self._declare(names)  # the source may open several files only if its stream has partitions
        for _ in range(_MOST_PUSHES):
            began = self._open.open_next(names, self.given["files"] if self._partitioned else 1)
            self._open.read_next(names, self._outside)
            self._report_errors()
            # Partitions are declared before the first new line is pushed, so that a file that was idle delays
            # the watermark again.
            times = self._declare(names)
            ready = [each for each in self._open if each.unread]
            if ready:
                self._push_lines(min(ready, key=lambda each: _read_order(times.get(shown(each.tail.name)))))
                brought = True
            elif not began:
                break
        self._report_unread(names)
        if not brought:
            self._keep_place()
        return brought

    def _declare(self, names: Sequence[str]) -> Mapping[str, int | None]:
        """Declare open and next files as partitions of the stream; return the highest event time of each."""
        waiting = {shown(each.tail.name): each.unread for each in self._open if each.error is None}
        room = self.given["files"] - len(self._open)
        waiting |= dict.fromkeys(map(shown, self._open.waiting(names)[: max(0, room)]), True)
        times = self.context.declare_partitions(waiting)
        self._partitioned = times is not None
        self._open.grace_s = IN_ORDER_S if times is None else TOGETHER_S
        return times or {}

    def _push_lines(self, file: FileCursor) -> None:
        """Push the next lines of one file into the stream."""
        media_type, lines = self._type_of(file.tail.name), file.lines(self.given["batch"])
        self.context.push_lines(
            lines,
            media_type,
            lambda number: self._position(file, number),
            header=file.header,
            each="triple" if media_type.partition(";")[0] in _LINES_OF_RDF else None,
            partition=shown(file.tail.name) if self._partitioned else None,
        )
        file.enter(len(lines))

    def _type_of(self, name: str) -> str:
        return self.given["format"] or _format_of(name) or ""

    def _lost(self, name: str, reason: str) -> None:
        self.context.lose(name, reason)

    # --- positions ------------------------------------------------------------------------------

    def _restore(self, position: str) -> None:
        """Continue from a stored position, in which files that could not be opened have no fingerprints."""
        kept = json.loads(position)
        self._open.done = kept["done"]
        for name, inode, offset, *further in kept["files"]:
            known = further[0] if further else {}
            tail = self._open.open(name).tail
            if inode:
                tail.mark = FileMark(inode, offset, *known.get("mark", ()))
            tail.earlier = [FileMark(*each) for each in known.get("earlier", ())]

    def _position(self, file: FileCursor | None = None, number: int = 0) -> str:
        """Return the position after the next ``number`` lines of ``file`` have entered the stream."""
        places: list[Any] = []
        for each in self._open:
            mark, earlier = each.marks(number if each is file else 0)
            if mark is None:  # a file that could not be opened yet has no mark
                places.append([each.tail.name, 0, 0])
            else:
                known = {"mark": mark[2:], "earlier": earlier}
                places.append([each.tail.name, mark.inode, mark.offset, known])
        return json.dumps({"done": self._open.done, "files": places}, separators=(",", ":"))

    def _keep_place(self) -> None:
        """Store the source's position if files or offsets have changed, but no line entered the stream."""
        position, kept = self._position(), self.context.position
        if kept is None or _places(position) != _places(kept):
            self.context.push(b"", N_QUADS, position=position)


def _read_order(at: int | None) -> tuple[bool, int]:
    """Return the sort key of a file: files without an event time first, then by ascending event time."""
    return at is not None, at or 0


def _places(position: str) -> Any:
    """Return the names, inodes and offsets of a file source's position, without fingerprints."""
    kept = json.loads(position)
    return kept["done"], [each[:3] for each in kept["files"]]


def _format_of(path: str) -> str | None:
    return _FORMATS.get(Path(path.removesuffix(".gz")).suffix)
