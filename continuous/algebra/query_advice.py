"""Advice on valid queries: variables that occur once or are never bound, and the predicates of patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pyoxigraph import NamedNode

from quadrill.store.sparql.scan import occurrences

from .build import all_nodes, expressions, operands
from .graphs import predicates_of
from .nodes import Algebra, Bgp, Extend, Graph, Group, Path, Service, Values, Var, Window
from .query import ContinuousQuery
from .variables import expression_variables, in_scope, term_variables, triple_variables

_ALIKE = 0.75
"""Minimum similarity, between 0 and 1, of variable names that may be misspellings of each other."""
_LEAST_LETTERS = 3
"""Minimum length of a variable name that is compared for misspellings.

Names of variables that are shorter than this are similar by accident.
"""


def variable_advice(query: ContinuousQuery) -> list[str]:
    """Return sentences on the variables of a query that are never bound and on those that occur once."""
    nodes = list(all_nodes(query.root))
    bound = {name for node in nodes for name in _bound_by(node)}
    shown = [var.name for var in query.columns]
    shown += [name for each in query.template for name in triple_variables(each.triple)]
    shown += [each.graph.name for each in query.template if isinstance(each.graph, Var)]
    used = {name for node in nodes for expr in expressions(node) for name in expression_variables(expr)}
    counts, all_are_shown = occurrences(query.text)
    # GRAPH ?g and WINDOW ?w can express "any graph" and "any window" only by a variable that occurs once.
    places = {name for node in nodes if isinstance(node, (Graph, Window, Service))
              for name in term_variables(node.name)}  # fmt: skip
    # BOUNDS names both ends of a window, also where only one is needed.
    places |= {var.name for node in nodes if isinstance(node, Window) for var in node.bounds}
    # In "?f :from ?a ; :to ?b" the variable ?f occurs once, but it connects two triple patterns.
    patterns = Counter(
        name for node in nodes if isinstance(node, Bgp)
        for each in node.patterns for name in set(triple_variables(each))
    )  # fmt: skip
    known = list(counts)
    found = []
    for name in known:
        if name not in bound and (name in shown or name in used):
            found.append(f"?{name} is never bound: {_meant(name, known) or 'no pattern has it.'}")
    for name in known:
        if (
            counts[name] == 1
            and patterns[name] < 2
            and name in bound
            and name not in places
            and name not in shown
            and not all_are_shown
        ):
            other = "is the name right? Write [] where any value will do."
            found.append(f"?{name} occurs only once: {_meant(name, known) or other}")
    return found


def _bound_by(node: Algebra) -> Iterable[str]:
    """Return the variables that an algebra node itself binds, without those of its operands."""
    match node:
        case Bgp() | Path() | Values():
            return in_scope(node)
        case Extend(_, var, _):
            return (var.name,)
        case Group(_, _, aggregates):
            return [var.name for var, _ in aggregates]
        case Graph(name) | Service(name):
            return term_variables(name)
        case Window():
            return [var.name for var in node.own_vars]
    return ()


def _meant(name: str, names: list[str]) -> str | None:
    """Return a question that proposes the most similar variable; None if no variable is similar."""
    others = [each for each in names if each != name and min(len(each), len(name)) >= _LEAST_LETTERS]
    alike = get_close_matches(name, others, 1, _ALIKE)
    return f"is ?{alike[0]} meant?" if alike else None


def predicates_named(
    node: Algebra, window: NamedNode | None = None
) -> Iterator[tuple[NamedNode | None, NamedNode]]:
    """Yield the predicates of a query's patterns, each with the window that is read; None is the store.

    For the advice on predicates, patterns inside SERVICE calls and inside windows with a variable name are
    left out.
    """
    match node:
        case Bgp(patterns):
            for pattern in patterns:
                yield from ((window, name) for name in predicates_of([Bgp((pattern,))]) or ())
        case Path():
            yield from ((window, name) for name in predicates_of([node]) or ())
        case Window(NamedNode() as name, inner):
            yield from predicates_named(inner, name)
        case Service() | Window():
            pass
        case _:
            for each in operands(node):
                yield from predicates_named(each, window)
