"""Restricts a pattern to the rows with given values of some of its variables.

    restrict(Bgp(?x :p ?y . ?y :q ?z), (?x), [[:a]])   =   Join(Values(?x, :a), Bgp(...))

The values stand as deep as they may, where they make look-ups of scans: below OPTIONAL's condition, MINUS,
GROUP BY, FILTER and sub-queries, in both branches of UNION. They may go below an operator that gives its
rows one input row (or one group) at a time and keeps the variables' values.
"""

from __future__ import annotations

from dataclasses import replace

from pyoxigraph import NamedNode

from . import nodes as n
from .build import conjuncts, join
from .nodes import Algebra, Values
from .variables import Names, certain


def restrict(node: Algebra, values: Values) -> Algebra:
    """The rows of the pattern that agree with one of the rows of ``values``.

    Every row of the pattern must bind all variables of ``values``, whose rows must differ from each other.
    """
    names = frozenset(each.name for each in values.vars)
    return _restrict(node, values, names)


def _restrict(node: Algebra, values: Values, names: Names) -> Algebra:
    match node:
        case n.Union(left, right) if names <= certain(left) & certain(right):
            return n.Union(_restrict(left, values, names), _restrict(right, values, names))
        case n.LeftJoin(left, _, _) | n.Minus(left, _) if names <= certain(left):
            return replace(node, left=_restrict(left, values, names))
        case n.Filter(_, inner) | n.Distinct(inner) | n.Reduced(inner) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Extend(inner, var, _) if var.name not in names and names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.OrderBy(inner, _) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Project(inner, variables) if names <= {each.name for each in variables} & certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Group(inner, keys, _) if names <= {each.name for each in keys} & certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Graph(n.Var(name), inner) if name not in names and names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Graph(NamedNode(), inner) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Join():
            return _restrict_join(node, values, names)
        case _:
            return join(values, node)


def _restrict_join(node: Algebra, values: Values, names: Names) -> Algebra:
    """Into one operand that binds them all where the values would otherwise stand beside an operator."""
    operands = conjuncts(node)
    for place, operand in enumerate(operands):
        if names <= certain(operand) and not isinstance(operand, n.Bgp | n.Path):
            operands[place] = _restrict(operand, values, names)
            # What is restricted first restricts the others.
            operands.insert(0, operands.pop(place))
            return join(*operands)
    return join(values, *operands)
