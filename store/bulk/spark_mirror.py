"""Spark's side of the mirror: made of a dump of the store, or of the mirror before and what changed since.

    make:     dump -> parse -> typed columns ─┐
    compact:  changed predicates, merged ─────┴─> draft/flat -> figures -> draft/k=7/… -> swap
              files of all the others ──────────────── linked ─┘

Both write a folder beside the present one; `mirror.swap_in` makes it the mirror. Cut off before that, nothing
has changed, and what was written is removed by the next swap.
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
from .spark_parse import counted, parsed, told
from .spark_session import finish, session, tell, uri
from .typed import with_types

SALT_ROWS = 500_000
"""Number of quads of a predicate per Spark task and Parquet file."""


def make(dump: Path, folder: Path, version: int, mark: str | None = None) -> None:
    """Write a dump of the store, of a ``version`` and the history that ``mark`` names, as the mirror."""
    spark = session()
    folder.mkdir(parents=True, exist_ok=True)
    draft = _draft(folder, version)
    counts = dump.with_suffix(".counts")
    counts.mkdir()
    tell(stage="parse")
    quads = parsed(spark, find_sources([dump]), ParseRules(None, None, ""), keep_labels=True, counts=counts)
    flat = draft / "flat"
    with told(lambda: counted(counts)):
        with_types(quads.where("s is not null").select("s", "p", "o", "g")).write.parquet(uri(flat))
    predicates = _write(spark, draft, {})
    _swap(folder, draft, version, predicates, mark)
    finish(spark)


def compact(changes: Path, folder: Path, version: int, mark: str | None = None) -> None:
    """Write the predicates with changes again, and link the files of all other predicates.

    Args:
        changes: the folder of what was added to and removed from the mirror to reach ``version``.
        folder: the mirror's.
        version: of the store.
        mark: the name of its history so far.
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
    """Write the quads of ``draft/flat``, a folder per predicate; its figures by predicate.

    ``known`` has the numbers of folders that predicates have already; others get new ones.
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
        # Several tasks share a large predicate: without the salt each would be one task's work.
        salted = quads.join(f.broadcast(keys), "p").withColumn("salt", f.expr("pmod(hash(s), tasks)"))
        placed = salted.repartition("k", "salt").drop("p", "salt", "tasks").sortWithinPartitions("k", "s")
        placed.write.mode("append").partitionBy("k").parquet(uri(draft))
    shutil.rmtree(flat)
    return facts


def _link(source: Path, target: Path) -> None:
    """The files of a folder in another one, without copying them where the file system can."""
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
