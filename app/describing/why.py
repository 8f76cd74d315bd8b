"""Why an event has a row: the elements and quads over which the query alone gives the row."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.inputs import NEVER
from quadrill.continuous.queries.catalogue import PendingQuery, QueryEntry, unknown_query
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.why.explain import ExplainedQuery, explain
from quadrill.continuous.why.limits import WHY_LIMITS, WhyLimits
from quadrill.continuous.why.past import expired
from quadrill.continuous.why.target import event_row
from quadrill.store.errors import GoneError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..http.errors import HttpError

_RUNNING = threading.Lock()
"""Lock that a running search holds, because a server searches for one reason at a time."""
_WAIT_S = 5.0
"""Maximum number of seconds that a request waits while the server searches for another request."""


def why(
    engine: Engine,
    store: QuadStore,
    name: str,
    event_id: int,
    row: int,
    limits: WhyLimits = WHY_LIMITS,
) -> dict[str, Any]:
    """Return why an event has a row, as JSON; rows count from 0.

    The search runs in the calling thread, over copies of the elements, so running queries do not wait.

    Raises:
        NotFoundError: there is no such query, event or row.
        GoneError: code ``why-expired``: the event, its elements, changes of the store or rules are no longer
            kept.
        LimitError: the search took too long, or an evaluation that might give the row exceeded a limit.
        UnsupportedError: the query reads other servers.
        HttpError: 503 if the search for another request does not end within five seconds.
    """
    try:
        event = engine.queries.feed(name).find(event_id)
    except FeedGoneError as error:
        raise unknown_query(name) from error
    except GoneError as error:
        raise expired(error.message) from error
    query = _explained_query(engine, name)
    if query.prepared.source_specs:
        raise UnsupportedError("SERVICE", "rows of a query that reads other servers cannot be explained")
    found = event_row(event, row, query.prepared.analysis.columns)
    if not _RUNNING.acquire(timeout=_WAIT_S):
        raise HttpError(503, "another row is being explained", code="why-busy", headers={"Retry-After": "1"})
    try:
        reason = explain(store, query, found, limits)
    finally:
        _RUNNING.release()
    return {
        "at": found.at,
        "version": found.version,
        "elements": [
            {"stream": stream, "seq": seq, "quads": quads} for (stream, seq), quads in reason.elements
        ],
        "quads": reason.quads,
        "inferred": reason.inferred,
        "truncated": reason.truncated,
    }


def _explained_query(engine: Engine, name: str) -> ExplainedQuery:
    """Return the query of a name; the retained inputs of its streams are copied when a scope is read."""

    def read(
        entry: QueryEntry, query: PendingQuery | RunningQuery | None
    ) -> tuple[QueryEntry, tuple[str, ...], int | None, dict[str, Sequence[str] | None]]:
        if not isinstance(query, RunningQuery):
            return entry, (), None, {}
        windows = query.timeline.windows
        bound = {each.name.value: windows.streams_of(each) for each in windows.declarations}
        return entry, query.timeline.inputs.streams, query.begun, bound

    entry, streams, begun, bound = engine.queries.inspect(name, read)
    prepared = entry.prepared or engine.lifecycle.prepare(entry.registration).under_name(name)
    rules_changed = False
    if prepared.rules is not None:
        definition = engine.settings.definition_of_set(prepared.rules.name)
        rules_changed = definition != prepared.rules.definition
        prepared = replace(prepared, rules=replace(prepared.rules, definition=definition))
    # For queries of an earlier release it is not known where they began, so all inputs are the only scope.
    starts = (begun, 0) if begun else (0,)
    return ExplainedQuery(
        prepared,
        (engine.streams.retained(streams or prepared.streams, NEVER, start) for start in starts),
        None if prepared.names_its_streams else bound.get,
        engine.lifecycle.quoted_asserted(prepared),
        rules_changed,
    )
