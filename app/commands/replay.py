"""Evaluation of a continuous query over recorded files in this process, for ``quadrill run``."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyoxigraph import NamedNode

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.scale_out.recordings import RecordingError, recorded_files
from quadrill.store.documents.members import one_of
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads.quad_store import QuadStore

from ..config import MEMORY, Settings, load_settings
from ..describing.queries import describe
from ..upkeep.garbage import CollectionSchedule
from ..wiring import Services, open_services
from . import challenge
from .event_lines import EventLines, prefixes_of
from .play import play
from .unmatched import unmatched

NAME = "run"


def run_recorded(
    text: str,
    *,
    streams: dict[str, str],
    static: list[str],
    until: int | None,
    form: str = "events",
    options: Mapping[str, Any] = MappingProxyType({}),
    strict: bool = False,
) -> int:
    """Register a query in an engine in memory, evaluate it over recordings and print the results.

    The elements of all streams are processed in the order of their event times. All elements of one instant
    are one transaction, which is evaluated when all streams have reached the instant. Without the time
    ``until``, to which event time advances at the end, the last windows stay open.

    Args:
        text: the query text.
        streams: for each stream, by name or IRI, a file or ``files:FOLDER``.
        static: RDF files to load, each as ``FILE`` or ``GRAPH=FILE``.
        until: an instant in milliseconds; None for none.
        form: ``events`` for one feed event per line, ``rows`` for one row per line, ``json`` for one
            JSON object per event, or ``debs`` for the output lines of the DEBS 2015 challenge.
        options: further members of the registration, and ``late``, the policy for late elements of the
            recordings (see `play`).
        strict: True to evaluate nothing if a stream or graph is read but not given, or given but not read.

    Raises RecordingError for a wrong recording, and InputError for a wrong option.
    """
    members: dict[str, Any] = {"query": text, "name": NAME, **options}
    late = one_of("admit", "drop", "error")(members.pop("late", "admit"), "late")
    if form == "debs":
        members |= challenge.OPTIONS
    with _registered(members, static) as services:
        engine = services.engine
        prepared = engine.queries.prepared(NAME)
        if prepared is not None:
            found = unmatched(engine, services.store, prepared, [*streams], static)
            _report_unmatched(found, strict=strict)
        if form == "debs":
            _challenge(engine, streams)
        else:
            printer = _EventPrinter(engine.queries.feed(NAME), EventLines(form, prefixes_of(text)))
            play(engine, NAME, streams, until, printer.print_waiting, late)
            engine.sync()
            printer.print_waiting()
        state = describe(engine, NAME)
        if state["state"] == "failed":
            raise RecordingError(f"the query failed: {state.get('error')}")
    return 0


class _EventPrinter:
    """Subscriber that collects all events of a feed in memory, and prints them on request."""

    members = 1

    def __init__(self, feed: Feed, form: EventLines) -> None:
        self._form = form
        self._events: deque[StoredEvent] = deque()
        feed.join(self, None, 0)

    def print_waiting(self) -> None:
        """Print the events that the feed has delivered since the last call."""
        while self._events:
            for line in self._form.lines(*self._events.popleft()):
                print(line)

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
def _registered(members: dict[str, Any], static: list[str]) -> Iterator[Services]:
    """Open a store and an engine in memory, load the static files and register the query.

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
        yield services
    finally:
        collections.stop()
        services.close()


def _report_unmatched(found: Sequence[str], *, strict: bool) -> None:
    """Print a warning for each stream or graph that does not match; raise RecordingError if ``strict``."""
    for each in found:
        print(f"# warning: {each}", file=sys.stderr, flush=True)
    if strict and found:
        raise RecordingError(
            "nothing was evaluated, because --strict refuses these warnings",
            hint="Give the streams and graphs that the query reads, and no others.",
        )


def _challenge(engine: Engine, streams: dict[str, str]) -> None:
    if len(streams) != 1:
        raise RecordingError(
            f"--format debs reads one file, here are {len(streams)}", hint="Give --stream Taxi=FILE once."
        )
    ((stream, source),) = streams.items()
    (file,) = recorded_files(source)
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
