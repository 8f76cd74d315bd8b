"""The source files of a bulk load: expansion of globs and folders, formats, and division into chunks."""

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
"""Size in bytes of the chunks into which uncompressed N-Triples and N-Quads are divided.

A resumed bulk load skips finished chunks.
"""

PACKINGS = {".gz": "gz", ".bz2": "bz2", ".zst": "zst", ".zstd": "zst"}
LINE_FORMATS = ("N-Triples", "N-Quads")


class SourceError(ReportedError):
    """A source file does not exist or cannot be read, or its format is unknown."""

    code = "source"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file of a bulk load.

    Attributes:
        path: the absolute path.
        media_type: the RDF media type.
        packing: the compression: ``gz``, ``bz2``, ``zst`` or empty.
        size: the size in bytes on disk.
        changed_ns: the modification time in nanoseconds since 1970.
    """

    path: str
    media_type: str
    packing: str
    size: int
    changed_ns: int

    @property
    def kind(self) -> RdfType:
        """The RDF format of the source file, by its media type."""
        kind = rdf_format(self.media_type)
        assert kind is not None
        return kind

    @property
    def by_line(self) -> bool:
        """True for N-Triples and N-Quads, where a bad line does not affect other lines."""
        return self.kind.name in LINE_FORMATS


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a source file whose lines begin between the byte offsets ``start`` and ``end``.

    Attributes:
        index: the number of the chunk within the load, from 0.
        source: the position of the source file in the list of source files.
        start: the offset at which the chunk begins.
        end: the offset at which the chunk ends; 0 is the end of the file.
    """

    index: int
    source: int
    start: int
    end: int


def find_sources(given: Iterable[str | Path], kind: RdfType | None = None) -> list[SourceFile]:
    """Return the source files that are given by paths, globs (including ``**``) and folders.

    Args:
        given: paths of files, globs, and folders, which are searched with their subfolders. Hidden files in
            folders are ignored, and so are files of unknown format that the caller did not name.
        kind: the RDF format of all files; None derives the format of each file from its name.

    Raises:
        SourceError: a file does not exist, the format of a named file is unknown, or no file was found.
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
    """Divide source files into chunks; only uncompressed N-Triples and N-Quads have several chunks."""
    chunks: list[Chunk] = []
    for number, source in enumerate(sources):
        if source.packing or not source.by_line or source.size <= chunk_bytes:
            chunks.append(Chunk(len(chunks), number, 0, 0))
            continue
        for start in range(0, source.size, chunk_bytes):
            chunks.append(Chunk(len(chunks), number, start, min(start + chunk_bytes, source.size)))
    return chunks


def open_source(source: SourceFile) -> IO[bytes]:
    """Open a source file for reading its decompressed bytes."""
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
    """Yield a chunk's lines in lists of about ``block`` bytes; only a line feed ends a line."""
    with open_source(source) as stream:
        left: float = float("inf")
        if chunk.end:
            left = chunk.end - chunk.start
            if chunk.start:
                stream.seek(chunk.start - 1)
                # The previous chunk of the source file contains the line that ends here.
                left -= len(stream.readline()) - 1
        while left > 0:
            # The method `readlines` stops when the lines exceed its argument, and takes 0 for no limit.
            lines = stream.readlines(int(min(block, left - 1))) if left > 1 else [stream.readline()]
            if not lines or not lines[0]:
                return
            left -= sum(map(len, lines))
            yield lines


def _spelt_out(given: str) -> Iterator[tuple[str, bool]]:
    """Yield file paths, each with True if the caller named the file and False if a folder contained it."""
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
