"""Step 4 of 8: windows whose content follows time without a grid: NOW, RANGE and ALL."""

from __future__ import annotations

from bisect import insort
from collections import deque

from ..element import Element
from .operator import ORDER, WindowOperator
from .snapshots import AllSnapshot, RangeSnapshot


class RangeWindow(WindowOperator):
    """``[RANGE w]`` and ``[NOW]``: the elements of the last ``width_ms`` milliseconds.

    Content at t:  t - width_ms <= event_time <= t  (2011 paper, section 3.2), NOW being width 0;
    with ``open_start``  t - width_ms < event_time <= t.

        event_time  10        20
        RANGE 5     [10 .. 15]   leaves at 16          with open_start   [10 .. 14]   leaves at 15
    """

    def __init__(self, width_ms: int, *, open_start: bool = False) -> None:
        if width_ms < 0:
            raise ValueError(f"window width {width_ms} ms must not be negative")
        # An element of event time e is out from e + stay on. [NOW] is one instant under both bounds.
        self.stay: int = max(1, width_ms if open_start else width_ms + 1)
        self._elements: deque[Element] = deque()

    def next_due(self) -> int | None:
        """The instant at which the oldest element leaves."""
        return self._elements[0].event_time + self.stay if self._elements else None

    def advance(self, instant: int) -> bool:
        """Let leave what is too old at ``instant``."""
        left = False
        while self._elements and self._elements[0].event_time + self.stay <= instant:
            self.live.remove(self._elements.popleft())
            left = True
        return left

    def add(self, element: Element) -> bool:
        """The element enters at its event time."""
        self._elements.append(element)
        self.live.add(element)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """The element enters if the window still holds its time."""
        if element.event_time + self.stay <= instant:
            return False
        insort(self._elements, element, key=ORDER)
        self.live.add(element)
        return True

    def snapshot(self) -> RangeSnapshot:
        """What it has become."""
        return RangeSnapshot(self.live.snapshot(), self._elements)

    def restore(self, snapshot: RangeSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._elements = deque(snapshot.elements)


class AllWindow(WindowOperator):
    """``[ALL]``: everything since registration. Its state is unbounded, EXPLAIN warns of it."""

    def add(self, element: Element) -> bool:
        """The element enters for good."""
        self.live.add(element)
        return True

    def admit(self, element: Element, instant: int) -> bool:
        """The element enters for good."""
        return self.add(element)

    def snapshot(self) -> AllSnapshot:
        """What it has become."""
        return AllSnapshot(self.live.snapshot())

    def restore(self, snapshot: AllSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
