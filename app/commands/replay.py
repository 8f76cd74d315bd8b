"""Evaluation of a continuous query over recorded files in this process, for ``quadrill run``."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.documents.statements import lines_of
from quadrill.store.errors import ReportedError
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.formats import guess_rdf_format
from quadrill.store.pushes.decode import DecodedElement, DecodeOptions, decode
from quadrill.store.quads.quad_store import QuadStore

from ..config import MEMORY, Settings, load_settings
from ..describing.queries import describe
from ..upkeep.garbage import CollectionSchedule
from ..wiring import open_services
from . import challenge, tables

NAME = "run"
MEDIA_TYPES = {".ndjson": "application/x-ndjson", ".jsonl": "application/x-ndjson"}


class RecordingError(ReportedError):
    """Error that a recorded file cannot be read or pushed."""

    code = "recording"


def run_recorded(
    text: str,
    *,
    dialect: str | None,
    streams: dict[str, Path],
    static: list[str],
    until: int | None,
    form: str = "events",
) -> int:
    """Register a query in an engine in memory, push the recorded files to its streams and print the results.

    Elements of several streams are pushed in the order of their event times. As with a server, the results of
    an instant are emitted when all streams have reached the instant. Without the time ``until``, to which
    event time advances at the end, the last windows stay open. The output ``form`` is ``events`` for one feed
    event per line, ``rows`` for one row per line, or ``debs`` for the output lines of the DEBS 2015
    challenge.
    """
    members: dict[str, Any] = {"query": text, "name": NAME}
    if dialect is not None:
        members["dialect"] = dialect
    if form == "debs":
        members |= challenge.OPTIONS
    with _registered(members, static) as engine:
        _check_streams(engine, streams, form)
        if form == "debs":
            _challenge(engine, streams)
        else:
            printer = _EventPrinter(engine.queries.feed(NAME), form)
            _play(engine, streams, printer)
            if until is not None:
                for stream in streams:
                    engine.streams.heartbeat(stream, until, wait=True)
                    printer.print_waiting()
            engine.sync()
            printer.print_waiting()
        state = describe(engine, NAME)
        if state["state"] == "failed":
            raise RecordingError(f"the query failed: {state.get('error')}")
    return 0


class _EventPrinter:
    """Subscriber that collects all events of a feed in memory, and prints them on request."""

    members = 1

    def __init__(self, feed: Feed, form: str) -> None:
        self._form = form
        self._events: deque[StoredEvent] = deque()
        feed.join(self, None, 0)

    def print_waiting(self) -> None:
        """Print the events that the feed has delivered since the last call."""
        while self._events:
            event = self._events.popleft()
            print(tables.event_text(event.kind, event.data, self._form))

    def welcome(self, _: Any, first: Sequence[StoredEvent], __: bool) -> bool:
        """Accept the events that the feed has stored, as a new subscriber."""
        return self.offer(first)

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Accept new events of the feed; return True, because no event is ever rejected."""
        self._events.extend(events)
        return True

    def end(self) -> None:
        """Do nothing at the end of the query's feed."""


