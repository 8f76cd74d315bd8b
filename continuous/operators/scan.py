"""Triple patterns over the rows of a window: one pattern alone, or a star of patterns with one subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from pyoxigraph import NamedNode, Triple

from quadrill.store.dictionary import Pins, TermDictionary

from ..algebra.nodes import TermPattern, TripleTerm, Var
from ..rows import Delta, IdRow, Schema, add

Bindings = dict[str, int]


class Scan:
    """Rows of the variables of one pattern over triples (s, p, o) or quads (s, p, o, g).

    Constants are compared by id, a repeated variable must repeat, triple term patterns are taken apart.
    Linear: keeps nothing. Several quads can give one row only where a position is not in the pattern
    (a graph that is not asked for), so weights add up.
    """

    def __init__(
        self,
        positions: Sequence[TermPattern | NamedNode],
        terms: TermDictionary,
        pins: Pins,
        loose: frozenset[str] = frozenset(),
    ) -> None:
        """Make one.

        Args:
            positions: patterns for s, p, o and the columns behind them.
            terms: the dictionary.
            pins: keeps the ids of constants.
            loose: variables of columns that may be unbound.
        """
        self.positions = tuple(positions)
        names = [name for position in self.positions for name in variables(position)]
        unique = tuple(dict.fromkeys(names))
        self.schema = Schema(unique, frozenset(unique) - loose)
        self._terms = terms
        self.constants = [
            (place, terms.ids[position])
            for place, position in enumerate(self.positions)
            if not isinstance(position, Var | TripleTerm)
        ]
        pins.pin([term_id for _, term_id in self.constants])
        self.simple: tuple[int, ...] | None = None
        if len(unique) == len(names) and not any(isinstance(each, TripleTerm) for each in self.positions):
            self.simple = tuple(
                place for place, position in enumerate(self.positions) if isinstance(position, Var)
            )

    def step(self, *changes: Delta) -> Delta:
        """The rows of the quads that match."""
        out: Delta = {}
        constants = self.constants
        simple = self.simple
        for quad, weight in changes[0].items():
            for place, term_id in constants:
                if quad[place] != term_id:
                    break
            else:
                if simple is not None:
                    add(out, tuple([quad[place] for place in simple]), weight)
                    continue
                bindings: Bindings = {}
                if all(map(self._match, self.positions, quad, [bindings] * len(quad))):
                    add(out, tuple(bindings.values()), weight)
        return out

    def _match(self, pattern: TermPattern | NamedNode, term_id: int, bindings: Bindings) -> bool:
        if isinstance(pattern, Var):
            return bindings.setdefault(pattern.name, term_id) == term_id
        if not isinstance(pattern, TripleTerm):
            return self._terms.ids[pattern] == term_id
        term = self._terms.terms[term_id]
        if not isinstance(term, Triple):
            return False
        ids = self._terms.ids
        return (
            self._match(pattern.subject, ids[term.subject], bindings)
            and self._match(pattern.predicate, ids[term.predicate], bindings)
            and self._match(pattern.object, ids[term.object], bindings)
        )


def variables(pattern: TermPattern | NamedNode) -> list[str]:
    """The variables of one position in the order in which they are bound."""
    if isinstance(pattern, Var):
        return [pattern.name]
    if isinstance(pattern, TripleTerm):
        return [
            *variables(pattern.subject),
            *variables(pattern.predicate),
            *variables(pattern.object),
        ]
    return []


class Select:
    """Keeps some columns of the quads that a test accepts: negated sets of paths, graph names."""

    def __init__(self, schema: Schema, columns: Sequence[int], accept: Callable[[IdRow], bool]) -> None:
        self.schema = schema
        self._columns = tuple(columns)
        self._accept = accept

    def step(self, *changes: Delta) -> Delta:
        """The columns of the changed quads that are accepted."""
        out: Delta = {}
        for row, weight in changes[0].items():
            if self._accept(row):
                add(out, tuple([row[column] for column in self._columns]), weight)
        return out


def excludes(predicates: Mapping[int, object]) -> Callable[[IdRow], bool]:
    """Accepts triples whose predicate is not among ``predicates``."""
    return lambda row: row[1] not in predicates


Slot: TypeAlias = int | set[int] | None
"""No object, one, or several."""


class Star:
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

    def step(self, *changes: Delta) -> Delta:
        """Rows of the entries that changed, new against old."""
        places, slots, entries = self.places, self.slots, self.entries
        quads = self.graph is not None
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
