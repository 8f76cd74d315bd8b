"""``/loads`` and ``/jobs``: bulk work and its progress; ``/backups``."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Thread

from flask import Blueprint, Response, request

from ..feeds.events import EventStream, event_form, written_as
from ..feeds.sources import Write
from ..http import negotiation
from ..http.errors import HttpError
from ..http.negotiation import Offer
from ..security import needs
from ..upkeep import backup
from ..upkeep.jobs import JobQueue, describe
from . import requests as incoming
from .requests import services

blueprint = Blueprint("jobs", __name__)

_TAR = Offer("tar", "application/x-tar")
_FINAL = ("done", "failed", "cancelled")


@blueprint.post("/loads")
@needs("write")
def load() -> Response:
    """Queue a bulk load."""
    record = services().jobs.submit_load(incoming.json_body(services().settings.max_query_bytes, "the load"))
    headers = {"Location": f"{incoming.base_url()}jobs/{record.id}"}
    return incoming.json_response(describe(record), 202, headers)


@blueprint.get("/jobs")
def list_jobs() -> Response:
    """All jobs; as events, also while they go on."""
    form = event_form(request.headers.get("Accept"), (negotiation.JSON_RESULTS,))
    if form is None:
        return incoming.json_response({"jobs": [describe(record) for record in services().jobs.list()]})
    return _events(form, None)


@blueprint.get("/jobs/<job_id>")
def get_job(job_id: str) -> Response:
    """One job; as events while it goes on."""
    record = services().jobs.get(job_id)
    form = event_form(request.headers.get("Accept"), (negotiation.JSON_RESULTS,))
    return incoming.json_response(describe(record)) if form is None else _events(form, job_id)


def _events(form: str, job_id: str | None) -> Response:
    return EventStream(
        JobSource(services().jobs, job_id, written_as(form)),
        services().fanout,
        form,
        retry_ms=services().settings.sse_retry_ms,
        head_only=request.method == "HEAD",
    )


@blueprint.delete("/jobs/<job_id>")
@needs("write")
def cancel_job(job_id: str) -> Response:
    """Cancel a job that has not ended."""
    return incoming.json_response(describe(services().jobs.cancel(job_id)), 202)


@blueprint.post("/backups")
@needs("admin")
def make_backup() -> Response:
    """Copy all that is kept into a folder below the operator's choice, or send it as an archive."""
    found = services()
    members = incoming.json_body(found.settings.max_query_bytes, "the backup")
    if members.keys() - {"folder"}:
        raise HttpError(400, "the only member of a backup is folder", code="member")
    hold = found.engine.hold_files
    if "folder" in members:
        target = backup.checked_folder(members["folder"], found.settings, "backup")
        return incoming.json_response(backup.make(found.store, found.registry, hold, target), 201)
    negotiation.choose(request.headers.get("Accept"), (_TAR,))
    version, pieces = backup.download(found.store, found.registry, hold, found.settings)
    answer = Response(pieces, 200, mimetype=_TAR.media_type)
    answer.set_etag(str(version))
    return answer


class JobSource:
    """The progress of a job, or of all, as events; a thread of its own waits, since jobs are few."""

    more = False

    def __init__(self, jobs: JobQueue, job_id: str | None, write: Write) -> None:
        self.finished = False
        self._jobs = jobs
        self._job_id = job_id
        self._write = write
        self._last: dict[str, bytes] = {}
        self._closed = False

    def take(self) -> list[bytes]:
        """The states of jobs that are others than those sent last."""
        if self._job_id is None:
            records = self._jobs.list()
        else:
            records = [self._jobs.get(self._job_id)]
            self.finished = records[0].state in _FINAL
        told = []
        for record in records:
            shown = self._write("progress", json.dumps(describe(record), ensure_ascii=False), None)
            if shown != self._last.get(record.id):
                self._last[record.id] = shown
                told.append(shown)
        return told

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` at each change."""

        def watch() -> None:
            while not (self._closed or self.finished):
                self._jobs.wait_for_change(1.0)
                wake()

        Thread(target=watch, name="quadrill-job-watch", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
