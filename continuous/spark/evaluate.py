"""Tables of static parts by Spark, in a child process; the seam for another columnar engine.

A columnar engine is anything with `SparkTables.tables`: patterns with their columns in, rows out, at the
store's present version.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import NamedNode, RdfFormat, parse, serialize

from quadrill.store.bulk.mirror import Mirror
from quadrill.store.bulk.spark_load import LOG, run_child
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads import QuadStore

from ..algebra.nodes import Algebra, Term, Var
from ..element import Row

_CHILD = "quadrill.continuous.spark.child"
_OBJECT = NamedNode("urn:quadrill:object")


@dataclass(frozen=True, slots=True)
class SparkTables:
    """Evaluates patterns over a mirror.

    Attributes:
        mirror: the mirror; what was committed since is laid over it.
        master: a Spark master; None is local mode.
        memory: heap of Spark's driver.
        seconds: the longest time for one call; the store is to be asked instead when it is over.
    """

    mirror: Mirror
    master: str | None = None
    memory: str = "2g"
    seconds: float = 600.0

    def tables(
        self, store: QuadStore, parts: Sequence[tuple[Algebra, Sequence[Var]]]
    ) -> tuple[int, list[list[Row] | UnsupportedError]]:
        """The version read, and the rows of each part or why it has to be evaluated by the store.

        Raises:
            UnsupportedError: the mirror is too old to be brought to the present version.
            LoadError: Spark failed, or took longer than ``seconds``.
        """
        changes = self.mirror.changes(store)
        if changes is None:
            raise UnsupportedError(
                "a mirror that a bulk load or too many commits made stale", hint="make it anew: load --mirror"
            )
        version, added, removed = changes
        with tempfile.TemporaryDirectory(prefix="quadrill-spark-") as work:
            folder = Path(work)
            for name, quads in (("added.nq", added), ("removed.nq", removed)):
                (folder / name).write_bytes(serialize(quads, format=RdfFormat.N_QUADS) or b"")
            (folder / "parts.pickle").write_bytes(
                pickle.dumps([(pattern, tuple(columns)) for pattern, columns in parts])
            )
            run_child(
                [str(self.mirror.folder), str(folder)],
                folder / LOG,
                self.master,
                self.memory,
                lambda rows, size, bad: None,
                module=_CHILD,
                seconds=self.seconds,
            )
            return version, [
                _read(folder, number, [var.name for var in columns])
                for number, (_, columns) in enumerate(parts)
            ]


def _read(folder: Path, number: int, names: list[str]) -> list[Row] | UnsupportedError:
    refused = folder / f"{number}.refused"
    if refused.exists():
        return UnsupportedError(refused.read_text(encoding="utf-8"))
    import pyarrow.parquet as pq

    table = pq.read_table(folder / f"{number}.parquet")
    if not names:
        return [()] * table.num_rows
    columns = [table.column(f"c{place}").to_pylist() for place in range(len(names))]
    terms = _terms({text for column in columns for text in column if text is not None})
    return [
        tuple(None if text is None else terms[text] for text in row) for row in zip(*columns, strict=True)
    ]


def _terms(texts: set[str]) -> dict[str, Term]:
    """The terms of N-Triples texts."""
    listed = list(texts)
    lines = "".join(f"<urn:quadrill:{n}> {_OBJECT} {text} .\n" for n, text in enumerate(listed))
    found = parse(lines.encode(), format=RdfFormat.N_QUADS)
    return {listed[int(quad.subject.value.rpartition(":")[2])]: quad.object for quad in found}
