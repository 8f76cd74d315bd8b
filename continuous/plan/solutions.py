"""Operators over solutions that are planned already: joins, filters, GROUP BY, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..algebra.build import has_exists
from ..algebra.nodes import (
    Algebra,
    Call,
    Constant,
    Distinct,
    Exists,
    Expr,
    FunctionCall,
    Group,
    OrderBy,
    OrderCondition,
    Project,
    Reduced,
    Slice,
    Var,
)
from ..algebra.variables import expression_variables, in_scope
from ..expressions.aggregates import Tools, accumulator_factory
from ..expressions.compile import compile_condition, compile_value
from ..expressions.oxigraph import canonical
from ..operators import linear
from ..operators.grouping import Aggregate, Aggregation
from ..operators.join import Join
from ..operators.matching import Match
from ..operators.ordering import SortKey, TopK
from ..rows import IdRow, Schema
from .plan import Built, PlanBuilder
from .sources import NO_NAMES, Compilation, Grouping, columns_of

_TOLERANT = frozenset({"IF", "COALESCE", "BOUND", "IN", "NOT IN", "||", "&&", "!"})
"""Calls that can have a value although an argument is an error."""

Names = frozenset[str]


def bound_when_true(expr: Expr) -> Names:
    """Variables that are bound in every row for which the condition is true.

    ``?a > 1 && (?b < 2 || ?b > ?c)`` proves ?a and ?b. Joins use such variables as keys.
    """
    match expr:
        case Call("&&", args):
            return frozenset().union(*map(bound_when_true, args))
        case Call("||", args):
            first, *others = map(bound_when_true, args)
            return first.intersection(*others)
        case Call("BOUND", (Var(name),)):
            return frozenset((name,))
        case Call("IN" | "NOT IN", (first_argument, *_)):
            return _needed(first_argument)
        case _:
            return _needed(expr)


def _needed(expr: Expr) -> Names:
    """Variables without which the expression is an error."""
    match expr:
        case Var(name):
            return frozenset((name,))
        case Call("!", (inner,)):
            return _needed(inner)
        case Call(name, args) if name not in _TOLERANT:
            return frozenset().union(*map(_needed, args))
        case FunctionCall(_, args):
            return frozenset().union(*map(_needed, args))
        case Call() | Constant() | Exists():
            return frozenset()


class Solutions:
    """Adds operators to the plan of one query."""

    def __init__(self, compilation: Compilation, builder: PlanBuilder) -> None:
        self.compilation = compilation
        self.builder = builder

    def values(self, variables: Sequence[Var], rows: Sequence[Sequence[Any]]) -> Built:
        """The rows of VALUES as an input."""
        encode = self.compilation.terms.encode
        counted: dict[IdRow, int] = {}
        for row in rows:
            ids = tuple(encode(None if term is None else canonical(term)) for term in row)
            counted[ids] = counted.get(ids, 0) + 1
        names = tuple(each.name for each in variables)
        certain = frozenset(
            name for place, name in enumerate(names) if all(row[place] is not None for row in rows)
        )
        return self.builder.add("values", linear.Constant(Schema(names, certain), counted), [])

    def filter(self, built: Built, condition: Expr) -> Built:
        """Rows for which a condition without EXISTS is true."""
        test = compile_condition(condition, built.schema.vars, self.compilation.context)
        proved = bound_when_true(condition) & frozenset(built.schema.vars)
        schema = Schema(built.schema.vars, built.schema.certain | proved)
        return self.builder.add("filter", linear.Filter(schema, test), [built], expr=condition)

    def left_join(self, left: Built, right: Built, condition: Expr | None) -> Built:
        """OPTIONAL with a condition without EXISTS."""
        residual = None
        if condition is not None:
            added = [name for name in right.schema.vars if name not in left.schema.vars]
            residual = compile_condition(condition, (*left.schema.vars, *added), self.compilation.context)
        operator = Match("left", left.schema, right.schema, residual)
        return self.builder.add("optional", operator, [left, right], expr=condition)

    def without(self, left: Built, right: Built) -> Built:
        """The rows of the left side for which the right side, over the same columns, has none."""
        return self.builder.add("absent", Match("anti", left.schema, right.schema), [left, right])

    def constant(self, built: Built, name: str, term_id: int) -> Built:
        """One more column with one term in it; 0 for an unbound one."""
        names, certain = (*built.schema.vars, name), built.schema.certain | ({name} if term_id else set())
        self.compilation.pins.pin([term_id])
        operator = linear.Extend(Schema(names, certain), lambda row: term_id)
        return self.builder.add("constant", operator, [built], f"?{name}")

    def join(self, *inputs: Built) -> Built:
        """The joined rows of some inputs."""
        operator = Join([each.schema for each in inputs])
        return self.builder.add("join", operator, inputs)

    def union(self, left: Built, right: Built) -> Built:
        """The rows of both."""
        names = tuple(dict.fromkeys((*left.schema.vars, *right.schema.vars)))
        schema = Schema(names, left.schema.certain & right.schema.certain)
        operator = linear.Union(schema, columns_of(left.schema, names), columns_of(right.schema, names))
        return self.builder.add("union", operator, [left, right])

    def extend(self, built: Built, name: str, expr: Expr) -> Built:
        """Add a column to each row."""
        vars_ = built.schema.vars
        compute = self.id_of(expr, vars_)
        certain = built.schema.certain
        if (isinstance(expr, Var) and expr.name in certain) or _always_bound(expr):
            certain |= {name}
        operator = linear.Extend(Schema((*vars_, name), certain), compute)
        return self.builder.add("extend", operator, [built], f"?{name}", expr)

    def id_of(self, expr: Expr, names: tuple[str, ...]) -> Any:
        """The id of an expression's value; a variable passes its id on."""
        if isinstance(expr, Var):
            place = names.index(expr.name) if expr.name in names else -1
            return (lambda row: row[place]) if place >= 0 else (lambda row: 0)
        value = compile_value(expr, names, self.compilation.context)
        id_of = self.compilation.context.values.id_of
        return lambda row: id_of(value(row))

    def project(self, built: Built, names: Sequence[str]) -> Built:
        """Some columns in an order; the input where it has just these."""
        if tuple(names) == built.schema.vars:
            return built
        schema = Schema(tuple(names), built.schema.certain & frozenset(names))
        operator = linear.Project(schema, columns_of(built.schema, names))
        return self.builder.add("project", operator, [built])


