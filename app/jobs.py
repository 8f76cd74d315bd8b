"""Long work in the background: bulk loads, restores, compaction. One at a time, progress in the registry."""

from __future__ import annotations

import gzip
import logging
import queue
import secrets
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes import Commit
from quadrill.store.errors import NotFoundError, QuadrillError, UnsupportedError
from quadrill.store.formats import RdfType, guess_rdf_format, parse_rdf, rdf_format
from quadrill.store.quads import QuadStore
from quadrill.store.registry import JobRecord, Registry

from . import backup
from .config import Settings
from .errors import HttpError

log = logging.getLogger("quadrill.jobs")

LOAD, OPTIMIZE, RESTORE = "load", "optimize", "restore"
ENGINES = ("auto", "oxigraph", "spark")
PROGRESS_SECONDS = 0.5
EXACT_BYTES = 64 << 20
"""Up to here ``auto`` makes an exact commit; above, or with ``oxigraph``, a bulk load that only counts."""


class Jobs:
    """The queue of background work and the thread that does it."""

    def __init__(self, store: QuadStore, registry: Registry, settings: Settings) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._end_leftovers()

    def submit_load(self, request: Mapping[str, Any]) -> JobRecord:
        """Queue a load of ``source`` into ``graph``.

        Raises:
            HttpError: 400 for wrong members, 403 for a source outside the load folders, 404 for none.
            UnsupportedError: the engine is not available.
        """
        source = self._source(request)
        kind = _format(request, source)
        graph = _graph(request)
        engine = request.get("engine", "auto")
        if engine not in ENGINES:
            raise HttpError(
                400, f"the engine must be one of {', '.join(ENGINES)}, it is {engine!r}", code="member"
            )
        if engine == "spark":
            raise UnsupportedError("engine: spark", hint="Use auto or oxigraph.")
        asked = {
            "source": str(source),
            "format": kind.media_type,
            "engine": engine,
            "graph": graph.value if isinstance(graph, NamedNode) else None,
        }
        return self._submit(LOAD, asked)

    def submit_optimize(self) -> JobRecord:
        """Queue a compaction of the database files."""
        return self._submit(OPTIMIZE, {})

    def submit_restore(self, folder: object) -> JobRecord:
        """Queue the replacement of the dataset by that of the backup in ``folder``, as one commit.

        The registry stays as it is: a running server keeps its streams, queries and tokens.

        Raises:
            HttpError: 400 for a folder that is not an absolute path, 404 when it is no backup.
        """
        if not isinstance(folder, str) or not Path(folder).is_absolute():
            raise HttpError(400, "the restore does not say its folder as an absolute path", code="member")
        try:
            backup.check(Path(folder))
        except backup.RestoreError as error:
            raise HttpError(404, error.message, code="no-such-backup") from error
        return self._submit(RESTORE, {"folder": folder})

    def _submit(self, kind: str, asked: dict[str, Any]) -> JobRecord:
        now = _now_ms()
        record = JobRecord(
            id=secrets.token_hex(8),
            kind=kind,
            state="queued",
            created_ms=now,
            updated_ms=now,
            request=asked,
        )
        self._registry.add_job(record)
        self._start()
        self._queue.put(record.id)
        return record

    def get(self, job_id: str) -> JobRecord:
        """One job.

        Raises: NotFoundError.
        """
        record = self._registry.get_job(job_id)
        if record is None:
            raise NotFoundError(f"there is no job {job_id}", code="unknown-job")
        return record

    def list(self) -> list[JobRecord]:
        """All jobs."""
        return self._registry.list_jobs()

    def wait_for_change(self, seconds: float) -> None:
        """Wait until some job changes, at most ``seconds``."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """End the thread once the running job is done."""
        self._stopping = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(self._settings.shutdown_timeout)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="quadrill-jobs", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (job_id := self._queue.get()) is not None and not self._stopping:
            try:
                record = self.get(job_id)
                work = {LOAD: self._load, OPTIMIZE: self._optimize, RESTORE: self._restore}[record.kind]
                work(record)
            except QuadrillError as error:
                self._update(job_id, state="failed", error=error.message)
            except (OSError, EOFError, zlib.error) as error:
                self._update(job_id, state="failed", error=f"the source cannot be read: {error}")
            except Exception:
                log.exception("job %s failed", job_id)
                self._update(job_id, state="failed", error="the server met an error that it did not expect")

    def _load(self, record: JobRecord) -> None:
        source, started = Path(record.request["source"]), time.monotonic()
        kind = rdf_format(record.request["format"])
        assert kind is not None
        named = record.request["graph"]
        graph = NamedNode(named) if named else None
        self._update(record.id, state="running", progress=_progress("read", 0, 0, started))
        with _unpacked(source) as plain:
            size = plain.stat().st_size
            if record.request["engine"] == "auto" and size <= EXACT_BYTES:
                commit = self._exact_load(record.id, plain, kind, graph, started)
            else:
                self._update(record.id, progress=_progress("load", 0, size, started))
                commit = self._store.bulk_load(plain, kind, graph=graph, cause=LOAD)
        rows = sum(change.added for change in commit.graphs.values())
        done = _progress("done", rows, size, started) | {"version": commit.version, "exact": commit.exact}
        self._update(record.id, state="done", progress=done)

    def _optimize(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=_progress("optimize", 0, 0, started))
        self._store.optimize()
        self._update(record.id, state="done", progress=_progress("done", 0, 0, started))

    def _restore(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=_progress("read", 0, 0, started))
        quads, names = backup.read_dataset(Path(record.request["folder"]))
        self._update(record.id, progress=_progress("commit", len(quads), 0, started))
        commit = self._store.replace_dataset(quads, names=names, cause=RESTORE)
        done = _progress("done", len(quads), 0, started) | {"version": commit.version}
        self._update(record.id, state="done", progress=done)

    def _exact_load(
        self, job_id: str, source: Path, kind: RdfType, graph: NamedNode | None, started: float
    ) -> Commit:
        """A commit that lists its quads, so that triggers see each of them."""
        body = source.read_bytes()
        quads: list[Quad] = []
        last = started
        for quad in parse_rdf(body, kind, without_named_graphs=graph is not None):
            quads.append(Quad(quad.subject, quad.predicate, quad.object, graph) if graph else quad)
            if len(quads) % 4096 == 0 and time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                self._update(job_id, progress=_progress("parse", len(quads), len(body), started))
        self._update(job_id, progress=_progress("commit", len(quads), len(body), started))
        return self._store.apply(add=quads, cause=LOAD)

    def _end_leftovers(self) -> None:
        """What an earlier server did not finish was not applied: a load is one commit."""
        for record in self._registry.list_jobs():
            if record.state in ("queued", "running"):
                self._update(record.id, state="failed", error="the server ended before the job was done")

    def _update(self, job_id: str, **fields: Any) -> None:
        self._registry.update_job(job_id, updated_ms=_now_ms(), **fields)
        with self._changed:
            self._changed.notify_all()

    def _source(self, request: Mapping[str, Any]) -> Path:
        unknown = sorted(set(request) - {"source", "format", "graph", "engine"})
        if unknown:
            raise HttpError(400, f"the load has an unknown member {unknown[0]}", code="member")
        given = request.get("source")
        if not isinstance(given, str) or not given:
            raise HttpError(400, "the load does not say its source", code="member")
        folders = [Path(folder).expanduser().resolve() for folder in self._settings.load_folders]
        source = Path(given)
        candidates = (
            [source.resolve()]
            if source.is_absolute()
            else [(folder / source).resolve() for folder in folders]
        )
        for candidate in candidates:
            if any(candidate.is_relative_to(folder) for folder in folders) and candidate.is_file():
                return candidate
        if any(candidate.is_relative_to(folder) for candidate in candidates for folder in folders):
            raise HttpError(404, f"there is no file {given}", code="no-such-file")
        raise HttpError(
            403,
            f"{given} is not below a load folder",
            code="outside-load-folders",
            hint="The setting load_folders lists them; `quadrill load` uploads any file.",
        )


@contextmanager
def _unpacked(source: Path) -> Iterator[Path]:
    """The file itself, or a temporary unpacked one when its name ends in ``.gz``."""
    if source.suffix != ".gz":
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="quadrill-load-") as folder:
        plain = Path(folder) / source.stem
        with gzip.open(source, "rb") as packed, plain.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
        yield plain


def describe(record: JobRecord) -> dict[str, Any]:
    """A job as the API shows it."""
    shown: dict[str, Any] = {
        "id": record.id,
        "kind": record.kind,
        "state": record.state,
        "request": dict(record.request),
        "progress": dict(record.progress),
        "created": record.created_ms,
        "updated": record.updated_ms,
    }
    if record.error:
        shown["error"] = record.error
    return shown


def _format(request: Mapping[str, Any], source: Path) -> RdfType:
    given = request.get("format")
    if given is not None and not isinstance(given, str):
        raise HttpError(400, "the member format must be a text", code="member")
    kind = (
        guess_rdf_format(source.name)
        if given is None
        else rdf_format(given) or guess_rdf_format(f"x.{given}")
    )
    if kind is None:
        raise HttpError(
            400,
            f"the format of {source.name} is not known",
            code="member",
            hint="Give format as a media type or a file name ending.",
        )
    return kind


def _graph(request: Mapping[str, Any]) -> NamedNode | DefaultGraph:
    given = request.get("graph")
    if given is None:
        return DefaultGraph()
    try:
        return NamedNode(given)
    except (ValueError, TypeError) as error:
        raise HttpError(400, f"the member graph is not an IRI: {given!r}", code="member") from error


def _progress(stage: str, rows: int, size: int, started: float) -> dict[str, Any]:
    seconds = max(time.monotonic() - started, 1e-6)
    return {
        "stage": stage,
        "rows": rows,
        "bytes": size,
        "rate": round(rows / seconds),
        "seconds": round(seconds, 3),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
