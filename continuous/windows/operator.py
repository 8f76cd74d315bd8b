"""Step 4 of 8 of query evaluation: windows, the stream-to-relation operators over event time.

This module has the base class of all window operators, and the windows NOW, RANGE and ALL.
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
from .content_parts import ContentParts
from .encoded import EncodedContent
from .live import ContentSnapshot, LiveQuads

LiveContent: TypeAlias = LiveQuads | EncodedContent | ContentParts
"""The content of a window, either as quads or as term ids, perhaps in several forms."""
EVENT_TIME = attrgetter("event_time")
ORDER = attrgetter("event_time", "seq")
"""The order of the elements of a stream: by event time, then by sequence number."""


@dataclass(slots=True)
class WindowState:
    """The state of a window: plain values, and deques of elements.

    The field ``content`` of a window's state is set only in a checkpoint. A window's parameters (width,
    bounds, count) are not part of its state but come from the registration.
    """

    content: ContentSnapshot | None = None

    def __copy__(self) -> Self:
        return type(self)(*[copy(getattr(self, each.name)) for each in fields(self) if each.init])


class WindowOperator:
    """One window on one stream: maps the elements of the stream to a content at the current instant.

    The timeline calls `start` once at the query's first instant, `advance` with instants that never decrease,
    `add` with an element whose event time is the current instant, and `admit` with a late element. A window
    operator overrides only what differs from `AllWindow`, in which elements stay forever.

    Attributes:
        closes: True for windows with closes (grids, batches, counted steps), which on-window-close reports.
            The kind of the window sets ``closes``.
        missed: True if the last late element is not in any present or later content, because the window of
            its event time was reported or has expired.
        closes_after: True if closes are due only once the watermark has passed them (``(open, close]``).
        on_close: True if the query reports closes instead of changes of the content. The query sets
            ``on_close`` when it creates the window operator.
        stay: the time in milliseconds from an element's event time to its latest removal; None if elements do
            not leave by time.
        state: the state of the window besides its content; None for a window that is empty after a restart.
        live: the visible content and its delta. The query sets ``live`` when it creates the operator.
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
        """The bounds of the window that closed last; None for windows without bounds."""
        return None

    def ends(self, instant: int) -> Interval | None:
        """Return where the window's content at ``instant`` begins and ends, for BOUNDS; None without ends."""
        return self.closed

    def start(self, origin: int) -> None:
        """Start the window at ``origin``, the event time of the query's first element or heartbeat."""

    def next_due(self) -> int | None:
        """Return the next instant at which time alone changes or closes the window; None without one."""
        return None

    def advance(self, instant: int) -> bool:
        """Apply expiries and closes due at ``instant``; return True if the window changed or closed."""
        return False

    def add(self, element: Element) -> bool:
        """Add an element at its event time; return True if the element entered the visible content.

        A window that closes by count returns False, and queues its closes for `close_next`, because each
        close of the window is reported separately.
        """
        self.live.add(element)
        return True

    def add_all(self, elements: Sequence[Element]) -> None:
        """Add elements to the window, of one event time, or of several event times before the next close."""
        for element in elements:
            self.add(element)

    def close_next(self) -> bool:
        """Apply the window's next queued close; return False if no close is queued."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """Add a late element, older than ``instant``; return True if the visible window content changed."""
        return self.add(element)

    def state_size(self) -> int:
        """Return the number of quads that the window stores, including quads of windows still open."""
        return len(self.live)

    def snapshot(self) -> Any:
        """Return the window's state as plain values for a checkpoint; None to start empty after a restart."""
        return None if self.state is None else replace(self.state, content=self.live.snapshot())

    def restore(self, snapshot: Any) -> None:
        """Restore an empty window of the same declaration from the result of `snapshot`."""
        self.live.restore(snapshot.content)
        self.state = copy(snapshot)
        self.state.content = None

    def fork(self) -> Self:
        """Return an independent copy of the window with the same content."""
        other = copy(self)
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        return other


@dataclass(slots=True)
class RangeState(WindowState):
    """State of RANGE: ``elements`` contains the live elements in order."""

    elements: deque[Element] = field(default_factory=deque)


