"""One fetch of a source: the content asked for, kept for the journal, and told to the engine in a turn."""

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
    """The finding of a fetch, as a turn: another content, or that it is stale."""

    source: RemoteSource
    value: SourceValue
    stale: str | None
    since_ms: int | None

    def put(self) -> bool:
        """In its turn: the source has what the fetch found; True when it is another content."""
        source, before = self.source, self.source.value
        source.value, source.stale, source.stale_since = self.value, self.stale, self.since_ms
        return self.value is not before


class Contents:
    """What was fetched, as payloads for the journal, kept as long as a replay may need it."""

    def __init__(self, payloads: Payloads, lock: threading.RLock) -> None:
        self._payloads = payloads
        self._lock = lock
        # The contents that were put since which moment.
        self._put_at: dict[str, int] = {}
        self._moments = 0

    def put(self, data: bytes) -> str:
        """Make a content durable; its digest."""
        with self._lock:
            digest = self._payloads.put(data)
            self._put_at[digest] = self._moments
            return digest

    def begin_moment(self) -> int:
        """The number of the moment of a checkpoint."""
        with self._lock:
            self._moments += 1
            return self._moments

    def forget(self, moment: int, kept: Set[str]) -> None:
        """The checkpoint of a moment is on disk: forget all but these and what was put since."""
        with self._lock:
            # What was put shortly before the moment may be named by a record behind it.
            self._put_at = {digest: at for digest, at in self._put_at.items() if at >= moment - 1}
            self._payloads.keep_only({*kept, *self._put_at})


class Fetcher:
    """Fetches a source and submits what is new as a turn. Whoever calls holds the source's `fetching`."""

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
        """Fetch one source and tell the engine what is new; the failure, if any.

        Once ``ended`` is True the exchange ends within a second, and the engine is told nothing.
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
        except ReportedError as error:  # nothing can be written now
            log.warning("what <%s> gave cannot be kept: %s", source.spec.iri, error.message)
            failure = failure or error
            source.failures += 1
        return failure

    def _content(
        self, source: RemoteSource, client: RemoteClient
    ) -> tuple[bytes | None, tuple[str | None, str | None] | None]:
        """The bytes to keep, None when the document has not changed; and its ETag and date."""
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
        """A fetch was good."""
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
        """A fetch failed: the content stays and is stale."""
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
        if self._threads.beside:
            self._tasks.wait(task)
        self._tasks.wait_durable(task.number)
