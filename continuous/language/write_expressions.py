"""Expressions and property paths as query text, with brackets only where the grammar needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from pyoxigraph import Literal

from ..algebra import nodes as a
from ..algebra.nodes import Aggregate, Algebra, Call, Expr, Var
from .expressions import AGGREGATE_NAMESPACE, percentile_iri
from .triples import CHAIN, fold
from .write_terms import Names

_LEVELS = {
    "||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT IN": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "!": 6, "UNARY+": 6, "UNARY-": 6,
}  # fmt: skip
_PRIMARY = 7
_EXTENDED = ("MEDIAN", "STDDEV", "VARIANCE", "PERCENTILE")
_NO_AGGREGATES: Mapping[Var, Aggregate] = {}
T = TypeVar("T")


class ExpressionWriter:
    """Writes expressions; ``group`` gives the lines of the braces of an EXISTS."""

    def __init__(self, names: Names, group: Callable[[Algebra], str]) -> None:
        self._names = names
        self._group = group

    def write(self, expr: Expr, aggregates: Mapping[Var, Aggregate] = _NO_AGGREGATES, level: int = 0) -> str:
        """The text of an expression.

        Args:
            expr: the expression.
            aggregates: the set functions whose values its hidden variables are.
            level: what binds as strongly may stand without brackets.
        """
        match expr:
            case Var():
                computed = aggregates.get(expr)
                return self._names.var(expr) if computed is None else self.aggregate(computed)
            case a.Constant(term):
                return self._names.term(term)
            case a.Exists(pattern, negated):
                return f"{'NOT ' if negated else ''}EXISTS {self._group(pattern)}"
            case a.FunctionCall(iri, args):
                return f"{self._names.iri(iri)}({self._list(args, aggregates)})"
            case Call(name, args):
                own = _LEVELS.get(name, _PRIMARY)
                text = self._call(name, args, aggregates, own)
                return f"({text})" if own < level else text

    def constraint(self, expr: Expr, aggregates: Mapping[Var, Aggregate] = _NO_AGGREGATES) -> str:
        """An expression after FILTER or HAVING."""
        text = self.write(expr, aggregates)
        return text if isinstance(expr, a.Exists) else f"({text})"

    def _list(self, args: tuple[Expr, ...], aggregates: Mapping[Var, Aggregate]) -> str:
        return ", ".join(self.write(arg, aggregates) for arg in args)

    def _call(self, name: str, args: tuple[Expr, ...], aggregates: Mapping[Var, Aggregate], own: int) -> str:
        match name:
            case "||" | "&&":
                chain = chained(cast(Expr, Call(name, args)), lambda each: _operands(each, name), _make(name))
                return f" {name} ".join(self.write(part, aggregates, own + 1) for part in chain)
            case "IN" | "NOT IN":
                left = self.write(args[0], aggregates, own + 1)
                return f"{left} {name} ({self._list(args[1:], aggregates)})"
            case "!":
                return f"!{self.write(args[0], aggregates, own)}"
            case "UNARY-" | "UNARY+":
                return f"{name[-1]}({self.write(args[0], aggregates)})"
            case "+" | "-" | "*" | "/":
                right = self.write(args[1], aggregates, own + 1)
                return f"{self.write(args[0], aggregates, own)} {name} {right}"
            case "TIMESTAMP":
                return f"timestamp({self._list(args, aggregates)})"
            case _ if own < _PRIMARY:
                return f" {name} ".join(self.write(arg, aggregates, own + 1) for arg in args)
            case _:
                return f"{name}({self._list(args, aggregates)})"

    def aggregate(self, aggregate: Aggregate) -> str:
        """A set function; ours go by their IRI where the dialect has no word for them."""
        argument = "*" if aggregate.expr is None else self.write(aggregate.expr)
        inside = f"{'DISTINCT ' if aggregate.distinct else ''}{argument}"
        if aggregate.separator is not None:
            inside += f"; SEPARATOR = {Literal(aggregate.separator)}"
        alone = None
        if aggregate.parameter is not None and self._names.dialect == "sparql":
            alone = percentile_iri(aggregate.parameter)
        if alone is not None:
            return f"{alone}({inside})"
        if aggregate.parameter is not None:
            inside += f", {self.write(aggregate.parameter)}"
        name = aggregate.name
        if name in _EXTENDED and self._names.dialect == "sparql":
            name = f"<{AGGREGATE_NAMESPACE}{name.lower()}>"
        return f"{name}({inside})"

    def path(self, path: a.PathExpr, level: int = 0) -> str:
        """A property path; ``level`` as for expressions."""
        own, text = self._path(path)
        return f"({text})" if own < level else text

    def _path(self, path: a.PathExpr) -> tuple[int, str]:
        match path:
            case a.Link(iri):
                return 5, self._names.verb(iri)
            case a.Alternative():
                options = chained(cast(a.PathExpr, path), _alternatives, a.Alternative)
                return 1, "|".join(self.path(each, 2) for each in options)
            case a.Sequence():
                steps = chained(cast(a.PathExpr, path), _steps, a.Sequence)
                return 2, "/".join(self.path(each, 3) for each in steps)
            case a.Inverse(inner):
                return 3, f"^{self.path(inner, 4)}"
            case a.ZeroOrMore(inner):
                return 4, f"{self.path(inner, 5)}*"
            case a.OneOrMore(inner):
                return 4, f"{self.path(inner, 5)}+"
            case a.ZeroOrOne(inner):
                return 4, f"{self.path(inner, 5)}?"
            case a.NegatedSet(forward, inverse):
                members = [self._names.verb(iri) for iri in forward]
                members += [f"^{self._names.verb(iri)}" for iri in inverse]
                return 5, f"!{members[0]}" if len(members) == 1 else f"!({'|'.join(members)})"


def _operands(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    return (expr.args[0], expr.args[1]) if isinstance(expr, Call) and expr.name == name else None


def _make(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda left, right: Call(name, (left, right))


def _alternatives(path: a.PathExpr) -> tuple[a.PathExpr, a.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, a.Alternative) else None


def _steps(path: a.PathExpr) -> tuple[a.PathExpr, a.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, a.Sequence) else None


def chained(node: T, operands: Callable[[T], tuple[T, T] | None], combine: Callable[[T, T], T]) -> list[T]:
    """The operands that, written one after the other, are read as ``node`` again (`triples.fold`)."""
    spine: list[T] = []
    rest = node
    while (pair := operands(rest)) is not None:
        rest, right = pair
        spine.append(right)
    spine.append(rest)
    spine.reverse()
    leaves: list[T] = []
    stack = [node]
    while stack:
        each = stack.pop()
        pair = operands(each)
        if pair is None:
            leaves.append(each)
        else:
            stack += (pair[1], pair[0])
    if len(leaves) > CHAIN and fold(combine, leaves) == node:
        return leaves
    if len(spine) <= CHAIN:
        return spine
    pair = operands(node)
    assert pair is not None
    return list(pair)
