"""GRAPH ?g over patterns that Oxigraph does not evaluate graph by graph.

Oxigraph evaluates ``GRAPH ?g { P }`` by adding ?g to each quad pattern of P. That is the union over the
graphs (SPARQL 1.1 section 18.6) as long as every solution of P comes from at least one quad pattern and
nothing in P hides or aggregates over ?g. For the rest (sub-queries, inline data alone, MINUS without a sure
common variable, OPTIONAL or FILTER over ?g itself) `expand` writes the union out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyoxigraph import NamedNode

from .build import (
    children,
    expressions,
    join,
    map_children,
    map_expressions,
    map_patterns,
    sub_expressions,
    union,
)
from .nodes import (
    Algebra,
    Bgp,
    Distinct,
    Exists,
    Extend,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Path,
    Project,
    Reduced,
    Slice,
    Table,
    Union,
    Values,
    Var,
    Window,
)
from .variables import certain, mentioned


def evaluates_by_graph(inner: Algebra, variable: Var | None) -> bool:
    """True when Oxigraph's ``GRAPH ?variable { inner }`` is the union over the graphs.

    ``variable`` None: a variable that occurs nowhere in ``inner``.
    """
    if variable is not None and variable.name in mentioned(inner) and not only_matches(inner):
        return False
    return _pure(inner) and _touches_graph(inner)


def expand(node: Algebra, graphs: Callable[[], Iterable[NamedNode]]) -> Algebra:
    """The pattern with each GRAPH ?g that Oxigraph would get wrong written as a union over ``graphs``.

    Before ``Graph(?g, Project(...))``; after ``Union(Join(Graph(<g1>, ...), Values(?g, <g1>)), ...)``.
    """
    if (
        isinstance(node, Graph)
        and isinstance(node.name, Var)
        and not evaluates_by_graph(node.input, node.name)
    ):
        variable, inner = node.name, expand(node.input, graphs)
        return union(join(Graph(name, inner), Values((variable,), ((name,),))) for name in graphs())
    node = map_expressions(node, lambda expr: map_patterns(expr, lambda pattern: expand(pattern, graphs)))
    return map_children(node, lambda child: expand(child, graphs))


def only_matches(node: Algebra) -> bool:
    """Joins of patterns alone: the order in which ?g is bound makes no difference."""
    match node:
        case Bgp() | Path():
            return True
        case Join(left, right):
            return only_matches(left) and only_matches(right)
        case _:
            return False


def _pure(node: Algebra) -> bool:
    """No operator that would mix the graphs."""
    match node:
        case Project() | Group() | Distinct() | Reduced() | Slice() | OrderBy() | Window() | Table():
            return False
        case Minus(left, right) if not certain(left) & certain(right):
            return False
    patterns = [
        each.pattern
        for expr in expressions(node)
        for each in sub_expressions(expr)
        if isinstance(each, Exists)
    ]
    return all(map(_pure, children(node))) and all(map(_pure, patterns))


def _touches_graph(node: Algebra) -> bool:
    """Every solution comes from a quad pattern, which binds ?g."""
    match node:
        case Bgp() | Path():
            return True
        case Join(left, right):
            return _touches_graph(left) or _touches_graph(right)
        case Union(left, right):
            return _touches_graph(left) and _touches_graph(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return _touches_graph(left)
        case Filter(_, inner) | Extend(inner, _, _):
            return _touches_graph(inner)
        case _:
            return False
