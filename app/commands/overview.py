"""Overview of a server's queries, streams and memory, with rates between two samples."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .connection import ServerConnection

_FIGURES = {
    "process_resident_memory_bytes": "memory_bytes",
    "quadrill_store_quads": "quads",
    "quadrill_store_inferred_quads": "inferred_quads",
    "quadrill_store_version": "version",
    "quadrill_static_rows": "static_rows",
    "quadrill_queue_elements": "waiting_elements",
    "quadrill_feed_subscribers": "feeds",
}
"""Members of the overview of ``quadrill top``, by the names of the metrics that have their values."""
_SAMPLE = re.compile(r"([a-z_]+) (\S+)\Z")


@dataclass(frozen=True, slots=True)
class ShownQuery:
    """One query in ``quadrill top``: rates per second, lag in event time, sizes of the state.

    ``note`` is the error of a failed query, else the first reason why the query waits.
    """

    name: str
    state: str
    elements_per_second: float
    rows_per_second: float
    lag_ms: int | None
    window_quads: int
    static_rows: int
    late: int
    note: str


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One stream in ``quadrill top``: elements per second, watermark in ms, element counts."""

    name: str
    elements_per_second: float
    watermark: int | None
    idle: bool
    elements: int
    late: int
    readers: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Rates and counts of a server, its queries and its streams at the time ``at``, in ms since 1970."""

    at: int
    server: str
    figures: Mapping[str, int]
    queries: list[ShownQuery]
    streams: list[StreamFigures]

    def to_json(self) -> dict[str, Any]:
        """Return the overview as a JSON object."""
        # The member `told` of a query is part of the output format of `quadrill top --json`.
        document = asdict(self)
        for query in document["queries"]:
            query["told"] = query.pop("note")
        return document


@dataclass(frozen=True, slots=True)
class ServerSample:
    """Descriptions and metrics that a server returned at one monotonic time."""

    at: float
    queries: list[dict[str, Any]]
    streams: list[dict[str, Any]]
    figures: Mapping[str, int]


def take_sample(server: ServerConnection) -> ServerSample:
    """Request queries, streams and metrics from the server and return them as a sample."""
    queries = server.call("GET", "queries").json()["queries"]
    at = time.monotonic()
    streams = server.call("GET", "streams").json()["streams"]
    figures = {}
    for line in server.call("GET", "metrics").text.splitlines():
        found = _SAMPLE.match(line)
        if found is not None and found[1] in _FIGURES:
            figures[_FIGURES[found[1]]] = int(float(found[2]))
    return ServerSample(at, queries, streams, figures)


def overview(server: str, before: ServerSample, now: ServerSample) -> Overview:
    """Compute the overview from two samples; queries and streams only in the second sample have no rates."""
    seconds = max(now.at - before.at, 1e-3)
    queries = {each["name"]: each for each in before.queries}
    streams = {each["name"]: each for each in before.streams}
    newest = {each["iri"]: each["newest"] for each in now.streams}
    return Overview(
        at=time.time_ns() // 1_000_000,
        server=server,
        figures=now.figures,
        queries=[_query(each, queries.get(each["name"]), seconds, newest) for each in now.queries],
        streams=[_of_stream(each, streams.get(each["name"]), seconds) for each in now.streams],
    )


def _query(
    now: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float, newest: Mapping[str, int | None]
) -> ShownQuery:
    counters, old = now["counters"], (before or now)["counters"]
    waiting = now["waiting_for"]
    return ShownQuery(
        name=now["name"],
        state=now["state"],
        elements_per_second=_rate(counters["elements"] - old["elements"], seconds),
        rows_per_second=_rate(counters["rows"] - old["rows"], seconds),
        lag_ms=_lag(now, newest),
        window_quads=now["state_size"] or 0,
        static_rows=sum(each["rows"] or 0 for each in now["static_parts"]),
        late=counters["late"],
        note=now["error"] or (waiting[0]["text"] if waiting else ""),
    )


def _lag(query: Mapping[str, Any], newest: Mapping[str, int | None]) -> int | None:
    """Return by how many ms of event time a query is behind its streams' newest element; None if unknown."""
    instant = query["watermark"]
    times = [time for each in query["streams"] if (time := newest.get(each["iri"])) is not None]
    return max(0, max(times) - instant) if times and instant is not None else None


def _of_stream(now: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float) -> StreamFigures:
    return StreamFigures(
        name=now["name"],
        elements_per_second=_rate(now["elements"] - (before or now)["elements"], seconds),
        watermark=now["watermark"],
        idle=now["idle"],
        elements=now["elements"],
        late=now["late_count"],
        readers=len(now["readers"]),
    )


def _rate(number: int, seconds: float) -> float:
    """Convert a counter's increase to a rate per second; a decrease, after a query's restart, counts as 0."""
    return round(max(0, number) / seconds, 1)
