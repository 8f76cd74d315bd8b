"""Which graphs and predicates of the data a pattern or a query looks into, and GRAPH ?g written out."""

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
    """True when Oxigraph's ``GRAPH ?variable { inner }`` is the union over the graphs.

    ``variable`` None: a variable that occurs nowhere in ``inner``.
    """
    if variable is not None and variable.name in mentioned(inner) and not only_matches(inner):
        return False
    return _pure(inner) and touches_graph(inner, zero=True)


def expand(node: Algebra, graphs: Callable[[], Iterable[NamedNode]]) -> Algebra:
    """The pattern with each GRAPH ?g that Oxigraph would get wrong written as a union over ``graphs``.

    Before ``Graph(?g, Project(...))``; after ``Union(Join(Graph(<g1>, ...), Values(?g, <g1>)), ...)``.

    Oxigraph evaluates ``GRAPH ?g { P }`` by adding ?g to each quad pattern of P. That is the union over the
    graphs (SPARQL 1.1 section 18.6) as long as every solution of P comes from at least one quad pattern and
    nothing in P hides or aggregates over ?g. The rest (sub-queries, inline data alone, MINUS without a sure
    common variable, OPTIONAL or FILTER over ?g itself) is written out.
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
    """Joins of patterns alone: the order in which ?g is bound makes no difference."""
    match node:
        case Bgp() | Path():
            return True
        case Join(left, right):
            return only_matches(left) and only_matches(right)
        case _:
            return False


def _pure(node: Algebra) -> bool:
    """True when no operator of the pattern would mix the graphs."""
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
    """True when every solution comes from a quad of the graph, so that there is none without the graph.

    With ``zero`` the empty pattern and paths of length zero count as quad patterns, as Oxigraph has it.
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
    """The default graph, all named graphs (``GRAPH ?g``), and the named graphs that the pattern names."""

    default: bool
    every: bool
    names: frozenset[NamedNode]


def graphs_read(node: Algebra) -> GraphsRead:
    """The graphs that the pattern looks into, patterns of EXISTS counted in, windows and SERVICE calls not.

    Of windows only the merged one of C-SPARQL reads stored data: its background is the default graph.
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
            # GRAPH asks whether there is such a graph even when nothing is matched in it.
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
    """True when one of the commits may change the rows of a pattern."""
    nodes = list(all_nodes(pattern))
    # GRAPH around what has rows over nothing asks which graphs there are, whatever is in them.
    blocks = [all_nodes(each.input) for each in nodes if isinstance(each, Graph)]
    if any(_has_rows_over_nothing(each) for block in blocks for each in block):
        return True
    predicates = predicates_of(nodes)
    return any(commit.touches(predicates=predicates) for commit in commits)


def _has_rows_over_nothing(node: Algebra) -> bool:
    """True for an empty pattern, for given rows, and for set functions of all rows, which count none, too."""
    return node == UNIT or isinstance(node, Values) or (isinstance(node, Group) and not node.keys)


def predicates_of(nodes: Iterable[Algebra]) -> frozenset[NamedNode] | None:
    """All predicates of the triple patterns and paths among the nodes; None when any predicate may match."""
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
    """The predicates of a path; a path of length zero matches every node of the graph."""
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
"""``stream`` or ``graph``, and its IRI: what one query makes and another one reads."""
EVERY_GRAPH: Flow = ("graph", "*")


# --- the dataset clause -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs of one evaluation; None and None are the whole dataset."""

    default: tuple[NamedNode | DefaultGraph, ...] | None
    named: tuple[NamedNode | BlankNode, ...] | None


@dataclass(frozen=True, slots=True)
class Reads:
    """What can change the answer of a query (docs/semantics.md, section 1).

    ``every``: all named graphs of the store; ``default_graph``: the store's own default graph.
    """

    streams: frozenset[str]
    graphs: frozenset[str]
    every: bool
    default_graph: bool

    def flows(self) -> set[Flow]:
        """The streams and graphs, every graph being one of its own."""
        found = {("stream", iri) for iri in self.streams} | {("graph", iri) for iri in self.graphs}
        return found | {EVERY_GRAPH} if self.every else found


def is_lenient(query: ContinuousQuery, *, strict: bool) -> bool:
    """True where CQELS-QL's own rule holds, not SPARQL's (section 13.2).

    By it FROM NAMED without FROM leaves the default graph in place, and FROM without FROM NAMED the named
    graphs.
    """
    return query.dialect == "cqels" and not strict


def dataset_of(query: ContinuousQuery, *, lenient: bool) -> Dataset:
    """The graphs that the static parts of a query read; named None: all there are."""
    default, named = query.dataset.default, query.dataset.named
    if not default and (lenient or not named):
        return Dataset((DefaultGraph(),), named or None)
    if lenient and not named:
        return Dataset(default, None)
    return Dataset(default, named)


def reads_of(query: ContinuousQuery, *, lenient: bool) -> Reads:
    """What a query reads, by its dataset clause."""
    found, clause, dataset = graphs_read(query.root), query.dataset, dataset_of(query, lenient=lenient)
    graphs = {name.value for name in found.names if dataset.named is None or name in clause.named}
    if found.default:
        graphs.update(graph.value for graph in clause.default)
    if found.every:
        graphs.update(graph.value for graph in clause.named)
    streams = (each.stream for each in query.windows)
    return Reads(
        frozenset(each.value for each in streams if isinstance(each, NamedNode)),
        frozenset(graphs),
        found.every and dataset.named is None,
        found.default and dataset.default == (DefaultGraph(),),
    )
