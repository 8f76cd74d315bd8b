"""Windows of checkpoints of release 6 that several queries shared: each query gets one of its own."""

from __future__ import annotations

from typing import Any

from pyoxigraph import Quad

from ..windows.encoded import StoredContent
from ..windows.live import Holding


class SharedWindow:
    """What was shared."""

    def __setstate__(self, window: Any) -> None:
        self.window = window


class SharedView:
    """One query's view of it, and what that had not taken yet."""

    closes = False

    def __setstate__(self, state: tuple[SharedWindow, str, dict[Quad, int]]) -> None:
        self._shared, _, self._changes = state

    def fork(self) -> Holding:
        """The window as the query's own, see `WindowOperator.fork`."""
        window: Holding = self._shared.window.fork()
        held = self._shared.window.live
        window.live = StoredContent(held.counts, self._changes, held.occurrences)  # type: ignore[assignment]
        return window
