"""The progress of an engine's start, and the requests of clients during the replay of the journal."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quadrill.store.errors import ReportedError
from quadrill.store.feeds.feed import Feed
from quadrill.store.registry import Registry
from quadrill.store.registry.records import QueryState

from ..errors import EngineStoppedError, StartingError
from ..language.registration import Registration
from ..queries.catalogue import QueryCatalogue, QueryEntry, unknown_query
from ..queries.running import RunningQuery


@dataclass(slots=True)
class StartupState:
    """The progress of an engine's start.

    Clients read the progress of the start, and pause or drop queries by it, in any thread.

    Attributes:
        registry: the registry of queries.
        active: True until the start is over: clients can list, pause and drop queries, but nothing else.
        done: the number of records that were replayed.
        records: the number of records to replay.
        began: the monotonic time at which the start began.
        stopped: names of queries that clients have paused, or dropped (None); the replay may still evaluate
            them.
        lock: held while a client pauses or drops a query, so that the start does not end meanwhile.
        is_cancelled: a function that returns True if the server has to stop before the start is over.
    """

    registry: Registry | None
    active: bool = False
    done: int = 0
    records: int = 0
    began: float = field(default_factory=time.monotonic)
    stopped: deque[tuple[str, QueryState | None]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_cancelled: Callable[[], bool] = lambda: False

    def begin(self, is_cancelled: Callable[[], bool] | None = None) -> None:
        """Mark the engine's start as begun, once; ``is_cancelled`` replaces the function for cancellation."""
        if not self.active:
            self.active, self.began = True, time.monotonic()
        if is_cancelled is not None:
            self.is_cancelled = is_cancelled

    def end(self) -> list[str]:
        """Mark the engine's start as over; return names of stopped queries that the replay has not ended."""
        with self.lock:
            self.active = False
        names = [name for name, _ in self.stopped]
        self.stopped.clear()
        return names

    @property
    def seconds(self) -> float:
        """The duration of the engine's start so far, in seconds."""
        return time.monotonic() - self.began

    def entries(self) -> list[QueryEntry]:
        """Return entries for the registry's queries, not running, in the order of registration."""
        entries = []
        for record in [] if self.registry is None else self.registry.queries.all():
            registration = Registration(record.text, record.name)
            with suppress(ReportedError):
                registration = Registration.restored(record.name, record.text, record.dialect, record.options)
            entry = QueryEntry(record.name, registration, Feed(record.name), record.created_ms)
            entry.state, entry.error = record.state, record.error
            entries.append(entry)
        return entries

    def entries_of(self, catalogue: QueryCatalogue) -> list[QueryEntry]:
        """Return all entries of the catalogue; during the engine's start those of the registry."""
        return self.entries() if self.active else catalogue.entries()

    def entry(self, name: str) -> QueryEntry:
        """Return the entry with this query name from the registry; raise NotFoundError if there is none."""
        for entry in self.entries():
            if entry.name == name:
                return entry
        raise unknown_query(name)

    def patch(self, name: str, changes: Mapping[str, Any]) -> bool:
        """Pause a query during the engine's start; return False if the start is over.

        Raises:
            StartingError: the request would change something else than the pause.
            NotFoundError: no query has the name.
        """
        if changes != {"state": "paused"}:
            self.require_over()
        return self.stop(name, "paused")

    def stop(self, name: str, state: QueryState | None) -> bool:
        """Pause or (None) drop a query during the engine's start; return False if the start is over.

        Raises:
            NotFoundError: no query has the name.
        """
        with self.lock:
            if self.active and self.registry is not None:
                if state is None:
                    self.registry.queries.remove(name)
                else:
                    self.registry.queries.update(name, state=state)
                self.stopped.append((name, state))
            return self.active

    def require_over(self) -> None:
        """Raise StartingError while the engine starts."""
        if self.active:
            raise StartingError

    def require_not_cancelled(self) -> None:
        """Raise EngineStoppedError if the server has to stop before the start is over."""
        if self.is_cancelled():
            raise EngineStoppedError("the start was cancelled; the next start begins at the same checkpoint")

    def to_json(self) -> dict[str, Any]:
        """Return the progress of the engine's start as JSON for clients."""
        return {"records": self.records, "replayed": self.done, "seconds": round(self.seconds, 1)}


def cancel_evaluation(
    entry: QueryEntry | None, after_s: float, is_behind: Callable[[RunningQuery], bool] = lambda _: False
) -> bool:
    """Cancel the evaluation of a query if it began at least ``after_s`` seconds ago.

    Returns True if there was such an evaluation, or if ``is_behind`` says that the query lags.
    """
    running = None if entry is None else entry.running
    return running is not None and (running.cancel_evaluation(after_s) or is_behind(running))
