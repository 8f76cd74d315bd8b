"""Removal of streams that only a query declared, by its text, after the query was dropped or replaced."""

from __future__ import annotations

from collections.abc import Iterable

from ..durable.tasks import Task
from ..queries.catalogue import QueryEntry
from ..streams.accept import StreamState
from .parts import EngineParts


def streams_of(entry: QueryEntry) -> tuple[str, ...]:
    """Return the IRIs of the streams that a query reads and makes; none for a query that does not run."""
    prepared = entry.prepared
    if prepared is None:
        return ()
    return prepared.streams if prepared.made_stream is None else (*prepared.streams, prepared.made_stream)


def remove_unused_streams(parts: EngineParts, iris: Iterable[str]) -> None:
    """Remove the streams with these IRIs that had no input, have no query, and that no client declared."""
    removed = False
    for iri in iris:
        state = parts.streams.find(iri)
        if state is None or not _is_unused(state):
            continue
        if any(state.iri in streams_of(entry) for entry in parts.catalogue.entries()):
            continue
        with parts.tasks.lock:
            # A client may have pushed to the stream or declared it since the first check.
            if _is_unused(state) and not state.dropped_for_good:
                parts.streams.remove(state)
                parts.tasks.submit(Task(), "unstream", stream=state.iri, created=state.record.created_ms)
                removed = True
    if removed:
        parts.sequencer.drain()


def _is_unused(state: StreamState) -> bool:
    had_inputs = state.counts.accepted or state.counts.refused or state.last_input_ms is not None
    has_owner = state.record.declared or state.derived_from is not None or state.partitions is not None
    return not had_inputs and not has_owner
