"""The algebra as S-expressions, in the manner of Apache Jena's SSE: for EXPLAIN and golden files.

One node per line, operands indented; variables with their question mark, terms as N-Triples. Hidden variables
(blank nodes of the text) are printed as ``?_:name``.
"""

from __future__ import annotations

from pyoxigraph import Literal

from . import nodes as n
from .nodes import Algebra, Expr, Term, Var
from .text import term_text

_INDENT = "  "


def show(node: Algebra) -> str:
    """The pattern as an indented S-expression.

    >>> print(show(n.Filter(n.Call("BOUND", (Var("x"),)), n.Bgp())))
    (filter (bound ?x)
      (bgp))
    """
    return "\n".join(_lines(node))


def show_expression(expr: Expr) -> str:
    """An expression on one line; the pattern of EXISTS too."""
    match expr:
        case Var():
            return _var(expr)
        case n.Constant(term):
            return term_text(term)
        case n.Call(name, args):
            return _list(name.lower(), *map(show_expression, args))
        case n.FunctionCall(iri, args):
            return _list(str(iri), *map(show_expression, args))
        case n.Exists(pattern, negated):
            return _list("notexists" if negated else "exists", " ".join(map(str.strip, _lines(pattern))))


def show_path(path: n.PathExpr) -> str:
    """A property path expression."""
    match path:
        case n.Link(iri):
            return str(iri)
        case n.Inverse(inner):
            return _list("reverse", show_path(inner))
        case n.Sequence(left, right):
            return _list("seq", show_path(left), show_path(right))
        case n.Alternative(left, right):
            return _list("alt", show_path(left), show_path(right))
        case n.ZeroOrMore(inner):
            return _list("path*", show_path(inner))
        case n.OneOrMore(inner):
            return _list("path+", show_path(inner))
        case n.ZeroOrOne(inner):
            return _list("path?", show_path(inner))
        case n.NegatedSet(forward, inverse):
            return _list("notoneof", *map(str, forward), *(_list("reverse", str(iri)) for iri in inverse))


def _lines(node: Algebra) -> list[str]:
    match node:
        case n.Bgp(patterns):
            return _tree("bgp", [_triple("triple", each) for each in patterns])
        case n.Path(subject, path, object_):
            return [_list("path", _term(subject), show_path(path), _term(object_))]
        case n.Join(left, right):
            return _tree("join", _lines(left), _lines(right))
        case n.LeftJoin(left, right, condition):
            extra = [] if condition is None else [show_expression(condition)]
            return _tree("leftjoin", _lines(left), _lines(right), extra)
        case n.Union(left, right):
            return _tree("union", _lines(left), _lines(right))
        case n.Minus(left, right):
            return _tree("minus", _lines(left), _lines(right))
        case n.Filter(condition, inner):
            return _tree(f"filter {show_expression(condition)}", _lines(inner))
        case n.Graph(name, inner):
            return _tree(f"graph {_term(name)}", _lines(inner))
        case n.Window(name, inner, stream):
            return _tree(f"window {_term(name)}" + (f" {_var(stream)}" if stream else ""), _lines(inner))
        case n.Service(name, inner, silent):
            return _tree(f"service {'silent ' if silent else ''}{_term(name)}", _lines(inner))
        case n.Extend(inner, var, expr):
            return _tree(f"extend ({_list(_var(var), show_expression(expr))})", _lines(inner))
        case n.Values(variables, rows):
            return _tree(f"table {_vars(variables)}", [_row(variables, row) for row in rows])
        case n.Group(inner, keys, aggregates):
            computed = " ".join(_list(_var(var), _aggregate(each)) for var, each in aggregates)
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


def _var(var: Var) -> str:
    return f"?{var.name}"


def _vars(variables: tuple[Var, ...]) -> str:
    return _list(*map(_var, variables))


def _term(term: n.TermPattern) -> str:
    match term:
        case Var():
            return _var(term)
        case n.TripleTerm():
            return _triple("qtriple", term)
        case _:
            return term_text(term)


def _triple(head: str, triple: n.TriplePattern | n.TripleTerm) -> str:
    return _list(head, _term(triple.subject), _term(triple.predicate), _term(triple.object))


def _row(variables: tuple[Var, ...], row: tuple[Term | None, ...]) -> str:
    bound = (
        _list(_var(var), term_text(term))
        for var, term in zip(variables, row, strict=True)
        if term is not None
    )
    return _list("row", *bound)


def _condition(condition: n.OrderCondition) -> str:
    expression = show_expression(condition.expr)
    return _list("desc", expression) if condition.descending else expression


def _aggregate(aggregate: n.Aggregate) -> str:
    # The name of one from outside is an IRI.
    words = [aggregate.name if aggregate.name.startswith("<") else aggregate.name.lower()]
    if aggregate.distinct:
        words.append("distinct")
    if aggregate.separator is not None:
        words.append(_list("separator", str(Literal(aggregate.separator))))
    if aggregate.expr is not None:
        words.append(show_expression(aggregate.expr))
    if aggregate.parameter is not None:
        words.append(show_expression(aggregate.parameter))
    return _list(*words)
