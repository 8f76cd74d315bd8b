"""What every window is to the timeline: a stream-to-relation operator over event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..element import Element


@dataclass(frozen=True, slots=True)
class Interval:
    """The bounds of one window of a grid, in milliseconds of event time."""

    open: int
    close: int


class WindowOperator(Protocol):
    """One window on one stream: the elements that were taken give its content at an instant.

    The timeline calls, in this order of time: `start` once at the query's first instant; `advance` with
    instants that never go back; `add` with an element whose event time is the current instant; `admit`
    with one that is older. The content is always that of the current instant.
    """

    closes: bool
    """True for windows that have closes (grids, batches, counted steps): on-window-close reports them."""
    closes_after: bool
    """True when the window's close is due only once the watermark has passed it (``(open, close]``)."""

    live: Any
    """What keeps the visible content and its changes."""

    @property
    def stay(self) -> int | None:
        """How long after its event time an element is out at the latest; None where time does not decide."""
        ...

    def fork(self) -> WindowOperator:
        """A window of its own that holds the same; for windows without closes."""
        ...

    def start(self, origin: int) -> None:
        """The query's first element or heartbeat has this event time."""
        ...

    def next_due(self) -> int | None:
        """The next instant at which time alone changes the content or closes a window; None for never."""
        ...

    def advance(self, instant: int) -> bool:
        """Work off what is due at ``instant``; True when the content changed or a window closed."""
        ...

    def add(self, element: Element) -> bool:
        """Take an element at its event time; True when it entered the visible content.

        A window that closes by counting returns False and queues its closes for `close_next`.
        """
        ...

    def close_next(self) -> bool:
        """Apply the next queued close of a counting window; False when none is queued."""
        ...

    def admit(self, element: Element, instant: int) -> bool:
        """Take an element that is older than ``instant``; True when the visible content changed."""
        ...

    @property
    def content(self) -> Mapping[Any, int]:
        """The visible content at the current instant."""
        ...

    @property
    def empty(self) -> bool:
        """True when no quad is visible."""
        ...

    @property
    def closed(self) -> Interval | None:
        """The bounds of the window that closed last, where the window has bounds."""
        ...

    def state_size(self) -> int:
        """Quads held, those of open windows included."""
        ...

    def snapshot(self) -> Any:
        """What it has become, in plain values, for a checkpoint; None to begin empty after a restart."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Go on, in an empty window of the same declaration, from what `snapshot` gave."""
        ...


def close_next(operators: Sequence[WindowOperator]) -> bool:
    """Apply one queued close of each counting window; False when none had one."""
    return any([operator.close_next() for operator in operators])
