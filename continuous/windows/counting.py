"""Step 4 of 8: windows that count: ``[TRIPLES n]``, ``[RANGE TRIPLES n]``, ``[ELEMENTS n STEP m]``."""

from __future__ import annotations

from bisect import insort
from collections import deque

from ..element import Element
from .operator import ORDER, WindowOperator
from .snapshots import BatchSnapshot, ElementsSnapshot, OccurrencesSnapshot, TriplesSnapshot


class TriplesWindow(WindowOperator):
    """``[TRIPLES n]``: the n newest triple occurrences of the stream, before any pattern.

    Occurrences are ordered by (event_time, seq, place in the element); the content is their set.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        # The elements that they are of; of the first one the newest triples may be left.
        self._elements: deque[Element] = deque()
        self._occurrences = 0

    def add(self, element: Element) -> bool:
        """The newest triples push out the oldest."""
        if element.quads:
            self._elements.append(element)
            self._enter(element)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """An older element takes its place among the n newest, if it still has one."""
        if not element.quads:
            return False
        insort(self._elements, element, key=ORDER)
        self._enter(element)
        return any(each.seq == element.seq for each in self._elements)

    def state_size(self) -> int:
        """Occurrences held."""
        return self._occurrences

    def snapshot(self) -> TriplesSnapshot:
        """The window as a value, for a checkpoint."""
        occurrences = OccurrencesSnapshot(self._elements, 0, self._occurrences)
        return TriplesSnapshot(self.live.snapshot(), occurrences)

    def restore(self, snapshot: TriplesSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._elements, self._occurrences = _read(snapshot.occurrences), snapshot.occurrences.number

    def _enter(self, element: Element) -> None:
        self.live.add(element)
        self._occurrences += len(element.quads)
        surplus = self._occurrences - self._count
        if surplus > 0:
            for oldest in _first_triples(self._elements, surplus):
                self.live.remove(oldest)
            self._occurrences = self._count


class BatchWindow(WindowOperator):
    """``[RANGE TRIPLES n]``: tumbling batches of n triples; each n-th triple closes one."""

    def __init__(self, count: int) -> None:
        self._count = count
        # The triples behind the last full batch, and those of the batch shown; elements may be in parts.
        self._filling: deque[Element] = deque()
        self._occurrences = 0
        self._shown: deque[Element] = deque()

    def add(self, element: Element) -> bool:
        """Fill batches; the full ones wait for `close_next`."""
        if element.quads:
            self._filling.append(element)
            self._occurrences += len(element.quads)
        return False

    def close_next(self) -> bool:
        """Show the next full batch."""
        if self._occurrences < self._count:
            return False
        old, self._shown = self._shown, _first_triples(self._filling, self._count)
        self._occurrences -= self._count
        # Enter before leaving, so that a quad of both batches is no change.
        for element in self._shown:
            self.live.add(element)
        for element in old:
            self.live.remove(element)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """An older element joins the batch being filled."""
        return self.add(element)

    def state_size(self) -> int:
        """Triples of the batch shown and of the one being filled."""
        return len(self.live) + self._occurrences

    def snapshot(self) -> BatchSnapshot:
        """The window as a value, for a checkpoint."""
        filling = OccurrencesSnapshot(self._filling, 0, self._occurrences)
        shown = OccurrencesSnapshot(self._shown, 0, self._count if self._shown else 0)
        return BatchSnapshot(self.live.snapshot(), filling, shown)

    def restore(self, snapshot: BatchSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._filling, self._occurrences = _read(snapshot.filling), snapshot.filling.number
        self._shown = _read(snapshot.shown)


class ElementsWindow(WindowOperator):
    """``[ELEMENTS n STEP m]``: the n newest elements, closing at every m-th element."""

    def __init__(self, count: int, step: int = 1) -> None:
        self._count = count
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
        self._place(self._newest, element)
        if not self._shown:
            return False
        left = self._place(self._shown, element)
        if left is element:
            return False
        self.live.add(element)
        if left is not None:
            self.live.remove(left)
        return True

    def state_size(self) -> int:
        """Quads of the elements held."""
        return len(self.live) + sum(len(element.quads) for element in self._newest)

    def snapshot(self) -> ElementsSnapshot:
        """The window as a value, for a checkpoint."""
        content = self.live.snapshot()
        return ElementsSnapshot(content, self._newest, self._shown, self._since_close, self._due)

    def restore(self, snapshot: ElementsSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._newest, self._shown = deque(snapshot.newest), deque(snapshot.shown)
        self._since_close, self._due = snapshot.since_close, snapshot.due

    def _place(self, elements: deque[Element], element: Element) -> Element | None:
        """Put an element among the newest ones; the one that leaves them for it."""
        insort(elements, element, key=ORDER)
        return elements.popleft() if len(elements) > self._count else None


def _first_triples(elements: deque[Element], count: int) -> deque[Element]:
    """Take the first ``count`` triples from some elements, the last of them as a part of its element."""
    taken: deque[Element] = deque()
    while count:
        element = elements.popleft()
        quads, at, seq = element.quads, element.event_time, element.seq
        if len(quads) > count:
            element = Element(quads[:count], at, seq)
            elements.appendleft(Element(quads[count:], at, seq))
        taken.append(element)
        count -= len(element.quads)
    return taken


def _read(snapshot: OccurrencesSnapshot) -> deque[Element]:
    """The elements of some triples, the first and the last one as far as they are meant."""
    elements = deque(snapshot.elements)
    _first_triples(elements, snapshot.first)
    return _first_triples(elements, snapshot.number)
