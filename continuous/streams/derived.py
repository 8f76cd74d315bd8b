"""Streams that queries make: their elements and their time, in the turn of the query's input."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pyoxigraph import Quad

from ..durable.records import note_input
from ..durable.tasks import TaskQueue
from ..inputs import Advance, Arrival, Element, Idle, StreamInput
from .accept import StreamState


class DerivedStreams:
    """Logs what queries make and keeps it for the readers.

    Attributes:
        inputs: the inputs made in the running turn, which readers get in the same turn.
    """

    def __init__(self, tasks: TaskQueue) -> None:
        self._tasks = tasks
        self.inputs: deque[StreamInput] = deque()

    def add(self, stream: StreamState, at: int, quads: Sequence[Quad], repeats: bool) -> None:
        """In a turn: one element of a stream that a query makes is logged, and kept for its readers.

        While the query repeats the past, instants that the stream has got are not told again.
        """
        with self._tasks.lock:
            if repeats and stream.seen is not None and at <= stream.seen:
                return
            before, watermark = stream.time, stream.watermark
            element = Element.of(quads, at, stream.next_seq)
            stream.counts.derived += 1
            stream.idle = False
            stream.heard(self._tasks.clock)
            if stream.take([element], [at], watermark)[0]:
                admits = stream.record.late == "admit"
                self._log(stream, Arrival(stream.iri, (element,), before, stream.time, admits))

    def move_time(self, stream: StreamState, watermark: int | None, *, idle: bool) -> None:
        """In a turn: the watermark of a derived stream follows its query's, and so does idleness.

        Follows from the inputs of the query alone, so that a replay does the same.
        """
        with self._tasks.lock:
            moved = watermark is not None and stream.guarantee(watermark)
            if moved or (stream.idle and not idle):
                stream.idle = False
                self._log(stream, Advance(stream.iri, stream.time))
            if idle and not stream.idle and stream.watermark is not None:
                stream.idle = True
                if stream.seen is not None:
                    stream.guarantee(stream.seen)
                self._log(stream, Idle(stream.iri, stream.time))

    def _log(self, stream: StreamState, event: StreamInput) -> None:
        """Keep what a query made for those that start in the past; a replay makes it again."""
        tasks, journal = self._tasks, self._tasks.journal
        if journal is None:
            tasks.order += 1
        elif not journal.silent:
            tasks.order = note_input(journal, "derived", event)
        stream.retained.add(tasks.order, event)
        self.inputs.append(event)
