"""``quadrill run``: a continuous query over recorded files, in this process, without a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.ingest.times import instant_ms
from quadrill.continuous.registration import Registration
from quadrill.store.errors import QuadrillError
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads import QuadStore

from ..config import MEMORY, Settings
from ..wiring import open_services

NAME = "run"
MEDIA_TYPES = {".ndjson": "application/x-ndjson", ".jsonl": "application/x-ndjson"}


class RecordingError(QuadrillError):
    """A recorded file is not as it should be."""

    code = "recording"


def run_recorded(
    text: str, *, dialect: str | None, streams: dict[str, Path], static: list[str], until: str | None
) -> int:
    """Register the query, push each file to its stream, print the feed: one event a line.

    The files of several streams are pushed one after the other, and results come out once every stream has
    reached their time, as with a server. Without ``until`` the last windows stay open.
    """
    settings = Settings(
        data=MEMORY, max_queue_elements=1 << 30, max_push_elements=1 << 30, feed_history=1 << 30
    )
    services = open_services(settings, clock=ManualClock(time.time_ns() // 1_000_000), threaded=False)
    try:
        services.engine.start()
        for each in static:
            _load(services.store, each)
        members: dict[str, Any] = {"query": text, "name": NAME}
        if dialect is not None:
            members["dialect"] = dialect
        description, _ = services.engine.register(Registration.from_json(members))
        for warning in description.get("warnings", ()):
            print(f"# warning: {warning}", flush=True)
        subscription = services.engine.feed(NAME).subscribe(0)
        for stream, file in streams.items():
            services.engine.push(stream, file.read_bytes(), _media_type(file), wait=True)
        if until is not None:
            for stream in streams:
                services.engine.heartbeat(stream, instant_ms(until, "--until"), wait=True)
        services.engine.sync()
        for event in subscription.take():
            print(f"{event.kind} {event.data}")
        state = services.engine.describe(NAME)
        if state["state"] == "failed":
            raise RecordingError(f"the query failed: {state.get('error')}")
    finally:
        services.close()
    return 0


def _media_type(file: Path) -> str:
    known = MEDIA_TYPES.get(file.suffix)
    if known is not None:
        return known
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise RecordingError(
            f"the name of {file} does not tell its format",
            hint="Name it .ndjson, .nq, .nt, .ttl, .trig or .jsonld.",
        )
    return kind.media_type


def _load(store: QuadStore, given: str) -> None:
    """Load ``FILE`` or ``GRAPH=FILE``."""
    graph, _, name = given.rpartition("=")
    file = Path(name)
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise RecordingError(f"the name of {file} does not tell its format")
    try:
        store.load(file.read_bytes(), kind, graph=NamedNode(graph) if graph else None)
    except ValueError as error:
        raise RecordingError(f"--static {given}: {graph!r} is not an IRI") from error