class RangeWindow(WindowOperator):
    """``[RANGE w]`` and ``[NOW]``: the elements of the last ``width_ms`` milliseconds.

    The content at t has the elements with  t - width_ms <= event_time <= t  (2011 paper, section 3.2); NOW
    has width 0. With ``open_start``, a RANGE window has the elements with t - width_ms < event_time <= t.

        event_time  10        20
        RANGE 5     [10 .. 15]   leaves at 16          with open_start   [10 .. 14]   leaves at 15
    """

    def __init__(self, width_ms: int, *, open_start: bool = False) -> None:
        # An element of event time e leaves a RANGE window at e + stay. [NOW] covers one instant under both
        # kinds of bounds.
        self.stay: int = max(1, width_ms if open_start else width_ms + 1)
        self._width = width_ms
        self.state: RangeState = RangeState()

    def ends(self, instant: int) -> Interval | None:
        """Return the instant ``width_ms`` ago, and the present instant."""
        return Interval(instant - self._width, instant)

    def next_due(self) -> int | None:
        """Return the instant at which the oldest element leaves the RANGE window."""
        elements = self.state.elements
        return elements[0].event_time + self.stay if elements else None

    def advance(self, instant: int) -> bool:
        """Remove the elements that are too old at ``instant`` from the RANGE window."""
        elements, left = self.state.elements, []
        while elements and elements[0].event_time + self.stay <= instant:
            left.append(elements.popleft())
        self.live.remove(*left)
        return bool(left)

    def add(self, element: Element) -> bool:
        """Add the element, which enters the RANGE window at its event time."""
        self.add_all((element,))
        return True

    def add_all(self, elements: Sequence[Element]) -> None:
        """Add elements, which enter the RANGE window at their event time."""
        self.state.elements.extend(elements)
        self.live.add(*elements)

    def admit(self, element: Element, instant: int) -> bool:
        """Add a late element if the RANGE window still covers its event time."""
        self.missed = element.event_time + self.stay <= instant
        if self.missed:
            return False
        insort(self.state.elements, element, key=ORDER)
        self.live.add(element)
        return True


@dataclass(slots=True)
class PastState(RangeState):
    """State of ``[RANGE a TO b]``: ``waiting`` contains the elements that enter later, in order."""

    waiting: deque[Element] = field(default_factory=deque)


class PastWindow(RangeWindow):
    """``[RANGE a TO b]``: the elements of a past interval, ``t - a <= event_time <= t - b``.

    event_time   10        20        30
    RANGE 15 TO 5     [15  ..  25]   enters at event_time + 5, leaves at event_time + 16
    """

    def __init__(self, width_ms: int, past_ms: int, *, open_start: bool = False) -> None:
        super().__init__(width_ms, open_start=open_start)
        self._past = past_ms
        self.state: PastState = PastState()

    def ends(self, instant: int) -> Interval | None:
        """Return the instants ``width_ms`` and ``past_ms`` ago."""
        return Interval(instant - self._width, instant - self._past)

    def next_due(self) -> int | None:
        """Return the instant at which the next element enters or leaves."""
        leaves, waiting = super().next_due(), self.state.waiting
        if not waiting:
            return leaves
        enters = waiting[0].event_time + self._past
        return enters if leaves is None else min(enters, leaves)

    def advance(self, instant: int) -> bool:
        """Add waiting elements that are due at ``instant``, and remove elements that are too old."""
        entering, waiting = [], self.state.waiting
        while waiting and waiting[0].event_time + self._past <= instant:
            entering.append(waiting.popleft())
        super().add_all(entering)
        return super().advance(instant) or bool(entering)

    def add(self, element: Element) -> bool:
        """Queue the element until it is old enough to enter; the window's visible content is unchanged."""
        self.state.waiting.append(element)
        return False

    def add_all(self, elements: Sequence[Element]) -> None:
        """Queue elements until they are old enough to enter ``[RANGE a TO b]``."""
        self.state.waiting.extend(elements)

    def admit(self, element: Element, instant: int) -> bool:
        """Queue a late element, or add it to the window if this covers its event time now."""
        if element.event_time + self._past <= instant:
            return super().admit(element, instant)
        self.missed = False
        insort(self.state.waiting, element, key=ORDER)
        return False

    def state_size(self) -> int:
        """Return the number of quads in the window and in the elements waiting to enter."""
        return len(self.live) + sum(len(element.statements) for element in self.state.waiting)


class AllWindow(WindowOperator):
    """The window ``[ALL]``: all elements since the registration of the query.

    The state of an ``[ALL]`` window is unbounded, and EXPLAIN warns of that.
    """

    def __init__(self) -> None:
        self.state: WindowState = WindowState()
