"""The start of an engine: how far the replay of its journal is, and what clients ask for meanwhile."""

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
    """The replay of a journal; clients see it from any thread.

    Attributes:
        registry: where the queries are registered.
        active: the replay is not over: queries can be listed, paused and dropped, nothing else.
        done: how many records were replayed.
        records: how many there are.
        began: when the start began, by the monotonic clock.
        stopped: names of queries that clients have paused or (None) dropped; they are still replayed.
        lock: held while a client stops a query, so that the start does not end meanwhile.
        is_cancelled: says whether the server is to stop before the replay is over.
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
        """The start begins, or goes on."""
        if not self.active:
            self.active, self.began = True, time.monotonic()
        if is_cancelled is not None:
            self.is_cancelled = is_cancelled

    def end(self) -> list[str]:
        """The start is over; the names of queries that clients have stopped and that still run."""
        with self.lock:
            self.active = False
        left = [name for name, _ in self.stopped]
        self.stopped.clear()
        return left

    @property
    def seconds(self) -> float:
        """How long the start has taken so far."""
        return time.monotonic() - self.began

    def entries(self) -> list[QueryEntry]:
        """Entries of queries as the registry has them, none of which runs, in the order of registration."""
        found = []
        for record in [] if self.registry is None else self.registry.queries.all():
            registration = Registration(record.text, record.name)
            with suppress(ReportedError):
                registration = Registration.restored(record.name, record.text, record.dialect, record.options)
            entry = QueryEntry(record.name, registration, Feed(record.name), record.created_ms)
            entry.state, entry.error = record.state, record.error
            found.append(entry)
        return found

    def entries_of(self, catalogue: QueryCatalogue) -> list[QueryEntry]:
        """All queries; during the replay those of the registry."""
        return self.entries() if self.active else catalogue.entries()

    def entry(self, name: str) -> QueryEntry:
        """The one of a name; raises NotFoundError when there is none."""
        for each in self.entries():
            if each.name == name:
                return each
        raise unknown_query(name)

    def patch(self, name: str, changes: Mapping[str, Any]) -> bool:
        """Pause a query during the replay; False when that is over.

        Raises:
            StartingError: something else is to change.
            NotFoundError: there is no such query.
        """
        if changes != {"state": "paused"}:
            self.require_over()
        return self.stop(name, "paused")

    def stop(self, name: str, state: QueryState | None) -> bool:
        """Pause or (None) drop a query during the replay; False when that is over.

        Raises:
            NotFoundError: there is no such query.
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
        """Raise StartingError while the journal is replayed."""
        if self.active:
            raise StartingError

    def require_not_cancelled(self) -> None:
        """Raise EngineStoppedError when the server is to stop before the replay is over."""
        if self.is_cancelled():
            raise EngineStoppedError("the start was called off; the next one begins where this one did")

    def to_json(self) -> dict[str, Any]:
        """The progress for clients."""
        return {"records": self.records, "replayed": self.done, "seconds": round(self.seconds, 1)}


def cancel_evaluation(
    entry: QueryEntry | None, after_s: float, is_behind: Callable[[RunningQuery], bool] = lambda _: False
) -> bool:
    """End the evaluation of a query that has been at work for so long; True where it was, or is behind."""
    running = None if entry is None else entry.running
    return running is not None and (running.cancel_evaluation(after_s) or is_behind(running))
