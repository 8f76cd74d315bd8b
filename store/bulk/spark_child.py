"""The child process of Spark work: ``load FOLDER MAX_BAD`` or ``mirror DUMP FOLDER VERSION``.

Reports are lines of JSON on standard output. It ends when its standard input does: that is its parent's end.
Only the DataFrame API is used, so a cluster does as well as local mode; its workers need this package and the
folders under the same paths.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .mirror import swap_in
from .parsing import Rules, parse_chunk
from .sources import Source, cut, find_sources
from .typed import with_types
from .work import Done, Work

SALT_ROWS = 500_000
"""The mirror has one more task and file of a predicate for each of these."""
SCHEMA = (
    "chunk int, s string, p string, o string, g string, lines long, line long, reason string, text string"
)
_LINE = re.compile(
    r'(\S+) (\S+) (<<\(.*\)>>|<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:@[^ ]+|\^\^<[^>]*>)?)(?: (<[^>]*>|_:\S+))? \.'
)


def session() -> Any:
    """A Spark session as the environment says; local mode uses all cores."""
    from pyspark.sql import SparkSession

    cores = os.cpu_count() or 1
    return (
        SparkSession.builder.master(os.environ.get("QUADRILL_SPARK_MASTER") or f"local[{cores}]")
        .appName("quadrill")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.bindAddress", os.environ.get("SPARK_DRIVER_BIND", "127.0.0.1"))
        .config("spark.driver.host", os.environ.get("SPARK_DRIVER_HOST", "127.0.0.1"))
        .config("spark.driver.memory", os.environ.get("QUADRILL_SPARK_MEMORY") or "2g")
        .config("spark.sql.shuffle.partitions", str(4 * cores))
        .config("spark.sql.caseSensitive", "true")  # as variables are
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )


def parsed(spark: Any, sources: list[Source], rules: Rules, *, keep_labels: bool = False) -> Any:
    """The quads and bad lines of all sources as one DataFrame of `SCHEMA`.

    A row is a quad (``s`` is set), a bad line (``reason`` is set), or a chunk's end (``lines`` is set).
    ``keep_labels`` is for dumps of the store, whose blank nodes are its own.
    """
    chunks = cut(sources)

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from _rows(sources, chunks[index], rules, keep_labels)

    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(parse, SCHEMA)


def _rows(sources: list[Source], chunk: Any, rules: Rules, keep_labels: bool) -> Iterator[Any]:
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


def load(folder: Path, max_bad: int | None) -> None:
    """Parse, dedupe and write the parts of a load."""
    from pyspark.sql import functions as f

    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    sources = [Source(**each) for each in plan["sources"]]
    options = plan["options"]
    rules = Rules(options.get("graph"), options.get("base_iri"), plan["seed"])
    work = Work(folder, sources, cut(sources), rules)
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
    total, count = sum(row.rows for row in figures.values()), sum(map(len, bad.values()))
    _tell(stage="sort", rows=total, bad=count)
    if max_bad is not None and count > max_bad:
        _tell(error=_too_many(work, figures, bad, max_bad))
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
        os.link(part, work.part(number))  # linked, not moved: this step may be cut off and done again
        size += part.stat().st_size
    for chunk in work.chunks:
        row = figures[chunk.index]
        work.finish(chunk.index, Done(row.rows, row.lines, 0, bad.get(chunk.index, [])))
    shutil.rmtree(stage, ignore_errors=True)
    shutil.rmtree(text, ignore_errors=True)
    _tell(stage="sort", rows=total, bytes=size, bad=count)
    finish(spark)


def _parse_to_files(spark: Any, work: Work, stage: Path) -> None:
    """Parse each chunk to a Parquet file of its own; those that are there already are done."""
    stage.mkdir(exist_ok=True)
    left = [chunk.index for chunk in work.chunks if not _parsed_file(stage, chunk.index).exists()]
    if not left:
        return
    _tell(stage="parse")
    sources, chunks, rules = work.sources, work.chunks, work.rules

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for place in batch.column(0).to_pylist():
                index = left[place]
                _write_rows(_parsed_file(stage, index), _rows(sources, chunks[index], rules, False))
                yield pa.RecordBatch.from_pydict({"chunk": pa.array([index], pa.int32())})

    ended = threading.Event()
    watcher = threading.Thread(target=_tell_parsed, args=(stage, ended), daemon=True)
    watcher.start()
    try:
        spark.range(0, len(left), 1, len(left)).mapInArrow(parse, "chunk int").collect()
    finally:
        ended.set()
        watcher.join()


def _write_rows(file: Path, batches: Iterator[Any]) -> None:
    """Write a Parquet file whole or not at all; Spark passes over names that begin with an underscore."""
    import pyarrow.parquet as pq

    draft = file.with_name(f"_{file.name}.{secrets.token_hex(4)}")
    first = next(batches)
    with pq.ParquetWriter(draft, first.schema, compression="zstd") as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    os.replace(draft, file)


def _parsed_file(stage: Path, index: int) -> Path:
    return stage / f"{index:05d}.parquet"


def _tell_parsed(stage: Path, ended: threading.Event) -> None:
    """Report the rows of the chunks that are done, once a second."""
    import pyarrow.parquet as pq

    counted: dict[str, int] = {}
    while not ended.wait(1.0):
        for file in stage.glob("[0-9]*.parquet"):
            if file.name not in counted:
                counted[file.name] = pq.read_metadata(file).num_rows - 1  # the last row is the chunk's end
        _tell(stage="parse", rows=sum(counted.values()))


def mirror(dump: Path, target: Path, version: int) -> None:
    """Write a dump of the store as Parquet, one folder per predicate, with figures for each predicate."""
    from pyspark.sql import functions as f

    started = time.monotonic()
    spark = session()
    sources = find_sources([dump])
    quads = (
        parsed(spark, sources, Rules(None, None, ""), keep_labels=True)
        .where("s is not null")
        .select("s", "p", "o", "g")
    )
    target.mkdir(parents=True, exist_ok=True)
    draft = target / f"quads-{version}-{secrets.token_hex(4)}"
    flat = uri(draft / "flat")
    with_types(quads).write.parquet(flat)
    quads = spark.read.parquet(flat)
    facts = (
        quads.groupBy("p")
        .agg(
            f.count("s").alias("rows"),
            f.approx_count_distinct("s").alias("subjects"),
            f.approx_count_distinct("o").alias("objects"),
            f.sort_array(f.collect_set("kind")).alias("kinds"),
        )
        .orderBy("p")
        .collect()
    )
    keys = spark.createDataFrame(
        [(row.p, number, 1 + row.rows // SALT_ROWS) for number, row in enumerate(facts)],
        "p string, k int, tasks long",
    )
    # Several tasks share a large predicate: without the salt each would be one task's work.
    salted = quads.join(f.broadcast(keys), "p").withColumn("salt", f.expr("pmod(hash(s), tasks)"))
    placed = salted.repartition("k", "salt").drop("p", "salt", "tasks").sortWithinPartitions("k", "s")
    placed.write.mode("append").partitionBy("k").parquet(uri(draft))
    shutil.rmtree(draft / "flat")
    predicates = {
        row.p: {
            "key": number,
            "rows": row.rows,
            "subjects": row.subjects,
            "objects": row.objects,
            "kinds": list(row.kinds),
        }
        for number, row in enumerate(facts)
    }
    swap_in(target, draft.name, version, predicates)
    _tell(stage="mirror", rows=sum(row.rows for row in facts), seconds=time.monotonic() - started)
    finish(spark)


def _too_many(work: Work, figures: dict[int, Any], bad: dict[int, list[list[Any]]], max_bad: int) -> str:
    left = max_bad
    before = 0
    for chunk in work.chunks:
        if chunk.start == 0:
            before = 0
        found = bad.get(chunk.index, [])
        if len(found) > left:
            line, reason, _ = found[left]
            place = f", line {before + line}" if line else ""
            allowed = "no bad line is" if max_bad == 0 else f"at most {max_bad:,} bad lines are"
            file = work.sources[chunk.source].path
            return f"{file}{place}: {reason} ({allowed} allowed; nothing was loaded)"
        left -= len(found)
        before += figures[chunk.index].lines
    return "too many bad lines"


def finish(spark: Any) -> None:
    """Stop Spark; nothing of it is left."""
    spark.stop()


def _tell(**report: Any) -> None:
    print(json.dumps(report), flush=True)


def uri(path: Path) -> str:
    """A local path as Spark takes it: a URI whose characters are not encoded."""
    return f"file://{path.absolute()}"


def end_with_parent() -> None:
    """End when standard input does."""
    while os.read(0, 1):  # not sys.stdin, whose lock would be held at the end of the interpreter
        pass
    os._exit(1)


def main(arguments: list[str]) -> None:
    """Run one stage."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    match arguments:
        case ["load", folder, max_bad]:
            load(Path(folder), None if int(max_bad) < 0 else int(max_bad))
        case ["mirror", dump, target, version]:
            mirror(Path(dump), Path(target), int(version))
        case _:
            raise SystemExit(f"unknown stage: {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
