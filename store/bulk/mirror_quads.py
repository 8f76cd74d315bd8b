"""The quads of the mirror's Parquet files, merged with the changes of later commits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from .mirror import Mirror, PredicateFacts
from .parsing import ParseRules
from .sources import find_sources
from .spark_parse import parsed
from .spark_session import uri
from .typed import COLUMNS, with_types

NAMES = ("s", "p", "o", "g", "kind", "n", "d", "t")
_SCHEMA = f"s string, p string, o string, g string, {COLUMNS}"
ADDED, REMOVED = "added.nq", "removed.nq"


class MirrorQuads:
    """The quads of a mirror as Spark DataFrames with the columns `NAMES`.

    Args:
        spark: the Spark session.
        mirror: the mirror to read.
        changes: the folder with the files `ADDED` and `REMOVED`, which contain the quads that later commits
            added and removed, as N-Quads.
    """

    def __init__(self, spark: Any, mirror: Mirror, changes: Path) -> None:
        self._spark = spark
        self._mirror = mirror
        self._added = self._changes(changes / ADDED)
        self._removed = self._changes(changes / REMOVED)
        self._facts = _with_added(mirror.predicates, self._added)

    def of(self, predicate: str | None) -> Any:
        """Return the mirror's quads with one predicate, given by its IRI; None returns all quads."""
        names = None if predicate is None else (predicate,)
        return self._merged(self._files(predicate), names)

    def of_several(self, predicates: Collection[str]) -> Any:
        """Return the mirror's quads with some predicates, given by their IRIs."""
        return self._merged(self._files_of(predicates), predicates)

    def changed(self) -> set[str]:
        """Return the IRIs of the predicates of quads added or removed since the mirror's version."""
        found: set[str] = set()
        for changes in (self._added, self._removed):
            if changes is not None:
                found.update(row.p[1:-1] for row in changes.select("p").distinct().collect())
        return found

    def facts(self, predicate: str | None) -> PredicateFacts:
        """Return the mirror's statistics of a predicate, given by its IRI; None combines all predicates."""
        if predicate is not None:
            return self._facts.get(predicate, PredicateFacts(-1, 0, 0, 0))
        every = self._facts.values()
        return PredicateFacts(
            -1,
            sum(each.rows for each in every),
            max((each.subjects for each in every), default=0),
            max((each.objects for each in every), default=0),
            frozenset().union(*(each.kinds for each in every)),
        )

    def rows(self, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
        """Return a Spark DataFrame with these column names and rows of N-Triples texts."""
        return given_rows(self._spark, names, texts)

    def _merged(self, base: Any, predicates: Collection[str] | None) -> Any:
        from pyspark.sql import functions as f

        new, gone = _of(self._added, predicates), _of(self._removed, predicates)
        if base is not None and gone is not None:
            gone = gone.select(*(f.col(name).alias(f"{name}'gone") for name in "spog"))
            same = [f.col(name).eqNullSafe(f.col(f"`{name}'gone`")) for name in "spog"]
            base = base.join(f.broadcast(gone), same, "left_anti")
        if base is None:
            return new if new is not None else self._spark.createDataFrame([], _SCHEMA)
        return base if new is None else base.unionByName(new)

    def _files(self, predicate: str | None) -> Any:
        from pyspark.sql import functions as f

        names = self._mirror.predicates
        if predicate is None:
            return self._files_of(names)
        if predicate not in names:
            return None
        one = self._spark.read.parquet(uri(self._mirror.quads / f"k={names[predicate].key}"))
        return one.withColumn("p", f.lit(f"<{predicate}>")).select(*NAMES)

    def _files_of(self, predicates: Collection[str]) -> Any:
        from pyspark.sql import functions as f

        facts = self._mirror.predicates
        keys = [(facts[name].key, f"<{name}>") for name in predicates if name in facts]
        if not keys:
            return None
        every = self._spark.read.parquet(uri(self._mirror.quads))
        if len(keys) < len(facts):
            every = every.where(f.col("k").isin([key for key, _ in keys]))
        every = every.join(f.broadcast(self._spark.createDataFrame(keys, "k int, p string")), "k")
        return every.select(*NAMES)

    def _changes(self, file: Path) -> Any:
        if not file.stat().st_size:
            return None
        rows = parsed(self._spark, find_sources([file]), ParseRules(None, None, ""), keep_labels=True)
        return with_types(rows.where("s is not null").select("s", "p", "o", "g")).persist()


def given_rows(spark: Any, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
    """Return a Spark DataFrame of rows of texts; without column names, it has rows but no columns."""
    if not names:
        return spark.range(len(texts)).select()
    return spark.createDataFrame(texts, ", ".join(f"`{name}` string" for name in names))


def _with_added(facts: dict[str, PredicateFacts], added: Any) -> dict[str, PredicateFacts]:
    """Return the mirror's statistics of predicates after ``added`` quads, which may add kinds of objects."""
    if added is None:
        return facts
    from pyspark.sql import functions as f

    result = dict(facts)
    grouped = added.groupBy("p").agg(f.count("s").alias("rows"), f.collect_set("kind").alias("kinds"))
    for row in grouped.collect():
        known = result.get(row.p[1:-1], PredicateFacts(-1, 0, 0, 0))
        result[row.p[1:-1]] = replace(
            known,
            rows=known.rows + row.rows,
            subjects=known.subjects + row.rows,
            objects=known.objects + row.rows,
            kinds=known.kinds | frozenset(row.kinds),
        )
    return result


def _of(changes: Any, predicates: Collection[str] | None) -> Any:
    if changes is None:
        return None
    if predicates is not None:
        changes = changes.where(changes.p.isin([f"<{name}>" for name in predicates]))
    return changes.select(*NAMES)
