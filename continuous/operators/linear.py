"""The base class of operators, and the operators that process rows one at a time: scan, filter, union etc."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from pyoxigraph import NamedNode, Triple

from quadrill.store.dictionary import TermDictionary

from ..algebra.nodes import TermPattern, TripleTerm, Var
from ..algebra.variables import term_variables
from ..expressions.compile import Condition
from ..rows import EMPTY, UNLIMITED, Delta, IdRow, PinnedIds, Schema, add


class Operator:
    """An incremental operator: maps the deltas of its inputs to the delta of its output.

    Law, tested for each operator: step = differentiate ∘ whole-relation form ∘ integrate.

    Before the first step, an operator's inputs and output are empty. An operator with rows for empty inputs
    (inline data, an aggregate without GROUP BY) emits those rows at its first step. A plan runs every
    operator at the plan's first step, and afterwards only operators with a changed input or a due step.
    """

    schema: Schema
    budget = UNLIMITED
    """The limits of one step of an operator.

    Only operators that may emit more rows than they receive check the budget of a step.
    """
    stored: Collection[IdRow] | None = None
    """The stored rows, if one collection has all of the operator's rows.

    Operators with rows in several collections override `referenced_rows` and `size`.
    """

    def step(self, *changes: Delta) -> Delta:
        """Apply one delta of each input of the operator; return the output's delta, without zero weights."""
        raise NotImplementedError

    @property
    def is_due(self) -> bool:
        """True if the operator must run a step although no input has changed."""
        return False

    def referenced_rows(self) -> Iterable[IdRow]:
        """Yield every id row that the operator may still emit or compare.

        The sweep of term ids reads an operator's rows in slices while the operator runs
        (`quadrill.store.sweep`). Each collection of an operator's rows is copied when the sweep reaches it,
        and rows that other rows are built from come first.
        """
        return () if self.stored is None else list(self.stored)

    def size(self) -> int | None:
        """Return the number of rows that the operator stores; None if it never stores rows."""
        return None if self.stored is None else len(self.stored)


class Scan(Operator):
    """The scan operator: matches one pattern with triples or quads, as rows of the pattern's variables.

    In a scan, constants are compared by id, and a repeated variable must have equal ids. A triple term in a
    pattern is matched part by part. Several quads can yield one row only if the pattern leaves out a
    position, such as the graph; their weights add up.
    """

    def __init__(
        self,
        positions: Sequence[TermPattern | NamedNode],
        terms: TermDictionary,
        pins: PinnedIds,
        loose: frozenset[str] = frozenset(),
    ) -> None:
        """Compile a scan by ``positions``, one pattern for each column of the input (s, p, o, g etc.).

        Variables of a scan in ``loose`` may be unbound.
        """
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
        """Return the delta of a scan's rows for the matching quads."""
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
    """Projects the quads that a condition accepts, for negated property sets and graph names."""

    def __init__(self, schema: Schema, columns: Sequence[int], accept: Condition) -> None:
        self.schema = schema
        self._columns = tuple(columns)
        self._accept = accept

    def step(self, *changes: Delta) -> Delta:
        """Return the projected columns of the quads that the condition accepts."""
        out: Delta = {}
        for row, weight in changes[0].items():
            if self._accept(row):
                add(out, tuple([row[column] for column in self._columns]), weight)
        return out


class RowFilter(Operator):
    """The filter σ: rows for which the condition's effective boolean value is true; an error counts as false.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Filter.
    """

    def __init__(self, schema: Schema, condition: Condition) -> None:
        self.schema = schema
        self.condition = condition

    def step(self, *changes: Delta) -> Delta:
        """Return the changed rows that satisfy the filter's condition."""
        condition = self.condition
        return {row: weight for row, weight in changes[0].items() if condition(row)}


class AddColumn(Operator):
    """Appends one column with the id of an expression's value; an error leaves the column unbound.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Extend.
    """

    def __init__(self, schema: Schema, compute: Callable[[IdRow], int]) -> None:
        self.schema = schema
        self.compute = compute

    def step(self, *changes: Delta) -> Delta:
        """Return the changed rows with the computed column."""
        compute = self.compute
        return {(*row, compute(row)): weight for row, weight in changes[0].items()}


class UnionAll(Operator):
    """The union ⊎ of all inputs on common columns; the weights of equal rows add up.

    ``columns`` gives, for each input of the union, the position of each output column in its rows; -1 leaves
    a column unbound.
    """

    def __init__(self, schema: Schema, *columns: Sequence[int]) -> None:
        self.schema = schema
        self._columns = tuple(map(tuple, columns))

    def step(self, *changes: Delta) -> Delta:
        """Return the sum of the deltas of the union's inputs."""
        out: Delta = {}
        for columns, change in zip(self._columns, changes, strict=True):
            for row, weight in change.items():
                add(out, tuple([row[column] if column >= 0 else 0 for column in columns]), weight)
        return out


class Projection(UnionAll):
    """The projection π on multisets: chosen columns of one input, in order."""


class ConstantRows(Operator):
    """The rows of VALUES, or the single empty row: emitted at the first step, and never changed."""

    def __init__(self, schema: Schema, rows: Delta) -> None:
        self.schema = schema
        self.stored: Delta = rows
        self._is_emitted = False

    def step(self, *changes: Delta) -> Delta:
        """Return all rows at the first step, and an empty delta afterwards."""
        if self._is_emitted:
            return EMPTY
        self._is_emitted = True
        return dict(self.stored)


class Deduplicate(Operator):
    """Duplicate elimination δ: emits a row once while any input has it; with several inputs, an RDF merge.

    ``columns`` gives for each input the columns of the operator's output; None (the default) uses the input's
    rows unchanged. Law of duplicate elimination: out = [sum of the inputs > 0]. Duplicate elimination stores
    the weight of every row. Source: https://www.w3.org/TR/rdf11-mt/#dfn-merge; C-SPARQL merges its windows
    with the FROM graphs.
    """

    def __init__(self, schema: Schema, *columns: Sequence[int] | None) -> None:
        self.schema = schema
        self._columns = columns or (None,)
        self.stored: Delta = {}

    def step(self, *changes: Delta) -> Delta:
        """Return +1 for distinct rows that appeared, and -1 for distinct rows that disappeared."""
        out: Delta = {}
        weights = self.stored
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
                    # The row left one input of the union and entered another input in this step.
                    del out[row]
                else:
                    out[row] = 1 if after > 0 else -1
        return out or EMPTY
