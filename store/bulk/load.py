"""Execution of one bulk load, from its source files to its commit.

    find source files -> parse to part files (direct or Spark) -> commit all parts at once -> optimize

Parsing the source files of a bulk load does not change the store. The commit of a bulk load is atomic:
readers, and recovery after a crash, see either the old or the new data. An interrupted load that is run again
skips the chunks that are already parsed, and uses the same blank node labels, so the dataset is the same even
if the first run was interrupted right after its commit.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from ..changes.commit import Commit
from ..errors import StoreUnwritableError, UnsupportedError
from ..formats import RdfType, rdf_format
from ..quads.quad_store import QuadStore
from .direct import prepare_direct
from .parts import PartsStream, may_have_blank_nodes, quads_of
from .purge import KEPT, RetentionLimits, purge
from .sources import CHUNK_BYTES, SourceFile, cut, find_sources
from .work import LoadCancelledError, LoadError, LoadFolder, bad_line_error

ENGINES = ("auto", "oxigraph", "spark")
EXACT_BYTES = 64 << 20
"""Maximum size in bytes of a load's part files for a commit with an exact change set.

The commit of a larger load, or of a load that names its engine, records only numbers of quads, so tables that
the load may change are read again.
"""
DIRECT_BYTES = 4 << 30
"""Total size in bytes of the source files on disk above which the engine ``auto`` selects Spark."""
SPARK_CORES = 16
"""Number of CPU cores from which the engine ``auto`` selects Spark at a tenth of `DIRECT_BYTES`."""
MIRROR = "mirror"
"""The name of the folder of the Parquet mirror, next to the folder of loads."""
_OPTIMIZE_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of a bulk load: sources, graph, engine and limits.

    Attributes:
        sources: paths of files and folders, or globs.
        kind: the RDF format of all files; None derives the format from file names.
        graph: the graph that the load adds triples to; None is the default graph.
        base_iri: the base of relative IRIs; None uses the file IRI of a document in Turtle, TriG, RDF/XML or
            JSON-LD.
        engine: ``auto``, ``oxigraph`` (the direct pipeline) or ``spark``.
        max_bad: the maximum number of bad lines; a load with more bad lines fails. None is no limit.
        exact_bytes: the maximum size in bytes of an exact commit, see `EXACT_BYTES`; 0 makes no commit exact.
            Only the engine ``auto`` makes exact commits.
        direct_bytes: the size of sources above which ``auto`` selects Spark, see `DIRECT_BYTES`.
        chunk_bytes: the size in bytes of the chunks into which larger files are divided.
        master: the URL of a Spark master; None runs Spark in local mode.
        memory: the heap size of Spark's driver, for instance ``2g``.
        mirror: also write the Parquet mirror (Spark only).
    """

    sources: tuple[str, ...]
    kind: RdfType | None = None
    graph: NamedNode | None = None
    base_iri: str | None = None
    engine: str = "auto"
    max_bad: int | None = None
    exact_bytes: int = EXACT_BYTES
    direct_bytes: int = DIRECT_BYTES
    chunk_bytes: int = CHUNK_BYTES
    master: str | None = None
    memory: str = "2g"
    mirror: bool = False


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a running bulk load.

    Attributes:
        stage: the running stage: ``parse``, ``sort`` (with Spark only), ``commit``, ``optimize`` or
            ``mirror``; callers that show the progress of ended loads also use ``done``.
        rows: the number of quads so far; in the stage ``mirror``, the number of quads of the mirror.
        bytes: the size in bytes of the part files written so far.
        total: the size of the source files on disk, in bytes.
        bad: the number of bad lines so far.
        seconds: the time in seconds since the load began.
        read: the size in bytes of the source chunks that have been parsed.
    """

    stage: str
    rows: int
    bytes: int
    total: int
    bad: int
    seconds: float
    read: int = 0


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """The result of a bulk load.

    Attributes:
        engine: the engine that parsed the files, ``oxigraph`` or ``spark``.
        files: the number of source files.
        rows: the number of quads in the source files, duplicates included.
        added: the number of quads that the store did not have before.
        bad: the number of bad lines.
        quarantine: the path of the file of bad lines; None without bad lines.
        version: the version of the store after the load.
        exact: True if the commit has an exact change set, see `EXACT_BYTES`.
        resumed: True if the load continued an earlier, interrupted run.
        seconds: the time in seconds that the load took.
        violations: the number of violations that the load added to shapes with mode warn.
    """

    engine: str
    files: int
    rows: int
    added: int
    bad: int
    quarantine: str | None
    version: int
    exact: bool
    resumed: bool
    seconds: float
    violations: int = 0


class BulkLoader:
    """A loader that executes bulk loads into one store, one after the other."""

    def __init__(self, store: QuadStore, folder: Path | None, kept_for: RetentionLimits = KEPT) -> None:
        """Create a loader of RDF files into a store.

        Args:
            store: the store into which the loader loads.
            folder: the folder of all loads; with None each load uses a temporary folder and cannot resume.
            kept_for: the limits on the age and size of folders of ended and abandoned loads.
        """
        self._store = store
        # The path of the folder of loads must be absolute, because workers of a Spark cluster have another
        # current folder.
        self._folder = None if folder is None else folder.absolute()
        self._kept_for = kept_for
        self._quarantines: Path | None = None

    def run(
        self,
        options: LoadOptions,
        *,
        report: Callable[[LoadProgress], None] = lambda progress: None,
        cancelled: Callable[[], bool] = lambda: False,
        cause: str = "load",
    ) -> LoadSummary:
        """Execute a bulk load and return the summary of its result.

        Args:
            options: the options of the load.
            report: receives the progress after each batch of about one megabyte; with Spark, each second.
            cancelled: called before each report; if the callback returns True before the commit, the load is
                cancelled and its folder deleted.
            cause: the text that the commit stores as its cause.

        Raises:
            SourceError: a source file is missing or unreadable, or its format is unknown.
            LoadError: the sources have too many bad lines or no good line, or Spark failed; nothing was
                loaded, except if Spark failed while it wrote the mirror.
            LoadCancelledError: the callback ``cancelled`` returned True.
            UnsupportedError: Spark was requested and is not available, or no mirror can be made.
            StoreError: the store cannot be written.
        """
        if self._folder is not None:
            return self._run(options, self._folder, report, cancelled, cause)
        with tempfile.TemporaryDirectory(prefix="quadrill-load-") as folder:
            summary = self._run(options, Path(folder), report, cancelled, cause)
            return summary if summary.quarantine is None else self._kept(summary)

    def _run(
        self,
        options: LoadOptions,
        folder: Path,
        report: Callable[[LoadProgress], None],
        cancelled: Callable[[], bool],
        cause: str,
    ) -> LoadSummary:
        started = time.monotonic()
        if options.mirror:
            require_mirror(self._folder is not None)
        sources = find_sources(options.sources, options.kind)
        total = sum(source.size for source in sources)
        engine = choose_engine(options, sources)
        work = self._work(options, folder, sources, engine)
        purge(folder, self._kept_for, spared=work.folder)
        stage = "parse"
        latest = (0, 0, 0)

        def advance(rows: int, size: int, bad: int) -> None:
            nonlocal latest
            latest = (rows, size, bad)
            if cancelled():
                raise LoadCancelledError("the load was cancelled; nothing was loaded")
            read = work.read_bytes() if stage == "parse" else total
            report(LoadProgress(stage, rows, size, total, bad, time.monotonic() - started, read))

        def staged(name: str) -> None:
            nonlocal stage
            stage = name

        try:
            if engine == "spark":
                _prepare_spark(work, options, advance, staged)
            else:
                prepare_direct(work, options.max_bad, advance)
            bad = work.write_quarantine()
            _require_good(work, bad)
            stage = "commit"
            advance(*latest)
            commit = self._commit(work, options, cause)
        except LoadCancelledError:
            work.remove()
            raise
        # A load cannot be cancelled after its commit.
        cancelled = _never
        rows = sum(done.rows for _, done in work.finished())
        if rows >= _OPTIMIZE_ROWS and self._store.folder is not None:
            stage = "optimize"
            report(LoadProgress(stage, rows, latest[1], total, bad, time.monotonic() - started, total))
            self._store.optimize()
        if options.mirror:
            stage = "mirror"
            _make_mirror(self._store, folder.parent / MIRROR, options, advance)
        summary = LoadSummary(
            engine=engine,
            files=len(sources),
            rows=rows,
            added=sum(change.added for change in commit.graphs.values()),
            bad=bad,
            quarantine=str(work.quarantine) if bad else None,
            version=commit.version,
            exact=commit.exact,
            resumed=work.resumed,
            seconds=round(time.monotonic() - started, 3),
            violations=commit.violations,
        )
        work.close(asdict(summary))
        if not bad:
            work.remove()
        return summary

    def _kept(self, summary: LoadSummary) -> LoadSummary:
        """Copy a load's bad lines out of its temporary work folder; the copy lasts as long as this loader."""
        assert summary.quarantine is not None
        if self._quarantines is None:
            self._quarantines = Path(tempfile.mkdtemp(prefix="quadrill-quarantine-"))
            weakref.finalize(self, shutil.rmtree, self._quarantines, ignore_errors=True)
        file = self._quarantines / f"{summary.version}-{secrets.token_hex(4)}.ndjson"
        shutil.copyfile(summary.quarantine, file)
        return replace(summary, quarantine=str(file))

    def _work(self, options: LoadOptions, folder: Path, sources: list[SourceFile], engine: str) -> LoadFolder:
        described: dict[str, Any] = {
            "graph": options.graph.value if options.graph else None,
            "base_iri": options.base_iri,
            "engine": engine,
        }
        try:
            return LoadFolder.open(folder, sources, cut(sources, options.chunk_bytes), described)
        except OSError as error:
            raise StoreUnwritableError(f"the folder {folder} cannot be written: {error.strerror}") from error

    def _commit(self, work: LoadFolder, options: LoadOptions, cause: str) -> Commit:
        files = sorted(work.parts.glob("*.nq"))
        if sum(file.stat().st_size for file in files) <= options.exact_bytes and options.engine == "auto":
            return self._store.writer.apply(add=quads_of(files), cause=cause, timed=False)
        # Blank nodes must keep their labels, but `bulk_load` would replace the labels.
        if may_have_blank_nodes(files):
            return self._store.writer.bulk_extend(quads_of(files), cause=cause)
        kind = rdf_format("application/n-quads")
        assert kind is not None
        with io.BufferedReader(PartsStream(files)) as stream:
            return self._store.writer.bulk_load(stream, kind, cause=cause)


