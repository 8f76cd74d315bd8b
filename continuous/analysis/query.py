"""Shape of a one-shot query: how much work its joins may need and how many rows it buffers."""

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
"""The number of buffered patterns if it is unknown; the product of so many would exceed any memory."""
_MOST_PATTERNS = 500


class QueryShape(NamedTuple):
    """The shape of a query's patterns.

    Attributes:
        patterns: the number of triple patterns and paths.
        components: the number of groups of patterns without a common variable; the rows of two groups form a
            product.
        anchored: True if every pattern has a constant subject or object, or its subject is reached from such
            a pattern by going from subjects to objects. A join in the other direction, from an object to all
            subjects that share it, may multiply rows.
        buffers_rows: True if an operator collects rows before it returns the first one.
        concatenates: True if GROUP_CONCAT joins the strings of many rows.
        is_unjudged: True if the query has an operator whose cost is not estimated.
        buffered_patterns: the number of patterns whose rows are buffered together; `UNKNOWN` if it is not
            known.
        graphs: for each pattern the named graph around it; None for the default graph, for a variable and for
            a path.
    """

    patterns: int = 0
    components: int = 0
    anchored: bool = True
    buffers_rows: bool = False
    concatenates: bool = False
    is_unjudged: bool = False
    buffered_patterns: int = UNKNOWN
    graphs: tuple[NamedNode | None, ...] = ()


NOT_JUDGED = QueryShape(is_unjudged=True)


def shape_of(query: ContinuousQuery) -> QueryShape:
    """Return the shape of a query's patterns."""
    reader = _Reader(is_unjudged=query.form == "describe")
    reader.read(query.root, None)
    if len(reader.steps) > _MOST_PATTERNS:
        return NOT_JUDGED
    return QueryShape(
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
    """A triple pattern as a step of a join: from its subject, or a constant end, to all its variables."""

    start: str
    constant: bool
    names: frozenset[str]
    graph: NamedNode | None


@dataclass(slots=True)
class _Reader:
    """Walks through a query's pattern and collects its triple patterns and paths as join steps.

    ``unbounded`` says that the size of a part's result has no known bound.
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
    """Return True for a path with a closure, or with negated predicates in both directions.

    A path with a closure may visit every node that can be reached.
    """
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
