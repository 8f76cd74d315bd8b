"""A source that reads a file as it grows, or the files of a folder one after the other, line by line."""

from __future__ import annotations

import glob
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ...http.errors import HttpError
from ..declaration import Member, flag, number, one_of, text
from ..errors import ConnectorError, ConnectorFailedError
from ..source import N_QUADS, Source, SourceContext

_FORMATS = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
}
_LINES_OF_RDF = ("application/n-triples", "application/n-quads")
_CHUNK = 1 << 20


class Place(NamedTuple):
    """Where the source is: a file by name and number of its inode, and how far in it (unpacked)."""

    name: str
    inode: int
    offset: int


class FileSource(Source):
    """Complete lines of a file that grows, is rotated or cut; of a folder, files in the order of their names.

    Each line is a record; of N-Triples and N-Quads an element. The last line of a file counts without its
    end once there is a file behind it.
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
        _require_below(given["path"], folders)
        if given["format"] is None and _format_of(given["path"]) is None:
            told = f"the name {given['path']} does not tell its format"
            raise InputError(told, code="member", hint="Declare the member format")

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        super().__init__(given, context)
        # By name: inode, size and whether a file came behind it when it was read to its end the last time.
        self._seen: dict[str, tuple[int, int, bool]] = {}
        # Inode and size of the files that are behind the place, as of the last look; None before the first.
        self._passed: dict[str, tuple[int, int]] | None = None

    def run(self) -> None:
        """Read on and on."""
        context = self.context
        while True:
            place = None if context.position is None else Place(*json.loads(context.position))
            names = self._names()
            if not names and place is None:
                raise ConnectorError(f"there is no file {self.given['path']}")
            context.connected()
            self._tell_passed([] if place is None else [name for name in names if name < place.name])
            for place_of, name in enumerate(names):
                last = place_of + 1 == len(names)
                state = (_inode(name), _size(name), not last)
                if (place is None or name >= place.name) and self._seen.get(name) != state:
                    self._read(name, place, finished=not last)
                    self._seen = {each: seen for each, seen in self._seen.items() if each in names}
                    self._seen[name] = state
                    break
            else:
                context.sleep(self.given["every"] / 1000)
            context.sleep(0)

    def _names(self) -> list[str]:
        """The files that there are, in the order in which they are read."""
        path = self.given["path"]
        found = glob.glob(path) if glob.has_magic(path) else [path]
        return sorted(each for each in found if os.path.isfile(each))

    def _tell_passed(self, names: Sequence[str]) -> None:
        """Tell what has come since the last look into files of these names, which are read no more."""
        before, now = self._passed, {name: (_inode(name), _size(name)) for name in names}
        self._passed = now
        if before is None:
            return
        for name, state in now.items():
            came = before[name] != state if name in before else name not in self._seen
            if came and state[1]:
                told = "what was written here is not read: the source is at a file whose name comes later"
                self.context.refuse(name.encode(), told)

    # --- one file -------------------------------------------------------------------------------

    def _read(self, name: str, place: Place | None, *, finished: bool) -> None:
        """Bring in what a file has, first what its predecessor of that name still had."""
        try:
            inode = _inode(name)
            if place is not None and place.name == name and place.inode != inode:
                self._read_rest(place)
            offset = place.offset if place is not None and (place.name, place.inode) == (name, inode) else 0
            with _open(name, self.context.folders) as file:
                cut = offset > _size(name) and not name.endswith(".gz")
                if cut or (place is None and self.given["from"] == "end"):
                    offset = 0 if cut else self._last_line_end(file)
                    position = json.dumps([name, inode, offset])
                    self.context.push(b"", N_QUADS, position=position)
                self._lines(file, Place(name, inode, offset), finished=finished)
        except FileNotFoundError:
            return  # renamed between two looks
        except (OSError, EOFError) as error:
            raise ConnectorError(f"{name} cannot be read: {error}") from error

    def _read_rest(self, place: Place) -> None:
        """What a file still had when another took its name: it has got a name beside it."""
        for other in sorted(glob.glob(glob.escape(place.name) + "*")):
            if other != place.name and not other.endswith(".gz") and _inode(other) == place.inode:
                with _open(other, self.context.folders) as file:
                    self._lines(file, place, finished=True)
                return

    def _last_line_end(self, file: IO[bytes]) -> int:
        end = 0
        for block in iter(lambda: file.readline(self.given["max_line"]), b""):
            if block.endswith(b"\n"):
                end = file.tell()
        return end

    def _lines(self, file: IO[bytes], place: Place, *, finished: bool) -> None:
        """Bring in the lines of a file from a place to its end; of one that is finished the last one, too."""
        media_type, longest = self.given["format"] or _format_of(place.name) or "", self.given["max_line"]
        header = b""
        if media_type.startswith("text/csv") and self.given["header"]:
            file.seek(0)
            header = file.readline(longest)
            if not header.endswith(b"\n"):
                return
        at = max(place.offset, len(header))
        file.seek(at)
        rest = b""
        while chunk := file.read(_CHUNK):
            rest += chunk
            end = rest.rfind(b"\n") + 1
            if end:
                at = self._push(rest[:end], header, media_type, place, at)
                rest = rest[end:]
            if len(rest) > longest:
                raise ConnectorFailedError(
                    f"a line of {place.name} is longer than {longest:,} bytes (max_line)"
                )
        if rest and finished:
            self._push(rest, header, media_type, place, at)

    def _push(self, block: bytes, header: bytes, media_type: str, place: Place, at: int) -> int:
        """Bring in some lines, not too many at a time; the place behind them."""
        lines = _lines_of(block)
        each = "triple" if media_type.partition(";")[0] in _LINES_OF_RDF else None
        for first in range(0, len(lines), self.given["batch"]):
            some = []
            for line in lines[first : first + self.given["batch"]]:
                at += len(line)
                some.append((line, json.dumps([place.name, place.inode, at])))
            self.context.push_lines(some, media_type, header=header, each=each)
        return at


def _lines_of(block: bytes) -> list[bytes]:
    """The lines of a block, which end with LF alone."""
    lines = block.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _format_of(path: str) -> str | None:
    return _FORMATS.get(Path(path.removesuffix(".gz")).suffix)


def _inode(name: str) -> int:
    try:
        return os.stat(name).st_ino
    except OSError:
        return 0


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


def _open(name: str, folders: Sequence[Path]) -> IO[bytes]:
    """Open a file, packed or not; links do not lead out of the folders."""
    _require_below(name, folders)
    found = gzip.open(name) if name.endswith(".gz") else open(name, "rb")
    return cast("IO[bytes]", found)


def _require_below(path: str, folders: Sequence[Path]) -> None:
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
