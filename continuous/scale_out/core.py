"""A continuous query without registry, journal and services: whole instants go in, events come out.

    core = QueryCore(prepared, store)
    core.take({"http://e/s": elements}, until=9_000)      process all elements up to 9,000 ms and the time
    core.events                                           [("insert", '{"at":...}'), ...]

A core starts in some 20 ms. All elements of one instant, of all streams, are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from quadrill.store.documents.statements import to_lines
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.feeds.feed import Feed
from quadrill.store.logs.packing import pack, unpack
from quadrill.store.quads.quad_store import QuadStore

from ..inputs import Advance, Arrival, Element, StreamInput, StreamTime
from ..output.emission import Event
from ..queries.prepare import EvaluatorChoice, PreparedQuery
from ..queries.running import RunningQuery
from ..queries.snapshot import RECORDS, restore, snapshot_of
from ..settings import EngineSettings

_NO_TIME = StreamTime()


class CoreState(NamedTuple):
    """The state of a core: the packed snapshot of its query, and the quads to which the snapshot refers."""

    packed: bytes
    quads: bytes


class _Collector(Feed):
    """A feed that only collects the events of its query."""

    def __init__(self, name: str, events: list[Event]) -> None:
        super().__init__(name, history=0)
        self._collected = events
        self._number = 0

    def publish(self, events: Sequence[Event], current: Callable[[], str | None] | None = None) -> list[int]:
        """Collect events, and return an id for each."""
        self._collected += events
        self._number += len(events)
        return list(range(self._number - len(events) + 1, self._number + 1))


def open_instants(query: RunningQuery) -> dict[str, int]:
    """Let a query that has taken no input take whole instants; return the lateness of its streams in ms.

    The query no longer waits for disordered elements: the caller of `take_instants` must wait instead.
    """
    inputs = query.timeline.inputs
    inputs.takes_whole_instants = True
    lateness = {iri: view.lateness for iri, view in inputs.views.items()}
    for view in inputs.views.values():
        view.lateness = 0
    return lateness


def take_instants(
    query: RunningQuery,
    elements: Mapping[str, Sequence[Element]],
    until: int,
    now_ms: int,
    *,
    begins: bool = False,
) -> None:
    """Process elements in the order of their instants, then the time up to and including ``until``.

    Args:
        query: a query prepared by `open_instants`.
        elements: the elements of each stream, sorted by event time, at most ``until``.
        until: an instant in milliseconds; all elements up to it must have been given.
        now_ms: the wall-clock time.
        begins: True to begin the query at ``until`` if it has no element yet.
    """
    inputs = query.timeline.inputs
    events: list[StreamInput] = []
    for iri, each in elements.items():
        if each:
            # The time of a stream is unknown until all streams have delivered their elements: with a single
            # stream, elements that are in order pass without a wait.
            after = StreamTime(seen=each[-1].event_time) if len(inputs.views) == 1 else _NO_TIME
            events.append(Arrival(iri, tuple(each), _NO_TIME, after))
    if inputs.streams and (events or begins or query.timeline.instant is not None):
        events.append(Advance(inputs.streams[0], StreamTime(floor=until)))
    if events:
        query.handle(events, now_ms)


class QueryCore:
    """One query that evaluates instants in order.

    Attributes:
        query: the query, which no service knows.
        events: the events since the caller last cleared the list, in order.
        streams: the IRIs of the query's streams, in text order.
        lateness_ms: how long the query waits for the elements of each stream, by IRI; the caller must wait.
    """

    def __init__(
        self,
        prepared: PreparedQuery,
        store: QuadStore,
        settings: EngineSettings,
        *,
        now_ms: int = 0,
        state: CoreState | None = None,
    ) -> None:
        """Create a core with the static data of a store, or restore it from a state of the same query."""
        self.events: list[Event] = []
        evaluator = EvaluatorChoice(engines=settings.engines)(prepared, store, frozenset())
        name = prepared.name or ""
        self.query = RunningQuery(name, prepared, evaluator, _Collector(name, self.events), settings, now_ms)
        self._now = now_ms
        if state is not None:
            table = parse_stored_quads(state.quads)
            self.query.static.catch_up(on_request=False)
            restore(self.query, unpack(state.packed, table, RECORDS))
        self.lateness_ms = open_instants(self.query)
        if state is None:
            self.query.begin(now_ms)

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the streams that the query reads now, in text order."""
        return self.query.timeline.inputs.streams

    def add_stream(self, iri: str) -> None:
        """Let windows whose stream is a variable read a stream."""
        timeline = self.query.timeline
        timeline.add_stream(iri)
        if iri in timeline.inputs.views:
            timeline.inputs.views[iri].lateness = 0

    def start(self, origin: int) -> None:
        """Begin at an instant that precedes the first element, so that windows have its grid."""
        if self.query.timeline.instant is None:
            self.query.timeline.start(origin)

    def take(self, elements: Mapping[str, Sequence[Element]], until: int) -> None:
        """Process whole instants; see `take_instants`."""
        take_instants(self.query, elements, until, self._now)

    def state(self) -> CoreState:
        """Return the state of the core between two instants."""
        packed, quads = pack(snapshot_of(self.query, {}), RECORDS)
        return CoreState(packed, to_lines(quads))

    def close(self) -> None:
        """Release the tables and terms of the query."""
        self.query.evaluator.close()
