"""What `quadrill top` shows on a terminal: the order and the filter of its rows, changed by keys."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .overview import ShownQuery, StreamFigures

_QUERY_ORDERS: dict[str, Callable[[ShownQuery], Any]] = {
    "failed, then in/s": lambda each: (
        each.state != "failed",
        -each.elements_per_second,
        -each.rows_per_second,
        each.name,
    ),
    "name": lambda each: each.name,
    "in/s": lambda each: -each.elements_per_second,
    "rows/s": lambda each: -each.rows_per_second,
    "lag": lambda each: -(each.lag_ms or 0),
    "window": lambda each: -each.window_quads,
    "static": lambda each: -each.static_rows,
}
"""Sort keys of queries by the name of the order; all but names in descending order."""
_STREAM_ORDERS: dict[str, Callable[[StreamFigures], Any]] = {
    "name": lambda each: each.name,
    "in/s": lambda each: -each.elements_per_second,
}
"""Sort keys of streams, for the orders that streams have."""
_ORDERS = tuple(_QUERY_ORDERS)
_ESCAPE, _ENTER, _BACKSPACE = "\x1b", ("\r", "\n"), ("\x7f", "\b")
_MOST_TYPED = 80
"""Maximum length of a filter in characters."""


@dataclass(slots=True)
class TopView:
    """Order and filter of the rows; the keys ``q``, ``s``, ``r``, ``/`` and Escape change them.

    Attributes:
        order: the name of the order of queries.
        is_reversed: True if the rows are in the reverse order.
        pattern: the text that names of shown queries and streams contain; empty for all.
        is_typing: True while the keys are the text of the filter.
    """

    order: str = _ORDERS[0]
    is_reversed: bool = False
    pattern: str = ""
    is_typing: bool = False

    def press(self, key: str) -> bool:
        """Change the view for one key; return False for the key that quits."""
        if self.is_typing:
            self._type(key)
        elif key in ("q", "Q"):
            return False
        elif key == "s":
            self.order = _ORDERS[(_ORDERS.index(self.order) + 1) % len(_ORDERS)]
        elif key == "r":
            self.is_reversed = not self.is_reversed
        elif key == "/":
            self.is_typing, self.pattern = True, ""
        elif key == _ESCAPE:
            self.pattern = ""
        return True

    def _type(self, key: str) -> None:
        if key == _ESCAPE:
            self.is_typing, self.pattern = False, ""
        elif key in _ENTER:
            self.is_typing = False
        elif key in _BACKSPACE:
            self.pattern = self.pattern[:-1]
        elif key.isprintable() and len(self.pattern) < _MOST_TYPED:
            self.pattern += key

    def queries(self, found: Sequence[ShownQuery]) -> list[ShownQuery]:
        """Return the queries that the filter shows, in the order of the view."""
        chosen = [each for each in found if self._shows(each.name)]
        return sorted(chosen, key=_QUERY_ORDERS[self.order], reverse=self.is_reversed)

    def streams(self, found: Sequence[StreamFigures]) -> list[StreamFigures]:
        """Return the streams that the filter shows, in the order of the view if streams have it."""
        chosen = [each for each in found if self._shows(each.name)]
        if self.order not in _STREAM_ORDERS:
            return chosen
        return sorted(chosen, key=_STREAM_ORDERS[self.order], reverse=self.is_reversed)

    def _shows(self, name: str) -> bool:
        return self.pattern.lower() in name.lower()

    def help_line(self) -> str:
        """Return the line that lists the keys and the state of the view."""
        if self.is_typing:
            return f"filter: {self.pattern}_   Enter keeps it, Esc clears it"
        order = f"{self.order}{', reversed' if self.is_reversed else ''}"
        shown = f"{self.pattern!r}, Esc clears it" if self.pattern else "none"
        return f"q quit   s sort: {order}   r reverse   / filter: {shown}"


@contextmanager
def key_presses() -> Iterator[Callable[[float], str | None]]:
    """Yield a function that waits at most the given seconds for a key of the terminal; None after that time.

    If standard input is no terminal, the function only waits.
    """
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> str | None:
            time.sleep(seconds)
            return None

        yield sleep
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait(seconds: float) -> str | None:
        if not select.select([terminal], [], [], max(0.0, seconds))[0]:
            return None
        pressed = os.read(terminal, 64).decode("utf-8", "replace")
        # Keys such as the arrows send several characters that begin with the one of Escape.
        return "" if len(pressed) > 1 and pressed.startswith(_ESCAPE) else pressed

    try:
        tty.setcbreak(terminal)
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