def _always_bound(expr: Expr) -> bool:
    """True for an expression that has a value in every row."""
    match expr:
        case Constant():
            return True
        case Call("COALESCE", args):
            return any(map(_always_bound, args))
        case _:
            return False


Marked = Callable[[Built, Expr], tuple[Built, Expr]]


class Modifiers:
    """Adds operators over groups of rows and their order to the plan of one query."""

    def __init__(self, solutions: Solutions) -> None:
        self._solutions = solutions
        self.compilation = solutions.compilation
        self.builder = solutions.builder

    def group_by(self, node: Group, built: Built, marked: Marked, context: Built | None = None) -> Built:
        """GROUP BY over rows that are planned; ``marked`` turns EXISTS in an expression to a column.

        In a block that is evaluated graph by graph or stream by stream ``context`` has a row for each of
        these; the rows that are planned bind its columns, which are keys, too. Without keys of its own there
        is a group for each of them, also over nothing.
        """
        around = () if context is None else context.schema.vars
        visible = [name for name in built.schema.vars if not name.startswith("_:") or name in around]
        if any(each.expr is None and each.distinct for _, each in node.aggregates):
            built = self._solutions.project(built, visible)
        compilation = self.compilation
        tools = Tools(compilation.context.values, compilation.keys, compilation.terms.terms)
        aggregations = []
        exprs: list[Expr | None] = []
        for _, aggregate in node.aggregates:
            new = accumulator_factory(aggregate, tools)
            exprs.append(aggregate.expr)
            if aggregate.expr is None:
                aggregations.append(Aggregation(new))
                continue
            expr = aggregate.expr
            if has_exists(expr):
                built, expr = marked(built, expr)
                exprs[-1] = expr
            if isinstance(expr, Var):
                (column,) = columns_of(built.schema, [expr.name])
                aggregations.append(Aggregation(new, column=column))
            else:
                compute = compile_value(expr, built.schema.vars, self.compilation.context)
                aggregations.append(Aggregation(new, compute=compute))
        keys = [*around, *(each.name for each in node.keys)]
        results = [var.name for var, _ in node.aggregates]
        counts = {var.name for var, each in node.aggregates if each.name == "COUNT"}
        schema = Schema((*keys, *results), (built.schema.certain & frozenset(keys)) | counts)
        operator = Aggregate(
            schema, columns_of(built.schema, keys), aggregations, self.compilation.context.values
        )
        shown = f"by ({' '.join('?' + each for each in keys)})"
        grouped = self.builder.add("group", operator, [built], shown, extra=Grouping(node.aggregates, exprs))
        if context is None or node.keys:
            return grouped
        empty = self._solutions.without(context, self._solutions.project(grouped, around))
        values = self.compilation.context.values
        for name, each in zip(results, aggregations, strict=True):
            empty = self._solutions.constant(empty, name, each.new().result_id(values))
        return self._solutions.union(grouped, empty)

    def top_k(
        self,
        node: Algebra,
        build: Callable[[Algebra], Built],
        marked: Marked,
        context: Sequence[str] = (),
    ) -> Built:
        """Slice over DISTINCT over projection over ORDER BY, with ties by the projected columns.

        ``marked`` turns EXISTS in an expression to a column; for each value of the columns ``context`` the
        rows are ordered and cut on their own.
        """
        offset, limit = 0, None
        if isinstance(node, Slice):
            offset, limit, node = node.offset, node.limit, node.input
        distinct = isinstance(node, Distinct)
        if isinstance(node, Distinct | Reduced):
            node = node.input
        columns: tuple[str, ...] | None = None
        if isinstance(node, Project):
            columns, node = tuple(each.name for each in node.vars), node.input
        conditions: tuple[OrderCondition, ...] = ()
        if isinstance(node, OrderBy):
            conditions, node = node.conditions, node.input
        if columns is None:
            columns = tuple(sorted(name for name in in_scope(node)))
        built = build(node)
        columns = (*columns, *(name for name in context if name not in columns))
        for place, condition in enumerate(conditions):
            if has_exists(condition.expr):
                built, expr = marked(built, condition.expr)
                changed = OrderCondition(expr, condition.descending)
                conditions = (*conditions[:place], changed, *conditions[place + 1 :])
        if distinct:
            asked = NO_NAMES.union(*(expression_variables(each.expr) for each in conditions))
            if asked <= set(columns):
                built = self._solutions.project(built, columns)
                built = self.builder.add("distinct", linear.Distinct(built.schema), [built])
            else:
                places = columns_of(built.schema, columns)
                key = self._sort_key(built.schema.vars, conditions, places)
                first = TopK(built.schema, range(len(built.schema.vars)), key, 0, 1, by=places)
                built = self.builder.add("first", first, [built])
        schema = Schema(columns, built.schema.certain & frozenset(columns))
        places = columns_of(built.schema, columns)
        key = self._sort_key(built.schema.vars, conditions, places)
        shown = f"offset {offset} limit {'all' if limit is None else limit}"
        operator = TopK(schema, places, key, offset, limit, by=built.schema.positions(context))
        if context:
            shown += f" for each ({' '.join('?' + each for each in context)})"
        return self.builder.add("order", operator, [built], shown, extra=conditions)

    def _sort_key(
        self, names: tuple[str, ...], conditions: Sequence[OrderCondition], columns: Sequence[int]
    ) -> Any:
        """Keys of the conditions, then of the columns shown under the total order."""
        keys = self.compilation.keys
        parts = [
            (keys.falling if each.descending else keys.value, self._solutions.id_of(each.expr, names))
            for each in conditions
        ]

        def sort_key(row: IdRow) -> SortKey:
            return (
                *[key_of(id_of(row)) for key_of, id_of in parts],
                *[keys.total(row[column] if column >= 0 else 0) for column in columns],
            )

        return sort_key
