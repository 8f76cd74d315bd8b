"""The graphs and predicates that a pattern reads, dataset clauses, and the expansion of GRAPH ?g."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.changes.commit import Commit

from .build import (
    UNIT,
    all_nodes,
    children,
    expressions,
    join,
    operands,
    sub_expressions,
    union,
    with_operands,
)
from .nodes import (
    MERGED,
    Algebra,
    Alternative,
    Bgp,
    Distinct,
    Exists,
    Extend,
    Filter,
    Graph,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    NegatedSet,
    OneOrMore,
    OrderBy,
    Path,
    PathExpr,
    Project,
    Sequence,
    Service,
    Slice,
    TableNode,
    TermPattern,
    Union,
    Values,
    Var,
    Window,
    ZeroOrMore,
    ZeroOrOne,
)
from .query import ContinuousQuery
from .variables import certain, mentioned


def evaluates_by_graph(inner: Algebra, variable: Var | None) -> bool:
    """Return True if Oxigraph's result of ``GRAPH ?variable { inner }`` is the union over the graphs.

    If ``variable`` is None, it stands for a variable that does not occur in ``inner``.
    """
    if variable is not None and variable.name in mentioned(inner) and not only_matches(inner):
        return False
    return _pure(inner) and touches_graph(inner, zero=True)


def expand(node: Algebra, graphs: Callable[[], Iterable[NamedNode]]) -> Algebra:
    """Return the pattern with each GRAPH ?g that Oxigraph gets wrong as a union over ``graphs``.

    The expansion turns ``Graph(?g, Project(...))`` into ``Union(Join(Graph(<g1>, ...), Values(?g, <g1>)),
    ...)``.

    Oxigraph evaluates ``GRAPH ?g { P }`` by adding ?g to each quad pattern of P. The result of GRAPH ?g is
    the union over the graphs (SPARQL 1.1 section 18.6) if every solution of the block P comes from at least
    one quad pattern and nothing in P hides or aggregates over ?g. GRAPH ?g is expanded to a union over the
    graphs for other blocks: sub-queries, inline data alone, MINUS without a common variable that both sides
    always bind, and OPTIONAL or FILTER over ?g itself.
    """
    return _expanded(node, graphs) if any(isinstance(each, Graph) for each in all_nodes(node)) else node


def _expanded(node: Algebra, graphs: Callable[[], Iterable[NamedNode]]) -> Algebra:
    if (
        isinstance(node, Graph)
        and isinstance(node.name, Var)
        and not evaluates_by_graph(node.input, node.name)
    ):
        variable, inner = node.name, _expanded(node.input, graphs)
        return union(join(Graph(name, inner), Values((variable,), ((name,),))) for name in graphs())
    return with_operands(node, [_expanded(each, graphs) for each in operands(node)])


def only_matches(node: Algebra) -> bool:
    """Return True for a block of only triple patterns and paths, which may bind ?g in any order."""
    match node:
        case Bgp() | Path():
            return True
        case Join(left, right):
            return only_matches(left) and only_matches(right)
        case _:
            return False


def _pure(node: Algebra) -> bool:
    """Return True if no operator of a GRAPH ?g block would mix rows of different graphs."""
    match node:
        case Project() | Group() | Distinct() | Slice() | OrderBy() | Window() | TableNode():
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


def touches_graph(node: Algebra, *, zero: bool = False) -> bool:
    """Return True if every solution of a block needs a quad of the graph, which therefore exists.

    With the argument ``zero``, the empty pattern and paths of length zero count as quad patterns, as they do
    in Oxigraph.
    """
    match node:
        case Bgp(patterns):
            return zero or bool(patterns)
        case Path(_, path, _):
            return zero or not isinstance(path, ZeroOrMore | ZeroOrOne)
        case Join(left, right):
            return touches_graph(left, zero=zero) or touches_graph(right, zero=zero)
        case Union(left, right):
            return touches_graph(left, zero=zero) and touches_graph(right, zero=zero)
        case LeftJoin(inner, _, _) | Minus(inner, _) | Filter(_, inner) | Extend(inner, _, _):
            return touches_graph(inner, zero=zero)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class GraphsRead:
    """The graphs that a pattern reads: the default graph, all named graphs, or single graphs."""

    default: bool
    every: bool
    names: frozenset[NamedNode]


def graphs_read(node: Algebra) -> GraphsRead:
    """Return the graphs that a pattern reads, including EXISTS patterns, without windows and SERVICE calls.

    C-SPARQL's merged window counts as a read of the default graph, because the background graphs are part of
    it.
    """
    found = set(_reads(node, None))
    return GraphsRead(
        None in found,
        any(isinstance(each, Var) for each in found),
        frozenset(each for each in found if isinstance(each, NamedNode)),
    )


def _reads(node: Algebra, graph: TermPattern | None) -> Iterator[TermPattern | None]:
    match node:
        case Bgp() | Path():
            yield graph
            return
        case Service():
            return
        case Window(name, _, _):
            if name == MERGED:
                yield None
            return
        case Graph(name, inner):
            # GRAPH depends on the existence of the graph even if no pattern inside the block matches a quad.
            yield name
            yield from _reads(inner, name)
            return
    for expression in expressions(node):
        for each in sub_expressions(expression):
            if isinstance(each, Exists):
                yield from _reads(each.pattern, graph)
    for child in children(node):
        yield from _reads(child, graph)


def may_change(pattern: Algebra, commits: Iterable[Commit]) -> bool:
    """Return True if one of the given commits may change the rows of a pattern."""
    nodes = list(all_nodes(pattern))
    # A GRAPH block that has rows even in an empty graph depends on which graphs exist, whatever their quads
    # are.
    blocks = [all_nodes(each.input) for each in nodes if isinstance(each, Graph)]
    if any(_has_rows_over_nothing(each) for block in blocks for each in block):
        return True
    predicates = predicates_of(nodes)
    return any(commit.touches(predicates=predicates) for commit in commits)


def _has_rows_over_nothing(node: Algebra) -> bool:
    """Return True for an algebra node that has rows over no quads.

    Algebra nodes with rows over no quads are the empty pattern, VALUES, and an aggregate without GROUP BY.
    """
    return node == UNIT or isinstance(node, Values) or (isinstance(node, Group) and not node.keys)


def predicates_of(nodes: Iterable[Algebra]) -> frozenset[NamedNode] | None:
    """Return the predicates that triple patterns and paths of algebra nodes match; None for any predicate."""
    found: set[NamedNode] = set()
    for node in nodes:
        if isinstance(node, Bgp):
            for pattern in node.patterns:
                if isinstance(pattern.predicate, Var):
                    return None
                found.add(pattern.predicate)
        elif isinstance(node, Path):
            links = _links(node.path)
            if links is None:
                return None
            found |= links
        elif isinstance(node, TableNode):
            return None
    return frozenset(found)


def _links(path: PathExpr) -> frozenset[NamedNode] | None:
    """Return the predicates of a property path; None if it may match any node or any predicate."""
    match path:
        case Link(iri):
            return frozenset((iri,))
        case Inverse(inner) | OneOrMore(inner):
            return _links(inner)
        case Sequence(left, right) | Alternative(left, right):
            first, second = _links(left), _links(right)
            return None if first is None or second is None else first | second
        case ZeroOrMore() | ZeroOrOne() | NegatedSet():
            return None


Flow: TypeAlias = tuple[str, str]
"""A stream or a graph that one query writes and another query reads: ``stream`` or ``graph``, and the IRI."""
EVERY_GRAPH: Flow = ("graph", "*")


# --- the dataset clause -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs that one evaluation reads; both fields None stand for the whole dataset of the store."""

    default: tuple[NamedNode | DefaultGraph, ...] | None
    named: tuple[NamedNode | BlankNode, ...] | None


