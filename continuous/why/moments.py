"""Moments: the contents of a query's windows at past evaluations, from retained inputs of its streams."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from pyoxigraph import Quad

from ..algebra.reports import Evaluation, Step
from ..inputs import Advance, Arrival, Element, StreamInput, WindowContent
from ..queries.prepare import PreparedQuery, new_timeline
from ..windows.query_streams import StreamsOf
from ..windows.timeline import QueryTimeline
from ..windows.window_delta import WindowKey
from .limits import Deadline

ElementKey: TypeAlias = tuple[str, int]
"""The IRI of an element's stream, and its sequence number."""
Contents: TypeAlias = Mapping[WindowKey, WindowContent]


@dataclass(frozen=True, slots=True)
class Moment:
    """One evaluation of a query.

    Attributes:
        at: the instant of the evaluation, in milliseconds of event time.
        contents: the content of each window.
    """

    at: int
    contents: Contents


class Beginning(NamedTuple):
    """The first instant of a query, and the index of the input with which the query began."""

    place: int
    instant: int


class MomentReplay:
    """Processes inputs of a query's streams again, with windows that are empty at first.

    Attributes:
        reached: the first instant of the query; None until a replay has reached it.
    """

    def __init__(
        self,
        prepared: PreparedQuery,
        inputs: Sequence[StreamInput],
        streams_of: StreamsOf | None,
        deadline: Deadline,
        beginning: Beginning | None = None,
    ) -> None:
        """Create a replay.

        Args:
            prepared: the query.
            inputs: the inputs; an arrival without elements stands for an arrival whose elements were left
                out.
            streams_of: returns the streams of windows with a stream variable; None for all.
            deadline: the time at which the replay must end.
            beginning: the first instant of the query, if it does not follow from ``inputs``; otherwise None.
        """
        self._prepared, self._inputs = prepared, inputs
        self._streams_of, self._deadline = streams_of, deadline
        self._beginning = beginning
        self.reached = beginning

    @property
    def empty(self) -> Contents:
        """The empty contents of all windows."""
        return _contents(self._timeline())

    def instants(self, until: int) -> list[int]:
        """Return the instants of all evaluations up to ``until``."""
        return list(takewhile(lambda at: at <= until, (at for at, _ in self._steps())))

    def evaluations(self, until: int) -> Iterator[tuple[int, Contents]]:
        """Yield the instant and the contents of each evaluation up to ``until``.

        The contents are valid until the next item. If commits can evaluate the query, the last item is for
        ``until``, even if no input evaluates the query at this instant.
        """
        if not self._prepared.on_commit:
            yield from takewhile(lambda step: step[0] <= until, self._steps())
            return
        last = len(self.instants(until)) - 1
        if last < 0:
            yield until, self.empty
            return
        for number, (at, contents) in enumerate(self._steps()):
            yield at, contents
            if number == last:
                if at < until:
                    yield until, contents
                return

    def _timeline(self) -> QueryTimeline:
        return new_timeline(self._prepared, variable_streams=self._streams_of)

    def _steps(self) -> Iterator[tuple[int, Contents]]:
        timeline = self._timeline()
        for place, event in enumerate(self._inputs):
            self._deadline.check()
            begun = self._beginning
            if begun is not None and begun.place == place and timeline.instant is None:
                timeline.start(begun.instant)
                yield begun.instant, _contents(timeline)
            for step in self._handle(timeline, event):
                self._note(place, timeline)
                if isinstance(step, Evaluation):
                    timeline.windows.move_ends(step.at)
                    yield step.at, _contents(timeline)
            self._note(place, timeline)

    def _note(self, place: int, timeline: QueryTimeline) -> None:
        if self.reached is None and timeline.origin is not None:
            self.reached = Beginning(place, timeline.origin)

    @staticmethod
    def _handle(timeline: QueryTimeline, event: StreamInput) -> Iterator[Step]:
        if isinstance(event, Arrival) and not event.elements:
            if timeline.instant is None:
                # An arrival that only moves the time does not start a query, but a heartbeat would.
                view = timeline.inputs.views.get(event.stream)
                if view is not None:
                    view.active, view.idle, view.time = True, False, event.after
                return iter(())
            event = Advance(event.stream, event.after)
        return timeline.handle(event)


def _contents(timeline: QueryTimeline) -> Contents:
    return {key: live.content for key, live in timeline.windows.contents}


def moments_at(replay: MomentReplay, at: int, *, before: bool) -> list[Moment]:
    """Return the evaluations at an instant, newest first, and then evaluations before it.

    With ``before``, up to `_MOST_BEFORE` earlier evaluations follow with their own instants, because one of
    them had the deleted row. Otherwise the last earlier evaluation follows with the instant ``at``, because a
    commit may have evaluated the query over the same contents then.
    """
    instants = replay.instants(at)
    earlier = sum(each < at for each in instants)
    first = max(earlier - (_MOST_BEFORE if before else 1), len(instants) - _MOST_MOMENTS)
    found = []
    if first <= 0:
        # Before the first evaluation the windows were empty.
        found.append(Moment(at, replay.empty))
    for number, (instant, contents) in enumerate(replay.evaluations(at)):
        if number >= first:
            copies = {key: dict(content) for key, content in contents.items()}
            found.append(Moment(instant if before else at, copies))
    return found[::-1]


_MOST_MOMENTS = 50
"""Maximum number of evaluations that are compared with one event."""
_MOST_BEFORE = 3
"""Number of evaluations before the instant of a deletion that may have had the row."""


def chosen_inputs(inputs: Sequence[StreamInput], chosen: Collection[ElementKey]) -> list[StreamInput]:
    """Return the inputs with only the chosen elements; heartbeats and the times of arrivals stay."""
    return [
        event._replace(elements=tuple(each for each in event.elements if (event.stream, each.seq) in chosen))
        if isinstance(event, Arrival)
        else event
        for event in inputs
    ]


def newest_elements(inputs: Sequence[StreamInput], most: int) -> list[StreamInput]:
    """Return the newest inputs, with at most ``most`` elements, or the newest input alone.

    The elements are copies, because the originals cache term ids that belong to an engine.
    """
    found: list[StreamInput] = []
    for event in reversed(inputs):
        if isinstance(event, Arrival):
            most -= len(event.elements)
            if most < 0 and found:
                break
            copies = [Element(each.statements, each.event_time, each.seq) for each in event.elements]
            event = event._replace(elements=tuple(copies))
        found.append(event)
    return found[::-1]


class ElementIndex:
    """Finds the elements from which the quads of windows come."""

    def __init__(self, inputs: Sequence[StreamInput]) -> None:
        self.elements: dict[ElementKey, Element] = {
            (event.stream, each.seq): each
            for event in inputs
            if isinstance(event, Arrival)
            for each in event.elements
        }
        self._by_time: dict[tuple[str, int], list[ElementKey]] = {}
        for key, element in self.elements.items():
            self._by_time.setdefault((key[0], element.event_time), []).append(key)

    def source(self, stream: str, quad: Quad, at: int) -> ElementKey | None:
        """Return the newest element of a stream at an event time that has a quad; None without one."""
        for key in reversed(self._by_time.get((stream, at), ())):
            if quad in self.elements[key].quads:
                return key
        return None
