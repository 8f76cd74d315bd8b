"""The interface through which streams validate their elements by registered shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyoxigraph import Quad

from quadrill.store.errors import NotFoundError

from .result import Result


class Conformance(Protocol):
    """Validates elements of streams by registered shapes. Any thread may call the methods."""

    def require(self, name: str) -> None:
        """Raise NotFoundError if there are no shapes of this name, or if they are being removed."""
        ...

    def added_by(self, name: str, triples: Iterable[Quad], *, most_ms: int | None = None) -> list[Result]:
        """Return the results that an insertion of triples into the data would add; nothing is stored.

        Args:
            name: the name of the shapes.
            triples: the triples; their graphs do not matter.
            most_ms: a time limit in milliseconds, which applies if it is lower than ``max_time`` of the
                shapes.

        Raises:
            NotFoundError: there are no such shapes.
            ShapesFailedError: an earlier validation of the shapes was stopped.
            ValidationStoppedError: the validation exceeds a budget, or a query of a constraint fails.
        """
        ...


class NoConformance:
    """The implementation for an engine without registered shapes."""

    def require(self, name: str) -> None:
        """Raise NotFoundError."""
        raise unknown_shapes(name)

    def added_by(self, name: str, triples: Iterable[Quad], *, most_ms: int | None = None) -> list[Result]:
        """Raise NotFoundError."""
        raise unknown_shapes(name)


def unknown_shapes(name: str) -> NotFoundError:
    """Return the error for a name under which no shapes are registered."""
    return NotFoundError(f"there are no shapes {name}", code="unknown-shapes")
