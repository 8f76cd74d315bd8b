"""Step 5 of 8: one quad pattern over the changes of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
        pins.pin(term_id for _, term_id in self.constants)
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
