"""Descriptions of continuous queries as JSON documents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeAlias

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.query import WindowDeclaration
from quadrill.continuous.algebra.reports import show_report
from quadrill.continuous.inputs import NEVER
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.plan.fan_out import uncertain_filters
from quadrill.continuous.queries.catalogue import PendingQuery, QueryEntry
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.static.table_reading import Progress
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.streams.movements import ahead_ms
from quadrill.continuous.windows.kinds import kind_of, show_window
from quadrill.continuous.windows.operator import WindowOperator
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.changes.commit import DEFAULT_GRAPH_KEY
from quadrill.store.documents.times import show_duration
from quadrill.store.quads.rates import ChangeRates
from quadrill.store.sparql.scan import query_form

from .static_parts import describe_static
from .streams import known_time

FindStream: TypeAlias = Callable[[str], StreamState | None]
"""Function that returns the state of the stream with a name or an IRI; None if there is no such stream."""
_MOST_NAMES = 20
"""Maximum number of names that a description lists of the queries that share one plan."""
# Members that only a running query's description has, with their values for queries that do not run.
_NOT_RUNNING: dict[str, Any] = {
    "engine": None,
    "once_per": None,
    "streams": [],
    "windows": [],
    "static_parts": [],
    "counters": {},
    "rates": {},
    "last_result": None,
    "backlog": None,
}


def describe_prepared(prepared: PreparedQuery) -> dict[str, Any]:
    """Describe what is known of a query before it runs; a running query's description begins with this."""
    query, once_per = prepared.query, prepared.query.emission.once_per
    return {
        "name": prepared.name,
        "query": query.text,
        "text": query.text,
        "dialect": query.dialect,
        "profile": prepared.profile,
        "form": query.form,
        "output": prepared.output,
        "report": show_report(prepared.report),
        "non_empty": prepared.report.non_empty,
        "uncertain_filters": prepared.registration.evaluation.uncertain_filters,
        "filter_place": None,
        "fan_out": None,
        "columns": [variable.name for variable in query.columns],
        "once_per": None if once_per is None else [each.name for each in once_per.variables],
        "options": _given(prepared.registration),
        "result_iri": prepared.result_iri,
        "into_graph": None if prepared.into_graph is None else prepared.into_graph.value,
        "result_stream": prepared.made_stream,
        "sharing_group": None,
        "template": None,
        "warnings": list(prepared.warnings),
    }


def _given(registration: Registration) -> dict[str, Any]:
    """Return the JSON members, except name and text, with which an equal query can be registered."""
    dialect = {} if registration.dialect is None else {"dialect": registration.dialect}
    return dialect | registration.options()


def describe_failed(entry: QueryEntry, *, starting: bool = False) -> dict[str, Any]:
    """Describe a query that is paused, failed, or (while the server starts) not yet running."""
    registration, state, error = entry.registration, entry.state, entry.error
    if state == "running" and not starting:
        state, error = "failed", error or "the query could not begin; register it again"
    return _NOT_RUNNING | {
        "name": entry.name,
        "query": registration.query,
        "text": registration.query,
        "dialect": registration.dialect,
        "state": state,
        "error": error,
        "options": _given(registration),
        "created": entry.created_ms,
        "warnings": [],
        "profile": registration.profile,
        "form": query_form(registration.query),
        "report": registration.report,
        "output": registration.output,
        "uncertain_filters": registration.evaluation.uncertain_filters,
    }


def describe_pending(pending: PendingQuery, created_ms: int) -> dict[str, Any]:
    """Describe a query that waits until its static parts are materialised, with the progress."""
    made = Progress() if pending.build is None else pending.build.progress
    document = _NOT_RUNNING | describe_prepared(pending.prepared)
    document.update(
        name=pending.name,
        state="materialising",
        error=None,
        created=created_ms,
        progress={
            "parts": made.parts,
            "ready": made.ready,
            "rows": made.rows,
            "elapsed_ms": round((time.monotonic() - pending.since) * 1000),
            "waiting_elements": pending.elements,
        },
        version=None,
        instant=None,
        watermark=None,
        static_age_ms=None,
        last_refresh=None,
        state_size=0,
        counters={"waiting": pending.elements},
    )
    return document


