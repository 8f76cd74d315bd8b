"""Algebra to Spark DataFrames over the mirror: the exact part of SPARQL that needs no arithmetic.

A column holds terms in N-Triples syntax, so equal texts are the same term, which is what joins, DISTINCT and
GROUP BY ask for; null is unbound. Counts are native numbers until they leave the query. SQL's three-valued
logic is SPARQL's with errors as null. What is not exact in this form is refused here (UnsupportedError) or,
where only the data can tell, stops the query with `FALL_BACK`; the store evaluates it then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from pyoxigraph import Literal, NamedNode

from quadrill.store.apply import term_text
from quadrill.store.errors import UnsupportedError

from ..algebra.nodes import (
    Aggregate,
    Algebra,
    Alternative,
    Bgp,
    Call,
    Constant,
    Distinct,
    Expr,
    Filter,
    Graph,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Path,
    PathExpr,
    Project,
    Reduced,
    Sequence,
    TermPattern,
    TriplePattern,
    TripleTerm,
    Union,
    Values,
    Var,
)
from ..algebra.variables import certain, in_scope

FALL_BACK = "quadrill: literals whose equality needs their values"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


class Compiler:
    """Compiles patterns over one mirror.

    Args:
        quads: the DataFrame of one predicate (its IRI) or of all (None), with columns s, p, o, g.
        rows: how many rows a predicate has, for the order of joins.
        values: a DataFrame of inline rows: names and rows of texts.
    """

    def __init__(
        self,
        quads: Callable[[str | None], Any],
        rows: Callable[[str | None], int],
        values: Callable[[list[str], list[tuple[str | None, ...]]], Any],
    ) -> None:
        self._quads = quads
        self._rows = rows
        self._values = values
        self._fresh = 0

    def table(self, node: Algebra, columns: Iterable[Var]) -> Any:
        """The rows of a pattern with these columns, all of them texts.

        Raises: UnsupportedError names the construct.
        """
        from pyspark.sql import functions as f

        frame, counts = self._compile(node, None)
        shown = []
        for name in (var.name for var in columns):
            if name not in frame.columns:
                shown.append(f.lit(None).cast("string").alias(name))
            elif name in counts:
                shown.append(f.concat(f.lit('"'), frame[_q(name)], f.lit(f'"^^<{_INTEGER}>')).alias(name))
            else:
                shown.append(frame[_q(name)])
        return frame.select(*shown)

    def _compile(self, node: Algebra, graph: NamedNode | Var | None) -> tuple[Any, frozenset[str]]:
        """The frame, and which of its columns are counts."""
        none: frozenset[str] = frozenset()
        match node:
            case Bgp(patterns) if patterns:
                return self._bgp(patterns, graph), none
            case Path(subject, path, object):
                return self._path(subject, path, object, graph), none
            case Graph(name, inner):
                if graph is not None:
                    raise UnsupportedError("GRAPH inside GRAPH on the mirror")
                return self._compile(inner, name)
            case Join(left, right):
                return self._joined(node, left, right, graph, "inner"), none
            case LeftJoin(left, right, condition):
                return self._joined(node, left, right, graph, "left", condition), none
            case Minus(left, right):
                if not in_scope(left) & in_scope(right):
                    return self._compile(left, graph)
                return self._joined(node, left, right, graph, "left_anti"), none
            case Union(left, right):
                (one, counts), (other, counts_too) = self._compile(left, graph), self._compile(right, graph)
                if counts or counts_too:
                    raise UnsupportedError("UNION of sub-queries with counts on the mirror")
                return one.unionByName(other, allowMissingColumns=True), none
            case Filter(condition, inner):
                frame, counts = self._compile(inner, graph)
                return frame.where(self._condition(condition, frame, counts)), counts
            case Distinct(inner):
                frame, counts = self._compile(inner, graph)
                return frame.distinct(), counts
            case Reduced(inner):
                return self._compile(inner, graph)
            case Project(inner, variables):
                if isinstance(graph, Var):
                    raise UnsupportedError("a sub-query in GRAPH ?variable on the mirror")
                frame, counts = self._compile(inner, graph)
                kept = [var.name for var in variables if var.name in frame.columns]
                return frame.select(*map(_q, kept)), counts & frozenset(kept)
            case Group():
                return self._group(node, graph)
            case Values(variables, rows) if rows and all(term is not None for row in rows for term in row):
                texts = [tuple(None if term is None else term_text(term) for term in row) for row in rows]
                return self._values([var.name for var in variables], texts), none
            case _:
                raise UnsupportedError(f"{type(node).__name__} on the mirror")

    # --- patterns -----------------------------------------------------------------------------

    def _bgp(self, patterns: Iterable[TriplePattern], graph: NamedNode | Var | None) -> Any:
        """Joined smallest first, each next one connected to those before it where there is such a one."""
        left = sorted(patterns, key=self._size)
        frame = self._pattern(left.pop(0), graph)
        while left:
            position = next((n for n, each in enumerate(left) if _names(each) & set(frame.columns)), 0)
            frame = _equi_join(frame, self._pattern(left.pop(position), graph), "inner")
        return frame

    def _size(self, pattern: TriplePattern) -> int:
        predicate = pattern.predicate
        rows = self._rows(predicate.value if isinstance(predicate, NamedNode) else None)
        constants = sum(not isinstance(each, Var) for each in (pattern.subject, pattern.object))
        return rows // (1 if not constants else 1000**constants)

    def _pattern(self, pattern: TriplePattern, graph: NamedNode | Var | None) -> Any:
        predicate = pattern.predicate
        frame = self._quads(predicate.value if isinstance(predicate, NamedNode) else None)
        places: list[tuple[str, TermPattern]] = [("s", pattern.subject), ("o", pattern.object)]
        if isinstance(predicate, Var):
            places.append(("p", predicate))
        if graph is None:
            frame = frame.where("g is null")
        else:
            frame = frame.where("g is not null")
            places.append(("g", graph))
        columns: dict[str, str] = {}
        for place, term in places:
            match term:
                case Var(name) if name in columns:
                    frame = frame.where(frame[place] == frame[columns[name]])
                case Var(name):
                    columns[name] = place
                case TripleTerm():
                    raise UnsupportedError("a triple term with variables on the mirror")
                case _:
                    frame = frame.where(frame[place] == term_text(term))
        return frame.select(*(frame[place].alias(name) for name, place in columns.items()))

    def _path(
        self, subject: TermPattern, path: PathExpr, object: TermPattern, graph: NamedNode | Var | None
    ) -> Any:
        match path:
            case Link(iri):
                return self._pattern(TriplePattern(subject, iri, object), graph)
            case Inverse(inner):
                return self._path(object, inner, subject, graph)
            case Alternative():
                # The store gives each pair once, SPARQL 1.1 (section 18.4) as often as it is found.
                raise UnsupportedError("the path operator | on the mirror")
            case Sequence(left, right):
                self._fresh += 1
                middle = Var(f"_:path{self._fresh}")
                one = self._path(subject, left, middle, graph)
                both = _equi_join(one, self._path(middle, right, object, graph), "inner")
                return both.drop(middle.name)
            case _:
                raise UnsupportedError(f"the path operator {type(path).__name__} on the mirror")

    def _joined(
        self,
        node: Algebra,
        left: Algebra,
        right: Algebra,
        graph: NamedNode | Var | None,
        how: str,
        condition: Expr | None = None,
    ) -> Any:
        if left == Bgp() or right == Bgp():
            if how == "inner":
                return self._compile(left if right == Bgp() else right, graph)[0]
            raise UnsupportedError("an OPTIONAL or MINUS of nothing on the mirror")
        (one, counts), (other, counts_too) = self._compile(left, graph), self._compile(right, graph)
        shared = set(one.columns) & set(other.columns)
        sure = certain(left) & certain(right)
        if isinstance(graph, Var):
            sure |= {graph.name}
        if not shared <= sure:
            raise UnsupportedError(f"{type(node).__name__} over variables that may be unbound on the mirror")
        if counts or counts_too:
            raise UnsupportedError("a join with a sub-query that counts on the mirror")
        if condition is None:
            return _equi_join(one, other, how)
        renamed = {name: f"{name}\0" for name in shared}
        other = other.withColumnsRenamed(renamed)
        on = [one[_q(name)] == other[_q(renamed[name])] for name in sorted(shared)]
        on.append(self._condition(condition, _Both(one, other), frozenset()))
        return one.join(other, reduce(lambda x, y: x & y, on), how).drop(*renamed.values())

    def _group(self, node: Group, graph: NamedNode | Var | None) -> tuple[Any, frozenset[str]]:
        from pyspark.sql import functions as f

        frame, counts = self._compile(node.input, graph)
        keys = [key.name for key in node.keys]
        if set(keys) & counts or not set(keys) <= set(frame.columns):
            raise UnsupportedError("GROUP BY of a count or of an unbound variable on the mirror")
        columns = []
        for var, aggregate in node.aggregates:
            match aggregate:
                case Aggregate("COUNT", None, False):
                    column = f.count(f.lit(1))
                case Aggregate("COUNT", Var(name), distinct) if name in frame.columns:
                    column = f.countDistinct(frame[_q(name)]) if distinct else f.count(frame[_q(name)])
                case _:
                    raise UnsupportedError(f"the aggregate {aggregate.name} on the mirror")
            columns.append(column.alias(var.name))
        grouped = frame.groupBy(*map(_q, keys))
        if not columns:
            if not keys:
                raise UnsupportedError("GROUP BY without keys and aggregates on the mirror")
            return frame.select(*map(_q, keys)).distinct(), frozenset()
        return grouped.agg(*columns), frozenset(var.name for var, _ in node.aggregates)

    # --- conditions ---------------------------------------------------------------------------

    def _condition(self, expr: Expr, frame: Any, counts: frozenset[str]) -> Any:
        match expr:
            case Call("&&", (left, right)):
                return self._condition(left, frame, counts) & self._condition(right, frame, counts)
            case Call("||", (left, right)):
                return self._condition(left, frame, counts) | self._condition(right, frame, counts)
            case Call("!", (inner,)):
                return ~self._condition(inner, frame, counts)
            case Call("BOUND", (Var(name),)) if name in frame.columns:
                return frame[_q(name)].isNotNull()
            case Call(name, (Var(left), Constant(Literal() as value))) if left in counts:
                if name in _COMPARISONS and value.datatype.value == _INTEGER:
                    return _compare(name, frame[_q(left)], int(value.value))
            case Call("sameTerm" | "SAMETERM", (left, right)):
                return self._term(left, frame, counts) == self._term(right, frame, counts)
            case Call(("=" | "!=") as name, (left, right)):
                same = self._equal(left, right, frame, counts)
                return same if name == "=" else ~same
        raise UnsupportedError("this FILTER on the mirror")

    def _equal(self, left: Expr, right: Expr, frame: Any, counts: frozenset[str]) -> Any:
        """RDFterm-equal where the texts decide; literals that are no plain strings need their values."""
        from pyspark.sql import functions as f

        one, other = self._term(left, frame, counts), self._term(right, frame, counts)
        plain = one.endswith('"') & other.endswith('"')
        both = one.startswith('"') & other.startswith('"')
        triple = one.startswith("<<") & other.startswith("<<")
        fail = f.raise_error(f.lit(FALL_BACK)).cast("boolean")
        return (
            f.when(one.isNull() | other.isNull(), f.lit(None).cast("boolean"))
            .when((both & ~plain) | triple, fail)
            .otherwise(one == other)
        )

    def _term(self, expr: Expr, frame: Any, counts: frozenset[str]) -> Any:
        from pyspark.sql import functions as f

        match expr:
            case Var(name) if name in frame.columns and name not in counts:
                return frame[_q(name)]
            case Constant(term):
                return f.lit(term_text(term))
            case _:
                raise UnsupportedError("this FILTER on the mirror")


class _Both:
    """The columns of two frames, for the condition of a left join."""

    def __init__(self, left: Any, right: Any) -> None:
        self._left, self._right = left, right
        self.columns = [*left.columns, *right.columns]

    def __getitem__(self, name: str) -> Any:
        return self._left[name] if name.strip("`") in self._left.columns else self._right[name]


def _equi_join(left: Any, right: Any, how: str) -> Any:
    shared = [name for name in left.columns if name in right.columns]
    if shared:
        return left.join(right, shared, how)
    if how == "inner":
        return left.crossJoin(right)
    from pyspark.sql import functions as f

    return left.join(right, f.lit(True), how)


def _compare(name: str, left: Any, right: int) -> Any:
    match name:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case ">":
            return left > right
        case "<=":
            return left <= right
        case _:
            return left >= right


def _names(pattern: TriplePattern) -> set[str]:
    return {
        each.name for each in (pattern.subject, pattern.predicate, pattern.object) if isinstance(each, Var)
    }


def _q(name: str) -> str:
    """A column's name quoted: those of hidden variables hold a colon."""
    return f"`{name}`"
