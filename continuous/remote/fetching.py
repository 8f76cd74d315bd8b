"""Fetch of one remote source: request the content, store the payload, and submit a task to the engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Set
from dataclasses import dataclass

from quadrill.store.errors import LimitError, ReportedError
from quadrill.store.payloads import Payloads
from quadrill.store.remote import FetchEndedError, RemoteClient, rdf_of, rows_of
from quadrill.store.threads import Threads

from ..clock import Clock
from ..durable.tasks import Task, TaskQueue
from ..errors import EngineStoppedError
from .relabelled import is_relabelled
from .settings import RemoteSettings
from .source import RemoteSource
from .value import SourceValue, decode, encode

log = logging.getLogger("quadrill.continuous")


@dataclass(slots=True, eq=False)
class SourceTask(Task):
    """A task with the result of a fetch: a new content of the source, or a change of its staleness."""

    source: RemoteSource
    value: SourceValue
    stale: str | None
    since_ms: int | None

    def put(self) -> bool:
        """Apply the result of the fetch to the source; return True if the content is a new one."""
        source, before = self.source, self.source.value
        source.value, source.stale, source.stale_since = self.value, self.stale, self.since_ms
        return self.value is not before


class Contents:
    """Fetched contents as payloads on disk, which are stored while a replay of the journal may need them."""

    def __init__(self, payloads: Payloads, lock: threading.RLock) -> None:
        self._payloads = payloads
        self._lock = lock
        # For each fetched content, the number of the newest checkpoint at the time when the content was
        # stored.
        self._put_at: dict[str, int] = {}
        self._moments = 0

    def put(self, data: bytes) -> str:
        """Store a fetched content durably and return its digest."""
        with self._lock:
            digest = self._payloads.put(data)
            self._put_at[digest] = self._moments
            return digest

    def begin_moment(self) -> int:
        """Count a new checkpoint for the deletion of contents, and return its number."""
        with self._lock:
            self._moments += 1
            return self._moments

    def forget(self, moment: int, kept: Set[str]) -> None:
        """Delete fetched contents once checkpoint ``moment`` is on disk, except ``kept`` and recent ones."""
        with self._lock:
            # A fetched content that was stored shortly before the checkpoint may be named by a later journal
            # record.
            self._put_at = {digest: at for digest, at in self._put_at.items() if at >= moment - 1}
            self._payloads.keep_only({*kept, *self._put_at})


class Fetcher:
    """Fetches a remote source and submits new contents as tasks.

    The caller of a fetch holds the source's `fetching` lock.
    """

    def __init__(
        self,
        client: RemoteClient,
        contents: Contents,
        clock: Clock,
        settings: RemoteSettings,
        tasks: TaskQueue,
        threads: Threads,
    ) -> None:
        self._client = client
        self._contents = contents
        self._clock = clock
        self._settings = settings
        self._tasks = tasks
        self._threads = threads

    def fetch(self, source: RemoteSource, ended: Callable[[], bool]) -> ReportedError | None:
        """Fetch one source, submit a changed content to the engine, and return the failure, if any.

        Once ``ended`` returns True, the request of the fetch ends within a second and no task is submitted.
        """
        began = self._clock.now_ms()
        failure: ReportedError | None = None
        data: bytes | None = None
        document: tuple[str | None, str | None] | None = None
        try:
            data, document = self._content(source, self._client.until(ended))
        except FetchEndedError as error:
            return error
        except ReportedError as error:
            failure = error
        except Exception as error:
            log.exception("fetching <%s> failed", source.spec.iri)
            failure = ReportedError(f"{type(error).__name__}: {error}", code="fetch-failed")
        source.took_ms = self._clock.now_ms() - began
        try:
            if failure is None:
                self._take(source, data, document)
            else:
                self._fail(source, failure)
        except EngineStoppedError:
            return failure
        except ReportedError as error:  # The payload of the fetch or the journal cannot be written.
            log.warning("what <%s> gave cannot be kept: %s", source.spec.iri, error.message)
            failure = failure or error
            source.failures += 1
        return failure

    def _content(
        self, source: RemoteSource, client: RemoteClient
    ) -> tuple[bytes | None, tuple[str | None, str | None] | None]:
        """Fetch a source's content as bytes (None if unchanged), and the document's ETag and date."""
        spec, most = source.spec, self._settings.max_rows
        if spec.kind == "service":
            answer = client.query(spec.iri, spec.text)
            return encode(spec, rows_of(answer, spec.columns, most)), None
        known = source.value.number > 0
        fetched = client.get(
            spec.iri,
            etag=source.etag if known else None,
            last_modified=source.last_modified if known else None,
        )
        if fetched is None:
            return None, (source.etag, source.last_modified)
        quads = rdf_of(fetched, rename_blank_nodes=False)
        if len(quads) > most:
            raise LimitError(f"<{spec.iri}> has {len(quads):,} triples, the limit is {most:,}", limit=most)
        return encode(spec, quads), (fetched.etag, fetched.last_modified)

    def _take(
        self, source: RemoteSource, data: bytes | None, document: tuple[str | None, str | None] | None
    ) -> None:
        """Record a successful fetch; submit a task if the content or the staleness has changed."""
        source.etag, source.last_modified = document or (None, None)
        source.failures = 0
        source.checked_ms = now = self._clock.now_ms()
        value = source.value
        if data is not None:
            digest = self._contents.put(data)
            if digest != value.digest:
                found = decode(source.spec, data, value.number + 1, now, digest)
                if not is_relabelled(value, found):
                    value = found
        if value is not source.value or source.stale is not None:
            self._exchange(source, value, None, None)

    def _fail(self, source: RemoteSource, failure: ReportedError) -> None:
        """Record a failed fetch; the source retains its content, which becomes stale."""
        source.failures += 1
        if source.stale != failure.message:
            log.warning("<%s> is stale: %s", source.spec.iri, failure.message)
            since = source.stale_since if source.stale is not None else self._clock.now_ms()
            self._exchange(source, source.value, failure.message, since)

    def _exchange(
        self, source: RemoteSource, value: SourceValue, stale: str | None, since: int | None
    ) -> None:
        members = {
            **source.to_json(),
            "number": value.number,
            "at": value.at_ms,
            "digest": value.digest,
            "stale": stale,
            "since": since,
        }
        self._tasks.require_writable()
        task = self._tasks.submit(SourceTask(source, value, stale, since), "source", **members)
        if self._threads.threaded:
            self._tasks.wait(task)
        self._tasks.wait_durable(task.number)
