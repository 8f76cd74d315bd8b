"""Evaluation of static parts by Spark in a child process, whose exit frees all memory.

The module `algebra.columnar` defines the interface of the Spark engine.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyoxigraph import RdfFormat, serialize

from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror
from quadrill.store.bulk.mirror_quads import ADDED, REMOVED
from quadrill.store.bulk.spark_load import LOG, run_child
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.columnar import EngineChoice, Graphs
from ..algebra.nodes import Algebra, Var
from ..rows import Solution
from .results import rows_of
from .rule import NO_MIRROR, choose, refused

_CHILD = "quadrill.continuous.spark.child"
_WORK = "spark-part-"


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Evaluates patterns by Spark over the mirror of a data folder, one pattern at a time.

    Each pattern runs in a separate child process, whose Spark driver uses all cores. Patterns evaluated
    concurrently by Spark would take as long as consecutive ones and could exceed the machine's memory.

    Attributes:
        folder: the mirror's folder, which need not exist.
        master: a Spark master; None for local mode.
        memory: heap size of Spark's driver, such as ``2g``.
        seconds: maximum seconds for one pattern.
    """

    folder: Path
    master: str | None = None
    memory: str = "2g"
    seconds: float = 600.0
    _one: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def choose(self, pattern: Algebra, wish: str | None) -> EngineChoice:
        """Choose the engine of a pattern by the triple counts of the current mirror; see `rule.choose`."""
        if wish is None and not self.folder.exists():
            return EngineChoice("oxigraph", NO_MIRROR)
        mirror = Mirror.open(self.folder)
        return choose(pattern, None if mirror is None else mirror.predicates, wish)

    def rows(
        self,
        store: QuadStore,
        version: int,
        pattern: Algebra,
        columns: Sequence[Var],
        graphs: Graphs,
        base_iri: str | None,
    ) -> list[Solution]:
        """Return the rows of one pattern at a version of the store; see `ColumnarEngine`."""
        construct, mirror, missing = refused(pattern), Mirror.open(self.folder), spark_missing()
        if construct is not None:
            raise UnsupportedError(f"{construct} on the mirror")
        if mirror is None:
            raise UnsupportedError("a part without a mirror", NO_MIRROR)
        if missing is not None:
            raise UnsupportedError("engine: spark", missing)
        tables = SparkTables(mirror, self.master, self.memory, self.seconds)
        with self._one:
            _, (result,) = tables.tables(store, [(pattern, columns)], graphs, base_iri, version)
        if isinstance(result, UnsupportedError):
            raise result
        return result


@dataclass(frozen=True, slots=True)
class SparkTables:
    """Evaluates static patterns by Spark over a mirror.

    Attributes:
        mirror: the mirror; newer commits are combined with the mirror's quads.
        master: a Spark master; None for local mode.
        memory: heap size of Spark's driver, such as ``2g``.
        seconds: maximum seconds for one call of `tables`.
    """

    mirror: Mirror
    master: str | None = None
    memory: str = "2g"
    seconds: float = 600.0

    def tables(
        self,
        store: QuadStore,
        parts: Sequence[tuple[Algebra, Sequence[Var]]],
        graphs: Graphs | None = None,
        base_iri: str | None = None,
        version: int | None = None,
    ) -> tuple[int, list[list[Solution] | UnsupportedError]]:
        """Return the version read and, for each part, its rows or the reason why the store must evaluate it.

        Args:
            store: the store that the mirror copies.
            parts: patterns with their columns.
            graphs: the graphs of the query.
            base_iri: the base IRI of the IRI() function.
            version: the version of the store to read; None for the newest version.

        Raises:
            UnsupportedError: the mirror cannot be brought to the requested version.
            LoadError: Spark failed, or took longer than ``seconds``.
        """
        changes = self.mirror.changes(store, version)
        if changes is None:
            raise UnsupportedError(
                "a mirror that a bulk load or too many commits made stale",
                hint="write the mirror again: POST /mirror, or load --mirror",
            )
        reached, added, removed = changes
        with _work(self.mirror.folder.parent) as folder:
            for name, quads in ((ADDED, added), (REMOVED, removed)):
                (folder / name).write_bytes(serialize(quads, format=RdfFormat.N_QUADS) or b"")
            asked = [(pattern, tuple(columns)) for pattern, columns in parts]
            given = (self.mirror, asked, graphs or Graphs(), base_iri)
            (folder / "parts.pickle").write_bytes(pickle.dumps(given))
            run_child(
                [str(folder)],
                folder / LOG,
                self.master,
                self.memory,
                lambda rows, size, bad: None,
                module=_CHILD,
                seconds=self.seconds,
            )
            if not self.mirror.is_whole:
                raise UnsupportedError("a mirror that was replaced twice while it was read")
            return reached, [_read(folder, number, len(columns)) for number, (_, columns) in enumerate(parts)]


@contextmanager
def _work(mirror: Path) -> Iterator[Path]:
    """Create a temporary folder next to the mirror, where the workers of a cluster can read it, too.

    Temporary folders of killed processes are removed, which is safe because only one process uses a data
    folder.
    """
    mine = f"{_WORK}{os.getpid()}-"
    for left in mirror.glob(f"{_WORK}*"):
        if not left.name.startswith(mine):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=mine, dir=mirror) as folder:
        yield Path(folder)


def _read(folder: Path, number: int, width: int) -> list[Solution] | UnsupportedError:
    refused = folder / f"{number}.refused"
    if refused.exists():
        return UnsupportedError(refused.read_text(encoding="utf-8"))
    return rows_of(folder / f"{number}.parquet", width)
