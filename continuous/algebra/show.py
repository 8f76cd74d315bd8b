"""The algebra as S-expressions, in the manner of Apache Jena's SSE: for EXPLAIN and golden files.

One node per line, operands indented; variables with their question mark, terms as N-Triples. Hidden variables
(blank nodes of the text) are printed as ``?_:name``.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Literal, Triple

from . import nodes as n
from .nodes import Algebra, Expr, Term, Var
from .printer import Printer

_INDENT = "  "


def show(node: Algebra) -> str:
    """The pattern as an indented S-expression.

    >>> print(show(n.Filter(n.Call("BOUND", (Var("x"),)), n.Bgp())))
    (filter (bound ?x)
      (bgp))
    """
    return "\n".join(_lines(node))


class _SExpressions(Printer):
    """Terms as everywhere, expressions and paths as lists with their operator first."""

    def triple_term(self, term: Triple | n.TripleTerm) -> str:
        return super().triple_term(term) if isinstance(term, Triple) else self.triple("qtriple", term)

    def triple(self, head: str, triple: n.TriplePattern | n.TripleTerm) -> str:
        """A triple pattern or triple term."""
        return _list(head, *map(self.term, (triple.subject, triple.predicate, triple.object)))

    def operation(self, name: str, args: tuple[Expr, ...], own: int) -> str:
        return self.call(name.lower(), args)

    def bracketed(self, text: str, own: int, level: int) -> str:
        return text

    def call(self, name: str, args: Iterable[Expr]) -> str:
        return _list(name, *map(self.expression, args))

    def exists(self, pattern: Algebra, negated: bool) -> str:
        return _list("notexists" if negated else "exists", " ".join(map(str.strip, _lines(pattern))))

    def path(self, path: n.PathExpr, level: int = 0) -> str:
        match path:
            case n.Sequence(left, right):
                return _list("seq", self.path(left), self.path(right))
            case n.Alternative(left, right):
                return _list("alt", self.path(left), self.path(right))
            case n.Inverse(inner) | n.ZeroOrMore(inner) | n.OneOrMore(inner) | n.ZeroOrOne(inner):
                return _list(_STEPS[type(path)], self.path(inner))
            case n.NegatedSet(forward, inverse):
                return _list("notoneof", *map(str, forward), *(_list("reverse", str(iri)) for iri in inverse))
            case n.Link():
                return super().path(path)

    def aggregate(self, aggregate: n.Aggregate) -> str:
        # The name of one from outside is an IRI.
        words = [aggregate.name if aggregate.name.startswith("<") else aggregate.name.lower()]
        if aggregate.distinct:
            words.append("distinct")
        if aggregate.separator is not None:
            words.append(_list("separator", str(Literal(aggregate.separator))))
        words += [self.expression(each) for each in (aggregate.expr, aggregate.parameter) if each is not None]
        return _list(*words)


_STEPS = {n.Inverse: "reverse", n.ZeroOrMore: "path*", n.OneOrMore: "path+", n.ZeroOrOne: "path?"}
_printer = _SExpressions()
_term, _expression = _printer.term, _printer.expression


def _lines(node: Algebra) -> list[str]:
    match node:
        case n.Bgp(patterns):
            return _tree("bgp", [_printer.triple("triple", each) for each in patterns])
        case n.Path(subject, path, object_):
            return [_list("path", _term(subject), _printer.path(path), _term(object_))]
        case n.Join(left, right):
            return _tree("join", _lines(left), _lines(right))
        case n.LeftJoin(left, right, condition):
            extra = [] if condition is None else [_expression(condition)]
            return _tree("leftjoin", _lines(left), _lines(right), extra)
        case n.Union(left, right):
            return _tree("union", _lines(left), _lines(right))
        case n.Minus(left, right):
            return _tree("minus", _lines(left), _lines(right))
        case n.Filter(condition, inner):
            return _tree(f"filter {_expression(condition)}", _lines(inner))
        case n.Graph(name, inner):
            return _tree(f"graph {_term(name)}", _lines(inner))
        case n.Window(name, inner, stream):
            return _tree(f"window {_term(name)}" + (f" {_term(stream)}" if stream else ""), _lines(inner))
        case n.Service(name, inner, silent):
            return _tree(f"service {'silent ' if silent else ''}{_term(name)}", _lines(inner))
        case n.Extend(inner, var, expr):
            return _tree(f"extend ({_list(_term(var), _expression(expr))})", _lines(inner))
        case n.Values(variables, rows):
            return _tree(f"table {_vars(variables)}", [_row(variables, row) for row in rows])
        case n.Group(inner, keys, aggregates):
            computed = " ".join(_list(_term(var), _printer.aggregate(each)) for var, each in aggregates)
            return _tree(f"group {_vars(keys)} ({computed})", _lines(inner))
        case n.OrderBy(inner, conditions):
            return _tree(f"order ({' '.join(map(_condition, conditions))})", _lines(inner))
        case n.Project(inner, variables):
            return _tree(f"project {_vars(variables)}", _lines(inner))
        case n.Distinct(inner):
            return _tree("distinct", _lines(inner))
        case n.Reduced(inner):
            return _tree("reduced", _lines(inner))
        case n.Slice(inner, offset, limit):
            return _tree(f"slice {offset} {'_' if limit is None else limit}", _lines(inner))
        case n.Table(name, variables, _):
            return [_list("static", name, _vars(variables))]


def _tree(head: str, *operands: list[str]) -> list[str]:
    """The head, every operand's lines indented, and the closing bracket at the end of the last."""
    lines = [f"({head}"] + [_INDENT + line for operand in operands for line in operand]
    lines[-1] += ")"
    return lines


def _list(*items: str) -> str:
    return "(" + " ".join(items) + ")"


def _vars(variables: tuple[Var, ...]) -> str:
    return _list(*map(_term, variables))


def _row(variables: tuple[Var, ...], row: tuple[Term | None, ...]) -> str:
    bound = (
        _list(_term(var), _term(term)) for var, term in zip(variables, row, strict=True) if term is not None
    )
    return _list("row", *bound)


def _condition(condition: n.OrderCondition) -> str:
    expression = _expression(condition.expr)
    return _list("desc", expression) if condition.descending else expression
