"""Windows on a grid of event time (evaluation step 4 of 8): ``[RANGE w SLIDE s]``, ``[RANGE w STEP s]``."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from ..algebra.reports import Interval
from ..inputs import Element
from .operator import ORDER, WindowOperator, WindowState


@dataclass(slots=True)
class GridState(WindowState):
    """The elements in the visible window, and the elements ``waiting`` for later windows, in order.

    An element that has left the visible window is not in any later window.
    """

    shown: deque[Element] = field(default_factory=deque)
    waiting: deque[Element] = field(default_factory=deque)
    next_close: int | None = None
    closed: Interval | None = None
    waiting_quads: int = field(init=False)

    def __post_init__(self) -> None:
        self.waiting_quads = sum(len(element.statements) for element in self.waiting)


@dataclass(eq=False, repr=False)
class GridWindow(WindowOperator):
    """A window on a grid of event time with step ``slide_ms``; its content is the last closed window.

    Window k covers  [t0 + k*slide, t0 + k*slide + width)  and closes when the watermark reaches its end. With
    ``open_closed``, a window covers  (open, close]  and closes only when the watermark has passed its end,
    which the timeline learns from `closes_after`. Without ``t0_ms`` the grid is aligned to the epoch and k
    may be negative; with ``t0_ms``, k >= 0. With ``past_ms``, a grid window closes at the same instants, but
    contains only elements before close - past_ms.

        width 10, slide 5       0         5         10        15        20
        k = -1             [----|---------)                            closes at 5
        k =  0                  [---------|---------)                  closes at 10
        k =  1                            [---------|---------)        closes at 15

    The first reported window of a grid is the first one that ends after the query's first element or
    heartbeat.
    """

    width_ms: int
    slide_ms: int
    past_ms: int = 0
    t0_ms: int | None = None
    open_closed: bool = False
    state: GridState = field(default_factory=GridState, init=False)

    def __post_init__(self) -> None:
        self.closes_after = self.open_closed
        # A window that closed less than one slide ago is still visible.
        self.stay: int = self.width_ms + self.slide_ms + 1

    @property
    def closed(self) -> Interval | None:
        """The bounds of the grid's window that closed last."""
        return self.state.closed

    def start(self, origin: int) -> None:
        """Choose the first window of the grid: the first window that ends after ``origin``."""
        t0 = self.t0_ms or 0
        k = (origin - t0 - self.width_ms) // self.slide_ms + 1
        if self.t0_ms is not None:
            k = max(0, k)
        self.state.next_close = t0 + k * self.slide_ms + self.width_ms

    def next_due(self) -> int | None:
        """Return the instant of the next close on the grid."""
        return self.state.next_close

    def advance(self, instant: int) -> bool:
        """Close the grid's window that ends at ``instant``."""
        due = self.state.next_close
        if due is None or due > instant:
            return False
        self._close(due)
        return True

    def closes_by(self, instant: int) -> range:
        """Return the instants of the grid's closes that are due at or before ``instant``."""
        assert self.state.next_close is not None
        return range(self.state.next_close, instant + 1, self.slide_ms)

    def first_busy_close(self) -> int | None:
        """Return the next close whose window contains an element; None if no stored element is in one."""
        following = self.state.next_close
        assert following is not None
        for element in chain(self.state.shown, self.state.waiting):
            # `close` is the first remaining close whose window ends after the element; its window covers the
            # element only if it also begins early enough.
            after = element.event_time + self.past_ms + (0 if self.closes_after else 1)
            close = following + max(0, -((following - after) // self.slide_ms)) * self.slide_ms
            if self._holds(self._ending(close), element.event_time):
                return close
        return None

    def next_change(self) -> int | None:
        """Return the next close at which an element enters or leaves the window; None if there is no element.

        If a grid's slide is greater than its width, an element between two windows counts as entering.
        """
        state, following = self.state, self.state.next_close
        assert following is not None
        pairs = (state.shown, self.width_ms), (state.waiting, self.past_ms)
        found = [elements[0].event_time + stay for elements, stay in pairs if elements]
        if not found:
            return None
        # The first close after an element enters or leaves; for windows (open, close], also a close at that
        # time.
        after = min(found) + 1 - self.closes_after
        return following + max(0, -((following - after) // self.slide_ms)) * self.slide_ms

    def skip_to(self, instant: int) -> None:
        """Skip the grid's closes up to ``instant``, at which no element enters or leaves."""
        if closes := self.closes_by(instant):
            self._close(closes[-1])

    def add(self, element: Element) -> bool:
        """Store the element for windows of the grid that close later; the visible content is unchanged."""
        self.add_all((element,))
        return False

    def add_all(self, elements: Sequence[Element]) -> None:
        """Store elements for windows of the grid that close later."""
        self.state.waiting.extend(elements)
        self.state.waiting_quads += sum([len(element.statements) for element in elements])

    def admit(self, element: Element, instant: int) -> bool:
        """Insert a late element into the visible window and the later windows that cover its event time."""
        state, self.missed = self.state, False
        if state.closed is None or element.event_time >= state.closed.close + self.closes_after:
            insort(state.waiting, element, key=ORDER)
            state.waiting_quads += len(element.statements)
            return False
        if not self._holds(state.closed, element.event_time):
            self.missed = True
            return False
        insort(state.shown, element, key=ORDER)
        self.live.add(element)
        return True

    def state_size(self) -> int:
        """Return the number of quads in the grid's visible window and in the waiting elements."""
        return len(self.live) + self.state.waiting_quads

    def _ending(self, close: int) -> Interval:
        return Interval(close - self.width_ms, close - self.past_ms)

    def _holds(self, interval: Interval, event_time: int) -> bool:
        if self.closes_after:
            return interval.open < event_time <= interval.close
        return interval.open <= event_time < interval.close

    def _close(self, close: int) -> None:
        """Make the window that ends at ``close`` the visible window.

        A grid's windows only move forward: elements before the new window leave, and waiting elements before
        its end enter. Each element enters and leaves the visible window once, however many windows of the
        grid contain it. Additions come before removals, so that quads in both the old and the new window
        stay.
        """
        state, shown, waiting = self.state, self.state.shown, self.state.waiting
        state.closed, state.next_close = self._ending(close), close + self.slide_ms
        first, end = state.closed.open + self.closes_after, state.closed.close + self.closes_after
        entering: list[Element] = []
        while waiting and waiting[0].event_time < end:
            entering.append(waiting.popleft())
        state.waiting_quads -= sum([len(element.statements) for element in entering])
        if entering and entering[0].event_time < first:
            # With a slide greater than the width, some elements fall between two windows.
            entering = [element for element in entering if element.event_time >= first]
        leaving: list[Element] = []
        while shown and shown[0].event_time < first:
            leaving.append(shown.popleft())
        if shown:
            self.live.add(*entering)
            self.live.remove(*leaving)
        else:
            self.live.replace(leaving, entering)
        shown.extend(entering)
