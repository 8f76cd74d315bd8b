"""Estimate of the rows that Oxigraph buffers for a pattern, as a power of the number of quads.

Oxigraph buffers rows where it sorts, groups, removes duplicates or subtracts, and for joins other than joins
of patterns that share variables. A triple pattern has at most as many rows as the store has quads. An
operator that buffers the joined rows of k triple patterns therefore buffers at most the k-th power of the
number of quads in the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from . import nodes as n
from .build import operands
from .nodes import Algebra, PathExpr
from .variables import Names, in_scope


class _Rows(NamedTuple):
    """Size of a pattern's result, counted in triple patterns.

    Attributes:
        pattern_count: the triple patterns that the rows of the result come from.
        buffered: the triple patterns whose rows are buffered together to compute the result.
        streams: True if the result can be joined row by row, without a buffer.
    """

    pattern_count: int
    buffered: int
    streams: bool = False


def count_buffered_patterns(pattern: Algebra) -> int:
    """Return the largest number of triple patterns whose rows are buffered together; 0 if none are.

    >>> from pyoxigraph import NamedNode
    >>> from .nodes import Bgp, Distinct, TriplePattern, Var
    >>> def bgp(*subjects: str) -> Bgp:
    ...     return Bgp(tuple(TriplePattern(Var(each), NamedNode("urn:p"), Var("x")) for each in subjects))
    >>> count_buffered_patterns(bgp("a", "b")), count_buffered_patterns(Distinct(bgp("a", "b")))
    (0, 2)
    >>> count_buffered_patterns(n.Minus(bgp("a", "b"), bgp("a")))
    1
    """
    return _rows(pattern).buffered


def _rows(node: Algebra) -> _Rows:
    match node:
        case n.Bgp(patterns):
            names = [in_scope(n.Bgp((each,))) for each in patterns]
            return _streaming(len(patterns), names)
        case n.Path(_, path):
            return _Rows(_steps(path), 0, streams=True)
        case n.Values() | n.TableNode() | n.Service():
            return _Rows(0, 0, streams=True)
        case n.Join():
            return _joined(list(_join_operands(node)))
        case n.LeftJoin() | n.Minus():
            left, right = _rows(node.left), _rows(node.right)
            pattern_count = left.pattern_count + (right.pattern_count if isinstance(node, n.LeftJoin) else 0)
            return _Rows(pattern_count, max(left.buffered, right.buffered, right.pattern_count))
        case n.Union():
            left, right = _rows(node.left), _rows(node.right)
            return _Rows(max(left.pattern_count, right.pattern_count), max(left.buffered, right.buffered))
        case n.Group() | n.OrderBy() | n.Distinct():
            below = _rows(node.input)
            return _Rows(below.pattern_count, max(below.buffered, below.pattern_count))
        case _:
            # EXISTS is evaluated for one row at a time, and the rows that it buffers are released after each
            # evaluation.
            inputs = [_rows(each) for each in operands(node)]
            streams = isinstance(node, (n.Graph, n.Filter, n.Extend)) and all(each.streams for each in inputs)
            buffered = max([each.buffered for each in inputs], default=0)
            return _Rows(inputs[-1].pattern_count if inputs else 0, buffered, streams)


def _join_operands(node: Algebra) -> Iterable[Algebra]:
    if isinstance(node, n.Join):
        yield from _join_operands(node.left)
        yield from _join_operands(node.right)
    else:
        yield node


def _joined(parts: list[Algebra]) -> _Rows:
    """Return the size of a join; unless every operand streams, all operands but the smallest are buffered."""
    inputs = [_rows(each) for each in parts]
    pattern_count, buffered = (
        sum(each.pattern_count for each in inputs),
        max(each.buffered for each in inputs),
    )
    if all(each.streams for each in inputs):
        streaming = _streaming(pattern_count, [in_scope(each) for each in parts])
        return streaming._replace(buffered=max(buffered, streaming.buffered))
    return _Rows(pattern_count, max(buffered, pattern_count - min(each.pattern_count for each in inputs)))


def _streaming(pattern_count: int, names: list[Names]) -> _Rows:
    """Return the size of a join of triple patterns, which streams unless it is a cross product."""
    groups: list[Names] = []
    for each in names:
        shared = [group for group in groups if group & each]
        groups = [group for group in groups if not group & each] + [each.union(*shared)]
    return _Rows(pattern_count, pattern_count if sum(1 for each in groups if each) > 1 else 0, streams=True)


def _steps(path: PathExpr) -> int:
    """Return how many triple patterns a path counts as; a closure (pairs of nodes) counts as two."""
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
