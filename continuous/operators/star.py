"""A star: several triple patterns with one subject, kept up to date together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, TypeAlias

from ..rows import Delta, IdRow, Schema, add
from .linear import Operator

Slot: TypeAlias = int | set[int] | None
"""No object, one, or several."""


class Star(Operator):
    """Join of patterns ``?s p1 ?o1 . ?s p2 ?o2 ...`` over a set of triples or quads.

    ``slots`` gives for each pattern its predicate's id and the id of its object, or None where the object is
    a variable of its own. With ``graph`` the input are quads (s, p, o, g) and the entries are per graph.
    Shapes: in, a change of a set (weights ±1); out, rows (subject, [graph,] objects of the variable slots).
    """

    def __init__(
        self, subject: str, slots: Sequence[tuple[int, int | None, str | None]], graph: str | None = None
    ) -> None:
        """``slots``: (predicate id, object id or None, object variable or None)."""
        self.slots = tuple(slots)
        self.subject = subject
        self.graph = graph
        head = (subject,) if graph is None else (subject, graph)
        names = (*head, *(name for _, _, name in slots if name is not None))
        self.schema = Schema(names, frozenset(names))
        self.shown = tuple(place for place, (_, _, name) in enumerate(slots) if name is not None)
        self.places: dict[int, tuple[int, ...]] = {}
        for place, (predicate, _, _) in enumerate(slots):
            self.places[predicate] = (*self.places.get(predicate, ()), place)
        self.entries: dict[IdRow, list[Slot]] = {}
        # Rows that products have made in this step, and where to look at the budget.
        self._made, self._look = 0, 0

    def step(self, *changes: Delta) -> Delta:
        """Rows of the entries that changed, new against old."""
        places, slots, entries = self.places, self.slots, self.entries
        quads = self.graph is not None
        self._made, self._look = 0, self.budget.look
        out: Delta = {}
        touched: dict[IdRow, list[Slot]] = {}
        for triple, weight in changes[0].items():
            found = places.get(triple[1])
            if found is None:
                continue
            object_ = triple[2]
            key: IdRow = (triple[0], triple[3]) if quads else (triple[0],)
            for place in found:
                wanted = slots[place][1]
                if wanted is not None and wanted != object_:
                    continue
                entry = touched.get(key)
                if entry is None:
                    entry = touched[key] = self._entry(key, out)
                before = entry[place]
                if before is None:
                    entry[place] = object_ if weight > 0 else None
                else:
                    entry[place] = _changed(before, object_, weight)
        for key, entry in touched.items():
            for row in self.rows(key, entry):
                add(out, row, 1)
            if entry.count(None) == len(entry):
                del entries[key]
        return out

    def _entry(self, key: IdRow, out: Delta) -> list[Slot]:
        """The entry of a subject that is about to change: its rows go."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = [None] * len(self.slots)
            return entry
        for row in self.rows(key, entry):
            out[row] = -1
        return entry

    def rows(self, key: IdRow, entry: list[Slot]) -> list[IdRow]:
        """The rows of one entry."""
        if None in entry:
            return []
        if set not in map(type, entry):
            objects: Any = [entry[place] for place in self.shown]
            return [(*key, *objects)]
        shown = [entry[place] for place in self.shown]
        choices: Any = [slot if isinstance(slot, set) else (slot,) for slot in shown]
        self._made += prod(map(len, choices))
        if self._made > self._look:
            self._look = self.budget.check(self._made, self)
        return [(*key, *objects) for objects in product(*choices)]

    def held(self) -> Iterator[IdRow]:
        """Keys and objects of all entries."""
        for key, entry in list(self.entries.items()):
            yield key
            for slot in entry:
                if slot is not None:
                    yield tuple(slot) if isinstance(slot, set) else (slot,)

    def size(self) -> int:
        """How many entries are there."""
        return len(self.entries)


def _changed(slot: int | set[int], object_: int, weight: int) -> Slot:
    """A slot that holds something, after an object came or went."""
    if type(slot) is int:
        return {slot, object_} if weight > 0 else None
    assert isinstance(slot, set)
    if weight > 0:
        slot.add(object_)
        return slot
    slot.discard(object_)
    return slot.pop() if len(slot) == 1 else slot
