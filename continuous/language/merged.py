"""C-SPARQL: the patterns outside GRAPH and SERVICE read the merge of all windows and the FROM graphs."""

from __future__ import annotations

from ..algebra import nodes as a
from ..algebra.nodes import MERGED, Algebra, Expr


def over_merge(node: Algebra) -> Algebra:
    """Wrap every maximal sub-pattern without GRAPH and SERVICE in the merged window.

    ``Join(Bgp, Graph(g, P))`` becomes ``Join(Window(merged, Bgp), Graph(g, P))``. A pattern's dataset is
    all that a window changes, so wrapping a whole and wrapping its parts mean the same.
    """
    if isinstance(node, a.Values) or node == a.Bgp():
        return node
    if not _has_graph(node):
        return a.Window(MERGED, node)
    match node:
        case a.Graph() | a.Service():
            return node
        case a.Join(left, right):
            return a.Join(over_merge(left), over_merge(right))
        case a.Union(left, right):
            return a.Union(over_merge(left), over_merge(right))
        case a.Minus(left, right):
            return a.Minus(over_merge(left), over_merge(right))
        case a.LeftJoin(left, right, condition):
            merged = None if condition is None else _expression(condition)
            return a.LeftJoin(over_merge(left), over_merge(right), merged)
        case a.Filter(condition, inner):
            return a.Filter(_expression(condition), over_merge(inner))
        case a.Extend(inner, var, expr):
            return a.Extend(over_merge(inner), var, _expression(expr))
        case a.Group(inner, keys, aggregates):
            return a.Group(over_merge(inner), keys, aggregates)
        case a.OrderBy(inner, conditions):
            return a.OrderBy(over_merge(inner), conditions)
        case a.Project(inner, variables):
            return a.Project(over_merge(inner), variables)
        case a.Distinct(inner):
            return a.Distinct(over_merge(inner))
        case a.Reduced(inner):
            return a.Reduced(over_merge(inner))
        case a.Slice(inner, offset, limit):
            return a.Slice(over_merge(inner), offset, limit)
        case _:
            return node


def _expression(expr: Expr) -> Expr:
    match expr:
        case a.Exists(pattern, negated):
            return a.Exists(over_merge(pattern), negated)
        case a.Call(name, args):
            return a.Call(name, tuple(_expression(arg) for arg in args))
        case a.FunctionCall(iri, args):
            return a.FunctionCall(iri, tuple(_expression(arg) for arg in args))
        case _:
            return expr


def _has_graph(node: object) -> bool:
    if isinstance(node, (a.Graph, a.Service)):
        return True
    if isinstance(node, tuple):
        return any(_has_graph(item) for item in node)
    if isinstance(node, (a.Bgp, a.Path, a.Values, a.Var, a.Constant)) or not hasattr(node, "__slots__"):
        return False
    return any(_has_graph(getattr(node, name)) for name in node.__slots__)
