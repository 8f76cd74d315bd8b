"""Compiler from SPARQL algebra to Spark DataFrames over the mirror.

Each algebra node becomes a `Frame`, a DataFrame of solutions. SPARQL constructs without an exact translation
to Spark are refused with an UnsupportedError that names the construct, and the store evaluates the part
instead. The modules that compile the SPARQL constructs to Spark:

    BGP, GRAPH, paths          scans, paths            FILTER, BIND           expressions, ranges
    joins, OPTIONAL, MINUS     frames                  GROUP BY, HAVING       grouping
    EXISTS, NOT EXISTS         compile                 LIMIT in sub-queries   ordering
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ..algebra.build import conditions_of, map_expression, sub_expressions
from ..algebra.build import conjuncts as operands_of
from ..algebra.columnar import Graphs
from ..algebra.graphs import evaluates_by_graph
from ..algebra.nodes import (
    Algebra,
    Bgp,
    Distinct,
    Exists,
    Expr,
    Extend,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    OrderCondition,
    Path,
    Project,
    Slice,
    Union,
    Values,
    Var,
)
from ..algebra.static import correlation
from ..algebra.variables import expression_variables, in_scope
from ..expressions.oxigraph import canonical
from . import expressions, grouping, ordering, scans
from .expressions import SparkScope, refuse, scope_of
from .frames import Frame, Pair, aligned, join, optional, quoted, same_rows, union
from .paths import Paths
from .scans import GraphName
from .source import Quads


class Compiler:
    """Compiles patterns to Spark over one dataset.

    Args:
        quads: the quads of the mirror, with figures about each predicate.
        dataset: the graphs of the query.
        base_iri: the base IRI of the IRI() function.
    """

    def __init__(self, quads: Quads, dataset: Graphs | None = None, base_iri: str | None = None) -> None:
        self._quads = quads
        self._dataset = dataset or Graphs()
        self._base = base_iri
        self._paths = Paths(quads, self._dataset)
        self._fresh = 0

    def table(self, node: Algebra, columns: Iterable[Var]) -> Any:
        """Return the rows of a pattern as a DataFrame with the given columns; values are texts or null.

        Raises:
            UnsupportedError: a construct has no exact translation to Spark; the error names the construct.
        """
        from pyspark.sql import functions as f

        if len(set(self._dataset.default)) > 1:
            # The store returns a triple once for each of several FROM graphs, but SPARQL (section 13.2)
            # merges the graphs, so the store must evaluate such a part.
            raise refuse("FROM several graphs")
        frame = self._compile(node, None)
        return frame.data.select(
            *(
                f.col(quoted(name)) if name in frame.names else f.lit(None).cast("string").alias(name)
                for name in (var.name for var in columns)
            )
        )

    def _compile(self, node: Algebra, graph: GraphName) -> Frame:
        match node:
            case Bgp() | Join() | Filter():
                return self._group_graph_pattern(node, graph)
            case Path(subject, path, object_):
                return self._paths.pattern(subject, path, object_, graph)
            case Graph(name, inner):
                return self._graph(name, inner, graph)
            case LeftJoin(left, right, condition):
                return self._optional(self._compile(left, graph), self._compile(right, graph), condition)
            case Minus(left, right):
                return self._minus(self._compile(left, graph), self._compile(right, graph))
            case Union(left, right):
                return union(self._compile(left, graph), self._compile(right, graph))
            case Extend(inner, var, expr):
                return self._extend(self._compile(inner, graph), var.name, expr, graph)
            case Values(variables, rows):
                return self._values([var.name for var in variables], rows, graph)
            case Group():
                return self._group(node, (), graph)
            case Project(inner, variables):
                frame = self._compile(inner, graph)
                return frame.select(dict.fromkeys(var.name for var in variables))
            case Distinct(inner):
                frame = self._compile(inner, graph)
                return replace(frame, data=frame.data.distinct())
            case OrderBy(inner, _):
                return self._compile(inner, graph)
            case Slice():
                return self._slice(node, graph)
            case _:
                raise refuse(type(node).__name__.upper())

    # --- groups ---------------------------------------------------------------------------------

    def _group_graph_pattern(self, node: Algebra, graph: GraphName) -> Frame:
        """Join the operands of a group pattern, smallest first; apply its filters in scans where possible."""
        conditions: list[Expr] = []
        while isinstance(node, Filter):
            conditions[:0] = conditions_of(node.condition)
            node = node.input
        if isinstance(node, Group):
            having = [each for each in conditions if grouping.decides(each, node)]
            frame = self._group(node, having, graph)
            return self._filtered(frame, [each for each in conditions if each not in having], graph)
        frames: list[Frame] = []
        absorbed: set[Expr] = set()
        for operand in operands_of(node):
            if isinstance(operand, Bgp):
                for pattern in dict.fromkeys(operand.patterns):
                    own = scans.absorbed(pattern, conditions, self._quads)
                    absorbed.update(own)
                    frames.append(scans.scan(pattern, graph, self._quads, self._dataset, own))
            else:
                frames.append(self._compile(operand, graph))
        frame = scans.join_all(frames) if frames else self._unit(graph)
        return self._filtered(frame, [each for each in conditions if each not in absorbed], graph)

    def _unit(self, graph: GraphName) -> Frame:
        if graph is not None:
            raise refuse("GRAPH around an empty pattern")
        return Frame(self._quads.rows([], [()]))

    def _graph(self, name: NamedNode | Var, inner: Algebra, outer: GraphName) -> Frame:
        if outer is not None:
            raise refuse("GRAPH inside GRAPH")
        if isinstance(name, Var) and not evaluates_by_graph(inner, name):
            raise refuse("a sub-query, MINUS or inline data in GRAPH ?variable")
        return self._compile(inner, name)

    def _values(self, names: list[str], rows: Sequence[Sequence[Any]], graph: GraphName) -> Frame:
        texts = [tuple(None if term is None else term_text(canonical(term)) for term in row) for row in rows]
        certain = {name for place, name in enumerate(names) if all(row[place] is not None for row in texts)}
        # A term of inline data may be of any kind, so no variable is marked as a node.
        return Frame(self._quads.rows(names, texts), frozenset(certain), rows=float(len(texts)))

    # --- filters and expressions ----------------------------------------------------------------

    def _filtered(self, frame: Frame, conditions: Iterable[Expr], graph: GraphName) -> Frame:
        for condition in conditions:
            if isinstance(condition, Exists):
                frame = self._exists(frame, condition, graph)
                continue
            names = frame.names
            marked, condition = self._marked(frame, condition, graph)
            marked = marked.where(expressions.truth(condition, scope_of(marked), self._base))
            frame = marked if marked.names == names else marked.select(names)
        return frame

    def _extend(self, frame: Frame, name: str, expr: Expr, graph: GraphName) -> Frame:
        names = frame.names
        marked, expr = self._marked(frame, expr, graph)
        column = expressions.value(expr, scope_of(marked), self._base)
        extended = marked.with_column(
            name,
            column,
            certain=isinstance(expr, Var) and expr.name in marked.certain,
            node=isinstance(expr, Var) and expr.name in marked.nodes,
        )
        return extended if marked.names == names else extended.select((*names, name))

    def _optional(self, left: Frame, right: Frame, condition: Expr | None) -> Frame:
        pair = aligned(left, right)
        if condition is None:
            return optional(left, right, pair.joined("left"))
        _refuse_exists(condition, "the condition of OPTIONAL")
        scope = SparkScope(frozenset(pair.names), _nodes_of_both(pair), pair.column)
        column = expressions.native(condition, scope)
        if column is not None:
            return optional(left, right, pair.joined("left", column))
        # Spark allows no Python function in the condition of an outer join. Therefore the result of an
        # OPTIONAL with such a condition is built as the union of the rows with a partner and the rows without
        # one.
        joined = join(left, right)
        matched = joined.where(expressions.truth(condition, scope_of(joined), self._base))
        keys, names = self._partners(left, right, [condition])
        alone = Frame(same_rows(left, keys, names, "left_anti"), left.certain, left.nodes)
        return optional(left, right, union(matched, alone).data)

    def _minus(self, left: Frame, right: Frame) -> Frame:
        if not set(left.names) & set(right.names):
            return left
        return replace(left, data=aligned(left, right, overlapping=True).rows("left_anti"))

    # --- EXISTS ---------------------------------------------------------------------------------

    def _exists(self, frame: Frame, exists: Exists, graph: GraphName) -> Frame:
        """Filter rows by EXISTS or NOT EXISTS: the substitution (section 18.6) is a join with the row."""
        right, residual = self._exists_side(frame, exists, graph)
        how = "left_anti" if exists.negated else "left_semi"
        if not residual:
            return replace(frame, data=aligned(frame, right).rows(how))
        keys, names = self._partners(frame, right, residual)
        return replace(frame, data=same_rows(frame, keys, names, how))

    def _exists_side(self, frame: Frame, exists: Exists, graph: GraphName) -> tuple[Frame, list[Expr]]:
        """Return the solutions of an EXISTS pattern, and those of its filters that use outer variables."""
        outer, residual, pattern = frozenset(frame.names), [], exists.pattern
        while isinstance(pattern, Filter):
            inside = in_scope(pattern.input)
            conditions = conditions_of(pattern.condition)
            free = [each for each in conditions if expression_variables(each) & outer - inside]
            for each in free:
                _refuse_exists(each, "EXISTS")
            if not free:
                break
            residual += free
            bound = [each for each in conditions if each not in free]
            pattern = reduce(lambda node, each: Filter(each, node), bound, pattern.input)
            if bound:
                break
        correlation(pattern, outer)
        return self._compile(pattern, graph), residual

    def _partners(self, left: Frame, right: Frame, conditions: Sequence[Expr]) -> tuple[Any, tuple[str, ...]]:
        """Return the distinct left rows with a right row under all conditions, and these rows' variables.

        The left rows are projected to the variables that the right side or the conditions use.
        """
        seen = frozenset(right.names).union(*map(expression_variables, conditions))
        names = tuple(name for name in left.names if name in seen)
        narrow = left.select(names)
        narrow = replace(narrow, data=narrow.data.distinct())
        pair = aligned(narrow, right)
        scope = SparkScope(frozenset(pair.names), _nodes_of_both(pair), pair.column)
        data = pair.rows("inner")
        for condition in conditions:
            data = data.where(expressions.truth(condition, scope, self._base))
        return data.select(*map(quoted, names)).distinct(), names

    def _marked(self, frame: Frame, expr: Expr, graph: GraphName) -> tuple[Frame, Expr]:
        """Replace each EXISTS in an expression by a variable of a new boolean column."""
        from pyspark.sql import functions as f

        frames = [frame]

        def change(each: Expr) -> Expr | None:
            if not isinstance(each, Exists):
                return None
            self._fresh += 1
            mark = f"_:exists{self._fresh}"
            current = frames[0]
            right, residual = self._exists_side(current, each, graph)
            keys, names = self._partners(current, right, residual)
            found, missing = (
                f.lit(f'"{truth}"^^<http://www.w3.org/2001/XMLSchema#boolean>')
                for truth in (("false", "true") if each.negated else ("true", "false"))
            )
            with_partner = Frame(same_rows(current, keys, names, "left_semi"), current.certain, current.nodes)
            without = Frame(same_rows(current, keys, names, "left_anti"), current.certain, current.nodes)
            frames[0] = union(
                with_partner.with_column(mark, found, certain=True),
                without.with_column(mark, missing, certain=True),
            )
            return Var(mark)

        changed = map_expression(expr, change)
        return frames[0], changed

    # --- sub-queries ----------------------------------------------------------------------------

    def _group(self, node: Group, having: Sequence[Expr], graph: GraphName) -> Frame:
        frame = self._compile(node.input, graph)
        aggregates = []
        for var, aggregate in node.aggregates:
            if aggregate.expr is not None and not isinstance(aggregate.expr, Var):
                self._fresh += 1
                name = f"_:aggregated{self._fresh}"
                frame = self._extend(frame, name, aggregate.expr, graph)
                aggregate = replace(aggregate, expr=Var(name))
            aggregates.append((var, aggregate))
        return grouping.group(replace(node, aggregates=tuple(aggregates)), frame, having)

    def _slice(self, node: Slice, graph: GraphName) -> Frame:
        """Compile LIMIT and OFFSET over optional DISTINCT, projection and ORDER BY, in SPARQL's nesting."""
        if graph is not None and isinstance(graph, Var):
            raise refuse("LIMIT in GRAPH ?variable")
        inner = node.input
        distinct = isinstance(inner, Distinct)
        if isinstance(inner, Distinct):
            inner = inner.input
        columns: tuple[str, ...] = tuple(sorted(in_scope(inner)))
        if isinstance(inner, Project):
            columns, inner = tuple(dict.fromkeys(var.name for var in inner.vars)), inner.input
        conditions: tuple[OrderCondition, ...] = ()
        if isinstance(inner, OrderBy):
            conditions, inner = inner.conditions, inner.input
        for condition in conditions:
            _refuse_exists(condition.expr, "ORDER BY")
        frame = self._compile(inner, graph)
        if distinct:
            if any(expression_variables(each.expr) - set(columns) for each in conditions):
                raise refuse("ORDER BY a variable that SELECT DISTINCT does not show")
            frame = frame.select(columns)
            frame = replace(frame, data=frame.data.distinct())
        return ordering.first(frame, conditions, columns, node.offset, node.limit, self._base).select(columns)


def _nodes_of_both(pair: Pair) -> frozenset[str]:
    """Return the variables of joined rows that are nodes on every side that has the variable."""
    left, right = pair.left, pair.right
    return frozenset(
        name
        for name in pair.names
        if (name not in left.names or name in left.nodes) and (name not in right.names or name in right.nodes)
    )


def _refuse_exists(expr: Expr, place: str) -> None:
    if any(isinstance(each, Exists) for each in sub_expressions(expr)):
        raise refuse(f"EXISTS in {place}")
