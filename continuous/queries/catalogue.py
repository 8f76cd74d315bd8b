"""The registered queries by name, in memory and in the registry."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quadrill.store.errors import ConflictError, LimitError, NotFoundError, QuadrillError
from quadrill.store.registry.records import QueryRecord, QueryState

from ..clock import Clock
from ..errors import InputError
from ..output.feed import Feed
from ..settings import EngineSettings
from .pending_registration import Pending
from .prepare import PreparedQuery, refuse_solution_stream, streams_read
from .registration import Registration
from .running import RunningQuery
from .view_reads import cycle

if TYPE_CHECKING:
    from quadrill.store.registry import Registry


@dataclass(slots=True, eq=False)
class Entry:
    """One registered query.

    Attributes:
        running: None while it is attached or when it could not be restored.
        pending: set while its static parts are read for the first time.
        restarts: when it began anew by itself after it had failed.
    """

    name: str
    registration: Registration
    feed: Feed
    created_ms: int
    running: RunningQuery | None = None
    pending: Pending | None = None
    state: QueryState = "running"
    error: str | None = None
    restarts: list[int] = field(default_factory=list)

    @property
    def prepared(self) -> PreparedQuery | None:
        """The query as it runs, or as it will; None when it does neither."""
        running, pending = self.running, self.pending
        if running is not None:
            return running.prepared
        return None if pending is None else pending.prepared


class QueryCatalogue:
    """Names, their queries and what was dropped."""

    def __init__(self, registry: Registry | None, clock: Clock, settings: EngineSettings) -> None:
        self._registry = registry
        self._clock = clock
        self._settings = settings
        self._entries: dict[str, Entry] = {}
        self._dropped: set[str] = set()
        # The names that queries have had for what they make.
        self._result_iris: set[str] = set()
        self._lock = threading.Lock()
        # Queries that have failed and are to begin anew.
        self.failed: deque[Entry] = deque()

    def entries(self) -> list[Entry]:
        """All entries in the order of registration."""
        with self._lock:
            return list(self._entries.values())

    def state_size(self) -> int:
        """Quads in the windows of all queries, each as often as a window holds it."""
        running = [each.running for each in self.entries()]
        return sum(each.timeline.state_size() for each in running if each is not None)

    def find(self, name: str) -> Entry | None:
        """The entry of a name."""
        return self._entries.get(name)

    def get(self, name: str) -> Entry:
        """The entry of a name.

        Raises:
            NotFoundError: there is none.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise NotFoundError(f"no query named {name} is registered", code="unknown-query")
        return entry

    def was_dropped(self, name: str) -> bool:
        """True when the name was used and its query dropped."""
        if self._registry is not None:
            return self._registry.was_dropped(name)
        return name in self._dropped

    def free_name(self) -> str:
        """A generated name: q-1, q-2 ..."""
        number = 1
        while f"q-{number}" in self._entries or self.was_dropped(f"q-{number}"):
            number += 1
        return f"q-{number}"

    def check_room(self, existing: Entry | None) -> None:
        """Raises LimitError when there are as many queries as allowed."""
        most = self._settings.max_queries
        if existing is None and len(self._entries) >= most:
            raise LimitError(f"{len(self._entries)} queries are registered, the limit is {most}", limit=most)

    def require_same(self, entry: Entry, registration: Registration) -> None:
        """Raises ConflictError when the entry's text or options differ."""
        if entry.registration != registration:
            what = "text" if entry.registration.query != registration.query else "options"
            raise ConflictError(
                f"a query named {entry.name} is registered with another {what}"
                if what == "text"
                else f"the query {entry.name} is registered with other options",
                code="query-exists",
                hint="Choose another name, drop the query, or PUT with ?replace=true",
            )

    def add(self, entry: Entry) -> None:
        """Enter a query; one that is replaced goes to the end."""
        with self._lock:
            self._entries.pop(entry.name, None)
            self._entries[entry.name] = entry
            self._dropped.discard(entry.name)

    def keep(self, name: str, registration: Registration, *, replacing: bool) -> QueryRecord:
        """Write a registration to the registry."""
        record = QueryRecord(
            name=name,
            text=registration.query,
            dialect=registration.dialect,
            options=registration.options(),
            created_ms=self._clock.now_ms(),
        )
        if self._registry is not None:
            if replacing:
                self._registry.replace_query(record)
            else:
                self._registry.add_query(record)
        return record

    def update(self, entry: Entry) -> None:
        """Write changed options."""
        if self._registry is not None:
            self._registry.update_query(entry.name, options=entry.registration.options())

    def set_state(self, entry: Entry, state: QueryState, error: str | None) -> None:
        """Remember a state over restarts."""
        entry.state, entry.error = state, error
        if self._registry is not None:
            try:
                self._registry.update_query(entry.name, state=state, error=error)
            except NotFoundError:
                return

    def note_failed(self, name: str, error: str | None) -> None:
        """In a turn: a query has failed; it begins anew between two turns where the settings say so."""
        entry = self.find(name)
        if entry is not None:
            self.set_state(entry, "failed", error)
            if self._settings.restart_failed:
                self.failed.append(entry)

    def remove(self, entry: Entry) -> None:
        """Forget a query, not that there was one."""
        if self._registry is not None:
            self._registry.remove_query(entry.name)
        with self._lock:
            self._entries.pop(entry.name, None)
            self._dropped.add(entry.name)

    def discard(self, entry: Entry) -> None:
        """Forget a query that the registry has no more."""
        with self._lock:
            self._entries.pop(entry.name, None)
            self._dropped.add(entry.name)

    def stored(self) -> list[QueryRecord]:
        """What the registry holds, in the order of registration."""
        return [] if self._registry is None else self._registry.list_queries()

    def restored(self, record: QueryRecord, feed: Feed) -> tuple[Entry, Registration | None]:
        """Enter a query of the registry; no registration when its options cannot be read any more."""
        document = {"query": record.text, "dialect": record.dialect, **record.options}
        registration: Registration | None
        try:
            registration = Registration.from_json(document, name=record.name)
        except QuadrillError as error:
            registration = None
            entry = Entry(record.name, Registration(record.text, record.name), feed, record.created_ms)
            self.add(entry)
            self.set_state(entry, "failed", error.message)
            return entry, None
        entry = Entry(
            record.name, registration, feed, record.created_ms, state=record.state, error=record.error
        )
        self.add(entry)
        return entry, registration

    def describe_failed(self, entry: Entry) -> dict[str, Any]:
        """The description of a query that does not run."""
        registration = entry.registration
        return {
            "name": entry.name,
            "query": registration.query,
            "text": registration.query,
            "dialect": registration.dialect,
            "state": entry.state,
            "error": entry.error,
            "options": registration.options(),
            "created": entry.created_ms,
            "streams": [],
            "windows": [],
            "static_parts": [],
            "warnings": [],
            "waiting_for": [],
            "last_result": None,
            "counters": {},
            "rates": {},
            "profile": registration.profile,
            "form": "select",
            "report": registration.report,
            "output": registration.output,
            "engine": None,
        }

    def changed(self, entry: Entry, changes: dict[str, Any]) -> tuple[str | None, Registration]:
        """The state asked for and the registration with changed settings.

        Raises:
            InputError: a member that cannot change while the query runs, or a wrong value.
        """
        changeable = ("state", "refresh", "memory")
        unknown = sorted(set(changes) - set(changeable))
        if unknown:
            raise InputError(
                f"{unknown[0]} cannot be changed while the query is registered",
                hint=f"{', '.join(changeable)} can; for others PUT the query anew with ?replace=true",
            )
        state = changes.get("state")
        if state not in (None, "running", "paused"):
            raise InputError(f"state is {state!r}, it must be running or paused")
        if state == "paused" and entry.state == "failed":
            raise ConflictError(f"the query {entry.name} has failed, it cannot pause", code="query-failed")
        document = {"query": "-", **{key: value for key, value in changes.items() if key != "state"}}
        read = Registration.from_json(document)
        registration = entry.registration
        if "refresh" in changes:
            registration = replace(registration, refresh=read.refresh)
        if "memory" in changes:
            registration = replace(registration, memory=read.memory)
        return state, registration

    # --- what may read what ---------------------------------------------------------------------

    def note_result(self, prepared: PreparedQuery) -> None:
        """A query is about to run, or to wait: what it makes has a name."""
        if prepared.result_iri is not None:
            self._result_iris.add(prepared.result_iri)

    def refuse_solution_streams(self, prepared: PreparedQuery) -> None:
        """Raises QueryTextError when a window reads the feed of a SELECT."""
        for iri in streams_read(prepared.query):
            for entry in self.entries() if iri in self._result_iris else ():
                other = entry.prepared
                if other is not None and other.result_iri == iri and other.query.form != "construct":
                    raise refuse_solution_stream(iri, entry.name)
            if prepared.result_iri == iri and prepared.query.form != "construct":
                raise refuse_solution_stream(iri, prepared.name or "itself")

    def refuse_cycles(self, prepared: PreparedQuery) -> None:
        """Raises InputError when a query would, over others perhaps, read a stream or graph that it makes."""
        found = cycle(prepared, self._others(prepared))
        if found is not None:
            made, read = found
            raise InputError(
                f"the query would read its own output: {made} leads to {read}",
                code="cycle",
                hint=None if read.kind == "stream" else "GRAPH ?g reads every graph; FROM NAMED names them",
            )

    def _others(self, prepared: PreparedQuery) -> Iterator[PreparedQuery]:
        """The queries that run or wait, but for one; they are looked at when somebody asks for the first."""
        for entry in self.entries():
            other = entry.prepared
            if other is not None and entry.name != prepared.name:
                yield other
