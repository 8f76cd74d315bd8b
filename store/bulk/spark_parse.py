"""Spark DataFrames of the quads and bad lines of source files, parsed by the direct pipeline's code."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .parsing import ParseRules, parse_chunk
from .sources import SourceFile, cut
from .spark_session import tell

SCHEMA = (
    "chunk int, s string, p string, o string, g string, lines long, line long, reason string, text string"
)
_LINE = re.compile(
    r'(\S+) (\S+) (<<\(.*\)>>|<[^>]*>|_:\S+|"(?>[^"\\]++|\\.)*+"(?:@[^ ]+|\^\^<[^>]*>)?)'
    r"(?: (<[^>]*>|_:\S+))? \."
)


def parsed(
    spark: Any,
    sources: list[SourceFile],
    rules: ParseRules,
    *,
    keep_labels: bool = False,
    counts: Path | None = None,
) -> Any:
    """Return the quads and bad lines of all source files as one DataFrame with the columns `SCHEMA`.

    A row of the DataFrame is a quad (``s`` is set), a bad line (``reason`` is set), or the end of a chunk
    (``lines`` is set). With ``keep_labels`` blank nodes keep their labels, as needed for a dump of the store.
    The folder ``counts`` gets one file per chunk with the numbers of quads and bytes parsed so far, see
    `counted`.
    """
    chunks = cut(sources)

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                count = None if counts is None else counts / str(index)
                yield from chunk_rows(sources, chunks[index], rules, keep_labels, count)

    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(parse, SCHEMA)


def counted(counts: Path) -> tuple[int, int]:
    """Return the number of quads that Spark parsed so far and the bytes of their lines; see `parsed`."""
    figures = [each.read_text().split() for each in counts.glob("*")]
    # A file with the numbers parsed so far may be incomplete while Spark writes it; it is ignored then.
    whole = [(int(found[0]), int(found[1])) for found in figures if len(found) == 2]
    return sum(rows for rows, _ in whole), sum(size for _, size in whole)


@contextlib.contextmanager
def reporting(so_far: Callable[[], tuple[int, int]], every_s: float = 1.0) -> Iterator[None]:
    """Report parsed quads and bytes to the parent process, each second and after the Spark job."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            rows, size = so_far()
            tell(rows=rows, bytes=size)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    rows, size = so_far()
    tell(rows=rows, bytes=size)


def chunk_rows(
    sources: list[SourceFile], chunk: Any, rules: ParseRules, keep_labels: bool, count: Path | None = None
) -> Iterator[Any]:
    """Yield a source chunk's rows as Arrow batches; write the progress for `counted` to ``count``."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("chunk", pa.int32()),
            *((name, pa.string()) for name in "spog"),
            *((name, pa.int64()) for name in ("lines", "line")),
            *((name, pa.string()) for name in ("reason", "text")),
        ]
    )

    def batch(count: int, **columns: list[Any]) -> Any:
        arrays = [pa.array([chunk.index] * count, pa.int32())]
        arrays += [
            pa.array(columns.get(field.name, [None] * count), field.type) for field in list(schema)[1:]
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    lines = rows = size = 0
    for each in parse_chunk(sources[chunk.source], chunk, rules, keep_labels=keep_labels):
        lines += each.lines
        rows += each.rows
        size += len(each.data)
        found = [
            match.groups() for match in map(_LINE.fullmatch, each.data.decode().split("\n")[:-1]) if match
        ]
        assert len(found) == each.rows, "a canonical line was not understood"
        if found:
            s, p, o, g = zip(*found, strict=True)
            yield batch(len(found), s=list(s), p=list(p), o=list(o), g=list(g))
        if each.bad:
            yield batch(
                len(each.bad),
                line=[bad.line for bad in each.bad],
                reason=[bad.reason for bad in each.bad],
                text=[bad.text for bad in each.bad],
            )
        if count is not None:
            count.write_text(f"{rows} {size}")
    yield batch(1, lines=[lines])
