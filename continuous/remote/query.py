"""The remote sources of one query, and the contents of them that the query's static parts reflect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyoxigraph import NamedNode, Quad

from ..algebra.nodes import Service, Var
from ..rows import Solution
from .source_registry import SourceRegistry
from .spec import SourceSpec, service_spec
from .value import SourceValue, absent


class QuerySources:
    """The remote sources of one query.

    Only the engine's thread calls `take` for a running query.
    """

    def __init__(
        self, specs: Sequence[SourceSpec], book: SourceRegistry | None, base_iri: str | None
    ) -> None:
        """Create the sources of a query; without a registry ``book`` (text check) every source is empty."""
        self.specs = tuple(specs)
        self._book = book
        self._base_iri = base_iri
        self._by_key = {each.key: each for each in specs}
        self._held: dict[str, SourceValue] = {each.key: absent(each) for each in specs}
        self.remote_graphs = frozenset(NamedNode(each.iri) for each in specs if each.kind == "graph")

    def take(self) -> frozenset[str]:
        """Read the newest contents of the query's sources; return the keys of sources with changes."""
        if self._book is None:
            return frozenset()
        newest = {spec.key: self._book.value(spec) for spec in self.specs}
        changed = frozenset(key for key, value in newest.items() if value is not self._held[key])
        self._held = newest
        return changed

    def rows(self, call: Service, columns: Sequence[Var]) -> list[Solution]:
        """Return the content of a SERVICE call: its solutions in the given columns, including duplicates."""
        spec = self.of(call)
        places = [spec.columns.index(column.name) for column in columns]
        return [tuple(row[place] for place in places) for row in self._held[spec.key].rows]

    def quads(self, graphs: Iterable[object]) -> list[Quad]:
        """Return all quads of the remote graphs among ``graphs``."""
        wanted = set(graphs)
        found: list[Quad] = []
        for spec in self.specs:
            if spec.kind == "graph" and NamedNode(spec.iri) in wanted:
                found += self._held[spec.key].quads
        return found

    def of(self, call: Service) -> SourceSpec:
        """Return the specification of the source that a SERVICE call reads."""
        return self._by_key[service_spec(call, self._base_iri).key]

    def marks(self) -> list[dict[str, Any]]:
        """Return refresh version and staleness of the remote contents that results reflect, as JSON."""
        marks = []
        for spec in self.specs:
            value = self._held[spec.key]
            mark: dict[str, Any] = {
                "source": spec.iri,
                "refresh_version": value.number,
                "refreshed": value.at_ms or None,
            }
            if self._book is not None and self._book.stale(spec):
                mark["stale"] = True
            marks.append(mark)
        return marks

    def describe(self) -> list[dict[str, Any]]:
        """Return the remote sources as JSON for the description of the query."""
        documents = [] if self._book is None else self._book.describe(self.specs)
        for spec, document in zip(self.specs, documents, strict=True):
            document["refresh_version"] = self._held[spec.key].number
        return documents

    def pins(self) -> dict[str, list[Any]]:
        """Return number, time and digest of the contents that static parts reflect, for a checkpoint."""
        return {key: [value.number, value.at_ms, value.digest] for key, value in self._held.items()}


NO_SOURCES = QuerySources((), None, None)
"""The sources of a query that reads nothing from other servers."""