@dataclass(frozen=True, slots=True)
class Reads:
    """The streams and graphs whose changes can change the answer of a query (docs/semantics.md, section 1).

    ``every`` stands for all named graphs of the store, ``default_graph`` for the store's own default graph.
    """

    streams: frozenset[str]
    graphs: frozenset[str]
    every: bool
    default_graph: bool

    def flows(self) -> set[Flow]:
        """Return the streams and graphs as flows; reading all named graphs is one flow, `EVERY_GRAPH`."""
        found = {("stream", iri) for iri in self.streams} | {("graph", iri) for iri in self.graphs}
        return found | {EVERY_GRAPH} if self.every else found


def is_lenient(query: ContinuousQuery, *, strict: bool) -> bool:
    """Return True if FROM follows CQELS-QL's own rule instead of SPARQL's (section 13.2).

    By the rule of CQELS-QL, FROM NAMED without FROM keeps the default graph, and FROM without FROM NAMED
    keeps the named graphs.
    """
    return query.dialect == "cqels" and not strict


def dataset_of(query: ContinuousQuery, *, lenient: bool) -> Dataset:
    """Return the graphs that the static parts of a query read; ``named`` None stands for all named graphs."""
    default, named, added = query.dataset.default, query.dataset.named, query.dataset.added
    if not default and (lenient or not named):
        return Dataset((DefaultGraph(), *added), named or None)
    graphs = tuple(dict.fromkeys((*default, *added)))
    if lenient and not named:
        return Dataset(graphs, None)
    return Dataset(graphs, named)


def reads_of(query: ContinuousQuery, *, lenient: bool) -> Reads:
    """Return the streams and graphs that a query reads, restricted by its dataset clause."""
    found, clause, dataset = graphs_read(query.root), query.dataset, dataset_of(query, lenient=lenient)
    graphs = {name.value for name in found.names if dataset.named is None or name in clause.named}
    if found.default:
        graphs.update(graph.value for graph in (*clause.default, *clause.added))
    if found.every:
        graphs.update(graph.value for graph in clause.named)
    streams = (each.stream for each in query.windows)
    return Reads(
        frozenset(each.value for each in streams if isinstance(each, NamedNode)),
        frozenset(graphs),
        found.every and dataset.named is None,
        found.default and dataset.default is not None and DefaultGraph() in dataset.default,
    )
