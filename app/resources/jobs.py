"""``/loads``, ``/jobs`` and ``/backups``: bulk loads, the progress of jobs, and backups."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import chain
from threading import Thread

from ..feeds.events import EventStream, event_form, written_as
from ..feeds.sources import Write
from ..http import negotiation
from ..http.answers import Output, StreamedAnswer, WholeAnswer, json_answer
from ..http.errors import HttpError
from ..http.negotiation import Offer
from ..http.problems import problem_answer
from ..http.request import Request
from ..server.reply import AnswerBrokenError
from ..server.takeover import Takeover
from ..upkeep import backup
from ..upkeep.jobs import JobQueue, describe
from ..wiring import Services
from .links import base_url

_TAR = Offer("tar", "application/x-tar")
_FINAL = ("done", "failed", "cancelled")


def load(services: Services, request: Request) -> WholeAnswer:
    """Enqueue a bulk load as a job."""
    record = services.jobs.submit_load(request.json(services.settings.max_query_bytes, "the load"))
    headers = {"Location": f"{base_url(services, request)}jobs/{record.id}"}
    return json_answer(describe(record), 202, headers)


def list_jobs(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return all jobs, as JSON or as a stream of progress events."""
    form = event_form(request.accept, (negotiation.JSON_RESULTS,))
    if form is None:
        return json_answer({"jobs": [describe(record) for record in services.jobs.list()]})
    return _events(services, request, form, None)


def get_job(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return one job, as JSON or as progress events until the job has ended."""
    job_id = request.names["job_id"]
    record = services.jobs.get(job_id)
    form = event_form(request.accept, (negotiation.JSON_RESULTS,))
    return json_answer(describe(record)) if form is None else _events(services, request, form, job_id)


def _events(services: Services, request: Request, form: str, job_id: str | None) -> EventStream:
    return EventStream(
        JobSource(services.jobs, job_id, written_as(form)),
        services.fanout,
        form,
        retry_ms=services.settings.sse_retry_ms,
        permitted=services.security.grant(request).holds,
    )


def cancel_job(services: Services, request: Request) -> WholeAnswer:
    """Cancel a load that has not ended; other jobs get 409."""
    return json_answer(describe(services.jobs.cancel(request.names["job_id"])), 202)


def make_backup(services: Services, request: Request) -> WholeAnswer | StreamedAnswer:
    """Back up store, registry and engine into a folder that the settings allow, or send a tar archive."""
    store, registry, settings = services.store, services.registry, services.settings
    members = request.json(settings.max_query_bytes, "the backup")
    if members.keys() - {"folder"}:
        raise HttpError(400, "the only member of a backup is folder", code="member")
    hold = services.engine.pin_files
    if "folder" in members:
        target = backup.checked_folder(members["folder"], settings, "backup")
        return json_answer(backup.make(store, registry, hold, target), 201)
    negotiation.choose(request.accept, (_TAR,))
    return Archive(*backup.download(store, registry, hold, settings))


class Archive(StreamedAnswer):
    """The answer that sends a backup as a tar archive, piece by piece."""

    def __init__(self, version: int, pieces: Generator[bytes, None, None]) -> None:
        self._version = version
        self._pieces = pieces

    def send(self, output: Output) -> WholeAnswer | None:
        """Send all pieces of the backup's archive; an error before the first becomes a problem document."""
        with closing(self._pieces) as pieces:
            try:
                first = next(pieces)
            except Exception as error:
                return problem_answer(error)
            try:
                output.begin({"Content-Type": _TAR.media_type}, self._version)
                for piece in chain((first,), pieces):
                    output.write(piece)
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:
                raise AnswerBrokenError(repr(error)) from error
        return None


class JobSource:
    """The progress of one job or of all jobs as events; a separate thread waits for changes."""

    more = False

    def __init__(self, jobs: JobQueue, job_id: str | None, write: Write) -> None:
        self.finished = False
        self._jobs = jobs
        self._job_id = job_id
        self._write = write
        self._last: dict[str, bytes] = {}
        self._closed = False

    def take(self) -> list[bytes]:
        """Return the states of jobs that have changed since the last sent event."""
        if self._job_id is None:
            records = self._jobs.list()
        else:
            records = [self._jobs.get(self._job_id)]
            self.finished = records[0].state in _FINAL
        changed = []
        for record in records:
            shown = self._write("progress", json.dumps(describe(record), ensure_ascii=False), None)
            if shown != self._last.get(record.id):
                self._last[record.id] = shown
                changed.append(shown)
        return changed

    def listen(self, wake: Callable[[], None]) -> None:
        """Start a thread that calls ``wake`` at each change of a job, and at least once a second."""

        def watch() -> None:
            while not (self._closed or self.finished):
                self._jobs.wait_for_change(1.0)
                wake()

        Thread(target=watch, name="quadrill-job-watch", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that waits for changes of jobs."""
        self._closed = True
