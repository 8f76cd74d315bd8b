"""Prints the algebra as S-expressions in the style of Apache Jena's SSE, for EXPLAIN and golden files.

Each node is one line, with operands indented; variables have their question mark, terms are N-Triples. Hidden
variables (blank nodes of the text) are printed as ``?_:name``. Algebra nodes without a special form are
printed by the name of their class.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Literal, Triple

from quadrill.store.terms import term_text

from . import nodes as n
from .build import children
from .nodes import Algebra, Var

_INDENT = "  "
_HEADS: dict[type, str] = {
    n.TriplePattern: "triple", n.TripleTerm: "qtriple", n.Sequence: "seq", n.Alternative: "alt",
    n.Inverse: "reverse", n.ZeroOrMore: "path*", n.OneOrMore: "path+", n.ZeroOrOne: "path?",
}  # fmt: skip


def show(node: Algebra) -> str:
    """Return a pattern as an indented S-expression.

    >>> print(show(n.Filter(n.Call("BOUND", (Var("x"),)), n.Bgp())))
    (filter (bound ?x)
      (bgp))
    """
    return "\n".join(_lines(node))


def _lines(node: Algebra) -> list[str]:
    below = [_lines(each) for each in children(node)]
    match node:
        case n.Bgp(patterns):
            return _tree("bgp", [_word(each) for each in patterns])
        case n.Path(subject, path, object_):
            return [_list("path", _word(subject), _word(path), _word(object_))]
        case n.TableNode(name, variables, _):
            return [_list("static", name, _words(variables))]
        case n.Values(variables, rows):
            pairs = [
                [each for each in zip(variables, row, strict=True) if each[1] is not None] for row in rows
            ]
            return _tree(f"table {_words(variables)}", [_list("row", *map(_words, row)) for row in pairs])
        case n.LeftJoin(_, _, condition):
            return _tree("leftjoin", *below, [] if condition is None else [_word(condition)])
        case n.Filter(condition, _):
            head = ["filter", _word(condition)]
        case n.Graph(name, _):
            head = ["graph", _word(name)]
        case n.Window(name, _, stream, time, bounds):
            head = ["window", _word(name), *([_word(stream)] if stream else [])]
            head += [_list("at", _word(time))] if time else []
            head += [_list("bounds", *map(_word, bounds))] if bounds else []
        case n.Service(name, _, silent):
            head = ["service", *(["silent"] if silent else []), _word(name)]
        case n.Extend(_, var, expr):
            head = ["extend", _list(_words((var, expr)))]
        case n.Group(_, keys, aggregates):
            head = ["group", _words(keys), _list(*map(_words, aggregates))]
        case n.OrderBy(_, conditions):
            head = ["order", _words(conditions)]
        case n.Project(_, variables):
            head = ["project", _words(variables)]
        case n.Slice(_, offset, limit):
            head = ["slice", str(offset), "_" if limit is None else str(limit)]
        case _:
            head = [type(node).__name__.lower()]
    return _tree(" ".join(head), *below)


def _word(part: object) -> str:
    """Return a term, an expression or a path on one line."""
    match part:
        case Var(name):
            return f"?{name}"
        case n.Constant(Triple() as term) | (Triple() as term):
            return term_text(term)
        case n.Constant(term) | n.Link(term):
            return str(term)
        case n.Call(name, args):
            return _list(name.lower(), *map(_word, args))
        case n.FunctionCall(iri, args):
            return _list(str(iri), *map(_word, args))
        case n.Exists(pattern, negated):
            return _list("notexists" if negated else "exists", " ".join(map(str.strip, _lines(pattern))))
        case n.OrderCondition(expr, descending):
            return _list("desc", _word(expr)) if descending else _word(expr)
        case n.Aggregate(name, expr, distinct, separator, parameter):
            # The name of an extension's aggregate is an IRI, which must keep its case.
            words = [name if name.startswith("<") else name.lower(), *(["distinct"] if distinct else [])]
            words += [] if separator is None else [_list("separator", str(Literal(separator)))]
            return _list(*words, *[_word(each) for each in (expr, parameter) if each is not None])
        case n.NegatedSet(forward, inverse):
            return _list("notoneof", *map(str, forward), *(_list("reverse", str(iri)) for iri in inverse))
        case n.Sequence(left, right) | n.Alternative(left, right):
            return _list(_HEADS[type(part)], _word(left), _word(right))
        case n.Inverse(path) | n.ZeroOrMore(path) | n.OneOrMore(path) | n.ZeroOrOne(path):
            return _list(_HEADS[type(part)], _word(path))
        case n.TriplePattern(subject, predicate, object_) | n.TripleTerm(subject, predicate, object_):
            return _list(_HEADS[type(part)], *map(_word, (subject, predicate, object_)))
        case _:
            return str(part)


def _words(parts: Iterable[object]) -> str:
    return _list(*map(_word, parts))


def _tree(head: str, *operands: list[str]) -> list[str]:
    """Return a node's S-expression: head, indented lines of every operand, closing bracket at the end."""
    lines = [f"({head}"] + [_INDENT + line for operand in operands for line in operand]
    lines[-1] += ")"
    return lines


def _list(*items: str) -> str:
    return "(" + " ".join(items) + ")"
