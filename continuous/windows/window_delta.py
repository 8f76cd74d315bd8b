"""What plans take from the windows of the native engine: changes of their contents in term ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

from pyoxigraph import NamedNode

from ..rows import EMPTY, Delta, IdRow


class Columns:
    """Which predicates of statements somebody asks for: their places and ids; equal only to itself."""

    __slots__ = ("places", "predicates")

    def __init__(self, places: tuple[int, ...], predicates: tuple[int, ...]) -> None:
        self.places = places
        self.predicates = predicates


class ColumnKeys:
    """The keys of an element's statements about one subject, made when they are read.

    Those of statements that nobody asked for when it was encoded are left out; ``number`` counts all.
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
"""The keys of an element; None for a statement that nobody asks for. As long as it has statements."""
WindowKey = tuple[NamedNode, NamedNode | None]
"""A window and, where its stream is a variable, one of its streams."""
Predicates = frozenset[int] | None
"""Ids of the predicates that a query's patterns can match; None for every predicate."""


class WindowDelta(NamedTuple):
    """The change of a window since the last call.

    ``triples`` is the change of the union of its graphs (or of the default graph alone), ``quads`` that of
    the named graphs, ``keys`` both together as they came.
    """

    triples: Delta
    quads: Delta
    keys: Delta


NOTHING = WindowDelta(EMPTY, EMPTY, EMPTY)


class EncodedWindow(Protocol):
    """A window's content in term ids."""

    def take(self) -> WindowDelta:
        """The change since the last call."""
        ...

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """The content as it was at the last `take`, or before the keys that were taken then."""
        ...
