"""Properties of a CONSTRUCT mapping that decide which code is generated for the mapping."""

from __future__ import annotations

from collections.abc import Sequence

from pyoxigraph import NamedNode

from ...algebra import nodes as a
from ...algebra.build import all_nodes, sub_expressions
from ...algebra.nodes import TermPattern, TripleTerm, Var
from ...algebra.query import TemplateQuad
from ...algebra.variables import expression_variables
from .construct import Construct

_FEW = 64
"""Number of template statements up to which a mapping's work is not counted.

For parts of expressions of a mapping, the bound is twice this number.
"""


def fields_of(construct: Construct) -> tuple[str, ...]:
    """Return the names of the variables that a mapping takes from the fields of records, sorted."""
    found: set[str] = set()
    for node in all_nodes(construct.pattern):
        match node:
            case a.Filter(condition, _):
                found |= expression_variables(condition)
            case a.Extend(_, _, expr):
                found |= expression_variables(expr)
            case a.LeftJoin(_, _, condition) if condition is not None:
                found |= expression_variables(condition)
            case a.Values(variables, _):
                found |= {each.name for each in variables}
    for quad in construct.template:
        triple = quad.triple
        for term in (triple.subject, triple.predicate, triple.object, quad.graph):
            found |= {each.name for each in _variables(term) if not each.hidden}
    return tuple(sorted(found - construct.bound))


def is_blank(template: Sequence[TemplateQuad]) -> bool:
    """Return True if a CONSTRUCT template of a mapping contains blank nodes."""
    terms = [term for each in template for term in (each.triple.subject, each.triple.object, each.graph)]
    return any(variable.hidden for term in terms for variable in _variables(term))


def is_single(construct: Construct) -> bool:
    """Return True if a mapping can never yield the same statement twice for one row of fields."""
    predicates = {each.triple.predicate for each in construct.template}
    nodes = all_nodes(construct.pattern)
    return (
        len(predicates) == len(construct.template)
        and all(isinstance(each, NamedNode) for each in predicates)
        and all(isinstance(node, a.Extend | a.Filter | a.Bgp) for node in nodes)
    )


def is_counted(construct: Construct) -> bool:
    """Return True if a mapping may give several solutions or is large, so that its work is counted."""
    parts = 0
    for node in all_nodes(construct.pattern):
        match node:
            case a.Extend(_, _, expr) | a.Filter(expr, _):
                parts += sum(1 for _ in sub_expressions(expr))
            case a.Bgp():
                pass
            case _:
                return True
    return len(construct.template) > _FEW or parts > 2 * _FEW


def _variables(term: TermPattern | None) -> list[Var]:
    if isinstance(term, Var):
        return [term]
    if isinstance(term, TripleTerm):
        return [each for part in (term.subject, term.predicate, term.object) for each in _variables(part)]
    return []
