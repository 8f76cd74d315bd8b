"""The registry of window kinds: each kind's text in a query, its closes, and its operator.

The built-in window kinds are listed in one table, and `register` adds kinds of extensions
(docs/extending.md). The grammar of query texts contains the built-in window kinds; an extension kind brings a
keyword.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from quadrill.store.documents.times import show_duration

from ..algebra.query import SequencePattern, WindowSpec
from ..expressions.element_keys import keys_of
from ..language.windows import WindowWord, add_word, remove_word
from .counting import BatchWindow, ElementsWindow, TriplesWindow
from .grid import GridWindow
from .keyed import LatestWindow, SessionWindow
from .operator import AllWindow, PastWindow, RangeWindow, WindowOperator
from .sequence import SequenceWindow, StepInput

_PER_SECOND = 10.0
"""Assumed elements per second of a stream, to estimate the size of a window before it has elements."""
_PER_ELEMENT = 4.0
"""Assumed quads per element, to estimate the size of a window before it has elements."""
UNKNOWN_SIZE = 1e6
"""Assumed quads of a window whose kind gives no estimate."""


@dataclass(frozen=True, slots=True)
class WindowKind:
    """The properties of one kind of window.

    Attributes:
        name: the ``kind`` in the `WindowSpec` of such windows.
        operator: creates the operator of one window on one stream. The arguments are the spec, the origin of
            the grid for windows without an origin (or None), and whether the registration asks for ``bounds:
            open-closed``: RANGE without its left bound, grid windows ``(open, close]``.
        shown: returns the window's text in the query language.
        size: returns an estimate of the window's quads, which orders joins over whole contents.
        closes: True if the window has closes, which on-window-close reports; otherwise its content slides.
        waits: True if an element may enter the window later than its event time, or never.
        bounds: the default bounds of the window, if a registration may override them.
        word: the keyword and its parser for an extension kind; None for built-in kinds.
    """

    name: str
    operator: Callable[[WindowSpec, int | None, bool], WindowOperator]
    shown: Callable[[WindowSpec], str]
    size: Callable[[WindowSpec], float] = lambda spec: UNKNOWN_SIZE
    closes: bool = False
    waits: bool = False
    bounds: str | None = None
    word: WindowWord | None = None


_kinds: dict[str, WindowKind] = {}


def register(kind: WindowKind) -> None:
    """Add a kind of window; queries that are registered afterwards may use the kind.

    Raises:
        ValueError: a kind of this name is registered already.
    """
    if kind.name in _kinds:
        raise ValueError(f"a kind of window named {kind.name!r} is registered already")
    _kinds[kind.name] = kind
    if kind.word is not None:
        add_word(kind.name, kind.word)


def unregister(name: str) -> None:
    """Remove a kind of window; all queries with such windows must have ended."""
    kind = _kinds.pop(name)
    if kind.word is not None:
        remove_word(kind.word)


def kind_of(spec: WindowSpec) -> WindowKind:
    """Return the registered kind of a window."""
    return _kinds[spec.kind]


def show_window(spec: WindowSpec) -> str:
    """Return the text of a window in the query language."""
    return f"[{kind_of(spec).shown(spec)}]"


def _show_range(spec: WindowSpec) -> str:
    past = f" TO {show_duration(spec.past_ms)}" if spec.past_ms else ""
    return f"RANGE {show_duration(spec.width_ms)}{past}"


def _show_keys(word: str, spec: WindowSpec) -> str:
    return f"{word} BY {' '.join(f'?{each.name}' for each in spec.keys)}" if spec.keys else ""


def _size_of_range(spec: WindowSpec) -> float:
    return max(_PER_ELEMENT, (spec.width_ms - spec.past_ms) / 1000 * _PER_SECOND)


for _kind in (
    WindowKind("now", lambda spec, t0_ms, open_closed: RangeWindow(0), lambda spec: "NOW", lambda spec: 2.0),
    WindowKind(
        "range",
        lambda spec, t0_ms, open_closed: RangeWindow(spec.width_ms, open_start=open_closed),
        _show_range,
        _size_of_range,
        bounds="closed",
    ),
    WindowKind(
        "past",
        lambda spec, t0_ms, open_closed: PastWindow(spec.width_ms, spec.past_ms, open_start=open_closed),
        _show_range,
        _size_of_range,
        waits=True,
        bounds="closed",
    ),
    WindowKind(
        "grid",
        lambda spec, t0_ms, open_closed: GridWindow(
            spec.width_ms,
            spec.slide_ms,
            past_ms=spec.past_ms,
            t0_ms=t0_ms if spec.t0_ms is None else spec.t0_ms,
            open_closed=open_closed,
        ),
        lambda spec: f"{_show_range(spec)} STEP {show_duration(spec.slide_ms)}",
        _size_of_range,
        closes=True,
        bounds="closed-open",
    ),
    WindowKind(
        "session",
        lambda spec, t0_ms, open_closed: SessionWindow(spec.width_ms, keys_of(spec)),
        lambda spec: f"SESSION {show_duration(spec.width_ms)}{_show_keys(' PARTITION', spec)}",
        closes=True,
        waits=True,
    ),
    WindowKind(
        "latest",
        lambda spec, t0_ms, open_closed: LatestWindow(spec.count, spec.width_ms, keys_of(spec)),
        lambda spec: (
            f"LATEST {spec.count}{_show_keys('', spec)}"
            + (f" WITHIN {show_duration(spec.width_ms)}" if spec.width_ms else "")
        ),
        waits=True,
    ),
    WindowKind(
        "triples",
        lambda spec, t0_ms, open_closed: TriplesWindow(spec.count),
        lambda spec: f"TRIPLES {spec.count}",
        lambda spec: float(spec.count),
    ),
    WindowKind(
        "batch",
        lambda spec, t0_ms, open_closed: BatchWindow(spec.count),
        lambda spec: f"RANGE TRIPLES {spec.count}",
        lambda spec: float(spec.count),
        closes=True,
    ),
    WindowKind(
        "elements",
        lambda spec, t0_ms, open_closed: ElementsWindow(spec.count, spec.step),
        lambda spec: f"ELEMENTS {spec.count} STEP {spec.step}",
        lambda spec: spec.count * _PER_ELEMENT,
        closes=True,
    ),
    WindowKind(
        "sequence",
        lambda spec, t0_ms, open_closed: SequenceWindow(cast(SequencePattern, spec.sequence)),
        lambda spec: f"SEQ WITHIN {show_duration(cast(SequencePattern, spec.sequence).within_ms)}",
        lambda spec: 2.0,
        waits=True,
    ),
    WindowKind(
        "step",
        lambda spec, t0_ms, open_closed: StepInput(spec.count),
        lambda spec: "SEQ",
        lambda spec: 0.0,
        waits=True,
    ),
    WindowKind("all", lambda spec, t0_ms, open_closed: AllWindow(), lambda spec: "ALL"),
):
    register(_kind)
