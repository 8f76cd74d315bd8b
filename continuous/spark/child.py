"""Main module of the child process that evaluates static parts by Spark: ``child FOLDER``; see `evaluate`."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from pathlib import Path

from quadrill.store.bulk.mirror_quads import MirrorQuads
from quadrill.store.bulk.spark_session import end_with_parent, finish, session, uri
from quadrill.store.errors import UnsupportedError

from .compile import Compiler


def main(folder: str) -> None:
    """Evaluate static parts one by one in one Spark session; a refused part does not affect other parts."""
    work = Path(folder)
    # The parent process has written the pickle that this Spark child process reads. The pickle names the
    # mirror to which the changes belong, because a newer mirror may exist when the child starts.
    mirror, parts, dataset, base_iri = pickle.loads((work / "parts.pickle").read_bytes())
    spark = session()
    compiler = Compiler(MirrorQuads(spark, mirror, work), dataset, base_iri)
    for number, (pattern, columns) in enumerate(parts):
        try:
            frame = compiler.table(pattern, columns)
            frame = frame.toDF(*(f"c{place}" for place in range(len(columns))))
            frame = frame.sort("c0") if columns else frame.selectExpr("1 as c")
            frame.write.parquet(uri(work / f"{number}.parquet"))
        except UnsupportedError as error:
            (work / f"{number}.refused").write_text(error.construct, encoding="utf-8")
        print(json.dumps({"rows": number + 1}), flush=True)
    finish(spark)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    main(*sys.argv[1:])
