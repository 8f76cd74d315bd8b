"""Queue of background jobs: loads, restores, compaction, mirrors and PUTs of rule sets.

Background jobs run one at a time; the registry stores the progress of each job.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from quadrill.continuous.lifecycle.rule_put import RulePut
from quadrill.store.bulk import BulkLoader, LoadCancelledError, LoadProgress
from quadrill.store.bulk.load import MIRROR as MIRROR_FOLDER
from quadrill.store.bulk.load import require_mirror
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.errors import ConflictError, NotFoundError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import JobRecord, Registry

from ..config import Settings
from ..http.errors import HttpError
from . import backup
from .loads import checked_load, kept_loads, load_options, shown
from .mirror import MirrorUpkeep, describe_mirror
from .progress import PROGRESS_SECONDS, progress_of
from .rule_jobs import RULES, is_complete, rules_request, run_put

log = logging.getLogger("quadrill.jobs")

LOAD, OPTIMIZE, RESTORE, MIRROR = "load", "optimize", "restore", "mirror"
_FAILURE = "failure"
"""Member of a record's progress with the code and the details of the error that ended the job."""


class JobQueue:
    """Queue of background jobs, and the thread that runs them."""

    def __init__(self, store: QuadStore, registry: Registry, settings: Settings) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._cancelled: set[str] = set()
        self._puts: dict[str, RulePut] = {}
        folder = settings.data_folder
        self._loader = BulkLoader(store, None if folder is None else folder / "loads", kept_loads(settings))
        self._mirror: MirrorUpkeep | None = None
        if folder is not None:
            self._mirror = MirrorUpkeep(
                store, folder / MIRROR_FOLDER, settings.mirror_compact_ratio, self._ask_for_mirror
            )
        self._end_leftovers()

    def submit_load(self, request: Mapping[str, Any]) -> JobRecord:
        """Queue a bulk load of RDF files into the store, with the members of ``POST /loads``.

        Raises:
            HttpError: 400 for invalid members of the load, 403 for a source outside the load folders, 404 for
                a missing source.
            UnsupportedError: the load needs Spark, which is not available.
        """
        return self._submit(LOAD, checked_load(request, self._settings))

    def submit_optimize(self) -> JobRecord:
        """Queue a job that compacts the database files of the store."""
        return self._submit(OPTIMIZE, {})

    def submit_mirror(self, *, compact: bool = False) -> JobRecord:
        """Queue a job that makes the Parquet mirror of the store's current version, or compacts the mirror.

        Raises:
            UnsupportedError: the store is in memory, or Spark is not available.
        """
        require_mirror(self._settings.data_folder is not None)
        return self._submit(MIRROR, {"compact": compact, "automatic": False})

    def has_mirror(self) -> bool:
        """Return True if the data folder has a mirror, a copy of the store in Parquet files."""
        folder = self._settings.data_folder
        return folder is not None and (folder / MIRROR_FOLDER / "meta.json").exists()

    def mirror(self) -> dict[str, Any]:
        """Return the description of the Parquet mirror, with its lag behind the store.

        Raises: NotFoundError.
        """
        folder = self._settings.data_folder
        if folder is None:
            raise NotFoundError("a store in memory has no mirror", code="no-mirror")
        return describe_mirror(self._store, folder / MIRROR_FOLDER, self._settings.mirror_compact_ratio)

    def submit_restore(self, folder: object) -> JobRecord:
        """Queue a job that replaces the dataset by a backup's dataset, as one commit.

        A restore in a running server leaves the registry as it is: streams, queries and tokens stay.

        Raises:
            HttpError: 400 for an invalid folder name, 403 for a folder outside of the configured one, 404 for
                a folder without a backup.
            UnsupportedError: the store is in memory and has no data folder.
        """
        path = backup.checked_folder(folder, self._settings, "restore")
        try:
            backup.check(path)
        except backup.RestoreError as error:
            raise HttpError(404, error.message, code="no-such-backup") from error
        return self._submit(RESTORE, {"folder": str(path)})

    def submit_rules(self, put: RulePut) -> JobRecord:
        """Queue the materialisation of a rule set that the rule service has accepted."""
        return self._submit(RULES, rules_request(put), put)

    def _submit(self, kind: str, asked: dict[str, Any], put: RulePut | None = None) -> JobRecord:
        now = _now_ms()
        record = JobRecord(
            id=secrets.token_hex(8),
            kind=kind,
            state="queued",
            created_ms=now,
            updated_ms=now,
            request=asked,
        )
        self._registry.jobs.add(record)
        if put is not None:
            self._puts[record.id] = put
        self._start()
        self._queue.put(partial(self._do, record.id))
        return record

    def get(self, job_id: str) -> JobRecord:
        """Return the record of one background job.

        Raises: NotFoundError.
        """
        record = self._registry.jobs.get(job_id)
        if record is None:
            raise NotFoundError(f"there is no job {job_id}", code="unknown-job")
        return record

    def list(self) -> list[JobRecord]:
        """Return the records of all background jobs."""
        return self._registry.jobs.all()

    def cancel(self, job_id: str) -> JobRecord:
        """Cancel a bulk load; a load that has reached its commit still completes.

        Raises:
            NotFoundError: no job has the id.
            ConflictError: the job to cancel has ended, or is no bulk load.
        """
        record = self.get(job_id)
        if record.state not in ("queued", "running"):
            raise ConflictError(f"the job {job_id} is {record.state} already", code="job-ended")
        if record.kind != LOAD:
            raise ConflictError(f"the job {job_id} is no load, it cannot be cancelled", code="job-kind")
        self._cancelled.add(job_id)
        return record

    def wait_for_change(self, seconds: float) -> None:
        """Wait until the state or progress of any job changes, for at most ``seconds``."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """Stop the thread that runs background jobs after its current job."""
        self._stopping = True
        if self._mirror is not None:
            self._mirror.close()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(self._settings.shutdown_timeout)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="quadrill-jobs", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None and not self._stopping:
            work()

    def _do(self, job_id: str) -> None:
        try:
            record = self.get(job_id)
            work: dict[str, Callable[[JobRecord], None]] = {
                LOAD: self._load,
                OPTIMIZE: self._optimize,
                RESTORE: self._restore,
                MIRROR: self._make_mirror,
                RULES: lambda _: run_put(self._puts.pop(job_id), partial(self._update, job_id)),
            }
            work[record.kind](record)
        except LoadCancelledError as error:
            self._update(job_id, state="cancelled", error=error.message)
        except ReportedError as error:
            progress = {**self.get(job_id).progress, _FAILURE: {"code": error.code, **error.details}}
            self._update(job_id, state="failed", error=error.message, progress=progress)
        except (OSError, EOFError, zlib.error) as error:
            self._update(job_id, state="failed", error=f"the source cannot be read: {error}")
        except Exception:
            log.exception("job %s failed", job_id)
            self._update(job_id, state="failed", error="unexpected error in the server")

    def _ask_for_mirror(self) -> None:
        """Queue a check whether the mirror needs a compaction; called in the thread of a writer."""
        self._start()
        self._queue.put(self._bring_mirror_up)

    def _bring_mirror_up(self) -> None:
        assert self._mirror is not None
        if any(each.kind == MIRROR and each.state == "queued" for each in self._registry.jobs.all()):
            return  # several commits may have requested this check of the mirror
        if self._mirror.is_due():
            self._submit(MIRROR, {"compact": True, "automatic": True})

    def _load(self, record: JobRecord) -> None:
        started = last = time.monotonic()
        latest = LoadProgress("parse", 0, 0, 0, 0, 0.0)
        self._update(record.id, state="running", progress=shown(latest))

        def report(progress: LoadProgress) -> None:
            nonlocal last, latest
            latest = progress
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
        seconds = time.monotonic() - started
        ended = replace(latest, stage="done", rows=summary.rows, bad=summary.bad, seconds=seconds)
        self._update(record.id, state="done", progress=shown(ended) | asdict(summary))

    def _optimize(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=progress_of("optimize", 0, 0, started))
        self._store.optimize()
        self._update(record.id, state="done", progress=progress_of("done", 0, 0, started))

    def _make_mirror(self, record: JobRecord) -> None:
        started = time.monotonic()
        stage, latest = "dump", 0
        folder = self._settings.data_folder
        assert folder is not None

        def staged(name: str) -> None:
            nonlocal stage
            stage = name

        def advance(rows: int, size: int, bad: int) -> None:
            nonlocal latest
            latest = size
            self._update(record.id, state="running", progress=progress_of(stage, rows, size, started))

        advance(0, 0, 0)
        made = make_mirror(
            self._store,
            folder / MIRROR_FOLDER,
            compact=bool(record.request.get("compact")),
            master=self._settings.spark_master or None,
            memory=self._settings.spark_memory,
            advance=advance,
            staged=staged,
        )
        rows = sum(facts.rows for facts in made.predicates.values())
        done = progress_of("done", rows, latest, started) | {"version": made.version}
        self._update(record.id, state="done", progress=done)

    def _restore(self, record: JobRecord) -> None:
        started = time.monotonic()
        self._update(record.id, state="running", progress=progress_of("read", 0, 0, started))
        quads, names = backup.read_dataset(Path(record.request["folder"]))
        self._update(record.id, progress=progress_of("commit", len(quads), 0, started))
        commit = self._store.writer.replace_dataset(quads, names=names, cause=RESTORE, restored=True)
        done = progress_of("done", len(quads), 0, started) | {
            "version": commit.version,
            "violations": commit.violations,
        }
        self._update(record.id, state="done", progress=done)

    def _end_leftovers(self) -> None:
        """Mark unfinished jobs of an earlier server run as failed; their finished parts are kept.

        A PUT of a rule set is completed by the start of the rule service, so its job is done.
        """
        for record in self._registry.jobs.all():
            if record.state not in ("queued", "running"):
                continue
            if record.kind == RULES and is_complete(self._registry, record):
                self._update(record.id, state="done")
            else:
                self._update(record.id, state="failed", error="the server ended before the job was done")

    def _update(self, job_id: str, **fields: Any) -> None:
        self._registry.jobs.update(job_id, updated_ms=_now_ms(), **fields)
        with self._changed:
            self._changed.notify_all()


def describe(record: JobRecord) -> dict[str, Any]:
    """Return a background job as the HTTP API shows it."""
    shown: dict[str, Any] = {
        "id": record.id,
        "kind": record.kind,
        "state": record.state,
        "request": dict(record.request),
        "progress": {name: value for name, value in record.progress.items() if name != _FAILURE},
        "created": record.created_ms,
        "updated": record.updated_ms,
    }
    if record.error:
        shown = {**record.progress.get(_FAILURE, {}), **shown, "error": record.error}
    return shown


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
