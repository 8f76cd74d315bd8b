"""Descriptions of streams for ``/streams``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.streams.accept import StreamState
from quadrill.store.documents.times import LEAST_MS, show_duration
from quadrill.store.errors import NotFoundError
from quadrill.store.registry.records import StreamRecord

log = logging.getLogger("quadrill.app")


def describe_stream(engine: Engine, name_or_iri: str) -> dict[str, Any]:
    """Return the description of a stream; raises NotFoundError for an unknown name or IRI."""
    now_ms = engine.clock.now_ms()

    def document_of(stream: StreamState, readers: list[str]) -> dict[str, Any]:
        return _document(stream, readers, now_ms)

    return engine.streams.inspect(name_or_iri, document_of)


def describe_streams(engine: Engine) -> list[dict[str, Any]]:
    """Return the descriptions of all streams, ordered by name."""
    found = []
    for name in sorted(state.name for state in engine.parts.streams):
        with suppress(NotFoundError):  # the stream was dropped after the names were read
            found.append(_listed(engine, name))
    return found


def _listed(engine: Engine, name: str) -> dict[str, Any]:
    """Return a stream's description for a list; a stream whose description fails is listed with the error."""
    try:
        return describe_stream(engine, name)
    except NotFoundError:
        raise
    except Exception as problem:
        log.exception("The stream %s cannot be described", name)
        return engine.streams.inspect(name, partial(_broken, problem))


def _broken(problem: Exception, stream: StreamState, readers: list[str]) -> dict[str, Any]:
    return {
        "name": stream.name,
        "iri": stream.iri,
        "derived_from": stream.derived_from,
        "watermark": None,
        "idle": False,
        "silent_ms": None,
        "accepted": stream.counts.accepted,
        "elements": stream.counts.accepted,
        "late_count": stream.counts.late,
        "readers": readers,
        "error": f"the stream cannot be described: {type(problem).__name__}: {problem}",
    }


def known_time(instant: int | None) -> int | None:
    """Return a watermark; None for the initial value, which a partition without an element causes."""
    return None if instant is None or instant < LEAST_MS else instant


def feeding_streams(engine: Engine, iris: Iterable[str]) -> list[str]:
    """Return streams and all streams from which queries make them, directly or through further queries."""
    found: dict[str, None] = {}
    waiting = list(iris)
    while waiting:
        iri = waiting.pop(0)
        if iri in found:
            continue
        found[iri] = None
        stream = engine.parts.streams.find(iri)
        if stream is not None and stream.derived_from is not None:
            prepared = engine.queries.prepared(stream.derived_from)
            waiting += () if prepared is None else prepared.streams
    return list(found)


def stream_state(stream: StreamState) -> str:
    """Return the state of a stream: ``empty`` before its first element, then ``active`` or ``idle``."""
    if not stream.counts.accepted:
        return "empty"
    return "idle" if stream.idle else "active"


def _conformance(record: StreamRecord) -> dict[str, Any]:
    """Return the members about the shapes of a stream; none if it has no shapes."""
    if record.shapes is None:
        return {}
    return {"shapes": record.shapes, "on_violation": record.on_violation or "dead-letter"}


def _document(stream: StreamState, readers: list[str], now_ms: int) -> dict[str, Any]:
    """Describe a stream: its settings as declared, its watermark and its counts."""
    record = stream.record
    return {
        "name": stream.name,
        "iri": stream.iri,
        "declared": record.declared,
        "derived_from": stream.derived_from,
        "watermark": known_time(stream.watermark),
        "newest": stream.seen if stream.partitions is None else stream.partitions.newest,
        "partitions": None if stream.partitions is None else stream.partitions.to_json(),
        "state": stream_state(stream),
        "idle": stream.idle,
        "lateness": show_duration(record.lateness_ms),
        "lateness_ms": stream.lateness_ms,
        "late": record.late,
        "idle_timeout": show_duration(stream.idle_timeout_ms),
        "idle_timeout_ms": stream.idle_timeout_ms,
        "retention": show_duration(stream.retained.ms),
        "retention_ms": stream.retained.ms,
        "timestamp_property": stream.timestamp_property,
        "stamping": record.stamping,
        "quoted_asserted": record.quoted_asserted,
        "clock": record.clock,
        "mapping": None if record.mapping is None else json.loads(record.mapping),
        **_conformance(record),
        **({"self_contained": True} if record.self_contained else {}),
        "accepted": stream.counts.accepted,
        "elements": stream.counts.accepted,
        "last_seq": stream.next_seq - 1 if stream.next_seq > 1 else None,
        "late_count": stream.counts.late,
        "late_counts": {
            "late": stream.counts.late,
            "dropped": stream.counts.lost,
            "refused": stream.counts.refused,
        },
        "early_count": stream.counts.early,
        "retained": stream.retained.elements,
        "oldest_retained": stream.retained.oldest,
        "silent_ms": None if stream.last_input_ms is None else max(0, now_ms - stream.last_input_ms),
        "readers": readers,
        "created": record.created_ms,
    }
