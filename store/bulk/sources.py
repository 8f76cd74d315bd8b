"""The files of a load: globs and folders spelt out, format and packing told by the name, cut into chunks."""

from __future__ import annotations

import bz2
import glob
import gzip
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from ..errors import ReportedError
from ..formats import RdfType, guess_rdf_format, rdf_format

CHUNK_BYTES = 64 << 20
"""Plain N-Triples and N-Quads are cut about here; a chunk is what a resumed load does not do again."""

PACKINGS = {".gz": "gz", ".bz2": "bz2", ".zst": "zst", ".zstd": "zst"}
LINE_FORMATS = ("N-Triples", "N-Quads")


class SourceError(ReportedError):
    """A source does not exist, or its format is not known."""

    code = "source"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its RDF format as media type, its packing (``gz``, ``bz2``, ``zst`` or empty), its bytes."""

    path: str
    media_type: str
    packing: str
    size: int
    changed_ns: int

    @property
    def kind(self) -> RdfType:
        """The RDF format of the source."""
        kind = rdf_format(self.media_type)
        assert kind is not None
        return kind

    @property
    def by_line(self) -> bool:
        """True for N-Triples and N-Quads, where a bad line concerns no other one."""
        return self.kind.name in LINE_FORMATS


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of a source that begin at byte ``start`` or later and before ``end``; end 0 is all of it."""

    index: int
    source: int
    start: int
    end: int


def find_sources(given: Iterable[str | Path], kind: RdfType | None = None) -> list[SourceFile]:
    """The files that ``given`` names: files, globs (``**`` too), and folders with all below them.

    Args:
        given: paths. In folders, files whose names tell no RDF format are passed over, as are hidden ones.
        kind: the format of all files; by default the name of each tells it.

    Raises:
        SourceError: there is no such file, or a file's format is not known.
    """
    found: dict[str, SourceFile] = {}
    for each in given:
        for path, named in _spelt_out(str(each)):
            source = _source(path, kind)
            if source is not None:
                found[source.path] = source
            elif named:
                raise SourceError(
                    f"the name of {path} does not tell its format",
                    hint="give the media type, for instance text/turtle",
                )
    if not found:
        raise SourceError(f"there is no RDF file in {', '.join(map(str, given))}")
    return list(found.values())


def cut(sources: Iterable[SourceFile], chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
    """The sources as chunks; packed files and documents are one each."""
    chunks: list[Chunk] = []
    for number, source in enumerate(sources):
        if source.packing or not source.by_line or source.size <= chunk_bytes:
            chunks.append(Chunk(len(chunks), number, 0, 0))
            continue
        for start in range(0, source.size, chunk_bytes):
            chunks.append(Chunk(len(chunks), number, start, min(start + chunk_bytes, source.size)))
    return chunks


def open_source(source: SourceFile) -> IO[bytes]:
    """The unpacked bytes of a source, as an open file."""
    match source.packing:
        case "gz":
            return cast("IO[bytes]", gzip.open(source.path, "rb"))
        case "bz2":
            return bz2.open(source.path, "rb")
        case "zst":
            from .zstd import open_zstd

            return open_zstd(source.path)
        case _:
            return open(source.path, "rb")


def lines_of(source: SourceFile, chunk: Chunk, block: int = 1 << 20) -> Iterator[list[bytes]]:
    """The lines of a chunk, in lists of about ``block`` bytes; only a line feed ends a line."""
    with open_source(source) as stream:
        left: float = float("inf")
        if chunk.end:
            left = chunk.end - chunk.start
            if chunk.start:
                stream.seek(chunk.start - 1)
                left -= len(stream.readline()) - 1  # the rest of a line that the chunk before has
        while left > 0:
            # readlines stops once it has more than its argument, and takes 0 for no limit.
            lines = stream.readlines(int(min(block, left - 1))) if left > 1 else [stream.readline()]
            if not lines or not lines[0]:
                return
            left -= sum(map(len, lines))
            yield lines


def _spelt_out(given: str) -> Iterator[tuple[str, bool]]:
    """Files, and whether each was named itself."""
    if os.path.isdir(given):
        for folder, inner, names in os.walk(given):
            inner[:] = sorted(each for each in inner if not each.startswith("."))
            yield from ((os.path.join(folder, name), False) for name in sorted(names) if name[0] != ".")
    elif os.path.exists(given):
        yield given, True
    else:
        matches = sorted(glob.glob(given, recursive=True))
        if not matches:
            raise SourceError(f"there is no file {given}")
        for match in matches:
            yield from ((path, False) for path, _ in _spelt_out(match))


def _source(path: str, kind: RdfType | None) -> SourceFile | None:
    stem, ending = os.path.splitext(path)
    packing = PACKINGS.get(ending.lower(), "")
    kind = kind or guess_rdf_format(os.path.basename(stem if packing else path))
    if kind is None:
        return None
    facts = os.stat(path)
    return SourceFile(os.path.abspath(path), kind.media_type, packing, facts.st_size, facts.st_mtime_ns)
