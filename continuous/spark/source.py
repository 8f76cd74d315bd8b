"""What the compiler reads: the quads of a dataset as DataFrames, with figures about each predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from quadrill.store.bulk.mirror import PredicateFacts


class Quads(Protocol):
    """Quads with columns s, p, o, g (texts; g is null in the default graph) and typed columns n, d, t."""

    def of(self, predicate: str | None) -> Any:
        """The quads of one predicate (its IRI) or of all (None)."""
        ...

    def facts(self, predicate: str | None) -> PredicateFacts:
        """Their figures; for None, sums."""
        ...

    def rows(self, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
        """A DataFrame of given rows of texts."""
        ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs of a query (SPARQL 1.1, section 13.2), as texts.

    Attributes:
        default: the graphs whose merge is the default graph; None stands for the default graph itself.
        named: those that GRAPH ranges over; None is all.
    """

    default: tuple[str | None, ...] = (None,)
    named: tuple[str, ...] | None = None
