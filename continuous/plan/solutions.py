"""Operators over solutions whose inputs are planned already: no pattern and no EXISTS below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..algebra.nodes import Call, Constant, Expr, Var
from ..expressions.compile import compile_condition, compile_value
from ..expressions.oxigraph import canonical
from ..operators import linear
from ..operators.join import Join
from ..operators.matching import Match
from ..rows import IdRow, Schema
from .compilation import Compilation, columns_of
from .implied import bound_when_true
from .plan import Built, PlanBuilder


class Solutions:
    """Adds operators to the plan of one query."""

    def __init__(self, compilation: Compilation, builder: PlanBuilder) -> None:
        self.compilation = compilation
        self.builder = builder

    def values(self, variables: Sequence[Var], rows: Sequence[Sequence[Any]]) -> Built:
        """Inline data."""
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
        operator = Join([each.schema for each in inputs], None)
        return self.builder.add("join", operator, inputs)

    def union(self, left: Built, right: Built) -> Built:
        """The rows of both."""
        names = tuple(dict.fromkeys((*left.schema.vars, *right.schema.vars)))
        schema = Schema(names, left.schema.certain & right.schema.certain)
        operator = linear.Union(schema, columns_of(left.schema, names), columns_of(right.schema, names))
        return self.builder.add("union", operator, [left, right])

    def extend(self, built: Built, name: str, expr: Expr) -> Built:
        """One more column."""
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
