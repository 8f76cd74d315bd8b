"""Where changes enter a plan: the content of a window, the rows of a static part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import DefaultGraph, Quad

from quadrill.store.dictionary import TermDictionary

from ..algebra.reify import REIFIES
from ..rows import EMPTY, Delta, Row, Schema, add

QuadIds = tuple[int, int, int, int]
"""Subject, predicate, object, graph; the default graph is 0."""


class WindowSource:
    """The content of one window as encoded triples, and as encoded quads where GRAPH is used.

    In: the quads that entered (+1) and left (-1) the set. Out of `step`: the change of the union of all
    graphs, a set of triples (a triple in two graphs is there once), or of the default graph alone.
    ``quads`` is then the change of the named graphs. ``met_reifier`` says that a statement with rdf:reifies
    came by: the caller then names the reifiers (`CanonicalReifiers`).
    """

    schema = Schema(("s", "p", "o"), frozenset("spo"))

    def __init__(self, terms: TermDictionary, *, union: bool = True) -> None:
        self._ids = terms.ids
        self._union = union
        self._counts: dict[Row, int] = {}
        self._rows: dict[Quad, tuple[Row, int]] = {}
        self.quads: Delta = {}
        self._reifies = terms.ids[REIFIES]
        terms.pin([self._reifies])
        self.met_reifier = False

    def feed(self, changes: Mapping[Quad, int]) -> Delta:
        """Encode the changes of the set; the change of the triples."""
        ids = self._ids
        known = self._rows
        counts = self._counts
        triples: Delta = {}
        quads: Delta = {}
        for quad, weight in changes.items():
            if weight > 0:
                graph = quad.graph_name
                name = 0 if type(graph) is DefaultGraph else ids[graph]
                predicate = ids[quad.predicate]
                if predicate == self._reifies:
                    self.met_reifier = True
                row: Row = (ids[quad.subject], predicate, ids[quad.object])
                known[quad] = (row, name)
            else:
                row, name = known.pop(quad)
            if name:
                quads[(*row, name)] = weight
                if not self._union:
                    continue
            before = counts.get(row, 0)
            after = before + weight
            if after:
                counts[row] = after
            else:
                del counts[row]
            if not before or not after:
                add(triples, row, 1 if after else -1)
        self.quads = quads
        return triples

    def live(self) -> list[Quad]:
        """The live quads."""
        return list(self._rows)

    def held(self) -> Iterable[Row]:
        """The live quads as ids."""
        return [(*row, name) for row, name in self._rows.values()]

    def size(self) -> int:
        """How many quads are live."""
        return len(self._rows)


class TableSource:
    """The rows of one static part; they change when the store does."""

    def __init__(self, schema: Schema, terms: TermDictionary) -> None:
        self.schema = schema
        self._terms = terms
        self.rows: Delta = {}

    def replace(self, rows: Delta) -> Delta:
        """Take the rows of another version of the store; the change. Their ids are pinned."""
        if not self.rows and not rows:
            return EMPTY
        change = {row: weight - self.rows.get(row, 0) for row, weight in rows.items()}
        change = {row: weight for row, weight in change.items() if weight}
        for row, weight in self.rows.items():
            if row not in rows:
                change[row] = -weight
        self._terms.pin(term_id for row in rows for term_id in row)
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows = rows
        return change

    def release(self) -> None:
        """Give the pinned ids back."""
        self._terms.unpin(term_id for row in self.rows for term_id in row)
        self.rows = {}
