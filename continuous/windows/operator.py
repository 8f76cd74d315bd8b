"""What every window is to the timeline: a stream-to-relation operator over event time."""

from __future__ import annotations

from copy import copy
from operator import attrgetter
from typing import Any, Self

from ..element import Element
from .live import LiveContent
from .reports import Interval

ORDER = attrgetter("event_time", "seq")
"""The order of the elements of a stream."""


class WindowOperator:
    """One window on one stream: the elements that were taken give its content at an instant.

    The timeline calls, in this order of time: `start` once at the query's first instant; `advance` with
    instants that never go back; `add` with an element whose event time is the current instant; `admit`
    with one that is older. The content is always that of the current instant. What a kind does not say
    itself is that of a window that neither time nor counting closes.

    Attributes:
        closes: the window has closes (grids, batches, counted steps): on-window-close reports them.
        closes_after: its closes are due only once the watermark has passed them (``(open, close]``).
        stay: how long after its event time an element is out at the latest, in milliseconds; None where
            time does not decide.
        closed: the bounds of the window that closed last, where it has bounds.
        live: what keeps the visible content and its changes, as quads or as term ids.
    """

    closes = False
    closes_after = False
    stay: int | None = None
    closed: Interval | None = None
    live: LiveContent

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

        A window that closes by counting returns False and queues its closes for `close_next`.
        """
        raise NotImplementedError

    def close_next(self) -> bool:
        """Apply the next queued close of a counting window; False when none is queued."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """Take an element that is older than ``instant``; True when the visible content changed."""
        raise NotImplementedError

    def state_size(self) -> int:
        """Quads held, those of open windows included."""
        return len(self.live)

    def snapshot(self) -> Any:
        """What it has become, in plain values, for a checkpoint; None to begin empty after a restart."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Go on, in an empty window of the same declaration, from what `snapshot` gave."""

    def fork(self) -> Self:
        """A window of its own that holds the same."""
        other = copy(self)
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        return other
