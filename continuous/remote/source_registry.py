"""All remote sources of an engine: fetched in separate threads and updated in engine tasks.

    timer or request --> fetch, in a separate thread --> payload durable --> a task: `source`
                                                                                  |
                            queries that read the source: static parts, answers <-+

A fetch that returns the known content of a source submits no task, unless the source was stale. A failed
fetch marks the remote source as stale, also in a task, and the source retains its content. A remote source is
removed when no query reads it any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from quadrill.store.errors import InputError, ReportedError
from quadrill.store.payloads import Payloads
from quadrill.store.remote import RemoteClient
from quadrill.store.threads import Threads

from ..clock import Clock
from ..durable.tasks import TaskQueue
from .fetching import Contents, Fetcher, SourceTask
from .periods import Period
from .settings import RemoteSettings
from .source import RemoteSource, value_of
from .spec import SourceSpec
from .timers import Timers
from .value import SourceValue, absent


@dataclass(frozen=True, slots=True)
class SourceMoment:
    """The remote sources at a checkpoint, and the number of the checkpoint."""

    number: int
    state: list[dict[str, Any]]


Fetch = Callable[[], "ReportedError | None"]


class SourceRegistry:
    """All remote sources of an engine by key.

    Contents of remote sources change in engine tasks only; all other calls are allowed in any thread.
    """

    def __init__(
        self,
        client: RemoteClient,
        payloads: Payloads,
        clock: Clock,
        settings: RemoteSettings,
        tasks: TaskQueue,
        threads: Threads,
    ) -> None:
        """Create an empty registry of remote sources.

        Args:
            client: the HTTP client for fetches.
            payloads: stores contents on disk for the journal.
            clock: the clock for ages and timers.
            settings: limits and defaults of fetches.
            tasks: the engine's task queue, to which changed contents are submitted.
            threads: starts threads for fetches; without threads the caller of `run_due` fetches.
        """
        self._client = client
        self._payloads = payloads
        self._clock = clock
        self.settings = settings
        self._threads = threads
        self._sources: dict[str, RemoteSource] = {}
        self._held: dict[str, int] = {}
        self._lock = threading.RLock()
        # The names of all queries that read a remote source.
        self.readers: set[str] = set()
        self._contents = Contents(payloads, self._lock)
        self._fetcher = Fetcher(client, self._contents, clock, settings, tasks, threads)
        self._started = self._stopped = False
        self._timers = Timers(clock, self._refresh_timed, threads)
        # During recovery: the remote contents that a query's static parts reflected at the checkpoint.
        self._pinned: Mapping[str, SourceValue] = {}

    # --- what queries read of remote sources ----------------------------------------------------

    def value(self, spec: SourceSpec) -> SourceValue:
        """Return the content of a source; before the first fetch, the placeholder that `absent` returns."""
        pinned = self._pinned.get(spec.key)
        if pinned is not None:
            return pinned
        source = self._sources.get(spec.key)
        return absent(spec) if source is None else source.value

    def stale(self, spec: SourceSpec) -> bool:
        """Return True if the last fetch of a source failed."""
        source = self._sources.get(spec.key)
        return source is not None and source.stale is not None

    def describe(self, specs: Iterable[SourceSpec]) -> list[dict[str, Any]]:
        """Return the sources of a query as JSON for the query's description."""
        now = self._clock.now_ms()
        found = [self._sources.get(spec.key) or RemoteSource(spec, absent(spec)) for spec in specs]
        return [each.describe(now, self.settings) for each in found]

    def figures(self) -> tuple[int, int]:
        """Return the number of remote sources and the number of stale sources."""
        sources = list(self._sources.values())
        return len(sources), sum(source.stale is not None for source in sources)

    # --- readers --------------------------------------------------------------------------------

    def check_allowed(self, specs: Iterable[SourceSpec]) -> None:
        """Check that the hosts of all given sources are allowed.

        Raises:
            InputError: a host is not allowed.
        """
        for spec in specs:
            if not self._client.hosts.allows(spec.iri):
                what = "SERVICE" if spec.kind == "service" else "the graph"
                raise InputError(
                    f"{what} <{spec.iri}> may not be read: its host is not on the list of allowed hosts",
                    code="remote-not-allowed",
                    hint="an administrator can allow the host with the setting remote_hosts",
                    iri=spec.iri,
                )

    @contextmanager
    def acquired(self, specs: Sequence[SourceSpec]) -> Iterator[None]:
        """Fetch remote sources without content, and retain all given ones until the reading query began.

        Raises:
            InputError: a host is not allowed.
            FetchError, LimitError, RdfSyntaxError: a source cannot be read and is not SILENT.
        """
        self.check_allowed(specs)
        with self.held(specs):
            for error in _side_by_side(self._threads, [partial(self._acquire, spec) for spec in specs]):
                if error is not None:
                    raise error
            yield

    @contextmanager
    def held(self, specs: Sequence[SourceSpec]) -> Iterator[None]:
        """Retain the given remote sources within the context even if no query reads them."""
        with self._lock:
            for spec in specs:
                self._held[spec.key] = self._held.get(spec.key, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                for spec in specs:
                    self._held[spec.key] -= 1
                    if not self._held[spec.key]:
                        del self._held[spec.key]
                self._prune()

    def _acquire(self, spec: SourceSpec) -> ReportedError | None:
        source = self._enter(spec)
        with source.fetching:
            if source.value.number or source.readers:
                return None
            error = self._fetch(source)
        return None if spec.silent else error

    def read_by(self, name: str, asked: Mapping[SourceSpec, Period | None]) -> None:
        """Record the remote sources that a query reads, each with its period or None, and set the timers."""
        periods = {spec.key: period for spec, period in asked.items()}
        with self._lock:
            self.readers.discard(name)
            if asked:
                self.readers.add(name)
            for spec in asked:
                self._enter(spec)
            for key, source in self._sources.items():
                if key in periods:
                    source.readers[name] = periods[key]
                    self._set_timer(source)
                elif name in source.readers:
                    del source.readers[name]
                    self._set_timer(source)
            self._prune()

    def _enter(self, spec: SourceSpec) -> RemoteSource:
        with self._lock:
            source = self._sources.get(spec.key)
            if source is None:
                source = self._sources[spec.key] = RemoteSource(spec, absent(spec))
            return source

    def _prune(self) -> None:
        """Remove remote sources that no query reads; before `start`, retain all for the replay."""
        if self._started:
            for key, source in list(self._sources.items()):
                if not source.readers and key not in self._held:
                    del self._sources[key]
                    self._timers.cancel(key)

    # --- fetching -------------------------------------------------------------------------------

    def refresh(self, specs: Iterable[SourceSpec]) -> None:
        """Fetch remote sources now; a source whose fetch fails becomes stale and retains its content."""
        found = [self._sources.get(spec.key) for spec in specs]
        fetches = [partial(self._fetch_now, each) for each in found if each is not None]
        _side_by_side(self._threads, fetches)

    def _fetch_now(self, source: RemoteSource) -> ReportedError | None:
        with source.fetching:
            return self._fetch(source)

    def run_due(self) -> None:
        """Fetch all remote sources that are due; called only if the registry has no threads."""
        self._timers.run_due()

    def _fetch(self, source: RemoteSource) -> ReportedError | None:
        """Fetch one remote source, set its timer and return the failure, if any.

        The request of a fetch is cancelled when no query reads the source any more or the server stops.
        """
        key = source.spec.key
        failure = self._fetcher.fetch(source, lambda: self._stopped or self._sources.get(key) is not source)
        with self._lock:
            self._set_timer(source)
        return failure

    def _refresh_timed(self, key: str) -> None:
        source = self._sources.get(key)
        # If another thread is fetching the source, that thread sets the timer afterwards.
        if source is None or not source.fetching.acquire(blocking=False):
            return
        try:
            self._fetch(source)
        finally:
            source.fetching.release()

    # --- timers ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the timers; a restored source is due a period after its last fetch, or soon if overdue."""
        with self._lock:
            self._started, self._stopped = True, False
            self._prune()
            now = self._clock.now_ms()
            for source in self._sources.values():
                source.due_ms = source.due_after_restart(now, self.settings)
                self._timers.set(source.spec.key, source.due_ms)
        self._timers.start()

    def stop(self) -> None:
        """Stop all timers of fetches; running fetches are cancelled, and the call does not wait for them."""
        self._stopped = True
        self._timers.stop()

    def _set_timer(self, source: RemoteSource) -> None:
        if self._started and source.spec.key in self._sources:
            began = source.checked_ms if not source.failures else None
            now = self._clock.now_ms()
            if source.checked_ms is None and not source.failures:
                began = 0  # A remote source that was never fetched is due immediately.
            due = source.next_due(now if began is None else began, self.settings)
            if due is not None:
                due = max(due, now)
            source.due_ms = due
            self._timers.set(source.spec.key, due)

    # --- restarts -------------------------------------------------------------------------------

    def moment(self) -> SourceMoment:
        """Return the current remote sources for a checkpoint; called in the engine's thread."""
        with self._lock:
            state = [source.to_json() for source in self._sources.values()]
            return SourceMoment(self._contents.begin_moment(), state)

    def forget(self, moment: SourceMoment, pinned: Iterable[str]) -> None:
        """Delete fetched contents that neither a written checkpoint nor the journal after it needs.

        Args:
            moment: the sources at the checkpoint.
            pinned: the digests of contents that the checkpoint's queries reflect.
        """
        with self._lock:
            kept = {members["digest"] for members in moment.state}
            kept |= {source.value.digest for source in self._sources.values()}
            self._contents.forget(moment.number, {*kept, *pinned})

    def restore(self, state: Iterable[dict[str, Any]]) -> None:
        """Restore the remote sources of a checkpoint."""
        for members in state:
            self.replay(members).put()

    def replay(self, members: dict[str, Any]) -> SourceTask:
        """Return the task for a journal record of a remote source, during a replay."""
        spec = SourceSpec.from_json(members["spec"])
        source = self._enter(spec)
        value = value_of(spec, members, self._payloads)
        source.checked_ms = members["checked"]
        source.etag, source.last_modified = members["etag"], members["modified"]
        if value is None:
            source.etag = source.last_modified = None
            return SourceTask(source, source.value, "what was fetched is lost", members["at"])
        known = (value.number, value.digest) == (source.value.number, source.value.digest)
        return SourceTask(source, source.value if known else value, members["stale"], members["since"])

    @contextmanager
    def pinned(self, pins: Mapping[str, list[Any]]) -> Iterator[None]:
        """Let queries read, within the context, the remote contents that ``pins`` name, if still stored."""
        found: dict[str, SourceValue] = {}
        for key, (number, at, digest) in pins.items():
            source = self._sources.get(key)
            members = {"number": number, "at": at, "digest": digest}
            value = None if source is None else value_of(source.spec, members, self._payloads)
            if value is not None:
                found[key] = value
        self._pinned = found
        try:
            yield
        finally:
            self._pinned = {}


def _side_by_side(threads: Threads, fetches: Iterable[Fetch]) -> list[ReportedError | None]:
    """Run fetches in parallel threads; return their failures (None for success) in the given order."""
    begun = [threads.start(fetch, "quadrill-fetch") for fetch in fetches]
    return [each.result() for each in begun]
