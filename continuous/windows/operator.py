"""Step 4 of 8: windows, stream-to-relation operators over event time.

What each of them is to the timeline, and those that slide with time or never forget: NOW, RANGE and ALL.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Self, TypeAlias

from ..algebra.reports import Interval
from ..inputs import Element
from .encoded import EncodedContent
from .live import ContentSnapshot, LiveQuads

LiveContent: TypeAlias = LiveQuads | EncodedContent
"""What a window keeps of the elements in it, as quads or as term ids."""
EVENT_TIME = attrgetter("event_time")
ORDER = attrgetter("event_time", "seq")
"""The order of the elements of a stream."""


@dataclass(slots=True)
class WindowState:
    """What a window has become: values, and deques of elements. ``content`` is there in a checkpoint only.

    What the window is (widths, bounds, counts) follows from the registration.
    """

    content: ContentSnapshot | None = None

    def __copy__(self) -> Self:
        return type(self)(*[copy(getattr(self, each.name)) for each in fields(self) if each.init])


class WindowOperator:
    """One window on one stream: the elements that were taken give its content at an instant.

    The timeline calls, in this order of time: `start` once at the query's first instant; `advance` with
    instants that never go back; `add` with an element whose event time is the current instant; `admit`
    with one that is older. The content is always that of the current instant. What a kind does not say
    itself is as for `AllWindow`: elements enter for good.

    Attributes:
        closes: the window has closes (grids, batches, counted steps): on-window-close reports them. Set from
            its kind.
        missed: the late element that was admitted last is in no content, now or later: what held its time has
            been reported for good, or has left.
        closes_after: its closes are due only once the watermark has passed them (``(open, close]``).
        on_close: the query reports closes, not changes of contents. Set from the query that it is made for.
        stay: how long after its event time an element is out at the latest, in milliseconds; None where
            time does not decide.
        state: what it has become beside its content; None to begin empty after a restart.
        live: what keeps the visible content and its changes. Set from the query that it is made for.
    """

    closes = False
    missed = False
    closes_after = False
    on_close = False
    stay: int | None = None
    state: Any = None
    live: LiveContent

    @property
    def closed(self) -> Interval | None:
        """The bounds of the window that closed last, where it has bounds."""
        return None

    def start(self, origin: int) -> None:
        """The query's first element or heartbeat has this event time."""

    def next_due(self) -> int | None:
        """The next instant at which time alone changes the content or closes a window; None for never."""
        return None

    def advance(self, instant: int) -> bool:
        """Work off what is due at ``instant``; True when the content changed or a window closed."""
        return False

    def add(self, element: Element) -> bool:
        """Take an element at its event time; True when it entered the visible content.

        A window that closes by counting returns False and queues its closes for `close_next`, where each is
        told for itself.
        """
        self.live.add(element)
        return True

    def add_all(self, elements: Sequence[Element]) -> None:
        """Take elements of one event time, or of several before the next close."""
        for element in elements:
            self.add(element)

    def close_next(self) -> bool:
        """Apply the next queued close; False when none is queued."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """Take an element that is older than ``instant``; True when the visible content changed."""
        return self.add(element)

    def state_size(self) -> int:
        """Quads held, those of open windows included."""
        return len(self.live)

    def snapshot(self) -> Any:
        """What it has become, in plain values, for a checkpoint; None to begin empty after a restart."""
        return None if self.state is None else replace(self.state, content=self.live.snapshot())

    def restore(self, snapshot: Any) -> None:
        """Go on, in an empty window of the same declaration, from what `snapshot` gave."""
        self.live.restore(snapshot.content)
        self.state = copy(snapshot)
        self.state.content = None

    def fork(self) -> Self:
        """A window of its own that holds the same."""
        other = copy(self)
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        return other


@dataclass(slots=True)
class RangeState(WindowState):
    """``elements`` are the live ones in order."""

    elements: deque[Element] = field(default_factory=deque)


class RangeWindow(WindowOperator):
    """``[RANGE w]`` and ``[NOW]``: the elements of the last ``width_ms`` milliseconds.

    Content at t:  t - width_ms <= event_time <= t  (2011 paper, section 3.2), NOW being width 0;
    with ``open_start``  t - width_ms < event_time <= t.

        event_time  10        20
        RANGE 5     [10 .. 15]   leaves at 16          with open_start   [10 .. 14]   leaves at 15
    """

    def __init__(self, width_ms: int, *, open_start: bool = False) -> None:
        # An element of event time e is out from e + stay on. [NOW] is one instant under both bounds.
        self.stay: int = max(1, width_ms if open_start else width_ms + 1)
        self.state: RangeState = RangeState()

    def next_due(self) -> int | None:
        """The instant at which the oldest element leaves."""
        elements = self.state.elements
        return elements[0].event_time + self.stay if elements else None

    def advance(self, instant: int) -> bool:
        """Let leave what is too old at ``instant``."""
        elements, left = self.state.elements, []
        while elements and elements[0].event_time + self.stay <= instant:
            left.append(elements.popleft())
        self.live.remove(*left)
        return bool(left)

    def add(self, element: Element) -> bool:
        """The element enters at its event time."""
        self.add_all((element,))
        return True

    def add_all(self, elements: Sequence[Element]) -> None:
        """Elements enter at their event time."""
        self.state.elements.extend(elements)
        self.live.add(*elements)

    def admit(self, element: Element, instant: int) -> bool:
        """The element enters if the window still holds its time."""
        self.missed = element.event_time + self.stay <= instant
        if self.missed:
            return False
        insort(self.state.elements, element, key=ORDER)
        self.live.add(element)
        return True


@dataclass(slots=True)
class PastState(RangeState):
    """``waiting`` are those to come, in order."""

    waiting: deque[Element] = field(default_factory=deque)


class PastWindow(RangeWindow):
    """``[RANGE a TO b]``: the elements of a while that is over, ``t - a <= event_time <= t - b``.

    event_time   10        20        30
    RANGE 15 TO 5     [15  ..  25]   enters at event_time + 5, leaves at event_time + 16
    """

    def __init__(self, width_ms: int, past_ms: int, *, open_start: bool = False) -> None:
        super().__init__(width_ms, open_start=open_start)
        self._past = past_ms
        self.state: PastState = PastState()

    def next_due(self) -> int | None:
        """The instant at which the next element enters or leaves."""
        leaves, waiting = super().next_due(), self.state.waiting
        if not waiting:
            return leaves
        enters = waiting[0].event_time + self._past
        return enters if leaves is None else min(enters, leaves)

    def advance(self, instant: int) -> bool:
        """Let enter what is old enough at ``instant``, and leave what is too old."""
        entering, waiting = [], self.state.waiting
        while waiting and waiting[0].event_time + self._past <= instant:
            entering.append(waiting.popleft())
        super().add_all(entering)
        return super().advance(instant) or bool(entering)

    def add(self, element: Element) -> bool:
        """The element waits; the visible content stays."""
        self.state.waiting.append(element)
        return False

    def add_all(self, elements: Sequence[Element]) -> None:
        """Elements wait."""
        self.state.waiting.extend(elements)

    def admit(self, element: Element, instant: int) -> bool:
        """The element waits for its time, or enters if the window still holds that."""
        if element.event_time + self._past <= instant:
            return super().admit(element, instant)
        self.missed = False
        insort(self.state.waiting, element, key=ORDER)
        return False

    def state_size(self) -> int:
        """Quads in the window and of the elements to come."""
        return len(self.live) + sum(len(element.statements) for element in self.state.waiting)


class AllWindow(WindowOperator):
    """``[ALL]``: everything since registration. Its state is unbounded, EXPLAIN warns of it."""

    def __init__(self) -> None:
        self.state: WindowState = WindowState()
