"""Questions to the algebra of a one-shot query: how much work it may be, and how many rows it holds back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.buffered_rows import count_buffered_patterns
from ..algebra.build import children, expressions, has_exists
from ..algebra.nodes import Algebra, PathExpr, TermPattern, TripleTerm, Var
from ..algebra.query import ContinuousQuery

UNKNOWN = 1_000
"""So many patterns hold more rows than any store has room for."""
_MOST_PATTERNS = 500


class Shape(NamedTuple):
    """The shape of a query's patterns.

    Attributes:
        patterns: triple patterns and paths.
        components: groups of patterns that share no variable; their rows are multiplied.
        anchored: every pattern has a constant subject or object, or its subject is reached from such a one by
            going from subjects to objects. Going backwards, from an object that many share to all its
            subjects, is what makes a join explode.
        buffers_rows: rows are collected before the first one comes out.
        concatenates: texts of many rows are put together.
        is_unjudged: something stands here that is not judged.
        buffered_patterns: the patterns whose rows are collected together; `UNKNOWN` where that is not judged.
        graphs: for each pattern the name of the graph around it, None where nothing tells how large it is.
    """

    patterns: int = 0
    components: int = 0
    anchored: bool = True
    buffers_rows: bool = False
    concatenates: bool = False
    is_unjudged: bool = False
    buffered_patterns: int = UNKNOWN
    graphs: tuple[NamedNode | None, ...] = ()


NOT_JUDGED = Shape(is_unjudged=True)


def shape_of(query: ContinuousQuery) -> Shape:
    """The shape of a query."""
    reader = _Reader(is_unjudged=query.form == "describe")
    reader.read(query.root, None)
    if len(reader.steps) > _MOST_PATTERNS:
        return NOT_JUDGED
    return Shape(
        patterns=len(reader.steps),
        components=_components([step.names for step in reader.steps]),
        anchored=_anchored(reader.steps),
        buffers_rows=reader.buffers_rows,
        concatenates=reader.concatenates,
        is_unjudged=reader.is_unjudged or reader.unbounded or reader.selects > 1,
        buffered_patterns=UNKNOWN if reader.unbounded else count_buffered_patterns(query.root),
        graphs=tuple([step.graph for step in reader.steps]),
    )


class _Step(NamedTuple):
    """A pattern as a step: from its subject, or from a constant end, to all its variables."""

    start: str
    constant: bool
    names: frozenset[str]
    graph: NamedNode | None


@dataclass(slots=True)
class _Reader:
    """Walks through a pattern and collects its steps.

    ``unbounded``: nothing bounds what a part of it gives.
    """

    is_unjudged: bool
    unbounded: bool = False
    buffers_rows: bool = False
    concatenates: bool = False
    selects: int = 0
    steps: list[_Step] = field(default_factory=list)

    def read(self, node: Algebra, graph: NamedNode | None) -> None:
        match node:
            case n.Bgp(patterns):
                for each in patterns:
                    self._step((each.subject, each.predicate, each.object), graph)
            case n.Path(subject, path, object_):
                self.unbounded |= _is_unbounded(path)
                self._step((subject, object_), None)
            case n.Graph(name, _):
                graph = name if isinstance(name, NamedNode) else None
            case n.Values() | n.TableNode():
                self.is_unjudged = True
            case n.Service() | n.Window():
                self.unbounded = True
            case n.Group(_, _, aggregates):
                self.buffers_rows = True
                self.concatenates |= any(each.name == "GROUP_CONCAT" for _, each in aggregates)
            case n.OrderBy() | n.Distinct():
                self.buffers_rows = True
            case n.Project():
                self.selects += 1
        self.is_unjudged |= any(map(has_exists, expressions(node)))
        for child in children(node):
            self.read(child, graph)

    def _step(self, terms: tuple[TermPattern, ...], graph: NamedNode | None) -> None:
        self.unbounded |= any([isinstance(term, TripleTerm) for term in terms])
        ends = terms[0], terms[-1]
        names = frozenset([term.name for term in terms if isinstance(term, Var)])
        start = terms[0].name if isinstance(terms[0], Var) else ""
        self.steps.append(_Step(start, not all([isinstance(end, Var) for end in ends]), names, graph))


def _is_unbounded(path: PathExpr) -> bool:
    """True for a closure, which may run over everything that can be reached, and for going to and fro."""
    match path:
        case n.Sequence(left, right) | n.Alternative(left, right):
            return _is_unbounded(left) or _is_unbounded(right)
        case n.ZeroOrOne(below):
            return _is_unbounded(below)
        case n.NegatedSet():
            return bool(path.inverse)
        case _:
            return not isinstance(path, n.Link)


def _anchored(steps: list[_Step]) -> bool:
    waiting: defaultdict[str, list[_Step]] = defaultdict(list)
    open_: list[_Step] = []
    for step in steps:
        if step.constant:
            open_.append(step)
        else:
            waiting[step.start].append(step)
    while open_:
        for name in open_.pop().names:
            open_ += waiting.pop(name, ())
    return not waiting


def _components(patterns: list[frozenset[str]]) -> int:
    groups: list[frozenset[str]] = []
    for names in patterns:
        if names:
            shared = [group for group in groups if group & names]
            groups = [group for group in groups if not group & names] + [names.union(*shared)]
    return len(groups)
