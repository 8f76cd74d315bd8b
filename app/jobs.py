"""Long work in the background: bulk loads, restores, compaction. One at a time, progress in the registry."""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quadrill.store.bulk import BulkLoader, LoadCancelledError, Progress
from quadrill.store.bulk.load import MIRROR as MIRROR_FOLDER
from quadrill.store.bulk.load import require_mirror
from quadrill.store.bulk.mirror import make_mirror
from quadrill.store.errors import ConflictError, NotFoundError, QuadrillError
from quadrill.store.quads import QuadStore
from quadrill.store.registry import JobRecord, Registry

from . import backup
from .config import Settings
from .errors import HttpError
from .loads import checked_load, kept_loads, load_options, shown

log = logging.getLogger("quadrill.jobs")

LOAD, OPTIMIZE, RESTORE, MIRROR = "load", "optimize", "restore", "mirror"
PROGRESS_SECONDS = 0.5


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
        self._cancelled: set[str] = set()
        folder = settings.data_folder
        self._loader = BulkLoader(store, None if folder is None else folder / "loads", kept_loads(settings))
        self._end_leftovers()

    def submit_load(self, request: Mapping[str, Any]) -> JobRecord:
        """Queue a load of ``source`` into ``graph``.

        Raises:
            HttpError: 400 for wrong members, 403 for a source outside the load folders, 404 for none.
            UnsupportedError: the engine is not available.
        """
        return self._submit(LOAD, checked_load(request, self._settings))

    def submit_optimize(self) -> JobRecord:
        """Queue a compaction of the database files."""
        return self._submit(OPTIMIZE, {})

    def submit_mirror(self) -> JobRecord:
        """Queue the making of the mirror at the store's present version.

        Raises:
            UnsupportedError: the store is in memory, or Spark is not available.
        """
        require_mirror(self._settings.data_folder is not None)
        return self._submit(MIRROR, {})

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

    def cancel(self, job_id: str) -> JobRecord:
        """Cancel a load; one that has come to its commit is done all the same.

        Raises:
            NotFoundError: no such job.
            ConflictError: it has ended, or is no load.
        """
        record = self.get(job_id)
        if record.state not in ("queued", "running"):
            raise ConflictError(f"the job {job_id} is {record.state} already", code="job-ended")
        if record.kind != LOAD:
            raise ConflictError(f"the job {job_id} is no load, it cannot be cancelled", code="job-kind")
        self._cancelled.add(job_id)
        return record

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
                work = {
                    LOAD: self._load,
                    OPTIMIZE: self._optimize,
                    RESTORE: self._restore,
                    MIRROR: self._mirror,
                }
                work[record.kind](record)
            except LoadCancelledError as error:
                self._update(job_id, state="cancelled", error=error.message)
            except QuadrillError as error:
                self._update(job_id, state="failed", error=error.message)
            except (OSError, EOFError, zlib.error) as error:
                self._update(job_id, state="failed", error=f"the source cannot be read: {error}")
            except Exception:
                log.exception("job %s failed", job_id)
                self._update(job_id, state="failed", error="the server met an error that it did not expect")

    def _load(self, record: JobRecord) -> None:
        started = last = time.monotonic()
        self._update(record.id, state="running", progress=shown(Progress("parse", 0, 0, 0, 0, 0.0)))

        def report(progress: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last > PROGRESS_SECONDS or progress.stage != "parse":
                last = now
                self._update(record.id, progress=shown(progress))

        summary = self._loader.run(
            load_options(record.request, self._settings),
            report=report,
            cancelled=lambda: record.id in self._cancelled,
            cause=LOAD,
        )
        ended = Progress("done", summary.rows, 0, 0, summary.bad, time.monotonic() - started)
        self._update(record.id, state="done", progress=shown(ended) | asdict(summary))

    def _optimize(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=_progress("optimize", 0, 0, started))
        self._store.optimize()
        self._update(record.id, state="done", progress=_progress("done", 0, 0, started))

    def _mirror(self, record: JobRecord) -> None:
        started = time.monotonic()
        folder = self._settings.data_folder
        assert folder is not None
        self._update(record.id, state="running", progress=_progress("mirror", 0, 0, started))
        made = make_mirror(
            self._store,
            folder / MIRROR_FOLDER,
            master=self._settings.spark_master or None,
            memory=self._settings.spark_memory,
        )
        rows = sum(facts.rows for facts in made.predicates.values())
        done = _progress("done", rows, 0, started) | {"version": made.version}
        self._update(record.id, state="done", progress=done)

    def _restore(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=_progress("read", 0, 0, started))
        quads, names = backup.read_dataset(Path(record.request["folder"]))
        self._update(record.id, progress=_progress("commit", len(quads), 0, started))
        commit = self._store.replace_dataset(quads, names=names, cause=RESTORE)
        done = _progress("done", len(quads), 0, started) | {"version": commit.version}
        self._update(record.id, state="done", progress=done)

    def _end_leftovers(self) -> None:
        """What an earlier server did not finish is to be asked for again; its finished parts are kept."""
        for record in self._registry.list_jobs():
            if record.state in ("queued", "running"):
                self._update(record.id, state="failed", error="the server ended before the job was done")

    def _update(self, job_id: str, **fields: Any) -> None:
        self._registry.update_job(job_id, updated_ms=_now_ms(), **fields)
        with self._changed:
            self._changed.notify_all()


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
