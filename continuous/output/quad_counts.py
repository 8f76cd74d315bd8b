"""The counts of the quads in a CONSTRUCT's answer, kept up to date by the changes of its solutions.

A quad is in the answer while at least one solution yields it. A change of the solutions changes the counts of
the quads that these solutions yield; an event has the quads whose count leaves or reaches 0. So its cost
follows the change and not the answer.
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
    """Counts how many solutions yield each quad of an answer; used by the engine's thread.

    Law: `change` gives the difference of the sets of quads before and after a change of the solutions.
    ``names`` are those of the columns of solutions.
    """

    def __init__(self, keys: QuadKeys, dictionary: TermDictionary) -> None:
        """Begin with the empty answer; ``keys`` are by ids of the dictionary."""
        self.names = keys.names
        self._keys, self._dictionary = keys, dictionary
        self._counts: dict[IdRow, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def change(self, delta: Delta, *, ordered: bool) -> tuple[list[Quad], list[Quad]]:
        """Take a change of the solutions; the quads that left the answer, and those that entered it.

        Args:
            delta: the rows of the solutions, as ids in the order of the columns.
            ordered: their order means something; otherwise they are taken in a fixed one.
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
        """Solutions that went and came as a change of rows of ids."""
        found: Delta = {}
        ids = self._dictionary.ids
        for rows, weight in ((deleted, -1), (inserted, 1)):
            for row in rows:
                add(found, tuple([0 if term is None else ids[term] for term in row]), weight)
        return found

    def held(self) -> Iterator[IdRow]:
        """The rows of ids that the next change needs."""
        yield from self._keys.held()
        yield from list(self._counts)

    def _arranged(self, delta: Delta, *, ordered: bool) -> list[IdRow]:
        """The rows of a change, those that went first, both in their own or in the fixed order."""
        deleted = [row for row, weight in delta.items() if weight < 0]
        inserted = [row for row, weight in delta.items() if weight > 0]
        for rows in () if ordered else (deleted, inserted):
            if len(rows) > 1:
                rows[:] = sort_rows(rows, self._texts, PAUSE)
        return deleted + inserted

    def _texts(self, row: IdRow) -> list[str]:
        """What `store.results.in_fixed_order` sorts a row by."""
        terms = self._dictionary.terms
        return [str(terms[each]) if each else "" for each in row]
