"""The child process that evaluates parts: ``child MIRROR FOLDER``; see `evaluate`."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

from quadrill.store.bulk.mirror import Mirror
from quadrill.store.bulk.parsing import Rules
from quadrill.store.bulk.sources import find_sources
from quadrill.store.bulk.spark_child import end_with_parent, finish, parsed, session, uri
from quadrill.store.errors import UnsupportedError

from .compile import FALL_BACK, Compiler


def main(mirror_folder: str, folder: str) -> None:
    """Evaluate the parts one by one in one session; a refused one does not hinder the others."""
    work = Path(folder)
    mirror = Mirror.open(Path(mirror_folder))
    assert mirror is not None
    spark = session()
    compiler = _compiler(spark, mirror, work)
    parts = pickle.loads((work / "parts.pickle").read_bytes())  # written by the parent
    for number, (pattern, columns) in enumerate(parts):
        try:
            frame = compiler.table(pattern, columns)
            frame = frame.toDF(*(f"c{place}" for place in range(len(columns))))
            if columns:
                frame = frame.sort("c0")
            else:
                frame = frame.selectExpr("1 as c")
            frame.write.parquet(uri(work / f"{number}.parquet"))
        except UnsupportedError as error:
            (work / f"{number}.refused").write_text(error.construct, encoding="utf-8")
        except Exception as error:
            if FALL_BACK not in str(error):
                raise
            (work / f"{number}.refused").write_text("equality of literal values", encoding="utf-8")
        print(json.dumps({"rows": number + 1}), flush=True)
    finish(spark)


def _compiler(spark: Any, mirror: Mirror, work: Path) -> Compiler:
    from pyspark.sql import functions as f

    added, removed = (_changes(spark, work / name) for name in ("added.nq", "removed.nq"))
    quads = mirror.folder / "quads"

    def frame(predicate: str | None) -> Any:
        names = mirror.predicates
        base: Any = None
        if predicate is None and names:
            keys = spark.createDataFrame(
                [(facts.key, f"<{name}>") for name, facts in names.items()], "k int, p string"
            )
            base = spark.read.parquet(uri(quads)).join(f.broadcast(keys), "k")
        elif predicate in names:
            base = spark.read.parquet(uri(quads / f"k={names[predicate].key}"))
            base = base.withColumn("p", f.lit(f"<{predicate}>"))
        new = _of(added, predicate)
        if base is None:
            return (
                new
                if new is not None
                else spark.createDataFrame([], "s string, p string, o string, g string")
            )
        base = base.select("s", "p", "o", "g")
        gone = _of(removed, predicate)
        if gone is not None:
            gone = gone.withColumnsRenamed({name: f"{name}_gone" for name in "spog"})
            same = [base[name].eqNullSafe(gone[f"{name}_gone"]) for name in "spog"]
            base = base.join(f.broadcast(gone), same, "left_anti")
        return base if new is None else base.unionByName(new)

    def rows(predicate: str | None) -> int:
        if predicate is None:
            return sum(facts.rows for facts in mirror.predicates.values())
        facts = mirror.predicates.get(predicate)
        return 0 if facts is None else facts.rows

    def values(names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
        return spark.createDataFrame(texts, ", ".join(f"`{name}` string" for name in names))

    return Compiler(frame, rows, values)


def _changes(spark: Any, file: Path) -> Any:
    if not file.stat().st_size:
        return None
    keep = Rules(None, None, "")
    return parsed(spark, find_sources([file]), keep, keep_labels=True).where("s is not null").persist()


def _of(changes: Any, predicate: str | None) -> Any:
    if changes is None:
        return None
    chosen = changes if predicate is None else changes.where(changes.p == f"<{predicate}>")
    return chosen.select("s", "p", "o", "g")


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    main(*sys.argv[1:])
