"""From a window's declaration to its operator."""

from __future__ import annotations

from typing import assert_never

from ..algebra.query import WindowSpec
from .counting import BatchWindow, ElementsWindow, TriplesWindow
from .grid import GridWindow
from .operator import WindowOperator
from .sliding import AllWindow, RangeWindow


def build_window(spec: WindowSpec, *, t0_ms: int | None = None, open_closed: bool = False) -> WindowOperator:
    """The operator of one window on one stream.

    Args:
        spec: the window as written.
        t0_ms: the origin of the grid where the window itself gives none.
        open_closed: ``bounds: open-closed`` of the registration: RANGE without its left bound, grid windows
            ``(open, close]``.
    """
    match spec.kind:
        case "now":
            return RangeWindow(0)
        case "range":
            return RangeWindow(spec.width_ms, open_start=open_closed)
        case "grid":
            own = spec.t0_ms if spec.t0_ms is not None else t0_ms
            return GridWindow(spec.width_ms, spec.slide_ms, t0_ms=own, open_closed=open_closed)
        case "triples":
            return TriplesWindow(spec.count)
        case "batch":
            return BatchWindow(spec.count)
        case "elements":
            return ElementsWindow(spec.count, spec.step)
        case "all":
            return AllWindow()
        case _:
            assert_never(spec.kind)
