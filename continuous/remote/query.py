"""The sources of one query, and which of their contents its static parts reflect."""

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
    """The sources of one query. Used by the engine's thread once the query runs."""

    def __init__(
        self, specs: Sequence[SourceSpec], book: SourceRegistry | None, base_iri: str | None
    ) -> None:
        """Without a book, as for a check of a text, every source is empty."""
        self.specs = tuple(specs)
        self._book = book
        self._base_iri = base_iri
        self._by_key = {each.key: each for each in specs}
        self._held: dict[str, SourceValue] = {each.key: absent(each) for each in specs}
        self.remote_graphs = frozenset(NamedNode(each.iri) for each in specs if each.kind == "graph")

    def take(self) -> frozenset[str]:
        """Read the newest contents; the keys of those that are other ones than before."""
        if self._book is None:
            return frozenset()
        newest = {spec.key: self._book.value(spec) for spec in self.specs}
        changed = frozenset(key for key, value in newest.items() if value is not self._held[key])
        self._held = newest
        return changed

    def rows(self, call: Service, columns: Sequence[Var]) -> list[Solution]:
        """The solutions of a SERVICE call in these columns, duplicates kept."""
        spec = self.of(call)
        places = [spec.columns.index(column.name) for column in columns]
        return [tuple(row[place] for place in places) for row in self._held[spec.key].rows]

    def quads(self, graphs: Iterable[object]) -> list[Quad]:
        """The quads of those of the graphs that are remote."""
        wanted = set(graphs)
        found: list[Quad] = []
        for spec in self.specs:
            if spec.kind == "graph" and NamedNode(spec.iri) in wanted:
                found += self._held[spec.key].quads
        return found

    def of(self, call: Service) -> SourceSpec:
        """The source of a SERVICE call."""
        return self._by_key[service_spec(call, self._base_iri).key]

    def marks(self) -> list[dict[str, Any]]:
        """The refresh version of each content that results reflect, and whether it is stale, as JSON."""
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
        """The sources as JSON, for the description of the query."""
        documents = [] if self._book is None else self._book.describe(self.specs)
        for spec, document in zip(self.specs, documents, strict=True):
            document["refresh_version"] = self._held[spec.key].number
        return documents

    def pins(self) -> dict[str, list[Any]]:
        """The contents that the static parts reflect, for a checkpoint."""
        return {key: [value.number, value.at_ms, value.digest] for key, value in self._held.items()}


NO_SOURCES = QuerySources((), None, None)
"""Those of a query that reads nothing from other servers."""
