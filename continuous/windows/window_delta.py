"""The deltas that plans read from the windows of the native engine, in term ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

from pyoxigraph import NamedNode

from ..rows import EMPTY, Delta, IdRow


class Columns:
    """The positions and ids of those predicates of an element that queries read; equal only to itself."""

    __slots__ = ("places", "predicates")

    def __init__(self, places: tuple[int, ...], predicates: tuple[int, ...]) -> None:
        self.places = places
        self.predicates = predicates


class ColumnKeys:
    """The encoded keys of an element's statements about one subject, created when they are iterated.

    Statements whose predicate no query read at the time of encoding have no key; ``number`` counts all
    statements.
    """

    __slots__ = ("columns", "number", "objects", "subject")

    def __init__(self, subject: int, columns: Columns, objects: list[int], number: int) -> None:
        self.subject = subject
        self.columns = columns
        self.objects = objects
        self.number = number

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[IdRow]:
        return zip(repeat(self.subject), self.columns.predicates, self.objects)


Keys: TypeAlias = tuple[IdRow | None, ...] | ColumnKeys
"""The encoded keys of an element, one per statement; None for a statement whose predicate no query reads."""
WindowKey = tuple[NamedNode, NamedNode | None]
"""A key of a window: its name and, if its stream is a variable, the IRI of one of its streams."""
Predicates = frozenset[int] | None
"""Ids of the predicates that a query's patterns can match; None for every predicate."""


class WindowDelta(NamedTuple):
    """The delta of a window's content since the plan last read it.

    ``triples`` is the delta of the triples in the union of the window's graphs, or of the default graph
    alone. ``quads`` is the delta of the quads in the window's named graphs. ``keys`` contains the delta of
    both triples and quads, as keys.
    """

    triples: Delta
    quads: Delta
    keys: Delta


NOTHING = WindowDelta(EMPTY, EMPTY, EMPTY)


class EncodedWindow(Protocol):
    """A content of a window as keys of term ids."""

    def take(self) -> WindowDelta:
        """Return and reset the delta of the window since the last call."""
        ...

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """Return the window's content as of the last `take`, or before the delta ``taken``."""
        ...