def describe_graphs(prepared: PreparedQuery, rates: ChangeRates, now_ms: int) -> list[dict[str, Any]]:
    """Describe the named graphs of the store that a query reads, and how often each changes."""
    reads = prepared.reads()
    fetched = {spec.iri for spec in prepared.source_specs}
    keys = ([DEFAULT_GRAPH_KEY] if reads.default_graph else []) + sorted(reads.graphs - fetched)
    return [
        {
            "graph": key,
            "commits_per_hour": None if rate is None else round(rate.commits_per_hour, 3),
            "quads_per_commit": None if rate is None else round(rate.quads_per_commit, 3),
            "last_change": None if rate is None else rate.last_ms,
        }
        for key, rate in ((key, rates.of(key, now_ms)) for key in keys)
    ]


def _next_report(query: RunningQuery) -> int | None:
    """Return the earliest time of a query's next report; None if it reports each change without AFTER."""
    timeline = query.timeline
    if query.prepared.report.kind != "on-content-change":
        return timeline.next_due()
    return timeline.quiet_until if timeline.quiet_until > NEVER else None


def describe_running(query: RunningQuery, find: FindStream, now_ms: int) -> dict[str, Any]:
    """Describe a running query for GET /queries/{name}; ``find`` returns the state of a stream."""
    timeline = query.timeline
    query.bring_up_to_date()
    taken, late, behind = query.counts()
    streams = [_stream_of(query, iri, find(iri), now_ms) for iri in timeline.inputs.streams]
    parts = describe_static(query.prepared.query, query.evaluator, query.static.last_refresh, now_ms)
    refresh, sources = query.prepared.refresh, query.prepared.sources
    emitted, failed = query.emission.counts, query.state == "failed"
    if failed:
        # A failed query processes no commits, so its static parts report the rows and versions of their
        # tables.
        tables = zip(parts, query.evaluator.statics.tables, strict=True)
        parts = [
            part | {"rows": table.count, "version": table.version} if table.is_held else part
            for part, table in tables
        ]
    document = describe_prepared(query.prepared)
    document.update(
        name=query.name,
        engine=query.evaluator.engine,
        **_filters_of(query),
        state=query.state,
        error=query.error,
        created=query.created_ms,
        version=query.last.version if failed else query.static.version,
        instant=timeline.instant,
        watermark=timeline.inputs.watermark,
        next_element=None if failed else timeline.inputs.next_at,
        next_report=None if failed else _next_report(query),
        streams=streams,
        windows=[_window_of(query, window) for window in query.prepared.query.windows],
        static_parts=parts,
        static_age_ms=max((part["age_ms"] or 0 for part in parts), default=None),
        refresh={"every": show_duration(refresh)} if isinstance(refresh, int) else refresh,
        last_refresh=query.static.last_refresh,
        view=None if query.view is None else query.view.describe(),
        sources=[] if sources is None else sources.describe(),
        sharing_group=_sharing_group(query),
        template=None if query.group.plan_slot is None else query.group.plan_slot.describe(),
        state_size=timeline.state_size(),
        counters={
            "elements": taken,
            "waiting": len(timeline.inputs),
            "late": late + sum(each["late"] for each in streams),
            "behind": behind,
            "evaluations": query.last.evaluations,
            "refreshes": query.static.refreshes,
            "events": query.feed.events,
            "rows": emitted.rows_inserted + emitted.rows_deleted,
            **asdict(emitted),
        },
        rates={
            "elements_per_second": query.inputs.per_second(now_ms),
            "events_per_second": query.results.per_second(now_ms),
        },
        feed={
            "earliest_id": query.feed.history.earliest_id,
            "last_id": query.feed.history.last_id,
            "subscribers": query.feed.subscribers,
        },
        last_result=query.last.result,
    )
    return document


