"""Widgets for notebooks that show the current answer of a continuous query; requires anywidget."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

import anywidget
import traitlets

from .answers import Answer
from .errors import QuadrillError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 15
"""Maximum number of digits of a decimal that a number of 64 bits shows exactly."""
_MOST_LINES = 20
"""Maximum number of lines in a chart; each has a separate colour or dash pattern."""


class Live(Protocol):
    """The answer that a widget shows; a `LiveFrame`."""

    name: str

    @property
    def answer(self) -> Answer:
        """The rows of the current answer."""
        ...

    def caption(self) -> str:
        """Return a line about the answer."""
        ...


class _LiveWidget(anywidget.AnyWidget):
    """A widget that shows what `content` returns; `app/client/widget.js` draws it in the browser."""

    _esm = Path(__file__).parent / "widget.js"
    kind = traitlets.Unicode().tag(sync=True)
    content = traitlets.Dict().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)

    def __init__(self, kind: str, live: Live, views: WeakSet[Any]) -> None:
        super().__init__(kind=kind)
        self.live = live
        self.refresh()
        views.add(self)

    def refresh(self) -> None:
        """Send the present answer to the browser, or the error of a query that has failed."""
        try:
            content, caption = self.drawn(), self.live.caption()
        except (QuadrillError, ValueError) as error:
            content, caption = self.content, str(error)
        with self.hold_sync():
            self.content, self.caption = content, caption

    def drawn(self) -> dict[str, Any]:
        """Return what the browser draws, as a JSON object."""
        raise NotImplementedError


class LiveTable(_LiveWidget):
    """A table of the first rows of an answer."""

    def __init__(self, live: Live, views: WeakSet[Any], rows: int) -> None:
        """Create a table of at most ``rows`` rows."""
        self._rows = rows
        super().__init__("table", live, views)

    def drawn(self) -> dict[str, Any]:
        """Return the columns, the cells of the first rows, and the number of all rows."""
        answer = self.live.answer
        shown = [[_cell(row[name]) for name in answer.variables] for row in answer.rows()[: self._rows]]
        return {"columns": answer.variables, "rows": shown, "total": len(answer)}


class LiveChart(_LiveWidget):
    """A chart of one line for each value of a column."""

    def __init__(
        self, live: Live, views: WeakSet[Any], y: str, x: str | None, by: str | None, points: int
    ) -> None:
        """Create a chart; see `LiveFrame.chart`.

        Raises: ValueError if the answer lacks one of the columns.
        """
        columns = live.answer.variables
        missing = next((name for name in (y, x, by) if name is not None and name not in columns), None)
        if missing is not None:
            raise ValueError(
                f"the answer of {live.name} has no column {missing!r}; it has {', '.join(columns)}"
            )
        self._y, self._x, self._by, self._points = y, x, by, points
        # The lines of a chart over the event time, which grow with each change.
        self._grown: dict[str, deque[tuple[float, float]]] = {}
        super().__init__("chart", live, views)

    def drawn(self) -> dict[str, Any]:
        """Return the lines, each with its name and its points, and whether x is time in milliseconds."""
        answer = self.live.answer
        if self._x is None and self._by is None and len(answer) > 1:
            raise ValueError(
                f"the answer of {self.live.name} has {len(answer)} rows: say by, or x, to draw them"
            )
        at, is_time = answer.at, self._x is None
        found: dict[str, list[tuple[float, float]]] = {}
        for row in answer.rows():
            x = at if self._x is None else row[self._x]
            is_time = is_time or isinstance(x, datetime)
            place, height = _number(x), _number(row[self._y])
            if place is not None and height is not None:
                name = self._y if self._by is None else str(row[self._by])
                if name in found or len(found) < _MOST_LINES:
                    found.setdefault(name, []).append((place, height))
        if self._x is None:
            return _lines(self._grow(found), is_time)
        return _lines({name: sorted(line)[-self._points :] for name, line in found.items()}, is_time)

    def _grow(
        self, found: Mapping[str, list[tuple[float, float]]]
    ) -> Mapping[str, Iterable[tuple[float, float]]]:
        """Append the points of the present answer to the lines, and return the lines."""
        for name, points in found.items():
            if name not in self._grown and len(self._grown) == _MOST_LINES:
                del self._grown[min(self._grown, key=lambda each: self._grown[each][-1][0])]
            line = self._grown.setdefault(name, deque(maxlen=self._points))
            for point in points:
                if line and line[-1][0] == point[0]:
                    line.pop()
                line.append(point)
        return self._grown


def _lines(lines: Mapping[str, Iterable[tuple[float, float]]], is_time: bool) -> dict[str, Any]:
    listed = [{"name": name, "points": list(map(list, lines[name]))} for name in sorted(lines)]
    return {"lines": listed, "time": is_time}


def _cell(value: Any) -> Any:
    """Return a plain value as JSON: numbers and booleans as such, None for unbound, other values as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        # A browser has no exact integers beyond 53 bits, and JSON no infinity.
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, Decimal) and len(value.as_tuple().digits) <= _DIGITS:
        return float(value)
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def _number(value: Any) -> float | None:
    """Return a plain value as a coordinate, times as milliseconds since 1970; None if it has none."""
    if isinstance(value, datetime):
        return (value - _EPOCH) / timedelta(milliseconds=1)
    if isinstance(value, int | float | Decimal) and math.isfinite(value):
        return float(value)
    return None
