"""The mirror at a version of the store: its Parquet files with the commits since laid over them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from quadrill.store.bulk.mirror import Mirror, PredicateFacts
from quadrill.store.bulk.parsing import Rules
from quadrill.store.bulk.sources import find_sources
from quadrill.store.bulk.spark_child import parsed, uri
from quadrill.store.bulk.typed import COLUMNS, with_types

_NAMES = ("s", "p", "o", "g", "kind", "n", "d", "t")
_SCHEMA = f"s string, p string, o string, g string, {COLUMNS}"


class MirrorQuads:
    """The `Quads` of a mirror.

    Args:
        spark: the session.
        mirror: the mirror.
        added: N-Quads that were added since.
        removed: N-Quads that were removed since.
    """

    def __init__(self, spark: Any, mirror: Mirror, added: Path, removed: Path) -> None:
        self._spark = spark
        self._mirror = mirror
        self._added = self._changes(added)
        self._removed = self._changes(removed)
        self._facts = _with_added(mirror.predicates, self._added)

    def of(self, predicate: str | None) -> Any:
        """The quads of one predicate, or all."""
        from pyspark.sql import functions as f

        base = self._files(predicate)
        new = _of(self._added, predicate)
        gone = _of(self._removed, predicate)
        if base is not None and gone is not None:
            gone = gone.select(*(f.col(name).alias(f"{name}'gone") for name in "spog"))
            same = [f.col(name).eqNullSafe(f.col(f"`{name}'gone`")) for name in "spog"]
            base = base.join(f.broadcast(gone), same, "left_anti")
        if base is None:
            return new if new is not None else self._spark.createDataFrame([], _SCHEMA)
        return base if new is None else base.unionByName(new)

    def facts(self, predicate: str | None) -> PredicateFacts:
        """The figures of one predicate, or sums."""
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
        """A DataFrame of given rows."""
        return given_rows(self._spark, names, texts)

    def _files(self, predicate: str | None) -> Any:
        from pyspark.sql import functions as f

        names = self._mirror.predicates
        if predicate is None:
            if not names:
                return None
            keys = [(facts.key, f"<{name}>") for name, facts in names.items()]
            every = self._spark.read.parquet(uri(self._mirror.quads))
            every = every.join(f.broadcast(self._spark.createDataFrame(keys, "k int, p string")), "k")
            return every.select(*_NAMES)
        if predicate not in names:
            return None
        one = self._spark.read.parquet(uri(self._mirror.quads / f"k={names[predicate].key}"))
        return one.withColumn("p", f.lit(f"<{predicate}>")).select(*_NAMES)

    def _changes(self, file: Path) -> Any:
        if not file.stat().st_size:
            return None
        rows = parsed(self._spark, find_sources([file]), Rules(None, None, ""), keep_labels=True)
        return with_types(rows.where("s is not null").select("s", "p", "o", "g")).persist()


def given_rows(spark: Any, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
    """A DataFrame of rows of texts; without names, so many rows of no columns."""
    if not names:
        return spark.range(len(texts)).select()
    return spark.createDataFrame(texts, ", ".join(f"`{name}` string" for name in names))


def _with_added(facts: dict[str, PredicateFacts], added: Any) -> dict[str, PredicateFacts]:
    """The figures with what was added: a kind of object that is new must not go unseen."""
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


def _of(changes: Any, predicate: str | None) -> Any:
    if changes is None:
        return None
    chosen = changes if predicate is None else changes.where(changes.p == f"<{predicate}>")
    return chosen.select(*_NAMES)
