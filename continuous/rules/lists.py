"""RDF lists in facts. Their cells are ordinary facts, so a list may change, or be malformed.

``LIST[h, e1, …, en]`` of OWL 2 Profiles (section 4.3, table 3) stands for cells ``h, z2, …, zn`` with an
``rdf:first`` each, linked by ``rdf:rest``; the ``rdf:rest`` of the last cell is ``rdf:nil``. A cell may have
several values or several following cells, for instance because of ``owl:sameAs``. Each way to choose one
value and one following cell in each cell is a list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from pyoxigraph import NamedNode

from .facts import Fact

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TYPE, FIRST, REST, NIL = (NamedNode(_RDF + name) for name in ("type", "first", "rest", "nil"))


@dataclass(frozen=True, slots=True)
class ListCells:
    """A path from a list to each of its cells; with ``later``, only to the cells after the first one."""

    later: bool = False


class Matches(Protocol):
    """Facts from which lists are read."""

    def match(self, s: int | None, p: int | None, o: int | None) -> Collection[Fact]:
        """Return the matching triples; None matches any term."""
        ...


@dataclass(slots=True)
class Cells:
    """The cells of all lists that start at one cell, with their values.

    Attributes:
        values: the values of each cell; empty if no well-formed list starts at the first cell.
        following: the cells that may follow each cell.
        last: the cells at which a list may end.
    """

    values: dict[int, list[int]]
    following: dict[int, list[int]]
    last: set[int]

    def after(self, head: int) -> set[int]:
        """Return the cells after the cell ``head`` in at least one of the lists."""
        found: set[int] = set()
        waiting = [head]
        while waiting:
            for cell in self.following.get(waiting.pop(), ()):
                if cell not in found:
                    found.add(cell)
                    waiting.append(cell)
        return found

    @property
    def plain(self) -> bool:
        """True if there is exactly one list."""
        return (
            all(len(values) == 1 for values in self.values.values())
            and all(len(cells) < 2 for cells in self.following.values())
            and not any(self.following[cell] for cell in self.last)
        )


class Lists:
    """Reads lists from facts by the ids of ``rdf:first``, ``rdf:rest`` and ``rdf:nil``."""

    def __init__(self, first: int, rest: int, nil: int) -> None:
        self.first, self.rest, self.nil = first, rest, nil

    def read(self, facts: Matches, head: int) -> Cells:
        """Return the cells of all lists that start at ``head``."""
        match, first, rest = facts.match, self.first, self.rest
        values: dict[int, list[int]] = {}
        following: dict[int, list[int]] = {}
        waiting = [head]
        while waiting:
            cell = waiting.pop()
            if cell in values:
                continue
            found = [value for _, _, value in match(cell, first, None)]
            if found:
                values[cell] = found
                following[cell] = [value for _, _, value in match(cell, rest, None)]
                waiting += following[cell]
        return self._ending(head, values, following)

    def _ending(self, head: int, values: dict[int, list[int]], following: dict[int, list[int]]) -> Cells:
        """Return the cells from which ``rdf:nil`` can be reached; no cells if ``head`` is not among them."""
        before: dict[int, list[int]] = {}
        for cell, cells in following.items():
            for each in cells:
                before.setdefault(each, []).append(cell)
        ending = {cell for cell, cells in following.items() if self.nil in cells}
        last = set(ending)
        waiting = list(ending)
        while waiting:
            for cell in before.get(waiting.pop(), ()):
                if cell not in ending:
                    ending.add(cell)
                    waiting.append(cell)
        if head not in ending:
            return Cells({}, {}, set())
        return Cells(
            {cell: found for cell, found in values.items() if cell in ending},
            {
                cell: [each for each in cells if each in ending]
                for cell, cells in following.items()
                if cell in ending
            },
            last,
        )

    def cells(self, facts: Matches, head: int, *, later: bool = False) -> Iterable[int]:
        """Return the cells of lists that start at ``head``; with ``later``, only those after the first."""
        found = self.read(facts, head)
        return found.after(head) if later else found.values

    def lists_with(self, facts: Matches, cell: int, *, later: bool = False) -> Iterable[int]:
        """Return the first cells of lists that contain ``cell``; with ``later``, after the first position."""
        if cell not in self.read(facts, cell).values:
            return ()
        found: set[int] = set()
        waiting = [cell]
        while waiting:
            for before, _, _ in facts.match(None, self.rest, waiting.pop()):
                if before not in found and facts.match(before, self.first, None):
                    found.add(before)
                    waiting.append(before)
        return found if later else found | {cell}

    def before(self, facts: Matches, cells: Iterable[int]) -> set[int]:
        """Return the given cells and all cells before them, also those of malformed lists."""
        found = set(cells)
        waiting = list(found)
        while waiting:
            for cell, _, _ in facts.match(None, self.rest, waiting.pop()):
                if cell not in found:
                    found.add(cell)
                    waiting.append(cell)
        return found
