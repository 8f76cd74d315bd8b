"""Counts of the quads in a CONSTRUCT answer, maintained by deltas of the solutions.

A quad is in a CONSTRUCT answer while at least one solution yields it. A delta of the solutions changes the
counts of the quads that these solutions yield. An event of a CONSTRUCT contains the quads whose count leaves
or reaches 0, so the cost of an event depends on the size of the delta and not of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyoxigraph import Quad

from quadrill.store.dictionary import TermDictionary
from quadrill.store.results import sort_rows

from ..expressions.quad_keys import QuadKeys
from ..rows import Delta, IdRow, Solution, add
from ..slices import PAUSE, pausing


class QuadCounts:
    """Counts how many solutions yield each quad of an answer; used by the engine's thread only.

    Law of the quad counts: `change` returns the difference of the sets of quads before and after a delta of
    the solutions. ``names`` are the names of the solutions' columns.
    """

    def __init__(self, keys: QuadKeys, dictionary: TermDictionary) -> None:
        """Start with an empty answer; the term ids in ``keys`` belong to ``dictionary``."""
        self.names = keys.names
        self._keys, self._dictionary = keys, dictionary
        self._counts: dict[IdRow, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def change(self, delta: Delta, *, ordered: bool) -> tuple[list[Quad], list[Quad]]:
        """Apply a delta of a CONSTRUCT's solutions; return the deleted and the inserted quads.

        Args:
            delta: solutions with their weights, as ids in the order of the columns.
            ordered: True to process solutions in the order of ``delta``; False to sort them into a fixed
                order.
        """
        counts, quad = self._counts, self._keys.quad
        before: dict[IdRow, int] = {}
        for row in pausing(self._arranged(delta, ordered=ordered)):
            weight = delta[row]
            for key in self._keys.of(row):
                count = counts.get(key, 0)
                before.setdefault(key, count)
                if count + weight:
                    counts[key] = count + weight
                else:
                    del counts[key]
        deleted, inserted = list[Quad](), list[Quad]()
        for key, count in pausing(before.items()):
            if count and key not in counts:
                deleted.append(quad(key))
            elif not count and key in counts:
                inserted.append(quad(key))
        return deleted, inserted

    def coded(self, deleted: Iterable[Solution], inserted: Iterable[Solution]) -> Delta:
        """Return deleted and inserted solutions as a delta of id rows."""
        found: Delta = {}
        ids = self._dictionary.ids
        for rows, weight in ((deleted, -1), (inserted, 1)):
            for row in rows:
                add(found, tuple([0 if term is None else ids[term] for term in row]), weight)
        return found

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the id rows that the next change of the quad counts needs."""
        yield from self._keys.referenced_rows()
        yield from list(self._counts)

    def _arranged(self, delta: Delta, *, ordered: bool) -> list[IdRow]:
        """Return the solutions of a delta, deletions first, each part in its given or fixed order."""
        deleted = [row for row, weight in delta.items() if weight < 0]
        inserted = [row for row, weight in delta.items() if weight > 0]
        for rows in () if ordered else (deleted, inserted):
            if len(rows) > 1:
                rows[:] = sort_rows(rows, self._texts, PAUSE)
        return deleted + inserted

    def _texts(self, row: IdRow) -> list[str]:
        """Return the sort key of a row, equal to the sort key of `store.results.in_fixed_order`."""
        terms = self._dictionary.terms
        return [str(terms[each]) if each else "" for each in row]
