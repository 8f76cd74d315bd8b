"""History of queries and streams over the last hour: the growth of their counters in every 10 s."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.streams.accept import StreamState

from ..describing.queries import describe
from ..describing.streams import describe_stream
from .load import QueryLoad, loads_of
from .periodic import Periodic
from .rings import EXACT, POINTS, UNKNOWN, Rings, code_of
from .server_history import ServerHistory

EVERY_MS = 10_000
MOST_RINGS = 23_000
"""Maximum number of ring buffers (some 17 MB); further series with non-zero values are unknown."""
_OF_QUERY = ("elements", "late", "events", "rows", "state_size", "evaluation_us")
_OF_STREAM = ("elements", "late")
_NEVER = -(1 << 63)


class _QueryHistory(Rings):
    """Ring buffers of the series of a query's history, and the query's counters at the newest point."""

    __slots__ = ("last",)

    def __init__(self, begun: int, last: QueryLoad) -> None:
        super().__init__(len(_OF_QUERY), begun)
        self.last = last


class _StreamHistory(Rings):
    """Ring buffers of a stream's history, its watermarks, and its counters at the newest point."""

    __slots__ = ("accepted", "dropped", "watermarks")

    def __init__(self, begun: int, accepted: int, dropped: int) -> None:
        super().__init__(len(_OF_STREAM), begun)
        self.accepted, self.dropped = accepted, dropped
        self.watermarks = array("q", [_NEVER]) * POINTS