def _filters_of(query: RunningQuery) -> dict[str, Any]:
    """Return where a plan evaluates uncertain filters, and their last fan-out, as JSON members."""
    state, place = query.plan_state, query.evaluator.filter_place
    if state is None or not uncertain_filters(state.plan):
        return {"filter_place": None, "fan_out": None}
    if place is None:
        return {"filter_place": "early", "fan_out": None}
    return {"filter_place": place.place, "fan_out": place.fan_out}


def _sharing_group(query: RunningQuery) -> list[str] | None:
    """Return the names of the queries that share windows with a query, including its own name.

    The list of queries that share windows is None if ``query`` shares none. At most `_MOST_NAMES` queries of
    a shared plan are listed.
    """
    group = query.group
    if group.siblings is None or len(group.siblings) == 1:
        return None
    return sorted(
        each.name for each in islice(group.siblings, None if group.plan_slot is None else _MOST_NAMES)
    )


def _stream_of(query: RunningQuery, iri: str, stream: StreamState | None, now_ms: int) -> dict[str, Any]:
    """Describe a stream as one query reads it; `docs/http-api.md` explains the members of the description."""
    reached = known_time(query.timeline.inputs.lag_of(iri))
    known = {"iri": iri, "name": None, "active": reached is not None, "reached": reached, "late": 0,
             "watermark": None, "idle": False, "newest": None, "derived_from": None, "early": 0}  # fmt: skip
    if stream is None:
        return known
    before = query.dropped_before
    late = 0 if before is None else max(0, stream.counts.lost - before.get(iri, 0))
    letters = stream.dead_letters.dropped()[-late:] if late else []
    by_itself = stream.derived_from is not None or stream.record.stamping == "arrival"
    heard = None if by_itself else stream.last_input_ms
    return known | {
        "name": stream.name,
        "watermark": known_time(stream.watermark),
        "newest": stream.seen if stream.partitions is None else stream.partitions.newest,
        "held_by": None if stream.partitions is None else stream.partitions.holding(),
        "derived_from": stream.derived_from,
        "early": stream.counts.early,
        "idle": stream.idle,
        "idle_timeout_ms": stream.idle_timeout_ms,
        "ahead_ms": ahead_ms(stream, now_ms),
        "silent_ms": None if heard is None else max(0, now_ms - heard),
        "late": late,
        "newest_late": max((each.event_time for each in letters), default=None),
        "last_was_late": bool(letters) and letters[-1].seq == stream.next_seq - 1,
    }


def _window_of(query: RunningQuery, window: WindowDeclaration) -> dict[str, Any]:
    operators = [
        (stream, operator)
        for (name, stream), operator in query.timeline.windows.operators.items()
        if name == window.name.value
    ]
    started = query.timeline.instant is not None and query.state != "failed"
    due = [operator.next_due() for _, operator in operators if started]
    closes = [operator.closed for _, operator in operators if operator.closed is not None]
    next_due = min((instant for instant in due if instant is not None), default=None)
    return {
        "name": window.name.value,
        "stream": window.stream.value if isinstance(window.stream, NamedNode) else f"?{window.stream.name}",
        "streams": [stream for stream, _ in operators],
        "window": show_window(window.spec),
        "kind": window.spec.kind,
        "closes": kind_of(window.spec).closes,
        "next_close": next_due if kind_of(window.spec).closes else None,
        "next_change": next_due,
        "last_closed": {"open": closes[0].open, "close": closes[0].close} if closes else None,
        "left": [iri for iri, each in operators if _has_left(query.timeline, iri, each)],
        "quads": sum(len(operator.live) for _, operator in operators),
        "state_size": sum(operator.state_size() for _, operator in operators),
    }


def _has_left(timeline: QueryTimeline, iri: str, operator: WindowOperator) -> bool:
    """Return True if a window is empty because all elements of a stream are older than the window."""
    newest, instant, closed = timeline.inputs.views[iri].time.seen, timeline.instant, operator.closed
    if newest is None or instant is None:
        return False
    return (closed is not None and newest < closed.open) or (
        operator.stay is not None and newest + operator.stay <= instant
    )
