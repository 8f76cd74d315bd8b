"""The order in which a query takes elements: by event time, once its watermark has reached them.

order      (event_time, order of the streams in the text, seq)
watermark  the least of the streams that are not idle and have had an input
late       older than the watermark of its own stream was when it came: dropped, or admitted
behind     in order on its own stream, but the query went on without it
"""

from __future__ import annotations

import heapq
from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice

from ..element import Element
from ..inputs import Arrival, StreamTime
from .operator import ORDER, WindowOperator
from .snapshots import First, StreamViewSnapshot, TimelineSnapshot


@dataclass(slots=True)
class View:
    """A query's view of one of its streams: its place in the text, its time, the windows on it."""

    order: int
    lateness: int
    time: StreamTime = StreamTime()
    active: bool = False
    idle: bool = False
    operators: list[WindowOperator] = field(default_factory=list, compare=False)

    def watermark(self) -> int | None:
        """The watermark of the stream as this query waits for it."""
        return self.time.watermark(self.lateness)


class InputOrder:
    """The streams of one query and the elements of them that wait for its watermark.

    Attributes:
        views: the query's view of each stream, in text order.
        late: elements that came too late.
        behind: elements behind other streams.
        taken: elements that were taken.
        first: where the query was when its first elements came.
        heap: the elements that wait, as (event time, place of the stream, seq, push, element); a push is
            known by the seq of one of its elements.
    """

    def __init__(self) -> None:
        self.views: dict[str, View] = {}
        self.late = 0
        self.behind = 0
        self.taken = 0
        self.first: First | None = None
        self.heap: list[tuple[int, int, int, int, Element]] = []

    def read(self, iri: str, lateness: int) -> View:
        """Read a stream, waiting so long for disordered elements at least."""
        view = self.views.setdefault(iri, View(len(self.views), lateness))
        view.lateness = max(view.lateness, lateness)
        return view

    @property
    def streams(self) -> tuple[str, ...]:
        """The IRIs of the streams read, in text order."""
        return tuple(self.views)

    @property
    def watermark(self) -> int | None:
        """The query's watermark: the least of its non-idle streams that have had an input."""
        active = [(view, view.watermark()) for view in self.views.values() if view.active]
        running = [mark for view, mark in active if not view.idle and mark is not None]
        if running:
            return min(running)
        # All are idle: nothing is waited for.
        return max((mark for _, mark in active if mark is not None), default=None)

    def lag_of(self, stream: str) -> int | None:
        """This query's view of the stream's watermark, None when it has had no input since registration."""
        view = self.views.get(stream)
        return view.watermark() if view is not None and view.active else None

    def __len__(self) -> int:
        """How many elements wait for the watermark."""
        return len(self.heap)

    @property
    def next_at(self) -> int | None:
        """The event time of the next element that waits."""
        return self.heap[0][0] if self.heap else None

    def size(self) -> int:
        """Quads of the elements that wait."""
        return sum(len(entry[4].quads) for entry in self.heap)

    def accept(self, view: View, event: Arrival, instant: int | None) -> list[Element]:
        """Sort an arrival's elements into waiting and late ones; the late ones in time order."""
        push = event.elements[0].seq
        if self.first is None:
            place = None if self.taken or self.heap else (push, instant)
            self.first = First(event.before.newest, place)
        before = event.before.watermark(view.lateness)
        view.active, view.idle = True, False
        late = []
        for element in event.elements:
            if instant is not None and before is not None and element.event_time < before:
                if event.admit_late:
                    late.append(element)
                else:
                    self.late += 1
            elif instant is not None and element.event_time < instant:
                # In order on its own stream, but the query went on without it.
                self.behind += 1
                late.append(element)
            else:
                entry = (element.event_time, view.order, element.seq, push, element)
                heapq.heappush(self.heap, entry)
        return sorted(late, key=ORDER)

    def take(self) -> tuple[View, list[Element]]:
        """All elements of the next push with one event time, and their stream."""
        event_time, order, _, push, element = heapq.heappop(self.heap)
        elements = [element]
        while self.heap and self.heap[0][:2] == (event_time, order) and self.heap[0][3] == push:
            elements.append(heapq.heappop(self.heap)[4])
        self.taken += len(elements)
        return next(islice(self.views.values(), order, None)), elements

    def snapshot(self) -> tuple[dict[str, StreamViewSnapshot], deque[Element], list[int], list[int]]:
        """What is known of each stream; the elements that wait, and the place and push of each."""
        streams = {
            stream: StreamViewSnapshot(view.lateness, view.time, view.active, view.idle)
            for stream, view in self.views.items()
        }
        waiting = sorted(self.heap)
        elements = deque(entry[4] for entry in waiting)
        return streams, elements, [entry[1] for entry in waiting], [entry[3] for entry in waiting]

    def restore(self, snapshot: TimelineSnapshot) -> None:
        """Go on from a snapshot; windows are still to be put on the streams."""
        self.views = {
            stream: View(order, view.lateness, view.time, view.active, view.idle)
            for order, (stream, view) in enumerate(snapshot.streams.items())
        }
        self.first = snapshot.first
        self.late, self.behind, self.taken = snapshot.late, snapshot.behind, snapshot.taken
        # Earlier releases had other numbers for pushes.
        known: dict[tuple[int, int], int] = {}
        self.heap = [
            (each.event_time, order, each.seq, known.setdefault((order, push), each.seq), each)
            for each, order, push in zip(snapshot.waiting, snapshot.orders, snapshot.pushes, strict=True)
        ]

    def fork(self) -> InputOrder:
        """The same, to go on from here for itself; windows are still to be put on the streams."""
        other = copy(self)
        other.views = {stream: replace(view, operators=[]) for stream, view in self.views.items()}
        other.heap = list(self.heap)
        return other
