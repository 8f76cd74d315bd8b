"""What plans take from the windows of the native engine: changes of their contents in term ids."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pyoxigraph import NamedNode

from ..rows import EMPTY, Delta, IdRow

Keys = tuple[IdRow | None, ...]
WindowKey = tuple[NamedNode, NamedNode | None]
"""A window and, where its stream is a variable, one of its streams."""
Predicates = frozenset[int] | None
"""Ids of the predicates that a query's patterns can match; None for every predicate."""


class Taken(NamedTuple):
    """The change of a window since the last call.

    ``triples`` is the change of the union of its graphs (or of the default graph alone), ``quads`` that of
    the named graphs, ``keys`` both together as they came.
    """

    triples: Delta
    quads: Delta
    keys: Delta


NOTHING = Taken(EMPTY, EMPTY, EMPTY)


class HeldWindow(Protocol):
    """A window's content in term ids."""

    def take(self) -> Taken:
        """The change since the last call."""
        ...

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """The content as it was at the last `take`, or before the keys that were taken then."""
        ...
