"""Windows by count of triples or elements (evaluation step 4 of 8).

The texts of windows by count are ``[TRIPLES n]``, ``[RANGE TRIPLES n]`` and ``[ELEMENTS n STEP m]``.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from ..inputs import Element
from .operator import ORDER, WindowOperator, WindowState


@dataclass(slots=True)
class TripleRange:
    """A run of ``number`` triples in consecutive elements, from triple ``first`` of the first element on."""

    elements: deque[Element] = field(default_factory=deque)
    first: int = 0
    number: int = 0

    def __copy__(self) -> TripleRange:
        return TripleRange(self.elements.copy(), self.first, self.number)

    def add(self, element: Element) -> None:
        """Append the triples of an element to the run."""
        if element.statements:
            self.elements.append(element)
            self.number += len(element.statements)

    def take(self, number: int) -> list[Element]:
        """Remove the first ``number`` triples and return them as elements.

        An element of the run that is partly removed is split.
        """
        taken = []
        self.number -= number
        while number > 0:
            element, begin = self.elements[0], self.first
            cut = element.statements[begin : begin + number]
            number -= len(cut)
            self.first += len(cut)
            if self.first == len(element.statements):
                self.first = 0
                self.elements.popleft()
            whole = len(cut) == len(element.statements)
            taken.append(element if whole else Element(cut, element.event_time, element.seq))
        return taken


@dataclass(slots=True)
class TriplesState(WindowState):
    """State of ``[TRIPLES n]``: ``newest`` contains the triples in the window."""

    newest: TripleRange = field(default_factory=TripleRange)


class TriplesWindow(WindowOperator):
    """``[TRIPLES n]``: the n newest triple occurrences of the stream, whatever pattern reads the window.

    Occurrences of triples in ``[TRIPLES n]`` are ordered by (event_time, seq, position in the element); the
    content is the set of their triples.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.state: TriplesState = TriplesState()

    def add(self, element: Element) -> bool:
        """Add the element's triples to the window, and remove the oldest triples above n."""
        self.state.newest.add(element)
        self._enter(element)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """Insert a late element among the window's n newest triples, if the element is new enough."""
        newest = self.state.newest
        # A partly removed first element shows that the window has its n triples already.
        if not element.statements or (newest.first and ORDER(element) < ORDER(newest.elements[0])):
            return False
        insort(newest.elements, element, key=ORDER)
        newest.number += len(element.statements)
        self._enter(element)
        return any(each.seq == element.seq for each in newest.elements)

    def state_size(self) -> int:
        """Return the number of triple occurrences in the window."""
        return self.state.newest.number

    def _enter(self, element: Element) -> None:
        self.live.add(element)
        newest = self.state.newest
        for oldest in newest.take(max(0, newest.number - self.count)):
            self.live.remove(oldest)


@dataclass(slots=True)
class BatchState(WindowState):
    """State of ``[RANGE TRIPLES n]``: the batch in the window (``shown``), and the triples after it."""

    filling: TripleRange = field(default_factory=TripleRange)
    shown: TripleRange = field(default_factory=TripleRange)


class BatchWindow(WindowOperator):
    """``[RANGE TRIPLES n]``: tumbling batches of n triples; each n-th triple closes a batch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.state: BatchState = BatchState()

    def add(self, element: Element) -> bool:
        """Add the element, late or not, to the batch of triples being filled.

        The method `close_next` closes full batches of triples.
        """
        self.state.filling.add(element)
        return False

    def close_next(self) -> bool:
        """Make the next full batch of triples the content of the window."""
        state = self.state
        if state.filling.number < self._count:
            return False
        old, state.shown = state.shown, TripleRange()
        # Added triples are applied before removed ones, so that a quad in both batches causes no change.
        for element in state.filling.take(self._count):
            state.shown.add(element)
            self.live.add(element)
        for element in old.take(old.number):
            self.live.remove(element)
        return True

    def state_size(self) -> int:
        """Return the number of triples in the visible batch and in the batch being filled."""
        return len(self.live) + self.state.filling.number


@dataclass(slots=True)
class ElementsState(WindowState):
    """State of ``[ELEMENTS n STEP m]``: the newest elements, the visible ones, and a count of elements."""

    newest: deque[Element] = field(default_factory=deque)
    shown: deque[Element] = field(default_factory=deque)
    since_close: int = 0
    due: bool = False


class ElementsWindow(WindowOperator):
    """``[ELEMENTS n STEP m]``: the n newest elements, with a close at every m-th element."""

    def __init__(self, count: int, step: int = 1) -> None:
        self._count = count
        self._step = step
        self.state: ElementsState = ElementsState()

    def add(self, element: Element) -> bool:
        """Add and count the element; each m-th element queues a close."""
        self.state.newest.append(element)
        if len(self.state.newest) > self._count:
            self.state.newest.popleft()
        self.state.since_close += 1
        if self.state.since_close == self._step:
            self.state.since_close = 0
            self.state.due = True
        return False

    def close_next(self) -> bool:
        """Make the n newest elements the content of the window."""
        if not self.state.due:
            return False
        self.state.due = False
        shown = {element.seq for element in self.state.shown}
        kept = {element.seq for element in self.state.newest}
        for element in self.state.newest:
            if element.seq not in shown:
                self.live.add(element)
        for element in self.state.shown:
            if element.seq not in kept:
                self.live.remove(element)
        self.state.shown = deque(self.state.newest)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """Insert a late element among the n newest and the visible elements; no close is counted."""
        self._place(self.state.newest, element)
        if not self.state.shown:
            return False
        left = self._place(self.state.shown, element)
        if left is element:
            return False
        self.live.add(element)
        if left is not None:
            self.live.remove(left)
        return True

    def state_size(self) -> int:
        """Return the number of quads in the window's visible and newest elements."""
        return len(self.live) + sum(len(element.statements) for element in self.state.newest)

    def _place(self, elements: deque[Element], element: Element) -> Element | None:
        """Insert an element into a list; return the oldest element if the list then has more than n."""
        insort(elements, element, key=ORDER)
        return elements.popleft() if len(elements) > self._count else None
