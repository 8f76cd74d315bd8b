"""How many rows an evaluation by the store may hold back, as a power of the number of quads.

Oxigraph collects rows before it gives the first one where it sorts, groups, removes duplicates, subtracts,
and joins other things than patterns that share variables. Each triple pattern has as many rows as there are
quads at most, so that what so many of them are collected of has that power of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from . import nodes as n
from .build import operands
from .nodes import Algebra, PathExpr
from .variables import Names, in_scope


class _Rows(NamedTuple):
    """Triple patterns: of all rows, and of those collected before; ``plain``: it is joined row by row."""

    given: int
    held: int
    plain: bool = False


def held_back(pattern: Algebra) -> int:
    """The triple patterns, at most, whose rows are collected together; 0 where all rows stream.

    >>> from pyoxigraph import NamedNode
    >>> from .nodes import Bgp, Distinct, TriplePattern, Var
    >>> def bgp(*subjects: str) -> Bgp:
    ...     return Bgp(tuple(TriplePattern(Var(each), NamedNode("urn:p"), Var("x")) for each in subjects))
    >>> held_back(bgp("a", "b")), held_back(Distinct(bgp("a", "b")))
    (0, 2)
    >>> held_back(n.Minus(bgp("a", "b"), bgp("a")))
    1
    """
    return _rows(pattern).held


def _rows(node: Algebra) -> _Rows:
    match node:
        case n.Bgp(patterns):
            names = [in_scope(n.Bgp((each,))) for each in patterns]
            return _streaming(len(patterns), names)
        case n.Path(_, path):
            return _Rows(_steps(path), 0, plain=True)
        case n.Values() | n.TableNode() | n.Service():
            return _Rows(0, 0, plain=True)
        case n.Join():
            return _joined(list(_join_operands(node)))
        case n.LeftJoin() | n.Minus():
            left, right = _rows(node.left), _rows(node.right)
            given = left.given + (right.given if isinstance(node, n.LeftJoin) else 0)
            return _Rows(given, max(left.held, right.held, right.given))
        case n.Union():
            left, right = _rows(node.left), _rows(node.right)
            return _Rows(max(left.given, right.given), max(left.held, right.held))
        case n.Group() | n.OrderBy() | n.Distinct():
            below = _rows(node.input)
            return _Rows(below.given, max(below.held, below.given))
        case _:
            # EXISTS is asked row by row; what it holds back itself is let go of each time.
            found = [_rows(each) for each in operands(node)]
            plain = isinstance(node, (n.Graph, n.Filter, n.Extend)) and all(each.plain for each in found)
            held = max([each.held for each in found], default=0)
            return _Rows(found[-1].given if found else 0, held, plain)


def _join_operands(node: Algebra) -> Iterable[Algebra]:
    if isinstance(node, n.Join):
        yield from _join_operands(node.left)
        yield from _join_operands(node.right)
    else:
        yield node


def _joined(parts: list[Algebra]) -> _Rows:
    """A join: of plain ones that share variables row by row, of others by collecting all but one."""
    found = [_rows(each) for each in parts]
    given, held = sum(each.given for each in found), max(each.held for each in found)
    if all(each.plain for each in found):
        streaming = _streaming(given, [in_scope(each) for each in parts])
        return streaming._replace(held=max(held, streaming.held))
    return _Rows(given, max(held, given - min(each.given for each in found)))


def _streaming(given: int, names: list[Names]) -> _Rows:
    """What is joined row by row when it shares variables; a product is collected."""
    groups: list[Names] = []
    for each in names:
        shared = [group for group in groups if group & each]
        groups = [group for group in groups if not group & each] + [each.union(*shared)]
    return _Rows(given, given if sum(1 for each in groups if each) > 1 else 0, plain=True)


def _steps(path: PathExpr) -> int:
    """The triple patterns that a path stands for; one of any length pairs what two patterns do."""
    match path:
        case n.Sequence(left, right):
            return _steps(left) + _steps(right)
        case n.Alternative(left, right):
            return max(_steps(left), _steps(right))
        case n.ZeroOrMore() | n.OneOrMore():
            return 2
        case n.Inverse(below) | n.ZeroOrOne(below):
            return _steps(below)
        case _:
            return 1
