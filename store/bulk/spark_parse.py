"""The quads and bad lines of files as a DataFrame, by the parser that the direct pipeline has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .parsing import Rules, parse_chunk
from .sources import SourceFile, cut

SCHEMA = (
    "chunk int, s string, p string, o string, g string, lines long, line long, reason string, text string"
)
_LINE = re.compile(
    r'(\S+) (\S+) (<<\(.*\)>>|<[^>]*>|_:\S+|"(?:[^"\\]++|\\.)*+"(?:@[^ ]+|\^\^<[^>]*>)?)'
    r"(?: (<[^>]*>|_:\S+))? \."
)


def parsed(spark: Any, sources: list[SourceFile], rules: Rules, *, keep_labels: bool = False) -> Any:
    """The quads and bad lines of all sources as one DataFrame of `SCHEMA`.

    A row is a quad (``s`` is set), a bad line (``reason`` is set), or a chunk's end (``lines`` is set).
    ``keep_labels`` is for dumps of the store, whose blank nodes are its own.
    """
    chunks = cut(sources)

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from chunk_rows(sources, chunks[index], rules, keep_labels)

    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(parse, SCHEMA)


def chunk_rows(sources: list[SourceFile], chunk: Any, rules: Rules, keep_labels: bool) -> Iterator[Any]:
    """The rows of one chunk, as Arrow batches of `SCHEMA`."""
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

    lines = 0
    for each in parse_chunk(sources[chunk.source], chunk, rules, keep_labels=keep_labels):
        lines += each.lines
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
    yield batch(1, lines=[lines])
