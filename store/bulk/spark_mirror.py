"""Creation of the mirror with Spark, from a dump of the store or from the old mirror and later changes.

    make:     dump -> parse -> typed columns ─┐
    compact:  changed predicates, merged ─────┴─> draft/flat -> figures -> draft/k=7/… -> swap
              files of other predicates ────────────── linked ─┘

Making and compacting a mirror write a new folder of Parquet files, which `mirror.swap_in` makes the current
one. If the process ends before `mirror.swap_in`, the mirror is unchanged, and the next `mirror.swap_in`
deletes the new folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from .mirror import Mirror, PredicateFacts, swap_in
from .mirror_quads import MirrorQuads
from .parsing import ParseRules
from .sources import find_sources
from .spark_parse import counted, parsed, reporting
from .spark_session import finish, session, tell, uri
from .typed import with_types

SALT_ROWS = 500_000
"""Approximate number of quads of one predicate that one Spark task writes to one Parquet file."""


def make(dump: Path, folder: Path, version: int, mark: str | None = None) -> None:
    """Write a new mirror from a dump of the store at ``version``; ``mark`` identifies the store's history."""
    spark = session()
    folder.mkdir(parents=True, exist_ok=True)
    draft = _draft(folder, version)
    counts = dump.with_suffix(".counts")
    counts.mkdir()
    tell(stage="parse")
    quads = parsed(spark, find_sources([dump]), ParseRules(None, None, ""), keep_labels=True, counts=counts)
    flat = draft / "flat"
    with reporting(lambda: counted(counts)):
        with_types(quads.where("s is not null").select("s", "p", "o", "g")).write.parquet(uri(flat))
    predicates = _write(spark, draft, {})
    _swap(folder, draft, version, predicates, mark)
    finish(spark)


def compact(changes: Path, folder: Path, version: int, mark: str | None = None) -> None:
    """Write the Parquet files of changed predicates again, and link the files of all other predicates.

    Args:
        changes: the folder with the quads that were added and removed between the mirror and ``version``.
        folder: the folder of the mirror.
        version: the version of the store after the changes.
        mark: the mark of the store's history at the version.
    """
    before = Mirror.open(folder)
    assert before is not None
    spark = session()
    draft = _draft(folder, version)
    tell(stage="merge")
    quads = MirrorQuads(spark, before, changes)
    changed = quads.changed()
    tell(rows=sum(facts.rows for name, facts in before.predicates.items() if name in changed))
    known = {name: facts.key for name, facts in before.predicates.items()}
    quads.of_several(changed).write.parquet(uri(draft / "flat"))
    predicates = _write(spark, draft, known)
    for name, facts in before.predicates.items():
        if name not in changed:
            predicates[name] = facts
            _link(before.quads / f"k={facts.key}", draft / f"k={facts.key}")
    _swap(folder, draft, version, predicates, mark)
    finish(spark)


def _draft(folder: Path, version: int) -> Path:
    return folder / f"quads-{version}-{secrets.token_hex(4)}"


def _write(spark: Any, draft: Path, known: Mapping[str, int]) -> dict[str, PredicateFacts]:
    """Write the mirror's quads in ``draft/flat`` to one folder per predicate; return their statistics.

    The argument ``known`` contains the folder numbers of known predicates; other predicates get new numbers.
    """
    from pyspark.sql import functions as f

    flat = draft / "flat"
    quads = spark.read.parquet(uri(flat))
    figures = (
        quads.groupBy("p")
        .agg(
            f.count("s").alias("rows"),
            f.approx_count_distinct("s").alias("subjects"),
            f.approx_count_distinct("o").alias("objects"),
            f.collect_set("kind").alias("kinds"),
        )
        .orderBy("p")
        .collect()
    )
    tell(stage="write", rows=sum(row.rows for row in figures))
    fresh = count(max(known.values(), default=-1) + 1)
    facts = {}
    for row in figures:
        name = row.p[1:-1]
        key = known[name] if name in known else next(fresh)
        facts[name] = PredicateFacts(key, row.rows, row.subjects, row.objects, frozenset(row.kinds))
    if facts:
        keys = spark.createDataFrame(
            [(f"<{name}>", each.key, 1 + each.rows // SALT_ROWS) for name, each in facts.items()],
            "p string, k int, tasks long",
        )
        # The salt, a part of the partition key, divides the quads of a large predicate among several Spark
        # tasks.
        salted = quads.join(f.broadcast(keys), "p").withColumn("salt", f.expr("pmod(hash(s), tasks)"))
        placed = salted.repartition("k", "salt").drop("p", "salt", "tasks").sortWithinPartitions("k", "s")
        placed.write.mode("append").partitionBy("k").parquet(uri(draft))
    shutil.rmtree(flat)
    return facts


def _link(source: Path, target: Path) -> None:
    """Link the files of a folder into a new folder; copy the files if the file system has no links."""
    target.mkdir()
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copy2(file, target / file.name)


def _swap(
    folder: Path, draft: Path, version: int, predicates: dict[str, PredicateFacts], mark: str | None
) -> None:
    rows = sum(each.rows for each in predicates.values())
    tell(stage="swap", rows=rows)
    swap_in(folder, draft.name, version, predicates, mark)
    tell(stage="done", rows=rows)