@contextmanager
def _registered(members: dict[str, Any], static: list[str]) -> Iterator[Engine]:
    """Open an engine in memory, load the static files and register the query.

    The engine evaluates the query on the thread that pushes elements.
    """
    settings = Settings(
        data=MEMORY,
        extensions=load_settings().extensions,
        max_queue_elements=1 << 30,
        max_push_elements=1 << 30,
        feed_history=1 << 30,
    )
    services = open_services(settings, clock=ManualClock(time.time_ns() // 1_000_000), threaded=False)
    collections = CollectionSchedule()
    try:
        services.engine.start()
        for each in static:
            _load(services.store, each)
        services.engine.queries.register(Registration.from_json(members))
        for warning in describe(services.engine, NAME)["warnings"]:
            print(f"# warning: {warning}", file=sys.stderr, flush=True)
        collections.start()
        services.pages.start()
        yield services.engine
    finally:
        collections.stop()
        services.close()


def _check_streams(engine: Engine, streams: dict[str, Path], form: str) -> None:
    """Raise RecordingError for a recording of a stream that the query does not read."""
    if form == "debs" and len(streams) != 1:
        raise RecordingError(
            f"--format debs reads one file, here are {len(streams)}", hint="Give --stream Taxi=FILE once."
        )
    description = describe(engine, NAME)
    if any(window["stream"].startswith("?") for window in description["windows"]):
        return
    read = [known for stream in description["streams"] for known in (stream["name"], stream["iri"])]
    for name in streams:
        if name not in read:
            raise RecordingError(
                f"the query does not read the stream {name}",
                hint=f"It reads {', '.join(stream['iri'] for stream in description['streams']) or 'none'}.",
            )


def _play(engine: Engine, streams: dict[str, Path], printer: _EventPrinter) -> None:
    """Push the recorded elements in the order of their event times.

    In a replay of recorded files, a stream without elements delays no other stream. If recorded files were
    pushed one after the other, the first stream would therefore run ahead of the second one in event time.
    Elements of one stream with equal event times are one push. At equal event times, streams are pushed in
    the order of the query text. A recorded file whose elements have no event times is one push after all
    other files.
    """
    bodies = {stream: (file.read_bytes(), _media_type(file)) for stream, file in streams.items()}
    if len(bodies) > 1:
        order = [known for read in describe(engine, NAME)["streams"] for known in (read["iri"], read["name"])]
        timed: list[tuple[int, int, str, DecodedElement]] = []
        for stream, (body, media_type) in list(bodies.items()):
            elements = decode(body, media_type, DecodeOptions()).elements
            if all(each.at is not None for each in elements):
                place = order.index(stream) if stream in order else len(order)
                timed += [(each.at, place, stream, each) for each in elements if each.at is not None]
                del bodies[stream]
        timed.sort(key=lambda entry: entry[:3])
        for (at, _, stream), group in groupby(timed, key=lambda entry: entry[:3]):
            lines = [{"at": at, "data": lines_of(element.statements)} for _, _, _, element in group]
            engine.streams.push(
                PushCall(stream, MEDIA_TYPES[".ndjson"]), "\n".join(map(json.dumps, lines)).encode()
            )
            printer.print_waiting()
    for stream, (body, media_type) in bodies.items():
        engine.streams.push(PushCall(stream, media_type, wait=True), body)
        printer.print_waiting()


def _challenge(engine: Engine, streams: dict[str, Path]) -> None:
    ((stream, file),) = streams.items()
    listener = challenge.DelayRecorder(engine.queries.feed(NAME), sys.stdout)
    batch = challenge.batch_limit(describe(engine, NAME))
    begin = time.perf_counter()
    with file.open(encoding="utf-8") as lines:
        number = challenge.follow(engine, stream, challenge.reports(lines), [listener], batch)
    seconds, delays = time.perf_counter() - begin, listener.delays
    mean = sum(delays) / len(delays) if delays else 0.0
    print(
        f"{number} reports in {seconds:.2f} s, {len(delays)} lines, mean delay {mean:.3f} ms",
        file=sys.stderr,
    )


def _media_type(file: Path) -> str:
    known = MEDIA_TYPES.get(file.suffix)
    if known is not None:
        return known
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise RecordingError(
            f"the ending of {file} names no known format",
            hint="Name it .ndjson, .nq, .nt, .ttl, .trig or .jsonld.",
        )
    return kind.media_type


def _load(store: QuadStore, given: str) -> None:
    """Load an RDF file into the store; the option is ``FILE``, or ``GRAPH=FILE`` for a named graph."""
    graph, _, name = given.rpartition("=")
    file = Path(name)
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise RecordingError(f"the ending of {file} names no known format")
    try:
        store.writer.load(file.read_bytes(), kind, graph=NamedNode(graph) if graph else None)
    except ValueError as error:
        raise RecordingError(f"--static {given}: {graph!r} is not an IRI") from error
