"""The reset of a stream's time, for a wall clock that jumped ahead and back."""

from __future__ import annotations

from typing import NamedTuple

from quadrill.store.errors import ConflictError

from ..inputs import NEVER
from ..queries.catalogue import QueryEntry
from ..streams.accept import StreamState
from ..streams.movements import forget_time
from .lifecycle import QueryLifecycle
from .parts import EngineParts


class TimeReset(NamedTuple):
    """The IRIs of the streams whose time was reset, and the names of the queries that therefore restarted."""

    streams: list[str]
    queries: list[str]


def reset_time(parts: EngineParts, lifecycle: QueryLifecycle, stream: StreamState) -> TimeReset:
    """Forget the time and the retained elements of a stream, and restart its readers with a new epoch.

    The reset of a stream's time also applies to the streams that its readers derive, and to their readers.
    Each reader of a reset stream first processes the elements that entered since the reset, as in a replay.
    The caller of a time reset holds the lock `admin` of registrations.

    Raises:
        ConflictError: a query makes the stream, or a reader still reads its static parts.
        ReportedError: a reader cannot restart; nothing was reset.
    """
    if stream.derived_from is not None:
        raise ConflictError(
            f"the time of stream {stream.name} follows the query {stream.derived_from}",
            code="derived-stream",
            hint="Reset the time of the streams that this query reads.",
        )
    streams, readers = _followers(parts, stream)
    for entry in readers:
        if entry.pending is not None:
            raise ConflictError(
                f"the static parts of the query {entry.name} are still being read",
                code="materialising",
                hint="Reset the time once they are ready.",
            )
    rebuilt = [(entry, *lifecycle.rebuild(entry)) for entry in readers]
    tasks = parts.tasks
    tasks.require_writable()
    with tasks.lock:
        for each in streams:
            forget_time(each)
            parts.acceptor.write(each, None, tasks.clock.now_ms(), members={"time_reset": True})
    for entry, prepared, evaluator in rebuilt:
        paused = entry.state == "paused"
        start = None if paused else NEVER
        lifecycle.run(entry, prepared, evaluator, paused=paused, reset=True, replay_from=start)
    tasks.wait_durable(tasks.order)
    return TimeReset([each.iri for each in streams], [entry.name for entry in readers])


def _followers(parts: EngineParts, stream: StreamState) -> tuple[list[StreamState], list[QueryEntry]]:
    """Return a stream, the streams derived from it, and those of their readers that have not failed."""
    streams, readers, place = [stream], list[QueryEntry](), 0
    while place < len(streams):
        iri, place = streams[place].iri, place + 1
        for entry in parts.catalogue.entries():
            if entry in readers or iri not in _streams_read(entry):
                continue
            readers.append(entry)
            made = entry.running.prepared.made_stream if entry.running is not None else None
            output = None if made is None else parts.streams.find(made)
            if output is not None and output not in streams:
                streams.append(output)
    return streams, readers


def _streams_read(entry: QueryEntry) -> tuple[str, ...]:
    """Return the streams from which a query gets inputs, or will get inputs; none for a failed query."""
    if entry.pending is not None:
        return tuple(entry.pending.prepared.streams)
    if entry.running is None or entry.running.state == "failed":
        return ()
    return tuple(entry.running.timeline.inputs.streams)