def _never() -> bool:
    return False


def choose_engine(options: LoadOptions, sources: list[SourceFile]) -> str:
    """Return the engine for a bulk load, ``oxigraph`` or ``spark``, given its options and sources.

    Raises:
        LoadError: the options name an unknown engine.
    """
    if options.engine not in ENGINES:
        raise LoadError(f"the engine must be one of {', '.join(ENGINES)}, it is {options.engine!r}")
    if options.engine != "auto":
        return options.engine
    if options.master or options.mirror:
        return "spark"
    size = sum(source.size for source in sources)
    many_cores = (os.cpu_count() or 1) >= SPARK_CORES
    if size <= (options.direct_bytes // 10 if many_cores else options.direct_bytes):
        return "oxigraph"
    from .java import spark_missing

    return "oxigraph" if spark_missing() else "spark"


def _prepare_spark(
    work: LoadFolder,
    options: LoadOptions,
    advance: Callable[[int, int, int], None],
    staged: Callable[[str], None],
) -> None:
    from .java import spark_missing

    missing = spark_missing()
    if missing:
        raise UnsupportedError("engine: spark", missing, hint="The engine oxigraph needs no Java.")
    from .spark_load import prepare_spark

    prepare_spark(work, options.master, options.memory, options.max_bad, advance, staged)


def require_mirror(on_disk: bool) -> None:
    """Raise an error if this process cannot create a Parquet mirror of the store.

    Raises:
        UnsupportedError: the store is in memory, or Spark cannot run.
    """
    from .java import spark_missing

    if not on_disk:
        raise UnsupportedError("a mirror of a store in memory", hint="Use a data folder.")
    missing = spark_missing()
    if missing:
        raise UnsupportedError("a mirror without Spark", missing)


def _make_mirror(
    store: QuadStore, folder: Path, options: LoadOptions, advance: Callable[[int, int, int], None]
) -> None:
    from .upkeep import make_mirror

    make_mirror(store, folder, master=options.master, memory=options.memory, advance=advance)


def _require_good(work: LoadFolder, bad: int) -> None:
    if bad and not any(done.rows for _, done in work.finished()):
        raise bad_line_error(next(work.bad_lines()), "no good line")
