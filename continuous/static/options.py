"""The settings of one query that change what its text means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

from pyoxigraph import NamedNode

from ..algebra.query import WindowDeclaration
from ..remote.query import QuerySources
from ..windows.encoded import WindowKey
from .columnar_parts import ColumnarParts


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The settings of one query that change what its text means.

    ``name`` is the query's name: RAND, UUID, STRUUID, BNODE and the blank nodes of CONSTRUCT derive from it.
    ``window_default_graph`` says what a window's patterns outside GRAPH match: the ``union`` of all graphs
    of its elements, or their ``default`` graph (Definition 16.5 of the RSP-QL* paper). ``strict_dataset``
    gives CQELS-QL SPARQL's own rule for FROM NAMED without FROM. ``quoted_asserted``: annotated triples
    count as asserted, on all streams or on those listed. ``sources`` are what the query reads from elsewhere,
    ``columnar`` evaluates static parts that are too large for the store. ``static_tables``: static parts are
    held, or looked up where they can be; None leaves it to the limits of the memory. ``looked_up`` are the
    places of those that were looked up before a restart, with the reason where nobody asked for it; None
    without a restart.
    """

    name: str = ""
    window_default_graph: OneOf["union", "default"] = "union"
    strict_dataset: bool = False
    quoted_asserted: bool | frozenset[NamedNode] = False
    base_iri: str | None = None
    sources: QuerySources | None = None
    columnar: ColumnarParts | None = None
    static_tables: OneOf["table", "lookup", "own"] | None = None
    looked_up: Mapping[int, str | None] | None = None

    def asserts_quoted(self, key: WindowKey, windows: Sequence[WindowDeclaration]) -> bool:
        """True when annotated triples of a window's content count as asserted."""
        if isinstance(self.quoted_asserted, bool):
            return self.quoted_asserted
        streams = [key[1], *(each.stream for each in windows if each.name == key[0])]
        return any(each in self.quoted_asserted for each in streams)
