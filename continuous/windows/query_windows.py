"""The windows of one query: an operator for each window and stream, and the contents that are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.query import WindowDeclaration
from .encoded import EncodedContent, WindowKey
from .grid import GridWindow
from .kinds import kind_of
from .live import LiveContent, LiveQuads
from .operator import WindowOperator

ContentOf = Callable[[NamedNode], LiveContent]
"""Gives an empty content of the kind that a window is to hold."""
StreamsOf = Callable[[str], Sequence[str] | None]
"""For a window on a variable, by name: the streams that static data binds it to; None for every stream."""


class QueryWindows:
    """The window operators of one query.

    Attributes:
        operators: by (window, stream) in text order; a window on a variable has one per stream.
        contents: what is evaluated, by window, and by stream where the window is on a variable.
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
        self._t0_ms = t0_ms
        self._open_closed = open_closed
        self._content_of = content_of
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

    def add(self, declaration: WindowDeclaration, iri: str, instant: int | None) -> WindowOperator:
        """The operator of a window on a stream, without elements."""
        operator = kind_of(declaration.spec).operator(declaration.spec, self._t0_ms, self._open_closed)
        operator.live = LiveQuads() if self._content_of is None else self._content_of(declaration.name)
        if instant is not None:
            operator.start(instant)
        self.operators[(declaration.name.value, iri)] = operator
        by_stream = not isinstance(declaration.stream, NamedNode)
        key = (declaration.name, NamedNode(iri) if by_stream else None)
        # Another list: an evaluation at work goes on with what there was.
        self.contents = [*self.contents, (key, operator.live)]
        return operator

    @property
    def shape(self) -> Hashable | None:
        """Equal for windows that hold the same when they are given the same; None where that is not known."""
        if not self.slide or not all(isinstance(each.stream, NamedNode) for each in self.declarations):
            return None
        contents = [operator.live for operator in self]
        shapes = tuple(each.shape for each in contents if type(each) is EncodedContent)
        return (self.declarations, self._open_closed, shapes) if len(shapes) == len(contents) else None

    @property
    def stay(self) -> int | None:
        """How long after its event time an element may be in a window; None for windows that never forget."""
        stays = [operator.stay for operator in self if operator.stay is not None]
        return max(stays) if self.slide and len(stays) == len(self.operators) else None

    def detach(self) -> None:
        """From now on nothing is asked of the query that they were made for; for those with a `shape`."""
        self._content_of = self._streams_of = None

    @property
    def empty(self) -> bool:
        """True when no quad is visible in any window."""
        return not any(operator.live.occurrences for operator in self)

    @property
    def closes_after(self) -> bool:
        """True when some closes are known only once the watermark has passed them."""
        return any(operator.closes_after for operator in self)

    @property
    def grids(self) -> list[GridWindow]:
        """The windows on a grid of time."""
        return [operator for operator in self if isinstance(operator, GridWindow)]

    def size(self) -> int:
        """Quads held."""
        return sum(operator.state_size() for operator in self)

    def next_due(self) -> tuple[int, int] | None:
        """The next (instant, phase) at which time changes a content or closes a window.

        Phase 1 is behind the watermark: a close of ``(open, close]`` is known only then.
        """
        due = [(at, int(each.closes_after)) for each in self if (at := each.next_due()) is not None]
        return min(due, default=None)

    def restore(self, kept: Sequence[tuple[tuple[str, str], Any]], instant: int | None) -> None:
        """Go on from snapshots, by window and stream, at an instant."""
        declared = {each.name.value: each for each in self.declarations}
        self.operators, self.contents = {}, []
        for (window, stream), snapshot in kept:
            operator = self.add(declared[window], stream, instant if snapshot is None else None)
            if snapshot is not None:
                operator.restore(snapshot)

    def fork(self) -> QueryWindows:
        """The same, to go on from here for themselves; for windows that have no closes."""
        other = copy(self)
        other.operators = {key: operator.fork() for key, operator in self.operators.items()}
        other.contents = [
            (key, operator.live) for (key, _), operator in zip(self.contents, other, strict=True)
        ]
        return other
