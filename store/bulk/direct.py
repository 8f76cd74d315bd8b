"""The direct pipeline of bulk loads: one process parses the source files with Oxigraph's parser."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

from ..errors import StoreUnwritableError
from .parsing import parse_chunk
from .sources import Chunk, SourceError
from .work import ChunkResult, LoadFolder

Advance = Callable[[int, int, int], None]
"""A progress callback that receives the numbers of quads, bytes written and bad lines so far.

An exception in the progress callback stops the bulk load.
"""


def prepare_direct(work: LoadFolder, max_bad: int | None, advance: Advance) -> None:
    """Parse the unfinished chunks of a load and write a part file of N-Quads for each chunk.

    Args:
        work: the work folder of the load.
        max_bad: the maximum number of bad lines; None is no limit.
        advance: receives the progress after each batch of lines and after each chunk.

    Raises:
        LoadError: the sources have more bad lines than ``max_bad``; the message shows the first bad line over
            the limit.
        SourceError: a source file cannot be read or decompressed.
        StoreUnwritableError: a part file cannot be written.
    """
    rows = size = bad = 0
    for chunk in work.chunks:
        done = work.done(chunk.index)
        if done is None:
            done = _prepare(work, chunk, max_bad, (rows, size, bad), advance)
        rows, size, bad = rows + done.rows, size + done.bytes, bad + len(done.bad)
        if max_bad is not None and bad > max_bad:
            work.require_few_bad(work.finished(), max_bad)
        advance(rows, size, bad)


def _prepare(
    work: LoadFolder, chunk: Chunk, max_bad: int | None, before: tuple[int, int, int], advance: Advance
) -> ChunkResult:
    source = work.sources[chunk.source]
    rows = size = lines = 0
    bad: list[list[Any]] = []
    part = work.part(chunk.index)
    try:
        file = part.open("wb")
    except OSError as error:
        raise StoreUnwritableError(f"the part {part} cannot be written: {error.strerror}") from error
    with file:
        batches = parse_chunk(source, chunk, work.rules)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, EOFError, zlib.error) as error:
                raise SourceError(f"{source.path} cannot be read: {error}") from error
            except Exception as error:
                if type(error).__name__ != "ZstdError":  # zstandard is imported for zstd files only
                    raise
                raise SourceError(f"{source.path} cannot be unpacked: {error}") from error
            if batch is None:
                break
            try:
                file.write(batch.data)
            except OSError as error:
                raise StoreUnwritableError(f"the part {part} cannot be written: {error.strerror}") from error
            rows, size, lines = rows + batch.rows, size + len(batch.data), lines + batch.lines
            bad.extend([each.line, each.reason, each.text] for each in batch.bad)
            if max_bad is not None and before[2] + len(bad) > max_bad:
                work.require_few_bad(
                    [*work.finished(), (chunk, ChunkResult(rows, lines, size, bad))], max_bad
                )
            advance(before[0] + rows, before[1] + size, before[2] + len(bad))
        file.flush()
        os.fsync(file.fileno())
    done = ChunkResult(rows, lines, size, bad)
    work.finish(chunk.index, done)
    return done
