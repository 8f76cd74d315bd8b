"""The compiler's access to data: the quads of a store as DataFrames, with figures about each predicate."""

from __future__ import annotations

from typing import Any, Protocol

from quadrill.store.bulk.mirror import PredicateFacts


class Quads(Protocol):
    """Quads with columns s, p, o, g (texts; g is null in the default graph) and typed columns n, d, t."""

    def of(self, predicate: str | None) -> Any:
        """Return the quads of one predicate, given by its IRI, or of all predicates for None."""
        ...

    def facts(self, predicate: str | None) -> PredicateFacts:
        """Return the counts of a predicate's quads, or the sums over all predicates for None."""
        ...

    def rows(self, names: list[str], texts: list[tuple[str | None, ...]]) -> Any:
        """Return a DataFrame of the given rows of term texts."""
        ...
