"""Star joins: joins of several triple patterns with one subject, maintained by one operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, TypeAlias

from ..rows import Delta, IdRow, Schema
from .linear import Operator

Slot: TypeAlias = int | set[int] | None
"""The objects of one pattern of a star for one subject: none, one id, or a set of ids."""


class Star(Operator):
    """The star operator: join of the patterns ``?s p1 ?o1 . ?s p2 ?o2 ...`` over a set of triples or quads.

    ``slots`` gives for each pattern of the star the id of the predicate and the id of the object, or None for
    an object variable. With ``graph`` the star's input rows are quads (s, p, o, g), and the star has separate
    entries for each graph.
    Input of the star operator: deltas of a set (weights ±1). Output of the star operator: rows (subject,
    [graph,] objects of the variable slots).
    """

    def __init__(
        self, subject: str, slots: Sequence[tuple[int, int | None, str | None]], graph: str | None = None
    ) -> None:
        """Compile a star: ``slots`` are (predicate id, object id or None, object variable or None)."""
        self.graph, self._width = graph, len(slots)
        head = (subject,) if graph is None else (subject, graph)
        names = (*head, *(name for _, _, name in slots if name is not None))
        self.schema = Schema(names, frozenset(names))
        self._output_slots = tuple(place for place, (_, _, name) in enumerate(slots) if name is not None)
        # For each predicate, the slots of the star with that predicate and their constant objects.
        self.places: dict[int, list[tuple[int, int | None]]] = {}
        for place, (predicate, wanted, _) in enumerate(slots):
            self.places.setdefault(predicate, []).append((place, wanted))
        # The star's slots by subject, or by subject and graph; ``multi_valued`` has the keys with a slot of
        # several objects.
        self.entries: dict[Any, list[Slot]] = {}
        self.multi_valued: set[Any] = set()
        # The rows that the star's products have made in this step, and the number of rows at the next budget
        # check.
        self._rows_made, self._check_at = 0, 0

    @property
    def is_plain(self) -> bool:
        """True if a subject with one triple per pattern yields exactly one row of the star."""
        return self.graph is None and len(self._output_slots) == self._width == len(self.places)

    def step(self, *changes: Delta) -> Delta:
        """Return the delta of the star's rows for the changed subjects."""
        places, entries, width = self.places, self.entries, self._width
        quads = self.graph is not None
        self._rows_made, self._check_at = 0, self.budget.next_check
        out: Delta = {}
        touched: dict[Any, list[Slot]] = {}
        for triple, weight in changes[0].items():
            found = places.get(triple[1])
            if found is None:
                continue
            object_ = triple[2]
            key: Any = (triple[0], triple[3]) if quads else triple[0]
            for place, wanted in found:
                if wanted is not None and wanted != object_:
                    continue
                entry = touched.get(key)
                if entry is None:
                    entry = entries.get(key)
                    if entry is None:
                        entry = entries[key] = [None] * width
                    elif None not in entry:
                        # The subject's entry is about to change, so the step retracts its present rows.
                        for row in self.rows(key, entry):
                            out[row] = -1
                    touched[key] = entry
                if entry[place] is None:
                    entry[place] = object_ if weight > 0 else None
                else:
                    self._change(key, entry, place, object_, weight)
        for key, entry in touched.items():
            missing = entry.count(None)
            if missing == width:
                del entries[key]
            elif not missing:
                for row in self.rows(key, entry):
                    if row in out:
                        del out[row]
                    else:
                        out[row] = 1
        return out

    def _change(self, key: Any, entry: list[Slot], place: int, object_: int, weight: int) -> None:
        """Insert an object into an occupied slot of the star, or delete an object from the slot."""
        slot = entry[place]
        if type(slot) is int:
            entry[place] = {slot, object_} if weight > 0 else None
            if weight > 0:
                self.multi_valued.add(key)
            return
        assert isinstance(slot, set)
        if weight > 0:
            slot.add(object_)
            return
        slot.discard(object_)
        if len(slot) == 1:
            entry[place] = slot.pop()
            if set not in map(type, entry):
                self.multi_valued.discard(key)

    def rows(self, key: Any, entry: list[Slot]) -> list[IdRow]:
        """Return the star's rows of one subject's entry, which has no empty slots."""
        head: IdRow = key if self.graph is not None else (key,)
        objects: list[Any] = entry
        if len(self._output_slots) < len(entry):
            objects = [entry[place] for place in self._output_slots]
        if key not in self.multi_valued:
            return [(*head, *objects)]
        choices: Any = [slot if isinstance(slot, set) else (slot,) for slot in objects]
        self._rows_made += prod(map(len, choices))
        if self._rows_made > self._check_at:
            self._check_at = self.budget.check(self._rows_made, self)
        return [(*head, *objects) for objects in product(*choices)]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the keys and objects of all entries of the star."""
        for key, entry in list(self.entries.items()):
            yield key if self.graph is not None else (key,)
            for slot in entry:
                if slot is not None:
                    yield tuple(slot) if isinstance(slot, set) else (slot,)

    def size(self) -> int:
        """Return the number of entries: subjects, or pairs of subject and graph."""
        return len(self.entries)
