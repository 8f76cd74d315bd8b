"""The windows of one query: an operator for each window and stream, and the contents that are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.query import WindowDeclaration
from .encoded import EncodedContent, WindowKey
from .grid import GridWindow
from .kinds import build_window, kind_of
from .live import LiveContent, LiveQuads
from .operator import WindowOperator

ContentOf = Callable[[NamedNode], LiveContent]
"""Gives an empty content of the kind that a window is to hold."""
StreamsOf = Callable[[str], Sequence[str] | None]
"""For a window on a variable, by name: the streams that static data binds it to; None for every stream."""


def _quads(window: NamedNode) -> LiveContent:
    return LiveQuads()


class QueryWindows:
    """The window operators of one query.

    Attributes:
        operators: by (window, stream) in text order; a window on a variable has one per stream.
        contents: what is evaluated, by window, and by stream where the window is on a variable.
        by_order: the operators by the place of their stream.
        slide: no window has closes.
    """

    def __init__(
        self,
        declarations: Sequence[WindowDeclaration],
        t0_ms: int | None,
        *,
        open_closed: bool,
        content_of: ContentOf | None,
        streams_of: StreamsOf | None,
    ) -> None:
        self.declarations = tuple(declarations)
        self.slide = not any(kind_of(window.spec).closes for window in self.declarations)
        self.operators: dict[tuple[str, str], WindowOperator] = {}
        self.contents: list[tuple[WindowKey, Any]] = []
        self.by_order: list[list[WindowOperator]] = []
        self._t0_ms = t0_ms
        self._open_closed = open_closed
        self._content_of = content_of or _quads
        self._streams_of = streams_of

    def __iter__(self) -> Iterator[WindowOperator]:
        return iter(self.operators.values())

    def streams_of(self, declaration: WindowDeclaration) -> Sequence[str] | None:
        """The streams of a window now; None for every stream there is."""
        if isinstance(declaration.stream, NamedNode):
            return (declaration.stream.value,)
        return None if self._streams_of is None else self._streams_of(declaration.name.value)

    @property
    def reads_every_stream(self) -> bool:
        """True when a window is on a variable that static data does not bind."""
        return any(self.streams_of(window) is None for window in self.declarations)

    def add(self, declaration: WindowDeclaration, iri: str, order: int, instant: int | None) -> None:
        """The operator of a window on a stream, which has a place in the order."""
        operator = self._build(declaration)
        if instant is not None:
            operator.start(instant)
        self._put((declaration.name.value, iri), operator, order)
        self._list()

    def _build(self, declaration: WindowDeclaration) -> WindowOperator:
        """An operator of a window without elements."""
        operator = build_window(declaration.spec, t0_ms=self._t0_ms, open_closed=self._open_closed)
        operator.live = self._content_of(declaration.name)
        return operator

    def _put(self, key: tuple[str, str], operator: WindowOperator, order: int) -> None:
        while len(self.by_order) <= order:
            self.by_order.append([])
        self.operators[key] = operator
        self.by_order[order].append(operator)

    def _list(self) -> None:
        """An operator was added or replaced."""
        fixed = {each.name.value for each in self.declarations if isinstance(each.stream, NamedNode)}
        self.contents = [
            ((NamedNode(name), None if name in fixed else NamedNode(stream)), operator.live)
            for (name, stream), operator in self.operators.items()
        ]

    @property
    def shape(self) -> Hashable | None:
        """Equal for windows that hold the same when they are given the same; None where that is not known."""
        if not self.slide or not all(isinstance(each.stream, NamedNode) for each in self.declarations):
            return None
        contents = [operator.live for operator in self]
        if any(type(content) is not EncodedContent for content in contents):
            return None
        return (self.declarations, self._open_closed, tuple(content.shape for content in contents))

    @property
    def stay(self) -> int | None:
        """How long after its event time an element may be in a window; None for windows that never forget."""
        stays = [operator.stay for operator in self]
        return None if not self.slide or None in stays else max(each for each in stays if each is not None)

    def detach(self) -> None:
        """From now on nothing is asked of the query that they were made for; for those with a `shape`."""
        self._content_of, self._streams_of = _quads, None

    @property
    def empty(self) -> bool:
        """True when no quad is visible in any window."""
        return all(operator.empty for operator in self)

    @property
    def closes_after(self) -> bool:
        """True when some closes are known only once the watermark has passed them."""
        return any(operator.closes_after for operator in self)

    def size(self) -> int:
        """Quads held."""
        return sum(operator.state_size() for operator in self)

    def next_due(self) -> tuple[int, int] | None:
        """The next (instant, phase) at which time changes a content or closes a window.

        Phase 1 is behind the watermark: a close of ``(open, close]`` is known only then.
        """
        due = [(at, int(each.closes_after)) for each in self if (at := each.next_due()) is not None]
        return min(due, default=None)

    @property
    def grids(self) -> list[GridWindow]:
        """The windows on a grid of time."""
        return [operator for operator in self if isinstance(operator, GridWindow)]

    def skip_to(self, instant: int) -> None:
        """Move grids behind an instant; all closes until then are empty."""
        for grid in self.grids:
            if (close := grid.last_close_by(instant)) is not None:
                grid.skip_to(close)

    def restore(
        self, kept: list[tuple[tuple[str, str], Any]], places: Mapping[str, int], instant: int | None
    ) -> None:
        """Go on from snapshots; ``places`` are those of the streams in the order."""
        declared = {each.name.value: each for each in self.declarations}
        self.operators, self.by_order = {}, []
        for (window, stream), snapshot in kept:
            operator = self._build(declared[window])
            if snapshot is not None:
                operator.restore(snapshot)
            elif instant is not None:
                operator.start(instant)
            self._put((window, stream), operator, places[stream])
        self._list()

    def fork(self) -> QueryWindows:
        """The same, to go on from here for themselves; for windows that have no closes."""
        other = copy(self)
        own = {id(each): each.fork() for each in self}
        other.operators = {key: own[id(each)] for key, each in self.operators.items()}
        other.by_order = [[own[id(each)] for each in operators] for operators in self.by_order]
        other._list()
        return other