class History:
    """History of the counters of all queries and streams, recorded by a separate thread."""

    def __init__(
        self,
        engine: Engine,
        now_ms: Callable[[], int],
        *,
        server: ServerHistory | None = None,
        every_ms: int = EVERY_MS,
        most_rings: int = MOST_RINGS,
    ) -> None:
        """Create an empty history.

        Args:
            engine: the engine with the queries and streams.
            now_ms: returns the time of day in milliseconds since 1970.
            server: gets a point of the whole server at the end of each period.
            every_ms: the period of the points.
            most_rings: the maximum number of ring buffers.
        """
        self.every_ms = every_ms
        self._engine = engine
        self._server = server
        self._now_ms = now_ms
        self._room = most_rings
        # Number of the newest point of the history; the point ends at this multiple of ``every_ms``.
        self._newest: int | None = None
        self._queries: dict[str, _QueryHistory] = {}
        self._streams: dict[str, _StreamHistory] = {}
        self._lock = threading.Lock()
        self._thread = Periodic("quadrill-history", self.take, self._until_next)

    def start(self) -> None:
        """Start the thread that records a point of each query and stream every 10 seconds."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread that records the history."""
        self._thread.stop()

    def _until_next(self) -> float:
        """Return the seconds until the current period of the history ends; 0 before the first point."""
        return 0.0 if self._newest is None else (self.every_ms - self._now_ms() % self.every_ms) / 1000

    def take(self) -> None:
        """Record the counters of all queries and streams at the current point, unless it has them."""
        point = self._now_ms() // self.every_ms
        if self._newest is not None and point <= self._newest:
            return
        loads, streams = (
            list(self._engine.queries.inspect_all(partial(loads_of, self._engine.parts.streams.find))),
            list(self._engine.parts.streams),
        )
        # Points missed while, for instance, the machine slept are unknown; the next recorded point has their
        # counts.
        missed = range(point if self._newest is None else max(self._newest + 1, point - POINTS), point)
        with self._lock:
            events = self._take_queries(loads, point, missed)
            elements = self._take_streams(streams, point, missed)
            if self._server is not None:
                self._server.take(point, elements, events)
            self._newest = point

    def _take_queries(self, loads: Iterable[tuple[str, QueryLoad]], point: int, missed: range) -> int:
        """Record a point of each query; return the number of events that all queries emitted in it."""
        before, self._queries, events = self._queries, {}, 0
        for name, load in loads:
            kept = before.pop(name, None)
            if kept is None:
                # What a query counted before the history's first point does not belong to that point.
                began = load if self._newest is None else QueryLoad(0, load.late, 0, 0, 0, 0, None)
                kept = _QueryHistory(point, began)
            for each in missed:
                kept.miss(each)
            made = kept.made
            if made or load.state_size or load != kept.last:
                kept.put(point, _codes(load, kept.last), self._room)
                self._room -= kept.made - made
            events += _growth(load.events, kept.last.events)
            kept.last = load
            self._queries[name] = kept
        self._room += sum(kept.made for kept in before.values())
        return events

    def _take_streams(self, streams: Iterable[StreamState], point: int, missed: range) -> int:
        """Record a point of each stream; return the number of elements that all streams accepted in it."""
        before, self._streams, elements = self._streams, {}, 0
        for stream in streams:
            kept = before.pop(stream.iri, None)
            if kept is None:
                first = self._newest is None
                kept = _StreamHistory(
                    point, *(stream.counts.accepted, stream.counts.lost) if first else (0, 0)
                )
            for each in missed:
                kept.miss(each)
                kept.watermarks[each % POINTS] = _NEVER
            accepted = _growth(stream.counts.accepted, kept.accepted)
            elements += accepted
            codes = (
                code_of(accepted),
                code_of(_growth(stream.counts.lost, kept.dropped)),
            )
            made = kept.made
            kept.put(point, codes, self._room)
            self._room -= kept.made - made
            mark = stream.watermark
            kept.watermarks[point % POINTS] = _NEVER if mark is None else mark
            kept.accepted, kept.dropped = stream.counts.accepted, stream.counts.lost
            self._streams[stream.iri] = kept
        self._room += sum(kept.made for kept in before.values())
        return elements

    # --- methods that read the history ------------------------------------------------------------------

    def query(self, name: str) -> dict[str, Any]:
        """Return the history of a query: a list of values for each of its counters, oldest value first.

        Raises:
            NotFoundError: no query has the name.
        """
        describe(self._engine, name)
        with self._lock:
            kept = self._queries.get(name)
            points, document = self._points(kept)
            for series, member in enumerate(_OF_QUERY):
                document[member] = [] if kept is None else list(kept.read(series, points))
        return document

    def stream(self, name_or_iri: str) -> dict[str, Any]:
        """Return a stream's history, a list per counter; ``lag_ms`` is the time of day minus the watermark.

        Raises:
            NotFoundError: no stream has the name or IRI.
        """
        iri = describe_stream(self._engine, name_or_iri)["iri"]
        with self._lock:
            kept = self._streams.get(iri)
            points, document = self._points(kept)
            for series, member in enumerate(_OF_STREAM):
                document[member] = [] if kept is None else list(kept.read(series, points))
            marks = [None if kept is None else _mark(kept.watermarks[each % POINTS]) for each in points]
        times = [each * self.every_ms for each in points]
        document["watermark"] = marks
        document["lag_ms"] = [
            None if mark is None else at - mark for at, mark in zip(times, marks, strict=True)
        ]
        return document

    def server(self) -> dict[str, Any]:
        """Return the history of the whole server, a list for each of its figures, oldest value first."""
        if self._server is None:
            return {"every_ms": self.every_ms, "from": None}
        with self._lock:
            return self._server.to_json(self.every_ms, self._newest)

    def _points(self, rings: Rings | None) -> tuple[range, dict[str, Any]]:
        """Return the numbers of a history's stored points, and a JSON object with its period and start."""
        newest = self._newest
        if rings is None or newest is None:
            return range(0), {"every_ms": self.every_ms, "from": None}
        points = range(max(rings.begun, newest - POINTS + 1), newest + 1)
        return points, {"every_ms": self.every_ms, "from": (points.start - 1) * self.every_ms}


def _growth(now: int, before: int) -> int:
    """Return the growth of a counter since the last point; a counter that fell has restarted from zero."""
    return now - before if now >= before else now


def _codes(load: QueryLoad, last: QueryLoad) -> tuple[int, ...]:
    """Return the 16-bit codes of a query's counters at one point, in the order of its series."""
    elements, late, events, rows, state_size, steps, mean = load
    elements_before, late_before, events_before, rows_before, _, steps_before, _ = last
    taken = 0 if steps is None or steps_before is None else steps - steps_before
    growth = (
        elements - elements_before,
        late - late_before,
        events - events_before,
        rows - rows_before,
        state_size,
        # Evaluation time is computed as the number of transactions times the mean CPU time of one
        # transaction.
        taken if not taken or mean is None else round(taken * mean),
    )
    known = steps is not None and (mean is not None or not taken)
    if known and min(growth) >= 0 and max(growth) < EXACT:
        return growth
    began = growth if min(growth) >= 0 else (elements, late, events, rows, state_size, 0)
    return (*map(code_of, began[:-1]), code_of(began[-1]) if known else UNKNOWN)


def _mark(kept: int) -> int | None:
    return None if kept == _NEVER else kept
