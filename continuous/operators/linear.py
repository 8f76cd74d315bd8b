"""What an operator is, and those that look at one row at a time: scan, filter, extend, project, union."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from pyoxigraph import NamedNode, Triple

from quadrill.store.dictionary import TermDictionary

from ..algebra.nodes import TermPattern, TripleTerm, Var
from ..algebra.variables import term_variables
from ..expressions.compile import Condition
from ..rows import EMPTY, UNLIMITED, Delta, IdRow, PinnedIds, Schema, add


class Operator:
    """Maps the deltas of its inputs to the delta of its output.

    Law, tested for each operator:  step = differentiate ∘ whole-relation form ∘ integrate.

    The relation before the first step is empty on both sides, so an operator whose answer over nothing is
    something (inline data, an aggregate without GROUP BY) gives it at its first step. The plan calls every
    operator at its first step and afterwards only those with an input that changed.
    """

    schema: Schema
    budget = UNLIMITED
    """What one step may cost, of one that may give out more rows than it takes."""
    kept: Collection[IdRow] | None = None
    """The rows that it keeps, where one collection has them; other operators override `held` and `size`."""

    def step(self, *changes: Delta) -> Delta:
        """Take one change of each input; the change of the output, without zero weights."""
        raise NotImplementedError

    @property
    def is_due(self) -> bool:
        """True when a step is due though no input has changed."""
        return False

    def held(self) -> Iterable[IdRow]:
        """Every row of term ids that the operator may still give out or compare with.

        Read in pieces while the operator goes on (`quadrill.store.sweep`): each collection is copied when it
        is reached, and what rows are made from comes before the rows.
        """
        return () if self.kept is None else list(self.kept)

    def size(self) -> int | None:
        """How many rows it keeps; None for an operator that never keeps any."""
        return None if self.kept is None else len(self.kept)


class Scan(Operator):
    """Rows of the variables of one pattern over triples (s, p, o) or quads (s, p, o, g).

    Constants are compared by id, a repeated variable must repeat, triple term patterns are taken apart.
    Several quads can give one row only where a position is not in the pattern (a graph that is not asked
    for), so weights add up.
    """

    def __init__(
        self,
        positions: Sequence[TermPattern | NamedNode],
        terms: TermDictionary,
        pins: PinnedIds,
        loose: frozenset[str] = frozenset(),
    ) -> None:
        """``positions``: patterns for s, p, o and the columns behind them; ``loose``: may be unbound."""
        self.positions = tuple(positions)
        names = [name for position in self.positions for name in term_variables(position)]
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
        constants, simple = self.constants, self.simple
        for quad, weight in changes[0].items():
            for place, term_id in constants:
                if quad[place] != term_id:
                    break
            else:
                if simple is not None:
                    add(out, tuple([quad[place] for place in simple]), weight)
                    continue
                bindings: dict[str, int] = {}
                if all(map(self._match, self.positions, quad, [bindings] * len(quad))):
                    add(out, tuple(bindings.values()), weight)
        return out

    def _match(self, pattern: TermPattern | NamedNode, term_id: int, bindings: dict[str, int]) -> bool:
        if isinstance(pattern, Var):
            return bindings.setdefault(pattern.name, term_id) == term_id
        ids = self._terms.ids
        if not isinstance(pattern, TripleTerm):
            return ids[pattern] == term_id
        term = self._terms.terms[term_id]
        return isinstance(term, Triple) and all(
            self._match(part, ids[inner], bindings)
            for part, inner in (
                (pattern.subject, term.subject),
                (pattern.predicate, term.predicate),
                (pattern.object, term.object),
            )
        )


class Select(Operator):
    """Keeps some columns of the quads that a test accepts: negated sets of paths, graph names."""

    def __init__(self, schema: Schema, columns: Sequence[int], accept: Condition) -> None:
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


class RowFilter(Operator):
    """σ: the rows for which the condition's effective boolean value is true. An error is not true.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Filter.
    """

    def __init__(self, schema: Schema, condition: Condition) -> None:
        self.schema = schema
        self.condition = condition

    def step(self, *changes: Delta) -> Delta:
        """The changed rows that pass."""
        condition = self.condition
        return {row: weight for row, weight in changes[0].items() if condition(row)}


class AddColumn(Operator):
    """Adds one column, the id of an expression's value; an error leaves it unbound.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Extend.
    """

    def __init__(self, schema: Schema, compute: Callable[[IdRow], int]) -> None:
        self.schema = schema
        self.compute = compute

    def step(self, *changes: Delta) -> Delta:
        """The changed rows with their new column; equal rows stay equal."""
        compute = self.compute
        return {(*row, compute(row)): weight for row, weight in changes[0].items()}


class UnionAll(Operator):
    """⊎: the rows of all inputs, each brought to the common columns; weights of equal rows add up.

    ``columns`` are for each input the places in its rows; -1 is an unbound column.
    """

    def __init__(self, schema: Schema, *columns: Sequence[int]) -> None:
        self.schema = schema
        self._columns = tuple(map(tuple, columns))

    def step(self, *changes: Delta) -> Delta:
        """The changes of all inputs together."""
        out: Delta = {}
        for columns, change in zip(self._columns, changes, strict=True):
            for row, weight in change.items():
                add(out, tuple([row[column] if column >= 0 else 0 for column in columns]), weight)
        return out


class Projection(UnionAll):
    """π on multisets: chosen columns of one input, in order."""


class ConstantRows(Operator):
    """VALUES and the unit: rows that are there from the first step on and never change."""

    def __init__(self, schema: Schema, rows: Delta) -> None:
        self.schema = schema
        self.kept: Delta = rows
        self._given = False

    def step(self, *changes: Delta) -> Delta:
        """All rows once, then nothing."""
        if self._given:
            return EMPTY
        self._given = True
        return dict(self.kept)


class Deduplicate(Operator):
    """δ: a row is there once while some input has it. With several inputs it is their RDF merge.

    ``columns`` are for each input the places in its rows; None (the default) takes its rows as they are.
    Law: out = [sum of the inputs > 0]. Keeps the weight of every row.
    Source: https://www.w3.org/TR/rdf11-mt/#dfn-merge; C-SPARQL merges its windows with the FROM graphs.
    """

    def __init__(self, schema: Schema, *columns: Sequence[int] | None) -> None:
        self.schema = schema
        self._columns = columns or (None,)
        self.kept: Delta = {}

    def step(self, *changes: Delta) -> Delta:
        """+1 for rows that became present, -1 for rows that are gone."""
        out: Delta = {}
        weights = self.kept
        for columns, change in zip(self._columns, changes, strict=True):
            for row, weight in change.items():
                if columns is not None:
                    row = tuple([row[column] for column in columns])
                before = weights.get(row, 0)
                after = before + weight
                if after:
                    weights[row] = after
                else:
                    del weights[row]
                if (before > 0) == (after > 0):
                    continue
                if row in out:
                    # It went from one input and came to another.
                    del out[row]
                else:
                    out[row] = 1 if after > 0 else -1
        return out or EMPTY
