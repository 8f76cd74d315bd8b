"""Service that declares, starts, stops and describes all sources and sinks of a server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import ConflictError, NotFoundError, ReportedError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.registry import ConnectorRecord, ConnectorRole, Registry

from ..config import Settings
from .catalogue import sink_kind, source_kind
from .dead_letters import DeadLetterFile
from .declaration import read_members, shown_members, shown_message, with_secrets
from .figures import Figures
from .runner import Runner, run_sink, source_runner
from .sink import SINK_MEMBERS, Sink, SinkContext
from .source import N_QUADS, SOURCE_MEMBERS, Source, SourceContext

log = logging.getLogger("quadrill.connectors")

FOLDER = "connectors"
"""Name of the folder in the data folder that has the dead letters of sources and sinks."""
_STOP_S = 5.0

Key: TypeAlias = tuple[ConnectorRole, str]
Difference: TypeAlias = Literal["create", "change", "same"]


@dataclass(slots=True)
class _Connector:
    """A declared source or sink; if its creation failed, ``error`` says why, and ``runner`` is None."""

    record: ConnectorRecord
    part: Source | Sink | None = None
    runner: Runner | None = None
    error: str | None = None


class ConnectorService:
    """All sources and sinks of a server; thread-safe: changes exclude each other, descriptions never wait."""

    def __init__(
        self, engine: Engine, registry: Registry, settings: Settings, now_ms: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._settings = settings
        self._now_ms = now_ms
        self._hosts = AllowedHosts(settings.remote_hosts)
        self._folders = [Path(each).expanduser().resolve() for each in settings.source_folders]
        self._sink_folder = (
            Path(settings.sink_folder).expanduser().resolve() if settings.sink_folder else None
        )
        self._changing = threading.RLock()
        self._all: dict[Key, _Connector] = {}
        # the runners of dropped connectors whose threads have not ended
        self._leaving: dict[Key, Runner] = {}
        self._closed = False

    # --- methods for the start and stop of the server ------------------------------------------------------

    def start(self) -> None:
        """Create the connectors of the registry and start those not stopped by users; a failure is stored.

        A read-only server starts no connector.
        """
        with self._changing:
            for record in self._registry.connectors.all():
                made = self._all[record.role, record.name] = _Connector(record)
                if record.wanted and not self._settings.read_only:
                    self._begin(made)

    def close(self) -> None:
        """Stop all sources and sinks of the server."""
        with self._changing:
            runners = [each.runner for each in self._all.values() if each.runner is not None]
            for runner in runners:
                runner.ask_to_stop()
            deadline = time.monotonic() + _STOP_S
            for runner in runners:
                runner.stop(max(0.0, deadline - time.monotonic()))
            self._closed = True

    # --- methods for the requests of clients -------------------------------------------------------

    def put(self, role: ConnectorRole, name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Declare or change a source or sink; return its description, and True if it is new.

        A connector whose declaration stays equal continues unchanged. A connector whose declaration changes
        is restarted at its position; a source of another kind starts from the beginning.

        Raises:
            InputError: a member of the declaration is invalid.
            NetworkRefusedError: the declaration names a host that is not allowed.
            UnsupportedError: the library of the connector's kind is not installed.
            ConflictError: the connector's earlier thread is still stopping, the sink has another query, or
                another sink writes to the same files.
        """
        with self._changing:
            before = self._all.get((role, name))
            members, difference = self._compare(role, name, given)
            if before is not None and difference == "same":
                return self._describe(before), False
            if before is None:
                self._require_ended(role, name, self._leaving.get((role, name)))
                self._leaving.pop((role, name), None)
                record = ConnectorRecord(role, name, members, created_ms=self._now_ms())
                if role == "sink":
                    record = replace(record, place=self._first_position(members))
            else:
                self._end(before)
                self._require_ended(role, name, before.runner)
                record = replace(before.record, members=members, wanted=True)
            if before is None or before.record.members["kind"] != members["kind"]:
                _forget_place(self._engine, record)
            self._registry.connectors.put(record)
            made = self._all[role, name] = _Connector(record)
            self._begin(made)
            return self._describe(made), before is None

    def compare(self, role: ConnectorRole, name: str, given: Mapping[str, Any]) -> Difference:
        """Return `create`, `change` or `same`, the effect a declaration would have; raises `put`'s errors."""
        with self._changing:
            return self._compare(role, name, given)[1]

    def all(self, role: ConnectorRole) -> list[dict[str, Any]]:
        """Return the descriptions of all sources or sinks, ordered by name."""
        return [_listed(self._describe, each) for key, each in sorted(self._all.items()) if key[0] == role]

    def get(self, role: ConnectorRole, name: str) -> dict[str, Any]:
        """Return the description of a source or sink; raises NotFoundError for an unknown name."""
        return self._describe(self._find(role, name))

    def set_wanted(self, role: ConnectorRole, name: str, wanted: bool) -> dict[str, Any]:
        """Start or stop a connector, lastingly over restarts of the server; return its description.

        Raises: ConflictError if the connector is started while its thread is still stopping.
        """
        with self._changing:
            found = self._find(role, name)
            running = found.part is not None and found.part.context.figures.state not in ("failed", "stopped")
            if wanted and not running:
                self._end(found)
                self._require_ended(role, name, found.runner)
            if found.record.wanted != wanted:
                found.record = replace(found.record, wanted=wanted)
                self._registry.connectors.put(self._placed(found))
            if wanted and not running:
                self._begin(found)
            elif not wanted:
                self._end(found)
            return self._describe(found)

    def drop(self, role: ConnectorRole, name: str) -> None:
        """Stop and delete a connector and its dead letters."""
        with self._changing:
            found = self._find(role, name)
            self._end(found)
            if found.runner is not None and found.runner.lives:
                self._leaving[role, name] = found.runner
            self._registry.connectors.remove(role, name)
            if role == "source":
                with suppress(ReportedError):
                    self._engine.streams.declare_partitions(found.record.members["stream"], name, {})
            del self._all[role, name]
            self._letters(role, name).clear()

    def dead_letters(self, role: ConnectorRole, name: str) -> DeadLetterFile:
        """Return the dead letters of a connector; raises NotFoundError for an unknown name."""
        part = self._find(role, name).part
        return part.context.letters if part else self._letters(role, name)

    def receive(self, name: str, body: bytes, media_type: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Pass a posted body to a webhook source; return the answer of the push.

        Raises: ConflictError if the source is stopped, or its kind accepts no posted bodies.
        """
        found = self._find("source", name)
        if not isinstance(found.part, Source) or found.part.context.stopping.is_set():
            raise ConflictError(f"the source {name} is stopped", code="source-stopped")
        return found.part.receive(body, media_type, headers)

    def has_secret(self, name: str) -> bool:
        """Return True if bodies posted to a source are signed, so that the sender needs no token."""
        found = self._all.get(("source", name))
        return found is not None and bool(found.record.members.get("secret"))

    def _compare(
        self, role: ConnectorRole, name: str, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Difference]:
        """Return a declaration's members with secrets, and `create`, `change` or `same`, its effect."""
        before = self._all.get((role, name))
        kept = {} if before is None else before.record.members
        members = with_secrets(self._members(role, given), given, kept)
        self._check(role, members)
        if role == "sink":
            self._check_claims(name, members)
        if before is None:
            return members, "create"
        if members == kept:
            return members, "same"
        if role == "sink" and members["query"] != kept["query"]:
            raise ConflictError(
                f"the sink {name} has a position in the feed of another query",
                code="sink-exists",
                hint="Delete the sink first, or declare a sink of another name",
            )
        return members, "change"

    def _check_claims(self, name: str, members: Mapping[str, Any]) -> None:
        """Raise ConflictError if another sink writes to the files that a sink's declaration names."""
        kind = sink_kind(members["kind"])
        wanted = kind.claims(members, self._sink_folder)
        for (role, other), each in self._all.items():
            theirs = each.record.members
            if wanted is None or role != "sink" or other == name or theirs["kind"] != members["kind"]:
                continue
            taken = None
            # a sink declared under other settings has no path now and does not run
            with suppress(ReportedError):
                taken = kind.claims(theirs, self._sink_folder)
            if taken == wanted:
                raise ConflictError(f"the sink {other} writes {wanted.name}", code="sink-path-in-use")

    # --- parts ----------------------------------------------------------------------------------

    def _find(self, role: ConnectorRole, name: str) -> _Connector:
        found = self._all.get((role, name))
        if found is None:
            raise NotFoundError(
                f"there is no {role} {name}", code="unknown-connector", hint=f"GET /{role}s lists them"
            )
        return found

    @staticmethod
    def _members(role: ConnectorRole, given: Mapping[str, Any]) -> tuple[Any, ...]:
        common = SOURCE_MEMBERS if role == "source" else SINK_MEMBERS
        return (*common, *_kind_of(role, given).members)

    def _check(self, role: ConnectorRole, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a connector's declaration; raises ReportedError for an invalid one."""
        values = read_members(f"a {role}", self._members(role, given), given)
        if role == "source":
            source_kind(given["kind"]).check(values, self._hosts, self._folders)
        else:
            kind = sink_kind(given["kind"])
            kind.check(values, self._hosts, self._sink_folder)
            columns = columns_of(self._engine, values["query"])
            if columns is not None:
                kind.check_columns(values, columns)
        return values

    def _begin(self, made: _Connector) -> None:
        """Create a connector's source or sink and its runner, and start its thread."""
        record = made.record
        made.part, made.runner, made.error = None, None, None
        try:
            values = self._check(record.role, record.members)
            letters = self._letters(record.role, record.name)
            if record.role == "source":
                context = SourceContext(
                    record.name, values["stream"], self._engine.streams, self._hosts, self._folders, letters
                )
                context.created_ms = record.created_ms
                source = source_kind(values["kind"])(values, context)
                made.part = source
                made.runner = source_runner(source)
            else:
                kept = SinkContext(
                    record.name, self._hosts, self._sink_folder, letters, *_read_place(record.place)
                )
                sink = sink_kind(values["kind"])(values, kept)
                made.part = sink
                save = partial(self._save, made, kept)
                made.runner = Runner(
                    sink.context, partial(run_sink, sink, self._engine.queries.feed, save), "sink"
                )
        except ReportedError as error:
            # A registered connector cannot start if the settings have changed or its library was uninstalled.
            made.error = shown_message(error.message)
            log.warning("the %s %s cannot start: %s", record.role, record.name, made.error)
            return
        made.runner.start()

    def _end(self, made: _Connector) -> None:
        """Stop a connector and put its position in its record; after a timeout its thread ends later."""
        if made.runner is not None and not made.runner.stop(_STOP_S):
            log.warning("the %s %s takes long to stop", made.record.role, made.record.name)
        if made.part is not None:
            made.part.context.figures.state = "stopped"
        made.record = self._placed(made)

    @staticmethod
    def _require_ended(role: ConnectorRole, name: str, runner: Runner | None) -> None:
        """Raise ConflictError while the connector's earlier thread is still running."""
        if runner is not None and runner.lives:
            raise ConflictError(
                f"the {role} {name} is still stopping", code="connector", hint="Try again in a while"
            )

    @staticmethod
    def _placed(made: _Connector) -> ConnectorRecord:
        part = made.part
        if isinstance(part, Sink) and part.context.position is not None:
            return replace(made.record, place=_place(part.context.position, part.context.place_of))
        return made.record

    def _save(self, made: _Connector, context: SinkContext, position: int) -> None:
        """Store the position of a sink, unless the sink was dropped or the server was closed."""
        name = made.record.name
        if not self._closed and self._all.get(("sink", name)) is made:
            with suppress(NotFoundError):  # a dropped sink has no record in the registry
                place = _place(position, context.place_of)
                self._registry.connectors.update("sink", name, place=place)

    def _first_position(self, members: Mapping[str, Any]) -> str:
        if members.get("from") is not None:
            return str(members["from"])
        try:
            return str(self._engine.queries.feed(members["query"]).history.last_id)
        except (NotFoundError, FeedGoneError):
            return "0"

    def _letters(self, role: ConnectorRole, name: str) -> DeadLetterFile:
        folder = self._settings.data_folder
        return DeadLetterFile(None if folder is None else folder / FOLDER / f"{role}-{name}.ndjson")

    def _describe(self, made: _Connector) -> dict[str, Any]:
        record, part = made.record, made.part
        description: dict[str, Any] = {"name": record.name}
        try:
            members = self._members(record.role, record.members)
        except ReportedError:
            description["kind"] = record.members.get("kind")
        else:
            description |= shown_members(members, record.members)
            description["guarantee"] = _kind_of(record.role, record.members).guarantee
        if part is None:
            state = "stopped" if made.error is None else "failed"
            description |= Figures().to_json()
            position: str | int | None = _read_place(record.place)[0]
            if record.role == "source":
                position = self._engine.streams.source_position(record.members["stream"], record.name)
            return description | {"state": state, "position": position, "error": made.error}
        figures = part.context.figures.to_json()
        if isinstance(part, Sink):
            figures["lag"] = _lag_of(self._engine, part)
        return description | {"position": part.context.position} | figures


def _listed(describe: Callable[[_Connector], dict[str, Any]], made: _Connector) -> dict[str, Any]:
    """Return a connector's description for a list; if describing fails, the description has the error."""
    try:
        return describe(made)
    except Exception as problem:
        log.exception("The %s %s cannot be described", made.record.role, made.record.name)
        known = {"name": made.record.name, "kind": made.record.members.get("kind"), "position": None}
        text = f"the connector cannot be described: {type(problem).__name__}: {problem}"
        return known | Figures().to_json() | {"state": "failed", "error": made.error or text}


def columns_of(engine: Engine, name: str) -> Sequence[str] | None:
    """Return the names of the values in the events of a query; None for a query that is not registered."""
    entry = engine.parts.catalogue.find(name)
    if entry is None or entry.prepared is None:
        return None
    query = entry.prepared.query
    if query.form == "select":
        return [each.name for each in query.columns]
    return ["boolean"] if query.form == "ask" else ["quads"]


def _lag_of(engine: Engine, sink: Sink) -> int | None:
    """Return the number of events that a sink has not delivered yet; None if unknown."""
    context = sink.context
    try:
        feed = engine.queries.feed(sink.given["query"])
    except (NotFoundError, FeedGoneError):
        return None
    if context.position is None or context.place_of not in (None, feed.created_ms):
        return None
    return max(0, feed.history.last_id - max(context.position, feed.history.earliest_id - 1))


def _kind_of(role: ConnectorRole, given: Mapping[str, Any]) -> type[Source] | type[Sink]:
    """Return the class of the kind that a declaration of a source or sink names; raises as `source_kind`."""
    return source_kind(given.get("kind")) if role == "source" else sink_kind(given.get("kind"))


def _place(position: int, place_of: int | None) -> str:
    """Encode a sink's position: an event id, and the registration time of its query."""
    return str(position) if place_of is None else f"{position}@{place_of}"


def _read_place(place: str | None) -> tuple[int | None, int | None]:
    """Decode a sink's position: an event id, and the registration time of its query."""
    position, _, place_of = (place or "").partition("@")
    return int(position) if position else None, int(place_of) if place_of else None


def _forget_place(engine: Engine, record: ConnectorRecord) -> None:
    """Delete the position that an earlier source of the same name left in the stream of a new source."""
    if record.role == "source":
        stream, name = record.members["stream"], record.name
        if engine.streams.source_position(stream, name) is not None:
            engine.streams.push(PushCall(stream, N_QUADS, position=(name, "")), b"")
