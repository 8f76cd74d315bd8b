"""Terms, expressions and property paths as SPARQL text.

`text.py` prints queries for Oxigraph, `language/write.py` those of the dialects for people, with their
prefixes, windows and clauses, `show.py` the terms and expressions of EXPLAIN's tree. What one of them writes
in another way is a method here that it overrides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from . import nodes as n
from .build import CHAIN, fold
from .nodes import Aggregate, Algebra, Call, Expr, Var

T = TypeVar("T")
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_RDF_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")

_LEVELS = {
    "||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT IN": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "!": 6, "UNARY+": 6, "UNARY-": 6,
}  # fmt: skip
PRIMARY = 7


class Printer:
    """Prints terms, expressions and paths, with as few brackets as are read back as the same algebra."""

    separator = "; SEPARATOR = "

    def __init__(self, prefixes: Mapping[str, str] | None = None) -> None:
        """With ``prefixes`` terms are abbreviated as in Turtle: prefixed names, ``a`` for rdf:type."""
        self.used: set[str] = set()
        """The prefixes that stand in the text."""
        self.computed: Mapping[Var, Aggregate] = {}
        """The set functions whose values are variables of the expressions printed now."""
        self._abbreviates = prefixes is not None
        self._prefixes = sorted((prefixes or {}).items(), key=lambda item: -len(item[1]))
        self._iris: dict[NamedNode, str] = {}

    # --- terms

    def term(self, term: n.TermPattern | n.Term) -> str:
        """A term of a pattern."""
        match term:
            case Var():
                return self.var(term)
            case NamedNode():
                return self.iri(term)
            case Literal():
                return self.literal(term)
            case Triple() | n.TripleTerm():
                return self.triple_term(term)
            case BlankNode():
                return str(term)

    def var(self, var: Var) -> str:
        """A variable."""
        return self.hidden(var) if var.hidden else f"?{var.name}"

    def hidden(self, var: Var) -> str:
        """A variable that stands for a blank node."""
        return f"?{var.name}"

    def iri(self, iri: NamedNode) -> str:
        """A prefixed name where a declared namespace fits, else the whole IRI."""
        known = self._iris.get(iri)
        if known is None:
            known = self._iris[iri] = self._short(iri.value) or str(iri)
        return known

    def _short(self, iri: str) -> str | None:
        for prefix, namespace in self._prefixes:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                self.used.add(prefix)
                return f"{prefix}:{iri[len(namespace) :]}"
        return None

    def literal(self, literal: Literal) -> str:
        """A literal."""
        return str(literal)

    def verb(self, term: NamedNode | Var) -> str:
        """A predicate."""
        return "a" if self._abbreviates and term == _RDF_TYPE else self.term(term)

    def triple_term(self, term: Triple | n.TripleTerm) -> str:
        """An RDF 1.2 triple term."""
        return f"<<( {self.term(term.subject)} {self.verb(term.predicate)} {self.term(term.object)} )>>"

    # --- expressions

    def expression(self, expr: Expr, level: int = 0) -> str:
        """An expression; what binds as strongly as ``level`` stands without brackets."""
        match expr:
            case Var():
                computed = self.computed.get(expr)
                return self.var(expr) if computed is None else self.aggregate(computed)
            case n.Constant(term):
                return self.term(term)
            case n.Exists(pattern, negated):
                return self.exists(pattern, negated)
            case n.FunctionCall(iri, args):
                return self.call(self.iri(iri), args)
            case Call(name, args):
                own = _LEVELS.get(name, PRIMARY)
                return self.bracketed(self.operation(name, args, own), own, level)

    def exists(self, pattern: Algebra, negated: bool) -> str:
        """EXISTS with its pattern."""
        raise NotImplementedError

    def bracketed(self, text: str, own: int, level: int) -> str:
        """A text that binds as strongly as ``own``, in brackets where ``level`` binds more strongly."""
        return f"({text})" if own < level else text

    def call(self, name: str, args: Iterable[Expr]) -> str:
        """A call of a function by its name."""
        return f"{name}({', '.join(map(self.expression, args))})"

    def unary(self, name: str, arg: Expr) -> str:
        """``!`` or a sign."""
        if name == "!":
            return f"!{self.expression(arg, _LEVELS[name])}"
        return f"{name[-1]}({self.expression(arg)})"

    def operation(self, name: str, args: tuple[Expr, ...], own: int) -> str:
        """An operator or built-in, which binds as strongly as ``own``."""
        match name:
            case "||" | "&&":
                node = cast(Expr, Call(name, args))
                parts = self.chain(node, lambda each: _operands(each, name), lambda *two: Call(name, two))
                return f" {name} ".join(self.expression(part, own + 1) for part in parts)
            case "IN" | "NOT IN":
                listed = ", ".join(map(self.expression, args[1:]))
                return f"{self.expression(args[0], own + 1)} {name} ({listed})"
            case "!" | "UNARY-" | "UNARY+":
                return self.unary(name, args[0])
            case "+" | "-" | "*" | "/":
                return f"{self.expression(args[0], own)} {name} {self.expression(args[1], own + 1)}"
            case _ if own < PRIMARY:
                return f" {name} ".join(self.expression(arg, own + 1) for arg in args)
            case _:
                return self.call(name, args)

    def aggregate(self, aggregate: Aggregate) -> str:
        """A set function."""
        argument = "*" if aggregate.expr is None else self.expression(aggregate.expr)
        inside = f"{'DISTINCT ' if aggregate.distinct else ''}{argument}"
        if aggregate.separator is not None:
            inside += f"{self.separator}{Literal(aggregate.separator)}"
        if aggregate.parameter is not None:
            inside += f", {self.expression(aggregate.parameter)}"
        return f"{aggregate.name}({inside})"

    # --- property paths

    def path(self, path: n.PathExpr, level: int = 0) -> str:
        """A property path; ``level`` as for expressions."""
        match path:
            case n.Link(iri):
                return self.verb(iri)
            case n.Alternative():
                options = self.chain(cast(n.PathExpr, path), _alternatives, n.Alternative)
                return self.bracketed("|".join(self.path(each, 2) for each in options), 1, level)
            case n.Sequence():
                steps = self.chain(cast(n.PathExpr, path), _steps, n.Sequence)
                return self.bracketed("/".join(self.path(each, 3) for each in steps), 2, level)
            case n.Inverse(inner):
                return self.bracketed(f"^{self.path(inner, 4)}", 3, level)
            case n.ZeroOrMore(inner):
                return self.bracketed(f"{self.path(inner, 5)}*", 4, level)
            case n.OneOrMore(inner):
                return self.bracketed(f"{self.path(inner, 5)}+", 4, level)
            case n.ZeroOrOne(inner):
                return self.bracketed(f"{self.path(inner, 5)}?", 4, level)
            case n.NegatedSet(forward, inverse):
                return self.negated([*map(self.verb, forward), *(f"^{self.verb(iri)}" for iri in inverse)])

    def negated(self, members: list[str]) -> str:
        """A negated property set."""
        return f"!{members[0]}" if len(members) == 1 else f"!({'|'.join(members)})"

    def chain(
        self, node: T, operands: Callable[[T], tuple[T, T] | None], combine: Callable[[T, T], T]
    ) -> list[T]:
        """The operands that, written one after the other, are read as ``node`` again (`build.fold`)."""
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


def _operands(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    return (expr.args[0], expr.args[1]) if isinstance(expr, Call) and expr.name == name else None


def _alternatives(path: n.PathExpr) -> tuple[n.PathExpr, n.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Alternative) else None


def _steps(path: n.PathExpr) -> tuple[n.PathExpr, n.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Sequence) else None
