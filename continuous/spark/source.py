"""The source of the compiler: the quads of a store as DataFrames, with figures about each predicate."""

from __future__ import annotations

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
