"""Step 4 of 8: windows closed on a grid of time: ``[RANGE w SLIDE s]``, ``[RANGE w STEP s]``."""

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
    """Elements that the window ``shown`` holds and those ``waiting`` for windows still to close, in order.

    One that has left the window shown is in no later one.
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
    """The last window closed on the grid of ``slide_ms``.

    Window k covers  [t0 + k*slide, t0 + k*slide + width)  and closes when the watermark reaches its end;
    with ``open_closed`` it covers  (open, close]  and can only be known closed once the watermark has
    passed its end (the timeline sees to that through `closes_after`). Without ``t0_ms`` the grid is
    aligned to the epoch and k may be negative; with it k >= 0. With ``past_ms`` it closes no sooner, but
    holds only what is before  close - past_ms.

        width 10, slide 5       0         5         10        15        20
        k = -1             [----|---------)                            closes at 5
        k =  0                  [---------|---------)                  closes at 10
        k =  1                            [---------|---------)        closes at 15

    The first window reported is the first whose end lies after the query's first element or heartbeat.
    """

    width_ms: int
    slide_ms: int
    past_ms: int = 0
    t0_ms: int | None = None
    open_closed: bool = False
    state: GridState = field(default_factory=GridState, init=False)

    def __post_init__(self) -> None:
        self.closes_after = self.open_closed
        # The window shown is the one that closed last, less than a slide ago.
        self.stay: int = self.width_ms + self.slide_ms + 1

    @property
    def closed(self) -> Interval | None:
        """The bounds of the window that closed last."""
        return self.state.closed

    def start(self, origin: int) -> None:
        """Choose the first window: the first whose end lies after ``origin``."""
        t0 = self.t0_ms or 0
        k = (origin - t0 - self.width_ms) // self.slide_ms + 1
        if self.t0_ms is not None:
            k = max(0, k)
        self.state.next_close = t0 + k * self.slide_ms + self.width_ms

    def next_due(self) -> int | None:
        """The instant of the next close."""
        return self.state.next_close

    def advance(self, instant: int) -> bool:
        """Close the window that ends at ``instant``."""
        due = self.state.next_close
        if due is None or due > instant:
            return False
        self._close(due)
        return True

    def closes_by(self, instant: int) -> range:
        """The closes that are still to come at or before ``instant``."""
        assert self.state.next_close is not None
        return range(self.state.next_close, instant + 1, self.slide_ms)

    def first_busy_close(self) -> int | None:
        """The first close to come whose window holds an element; None while there is none."""
        following = self.state.next_close
        assert following is not None
        for element in chain(self.state.shown, self.state.waiting):
            # The close of the first window, from the next one on, that covers the element.
            after = element.event_time + self.past_ms + (0 if self.closes_after else 1)
            close = following + max(0, -((following - after) // self.slide_ms)) * self.slide_ms
            if self._holds(self._ending(close), element.event_time):
                return close
        return None

    def next_change(self) -> int | None:
        """The first close to come at which an element enters or leaves the window; None while there is none.

        An element between two windows of a slide greater than the width counts as one that enters.
        """
        state, following = self.state, self.state.next_close
        assert following is not None
        pairs = (state.shown, self.width_ms), (state.waiting, self.past_ms)
        found = [elements[0].event_time + stay for elements, stay in pairs if elements]
        if not found:
            return None
        # At the first close behind that time; with (open, close] at that time, too.
        after = min(found) + 1 - self.closes_after
        return following + max(0, -((following - after) // self.slide_ms)) * self.slide_ms

    def skip_to(self, instant: int) -> None:
        """Go on after ``instant``: no element enters or leaves at the closes until then."""
        if closes := self.closes_by(instant):
            self._close(closes[-1])

    def add(self, element: Element) -> bool:
        """Keep the element for the windows that will close; the visible content stays."""
        self.add_all((element,))
        return False

    def add_all(self, elements: Sequence[Element]) -> None:
        """Keep elements for the windows that will close."""
        self.state.waiting.extend(elements)
        self.state.waiting_quads += sum([len(element.statements) for element in elements])

    def admit(self, element: Element, instant: int) -> bool:
        """Put an older element into the windows that hold its time, the one shown included."""
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
        """Quads of the window shown and of the elements that wait for later ones."""
        return len(self.live) + self.state.waiting_quads

    def _ending(self, close: int) -> Interval:
        return Interval(close - self.width_ms, close - self.past_ms)

    def _holds(self, interval: Interval, event_time: int) -> bool:
        if self.closes_after:
            return interval.open < event_time <= interval.close
        return interval.open <= event_time < interval.close

    def _close(self, close: int) -> None:
        """Make the window that ends at ``close`` the visible one.

        Windows only move forward, so what is shown changes at both ends: elements before the new window
        leave, those that wait and are before its end enter; each does so once, however many windows hold it.
        Entering first keeps quads that stay in both.
        """
        state, shown, waiting = self.state, self.state.shown, self.state.waiting
        state.closed, state.next_close = self._ending(close), close + self.slide_ms
        first, end = state.closed.open + self.closes_after, state.closed.close + self.closes_after
        entering: list[Element] = []
        while waiting and waiting[0].event_time < end:
            entering.append(waiting.popleft())
        state.waiting_quads -= sum([len(element.statements) for element in entering])
        if entering and entering[0].event_time < first:
            # Between two windows of a slide greater than the width.
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
