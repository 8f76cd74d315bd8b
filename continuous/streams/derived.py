"""Streams that CONSTRUCT queries produce: their elements and event time, added during evaluation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pyoxigraph import Quad

from ..durable.records import note_input
from ..durable.tasks import TaskQueue
from ..inputs import Advance, Arrival, Element, Idle, StreamInput
from .accept import StreamState


class DerivedStreams:
    """Journals and retains the inputs of derived streams, which queries produce.

    Attributes:
        inputs: the inputs of derived streams from the running task, delivered to readers in the same task.
    """

    def __init__(self, tasks: TaskQueue) -> None:
        self._tasks = tasks
        self.inputs: deque[StreamInput] = deque()

    def add(self, stream: StreamState, at: int, quads: Sequence[Quad], repeats: bool) -> None:
        """Journal one element of a derived stream and retain it for readers; called in a task of the engine.

        While the query is evaluated again over past inputs (``repeats``), instants that the stream has
        already are skipped.
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
        """Set the watermark and idleness of a derived stream to those of its query; called within a task.

        A derived stream's watermark depends on the inputs of its query alone, so a replay sets the same
        watermark.
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
        """Journal and retain an input of a derived stream, for queries that start in the past.

        A replay derives the stream's inputs again, so nothing is journalled during a replay.
        """
        tasks, journal = self._tasks, self._tasks.journal
        if journal is None:
            tasks.order += 1
        elif not journal.silent:
            tasks.order = note_input(journal, "derived", event)
        stream.retained.add(tasks.order, event)
        self.inputs.append(event)
