"""The child process that runs Spark for a bulk load, a new mirror or the compaction of a mirror.

The command line of the Spark child process is one of:

load FOLDER MAX_BAD          mirror DUMP MIRROR VERSION MARK     compact CHANGES MIRROR VERSION MARK
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from .parsing import ParseRules
from .sources import SourceFile, cut
from .spark_mirror import compact, make
from .spark_parse import SCHEMA, chunk_rows, counted, reporting
from .spark_session import end_with_parent, finish, session, tell, uri
from .work import ChunkResult, LoadError, LoadFolder


def load(folder: Path, max_bad: int | None) -> None:
    """Parse and deduplicate the sources of a load with Spark, and write the part files."""
    from pyspark.sql import functions as f

    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    sources = [SourceFile(**each) for each in plan["sources"]]
    options = plan["options"]
    rules = ParseRules(options.get("graph"), options.get("base_iri"), plan["seed"])
    work = LoadFolder(folder, sources, cut(sources), rules)
    spark = session()
    stage = folder / "parsed"
    _parse_to_files(spark, work, stage)
    rows = spark.read.schema(SCHEMA).parquet(uri(stage))
    figures = {
        row.chunk: row
        for row in rows.groupBy("chunk")
        .agg(f.count("s").alias("rows"), f.sum("lines").alias("lines"), f.count("reason").alias("bad"))
        .collect()
    }
    bad: dict[int, list[list[Any]]] = {}
    for row in rows.where("reason is not null").orderBy("chunk", "line").toLocalIterator():
        bad.setdefault(row.chunk, []).append([row.line, row.reason, row.text])
    finished = [
        (
            chunk,
            ChunkResult(figures[chunk.index].rows, figures[chunk.index].lines, 0, bad.get(chunk.index, [])),
        )
        for chunk in work.chunks
    ]
    total, count = sum(done.rows for _, done in finished), sum(map(len, bad.values()))
    tell(stage="sort", rows=total, bad=count)
    try:
        work.require_few_bad(finished, max_bad)
    except LoadError as error:
        tell(error=error.message)
        return
    text = folder / "sorted"
    if not (text / "_SUCCESS").exists():
        quads = rows.where("s is not null").select("g", "s", "p", "o").distinct()
        line = f.concat_ws(" ", "s", "p", "o", "g", f.lit("."))
        quads.sortWithinPartitions("g", "s", "p").select(line).write.mode("overwrite").text(uri(text))
    shutil.rmtree(work.parts, ignore_errors=True)
    work.parts.mkdir()
    size = 0
    for number, part in enumerate(sorted(text.glob("part-*"))):
        # A sorted file is linked instead of moved to the part files, so that this step can be repeated after
        # an interruption.
        os.link(part, work.part(number))
        size += part.stat().st_size
    for chunk, done in finished:
        work.finish(chunk.index, done)
    shutil.rmtree(stage, ignore_errors=True)
    shutil.rmtree(text, ignore_errors=True)
    tell(stage="sort", rows=total, bytes=size, bad=count)
    finish(spark)


def _parse_to_files(spark: Any, work: LoadFolder, stage: Path) -> None:
    """Parse each chunk of a bulk load to a Parquet file; chunks whose Parquet file exists are skipped."""
    stage.mkdir(exist_ok=True)
    left = [chunk.index for chunk in work.chunks if not work.parsed_file(chunk.index).exists()]
    if not left:
        return
    tell(stage="parse")
    sources, chunks, rules = work.sources, work.chunks, work.rules
    files = {index: work.parsed_file(index) for index in left}
    counts = stage / "_counts"  # Spark ignores file names that begin with an underscore
    counts.mkdir(exist_ok=True)

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for place in batch.column(0).to_pylist():
                index = left[place]
                write_rows(
                    files[index], chunk_rows(sources, chunks[index], rules, False, counts / str(index))
                )
                yield pa.RecordBatch.from_pydict({"chunk": pa.array([index], pa.int32())})

    with reporting(lambda: counted(counts)):
        spark.range(0, len(left), 1, len(left)).mapInArrow(parse, "chunk int").collect()


def write_rows(file: Path, batches: Iterator[Any]) -> None:
    """Write Arrow batches to a Parquet file, which appears only when it is complete."""
    import pyarrow.parquet as pq

    draft = file.with_name(f"_{file.name}.{secrets.token_hex(4)}")
    first = next(batches)
    with pq.ParquetWriter(draft, first.schema, compression="zstd") as writer:
        for batch in chain((first,), batches):
            writer.write_batch(batch)
    os.replace(draft, file)


def main(arguments: list[str]) -> None:
    """Execute the Spark job that the command line names: a bulk load, a new mirror or a compaction."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    match arguments:
        case ["load", folder, max_bad]:
            load(Path(folder), None if int(max_bad) < 0 else int(max_bad))
        case ["mirror", dump, target, version, mark]:
            make(Path(dump), Path(target), int(version), mark or None)
        case ["compact", work, target, version, mark]:
            compact(Path(work), Path(target), int(version), mark or None)
        case _:
            raise SystemExit(f"unknown stage: {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
