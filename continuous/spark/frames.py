"""Frames: solutions as DataFrames, and the joins of frames (SPARQL 1.1, section 18.5).

A frame's column contains terms in N-Triples syntax, so equal texts are the same term, as joins, DISTINCT and
GROUP BY require; null is unbound. Two solutions are compatible if each shared variable is equal, or unbound
on one side. In a join of frames, a variable that both sides always bind becomes an equality condition, for
which Spark uses a hash or sort-merge join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from ..algebra.variables import NO_NAMES, Names

Columns = Callable[[str], Any]
"""A function from the name of a variable to the variable's column in a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: solutions as a DataFrame of terms, with known properties of the columns.

    Attributes:
        data: the DataFrame, with one column per variable that some solution may bind.
        certain: the variables that every solution binds.
        nodes: the variables that are never bound to a literal or a triple term.
        rows: the expected number of solutions, by which joins are ordered.
        distinct: the expected number of different terms of a variable, if known.
    """

    data: Any
    certain: Names = NO_NAMES
    nodes: Names = NO_NAMES
    rows: float = 1.0
    distinct: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that have a column in the frame."""
        return tuple(self.data.columns)

    def where(self, condition: Any) -> Frame:
        """Return the frame's solutions for which a boolean column is true."""
        return replace(self, data=self.data.where(condition))

    def select(self, names: Iterable[str]) -> Frame:
        """Project the frame to some variables, including duplicate rows; unknown variables are ignored."""
        kept = [name for name in names if name in self.names]
        chosen = frozenset(kept)
        return replace(
            self,
            data=self.data.select(*map(quoted, kept)),
            certain=self.certain & chosen,
            nodes=self.nodes & chosen,
        )

    def with_column(self, name: str, column: Any, *, certain: bool = False, node: bool = False) -> Frame:
        """Return the frame's solutions with one additional variable."""
        return replace(
            self,
            data=self.data.withColumn(name, column),
            certain=self.certain | {name} if certain else self.certain,
            nodes=self.nodes | {name} if node else self.nodes,
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two frames prepared for a join; the right frame's shared columns are renamed to avoid ambiguous names.

    Attributes:
        left: the left frame.
        right: the right frame with its original names.
        data: the right DataFrame with its shared columns renamed.
        shared: the variables that both frames have.
        on: the condition that two rows are compatible; None if no variable is shared.
    """

    left: Frame
    right: Frame
    data: Any
    shared: tuple[str, ...]
    on: Any

    def column(self, name: str) -> Any:
        """Return the column of a variable in the joined rows, from the side that binds the variable."""
        from pyspark.sql import functions as f

        if name in self.shared and name not in self.left.certain:
            return f.coalesce(f.col(quoted(name)), f.col(quoted(_twin(name))))
        return f.col(quoted(name))

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of both frames, each once."""
        return (*self.left.names, *(name for name in self.right.names if name not in self.shared))

    def joined(self, how: str, extra: Any = None) -> Any:
        """Return the joined rows with one column per variable."""
        rows = self.rows(how, extra)
        return rows.select(*(self.column(name).alias(name) for name in self.names))

    def rows(self, how: str, extra: Any = None) -> Any:
        """Return the rows of a join with all columns of both sides; ``extra`` is an additional condition.

        For the join kinds ``left_semi`` and ``left_anti``, the result is the left rows with and without a
        matching right row.
        """
        from pyspark.sql import functions as f

        conditions = [each for each in (self.on, extra) if each is not None]
        if not conditions:
            if how == "inner":
                return self.left.data.crossJoin(self.data)
            conditions = [f.lit(True)]
        return self.left.data.join(self.data, reduce(lambda a, b: a & b, conditions), how)


def aligned(left: Frame, right: Frame, *, overlapping: bool = False) -> Pair:
    """Prepare two frames for a join by renaming the right frame's shared columns.

    With ``overlapping``, the join of two rows requires at least one shared variable that is bound on both
    sides, as for MINUS.
    """
    from pyspark.sql import functions as f

    shared = tuple(name for name in left.names if name in right.names)
    data = right.data.withColumnsRenamed({name: _twin(name) for name in shared})
    conditions = []
    bound = []
    for name in shared:
        one, other = f.col(quoted(name)), f.col(quoted(_twin(name)))
        same = one == other
        for side, column in ((left, one), (right, other)):
            if name not in side.certain:
                same = same | column.isNull()
        conditions.append(same)
        bound.append(one.isNotNull() & other.isNotNull())
    if overlapping and not set(shared) & left.certain & right.certain:
        conditions.append(reduce(lambda a, b: a | b, bound))
    on = reduce(lambda a, b: a & b, conditions) if conditions else None
    return Pair(left, right, data, shared, on)


def join(left: Frame, right: Frame) -> Frame:
    """Return the frame of the algebra's Join(left, right)."""
    pair = aligned(left, right)
    both = {name for name in pair.shared if name in left.nodes and name in right.nodes}
    nodes = both | (left.nodes & (left.certain | _without(left.names, pair.shared)))
    nodes |= right.nodes & (right.certain | _without(right.names, pair.shared))
    distinct = {**right.distinct, **left.distinct}
    for name in pair.shared:
        if name in left.distinct and name in right.distinct:
            distinct[name] = min(left.distinct[name], right.distinct[name])
    data = pair.joined("inner")
    certain = left.certain | right.certain
    return Frame(data, certain, frozenset(nodes), expected_rows(left, right), distinct)


def optional(left: Frame, right: Frame, rows: Any) -> Frame:
    """Return the frame of the algebra's LeftJoin(left, right), given the joined rows."""
    apart = _without(right.names, left.names)
    nodes = {name for name in left.nodes if name in left.certain or name not in right.names}
    nodes |= {name for name in right.nodes if name in apart or name in left.nodes}
    return Frame(rows, left.certain, frozenset(nodes), max(left.rows, expected_rows(left, right)))


def union(left: Frame, right: Frame) -> Frame:
    """Return the frame of the algebra's Union(left, right)."""
    if not left.names and not right.names:
        data = left.data.union(right.data)
    else:
        data = left.data.unionByName(right.data, allowMissingColumns=True)
    one_sided = _without(left.names, right.names) & left.nodes
    one_sided |= _without(right.names, left.names) & right.nodes
    return Frame(
        data, left.certain & right.certain, (left.nodes & right.nodes) | one_sided, left.rows + right.rows
    )


def same_rows(left: Frame, keys: Any, names: tuple[str, ...], how: str) -> Any:
    """Return the left rows whose values of ``names`` are among ``keys``, or are not.

    The join kind ``left_semi`` keeps rows among ``keys``, ``left_anti`` the other rows. In the comparison
    with keys, two unbound values count as equal, because the keys are projections of the left rows.
    """
    from pyspark.sql import functions as f

    data = keys.withColumnsRenamed({name: _twin(name) for name in names})
    on = [f.col(quoted(name)).eqNullSafe(f.col(quoted(_twin(name)))) for name in names] or [f.lit(True)]
    return left.data.join(data, reduce(lambda a, b: a & b, on), how)


def expected_rows(left: Frame, right: Frame) -> float:
    """Estimate the rows of a join: both sizes multiplied, divided by each shared variable's terms."""
    rows = max(left.rows, 1.0) * max(right.rows, 1.0)
    for name in left.names:
        if name in right.names:
            rows /= max(
                1.0,
                min(left.distinct.get(name, left.rows), left.rows),
                min(right.distinct.get(name, 1.0), right.rows),
            )
    return rows


def quoted(name: str) -> str:
    """Return a column's name in backquotes, because names of hidden variables contain a colon."""
    return f"`{name}`"


def _twin(name: str) -> str:
    """Return the name of a shared variable's right column: with an apostrophe, which no variable name has."""
    return f"{name}'"


def _without(names: Iterable[str], others: Iterable[str]) -> Names:
    return frozenset(names) - frozenset(others)
