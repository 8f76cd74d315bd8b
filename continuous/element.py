"""Stream elements and window contents, the values that ingest, windows and evaluators exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyoxigraph import Quad

from .algebra.nodes import Term


@dataclass(slots=True, unsafe_hash=True)
class Element:
    """One RDF dataset that arrived atomically on a stream.

    ``quads`` keep the order of the serialisation, terms are in the store's own forms and blank nodes are
    renamed so that they never clash with another element's. ``event_time`` in milliseconds; ``seq`` is
    given at accept time and never repeats on its stream. Nothing but ``encoded`` is ever set again.
    """

    quads: tuple[Quad, ...]
    event_time: int
    seq: int
    encoded: tuple[object, Any] | None = field(default=None, init=False, repr=False, compare=False)
    """The quads as whoever encoded them last remembers them, with a stamp that says how long that holds."""

    def __reduce__(self) -> tuple[type[Element], tuple[Any, ...]]:
        """Pickle the element without what was remembered, which means nothing elsewhere."""
        return Element, (self.quads, self.event_time, self.seq)


WindowContent: TypeAlias = Mapping[Quad, int]
"""The content of one window at an instant: each live quad once, with the greatest event time among the
live occurrences (C-SPARQL's ``timestamp()`` reads it)."""

Solution: TypeAlias = tuple[Term | None, ...]
"""One solution, in the order of the answer's variables; None is unbound."""
