"""Evaluation of a registered query over recordings, instant by instant."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import reason_of
from quadrill.continuous.inputs import Element
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.scale_out.core import open_instants, take_instants
from quadrill.continuous.scale_out.recordings import RecordingError, read_elements, recorded_files
from quadrill.store.documents.times import format_instant

_AT_ONCE = 10_000
"""Number of elements after which waiting events are printed; an instant is never cut."""


def play(
    engine: Engine,
    name: str,
    streams: Mapping[str, str],
    until: int | None,
    printed: Callable[[], None],
    late: str = "admit",
) -> None:
    """Let a query evaluate all instants that the recordings of its streams have reached.

    The watermark of a stream is its greatest event time minus its lateness, or ``until`` if that is later.
    The query reaches the least watermark of the streams that have elements or a heartbeat; later elements
    wait for ever. Recordings without event times arrive one after the other, at the time of this call. The
    function ``printed`` is called after some thousand elements.

    An element is late if its time is below the greatest time before it in its recording, minus the lateness.
    With ``late`` as ``admit``, late elements take their place by time, with ``drop`` they are left out and
    counted on standard error, and with ``error`` the first one raises RecordingError.
    """
    query = _running(engine, name)
    lateness = open_instants(query)
    now = time.time_ns() // 1_000_000
    recorded: dict[str, list[Element]] = {}
    reached: list[int] = []
    for arrival, (stream, source) in enumerate(streams.items(), now):
        iri = _iri_of(engine, query, stream)
        elements = recorded.setdefault(iri, [])
        order = _LateElements(iri, lateness.get(iri, 0), late)
        marks: list[int] = []
        for file in recorded_files(source):
            for each in read_elements(file, iri):
                at = arrival if each.at is None else each.at
                marks += [now + len(streams)] if each.at is None and not marks else []
                if order.leaves_out(at):
                    continue
                elements.append(Element(each.statements, at, len(elements) + 1))
        order.report()
        elements.sort(key=lambda element: element.event_time)
        marks += [elements[-1].event_time - lateness.get(iri, 0)] if elements else []
        marks += [] if until is None else [until]
        reached += [max(marks)] if marks else []
    if not reached:
        return
    end = min(reached)
    try:
        for part, last in _parts(recorded, end):
            take_instants(query, part, last, now, begins=until is not None and last == end)
            printed()
    except Exception as error:
        query.fail(error)
        raise RecordingError(f"the query failed: {reason_of(error)[0]}") from error


class _LateElements:
    """The late elements of one recording, by the policy ``late`` of `play`."""

    def __init__(self, stream: str, lateness_ms: int, policy: str) -> None:
        self._stream = stream
        self._lateness_ms = lateness_ms
        self._policy = policy
        self._newest: int | None = None
        self._dropped = 0

    def leaves_out(self, at: int) -> bool:
        """Take the event time of the next element; return True if the element is late and is dropped."""
        if self._newest is None or at > self._newest:
            self._newest = at
        if self._policy == "admit" or at >= self._newest - self._lateness_ms:
            return False
        if self._policy == "error":
            mark = format_instant(self._newest - self._lateness_ms)
            raise RecordingError(
                f"an element of <{self._stream}> of {format_instant(at)} is late: the watermark is {mark}",
                hint="Give --option lateness=, or --option late=admit or late=drop.",
            )
        self._dropped += 1
        return True

    def report(self) -> None:
        """Print the number of dropped elements on standard error, if there are any."""
        if self._dropped:
            were = "1 late element was" if self._dropped == 1 else f"{self._dropped} late elements were"
            print(f"# {were} dropped from <{self._stream}>", file=sys.stderr, flush=True)


def _running(engine: Engine, name: str) -> RunningQuery:
    entry = engine.parts.catalogue.get(name)
    if entry.running is None:
        raise RecordingError(f"the query did not begin: {entry.error or entry.state}")
    return entry.running


def _iri_of(engine: Engine, query: RunningQuery, stream: str) -> str:
    """Return the IRI of a stream, and let windows whose stream is a variable read the stream."""
    state = engine.parts.streams.find(stream)
    iri = state.iri if state is not None else stream if ":" in stream else engine.settings.base_iri + stream
    query.timeline.add_stream(iri)
    return iri


def _parts(
    recorded: Mapping[str, Sequence[Element]], end: int
) -> list[tuple[dict[str, Sequence[Element]], int]]:
    """Cut the elements up to ``end`` into parts of whole instants, each with its last instant."""
    instants = sorted(each.event_time for elements in recorded.values() for each in elements)
    ends = [at for at in instants[_AT_ONCE::_AT_ONCE] if at < end]
    parts: list[tuple[dict[str, Sequence[Element]], int]] = []
    places = dict.fromkeys(recorded, 0)
    for last in dict.fromkeys([*ends, end]):
        part: dict[str, Sequence[Element]] = {}
        for iri, elements in recorded.items():
            first = place = places[iri]
            while place < len(elements) and elements[place].event_time <= last:
                place += 1
            part[iri], places[iri] = elements[first:place], place
        parts.append((part, last))
    return parts
