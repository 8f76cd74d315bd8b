"""Step 4 of 8: windows that count: ``[TRIPLES n]``, ``[RANGE TRIPLES n]``, ``[ELEMENTS n STEP m]``."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from itertools import chain, groupby, islice
from typing import TypeAlias

from ..element import Element
from .live import Holding, occurrences_of
from .operator import Interval
from .snapshots import BatchSnapshot, ElementsSnapshot, OccurrencesSnapshot, TriplesSnapshot

Occurrence: TypeAlias = tuple[Element, int]
"""One quad of an element, by its place in it."""


def _order(element: Element) -> tuple[int, int]:
    return element.event_time, element.seq


def _place(occurrence: Occurrence) -> tuple[int, int, int]:
    element, place = occurrence
    return element.event_time, element.seq, place


def _occurrences(element: Element) -> list[Occurrence]:
    return [(element, place) for place in range(len(element.quads))]


def _written(occurrences: Iterable[Occurrence]) -> OccurrencesSnapshot:
    held = list(occurrences)
    elements = deque(element for element, _ in groupby(element for element, _ in held))
    return OccurrencesSnapshot(elements, held[0][1] if held else 0, len(held))


def _read(snapshot: OccurrencesSnapshot) -> Iterable[Occurrence]:
    occurrences = chain.from_iterable(_occurrences(element) for element in snapshot.elements)
    return islice(occurrences, snapshot.first, snapshot.first + snapshot.count)


class _Counting(Holding):
    """What counting windows share: no instants of their own, no bounds."""

    closes_after = False
    closed: Interval | None = None

    def __init__(self, count: int) -> None:
        super().__init__()
        if count < 1:
            raise ValueError(f"window of {count} must hold at least 1")
        self._count = count

    def start(self, origin: int) -> None:
        """Nothing to do: time plays no part."""

    def next_due(self) -> int | None:
        """None: a window that counts is never due by time."""
        return None

    def advance(self, instant: int) -> bool:
        """Time changes nothing."""
        return False


class TriplesWindow(_Counting):
    """``[TRIPLES n]``: the n newest triple occurrences of the stream, before any pattern.

    Occurrences are ordered by (event_time, seq, place in the element); the content is their set.
    """

    closes = False

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._occurrences: deque[Occurrence] = deque()

    def add(self, element: Element) -> bool:
        """The newest triples push out the oldest."""
        self._occurrences.extend(_occurrences(element))
        self.live.add(element)
        self._trim()
        return True

    def close_next(self) -> bool:
        """This window never closes."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """An older element takes its place among the n newest, if it still has one."""
        occurrences = list(self._occurrences)
        for occurrence in _occurrences(element):
            insort(occurrences, occurrence, key=_place)
        self._occurrences = deque(occurrences)
        self.live.add(element)
        left = self._trim()
        return any(each.seq != element.seq for each, _ in left) or len(left) < len(element.quads)

    def state_size(self) -> int:
        """Occurrences held."""
        return len(self._occurrences)

    def snapshot(self) -> TriplesSnapshot:
        """The window as a value, for a checkpoint."""
        return TriplesSnapshot(self.live.snapshot(), _written(self._occurrences))

    def restore(self, snapshot: TriplesSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._occurrences = deque(_read(snapshot.occurrences))

    def _trim(self) -> list[Occurrence]:
        left = []
        while len(self._occurrences) > self._count:
            element, place = occurrence = self._occurrences.popleft()
            left.append(occurrence)
            self.live.leave(self.live.keys(element)[place])
        return left


class BatchWindow(_Counting):
    """``[RANGE TRIPLES n]``: tumbling batches of n triples; each n-th triple closes one."""

    closes = True

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._filling: deque[Occurrence] = deque()
        self._shown: list[Occurrence] = []

    def add(self, element: Element) -> bool:
        """Fill batches; the full ones wait for `close_next`."""
        self._filling.extend(_occurrences(element))
        return False

    def close_next(self) -> bool:
        """Show the next full batch."""
        if len(self._filling) < self._count:
            return False
        old = self._shown
        self._shown = [self._filling.popleft() for _ in range(self._count)]
        # Enter before leaving, so that a quad of both batches is no change.
        for element, place in self._shown:
            self.live.enter(self.live.keys(element)[place], element.event_time)
        for element, place in old:
            self.live.leave(self.live.keys(element)[place])
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """An older element joins the batch being filled."""
        return self.add(element)

    def state_size(self) -> int:
        """Triples of the batch shown and of the one being filled."""
        return len(self.live) + len(self._filling)

    def snapshot(self) -> BatchSnapshot:
        """The window as a value, for a checkpoint."""
        return BatchSnapshot(self.live.snapshot(), _written(self._filling), _written(self._shown))

    def restore(self, snapshot: BatchSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._filling, self._shown = deque(_read(snapshot.filling)), list(_read(snapshot.shown))


class ElementsWindow(_Counting):
    """``[ELEMENTS n STEP m]``: the n newest elements, closing at every m-th element."""

    closes = True

    def __init__(self, count: int, step: int = 1) -> None:
        super().__init__(count)
        if step < 1:
            raise ValueError(f"step of {step} elements must be at least 1")
        self._step = step
        self._since_close = 0
        self._newest: deque[Element] = deque()
        self._shown: deque[Element] = deque()
        self._due = False

    def add(self, element: Element) -> bool:
        """Count the element; each m-th queues a close."""
        self._newest.append(element)
        if len(self._newest) > self._count:
            self._newest.popleft()
        self._since_close += 1
        if self._since_close == self._step:
            self._since_close = 0
            self._due = True
        return False

    def close_next(self) -> bool:
        """Show the n newest elements."""
        if not self._due:
            return False
        self._due = False
        shown = {element.seq for element in self._shown}
        kept = {element.seq for element in self._newest}
        for element in self._newest:
            if element.seq not in shown:
                self.live.add(element)
        for element in self._shown:
            if element.seq not in kept:
                self.live.remove(element)
        self._shown = deque(self._newest)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """An older element takes its place among the n newest and among those shown; it closes nothing."""
        self._newest, _ = self._placed(self._newest, element)
        before = self._shown
        if not before:
            return False
        self._shown, left = self._placed(before, element)
        if left is element:
            return False
        self.live.add(element)
        if left is not None:
            self.live.remove(left)
        return True

    def state_size(self) -> int:
        """Quads of the elements held."""
        return len(self.live) + occurrences_of(self._newest)

    def snapshot(self) -> ElementsSnapshot:
        """The window as a value, for a checkpoint."""
        content = self.live.snapshot()
        return ElementsSnapshot(content, self._newest, self._shown, self._since_close, self._due)

    def restore(self, snapshot: ElementsSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._newest, self._shown = deque(snapshot.newest), deque(snapshot.shown)
        self._since_close, self._due = snapshot.since_close, snapshot.due

    def _placed(self, elements: deque[Element], element: Element) -> tuple[deque[Element], Element | None]:
        ordered = list(elements)
        insort(ordered, element, key=_order)
        left = ordered.pop(0) if len(ordered) > self._count else None
        return deque(ordered), left
