"""Step 4 of 8: windows whose content follows time without a grid: NOW, RANGE and ALL."""

from __future__ import annotations

from bisect import insort
from collections import deque

from ..element import Element
from .live import Holding
from .operator import Interval
from .snapshots import AllSnapshot, RangeSnapshot


def _order(element: Element) -> tuple[int, int]:
    return element.event_time, element.seq


class RangeWindow(Holding):
    """``[RANGE w]`` and ``[NOW]``: the elements of the last ``width_ms`` milliseconds.

    Content at t:  t - width_ms <= event_time <= t  (2011 paper, section 3.2), NOW being width 0;
    with ``open_start``  t - width_ms < event_time <= t.

        event_time  10        20
        RANGE 5     [10 .. 15]   leaves at 16          with open_start   [10 .. 14]   leaves at 15
    """

    closes = False
    closes_after = False
    closed: Interval | None = None

    def __init__(self, width_ms: int, *, open_start: bool = False) -> None:
        super().__init__()
        if width_ms < 0:
            raise ValueError(f"window width {width_ms} ms must not be negative")
        # An element of event time e is out from e + stay on. [NOW] is one instant under both bounds.
        self._stay = max(1, width_ms if open_start else width_ms + 1)
        self._elements: deque[Element] = deque()

    @property
    def stay(self) -> int | None:
        """How long after its event time an element is out."""
        return self._stay

    def start(self, origin: int) -> None:
        """Nothing to do: the content depends on the instant alone."""

    def next_due(self) -> int | None:
        """The instant at which the oldest element leaves."""
        return self._elements[0].event_time + self._stay if self._elements else None

    def advance(self, instant: int) -> bool:
        """Let leave what is too old at ``instant``."""
        left = False
        while self._elements and self._elements[0].event_time + self._stay <= instant:
            self.live.remove(self._elements.popleft())
            left = True
        return left

    def add(self, element: Element) -> bool:
        """The element enters at its event time."""
        self._elements.append(element)
        self.live.add(element)
        return True

    def close_next(self) -> bool:
        """This window never closes."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """The element enters if the window still holds its time."""
        if element.event_time + self._stay <= instant:
            return False
        elements = list(self._elements)
        insort(elements, element, key=_order)
        self._elements = deque(elements)
        self.live.add(element)
        return True

    def state_size(self) -> int:
        """Live quads."""
        return len(self.live)

    def snapshot(self) -> RangeSnapshot:
        """What it has become."""
        return RangeSnapshot(self.live.snapshot(), self._elements)

    def restore(self, snapshot: RangeSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
        self._elements = deque(snapshot.elements)


class AllWindow(Holding):
    """``[ALL]``: everything since registration. Its state is unbounded, EXPLAIN warns of it."""

    closes = False
    closes_after = False
    closed: Interval | None = None

    def start(self, origin: int) -> None:
        """Nothing to do."""

    def next_due(self) -> int | None:
        """Never."""
        return None

    def advance(self, instant: int) -> bool:
        """Nothing leaves."""
        return False

    def add(self, element: Element) -> bool:
        """The element enters for good."""
        self.live.add(element)
        return True

    def close_next(self) -> bool:
        """This window never closes."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """The element enters for good."""
        return self.add(element)

    def state_size(self) -> int:
        """Live quads."""
        return len(self.live)

    def snapshot(self) -> AllSnapshot:
        """What it has become."""
        return AllSnapshot(self.live.snapshot())

    def restore(self, snapshot: AllSnapshot) -> None:
        """Go on from a snapshot."""
        self.live.restore(snapshot.content)
