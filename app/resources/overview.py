"""``/overview``: figures of the whole server now and in the last hour, and what fails or waits."""

from __future__ import annotations

from typing import Any

from quadrill.store.documents.release import release_of

from ..describing.figures import engine_figures
from ..describing.listing import QuerySelection, list_part
from ..http.answers import WholeAnswer, json_answer
from ..http.request import Request
from ..wiring import Services
from .troubles import troubles


def get_overview(services: Services, request: Request) -> WholeAnswer:
    """Return the figures of the server now, and what fails or waits."""
    request.arguments.check()
    return json_answer(overview(services))


def get_history(services: Services, request: Request) -> WholeAnswer:
    """Return the figures of the server in the last hour, in columns of one number for every 10 seconds."""
    request.arguments.check()
    return json_answer(services.history.server())


def overview(services: Services) -> dict[str, Any]:
    """Return the figures of the server now, and what fails or waits, as a JSON object."""
    now_ms = services.engine.clock.now_ms()
    process, disk = services.server.process.figures(), services.server.disk
    listed, more = troubles(services)
    started_ms = None if process.started_s is None else round(1000 * process.started_s)
    return {
        "version": release_of(),
        "at": now_ms,
        "started": started_ms,
        "uptime_ms": None if started_ms is None else max(0, now_ms - started_ms),
        "memory_bytes": None if process.memory_bytes is None else int(process.memory_bytes),
        "cpu_seconds": process.cpu_s,
        "disk": None if disk is None else disk.figures()._asdict(),
        "latency": services.server.latency()._asdict(),
        "rates": _rates(services),
        "counts": _counts(services),
        "troubles": [each._asdict() for each in listed],
        "more_troubles": more,
    }


def _rates(services: Services) -> dict[str, float | None]:
    """Return rates per second in the newest complete 10 seconds; None before the first ones are complete."""
    point, seconds = services.server.newest(), services.history.every_ms / 1000
    names = ("elements", "events", "requests", "cpu_ms")
    values = [None if point is None else getattr(point, name) for name in names]
    return {
        f"{name}_per_second": None if value is None else round(value / seconds, 3)
        for name, value in zip(names, values, strict=True)
    }


def _counts(services: Services) -> dict[str, Any]:
    figures = engine_figures(services.engine)
    return {
        "quads": services.endpoint.quads(),
        "store_version": services.store.reader.version,
        "streams": len(figures.streams),
        "queries": list_part(services.engine, QuerySelection(limit=0))["states"],
        "subscribers": services.fanout.clients,
        "queue_elements": figures.queue_elements,
        "running_queries": len(services.endpoint.processes.list()),
    }
