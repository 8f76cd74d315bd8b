"""Hypothesis strategies: algebra over two windows and a static dataset, contents and commits."""

from functools import cache
from itertools import product
from typing import Any

from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import all_nodes, sub_expressions
from quadrill.continuous.algebra.build import expressions as expressions_of
from quadrill.continuous.algebra.nodes import Algebra, Expr, Var
from quadrill.continuous.algebra.query import ContinuousQuery, WindowDeclaration, WindowSpec
from quadrill.continuous.algebra.set_functions import STANDARD
from quadrill.continuous.algebra.variables import certain, in_scope

XSD = "http://www.w3.org/2001/XMLSchema#"
E = "http://e/"
W1, W2 = NamedNode(E + "w1"), NamedNode(E + "w2")
WINDOWS = (
    WindowDeclaration(W1, NamedNode(E + "s1"), WindowSpec("now")),
    WindowDeclaration(W2, NamedNode(E + "s2"), WindowSpec("now")),
)


def number(text: str, name: str = "integer") -> Literal:
    return Literal(text, datatype=NamedNode(XSD + name))


PREDICATES = [NamedNode(E + name) for name in ("p", "q")]
NODES: list[Any] = [NamedNode(E + name) for name in ("x", "y", "z")]
VALUES: list[Any] = [
    *NODES[:2],
    number("1"),
    number("2"),
    number("1.5", "decimal"),
    number("1", "double"),
    Literal("a"),
]
ODD_VALUES: list[Any] = [
    *(number(text, "double") for text in ("NaN", "-0", "0", "INF")),
    number("NaN", "float"),
    number("0"),
    number("x"),
    *(number(f"2020-01-01T0{hour}", "dateTime") for hour in ("0:00:00Z", "1:00:00+01:00", "0:00:00")),
    number("true", "boolean"),
    Literal(""),
    Literal("a", language="en"),
    Literal("a", language="fr"),
    Literal("a", datatype=NamedNode(E + "type")),
    Triple(NODES[0], PREDICATES[0], number("1")),
    Triple(NODES[1], PREDICATES[1], Triple(NODES[0], PREDICATES[0], NODES[0])),
]
"""Terms that are equal, ordered or joined otherwise than they look."""
GRAPHS: list[Any] = [NamedNode(E + "g1"), NamedNode(E + "g2")]
NAMES = ["a", "b", "c", "d"]

variables = st.sampled_from(NAMES).map(Var)
subjects = st.one_of(variables, variables, variables, st.sampled_from(NODES))
predicates = st.one_of(
    st.sampled_from(PREDICATES), st.sampled_from(PREDICATES), st.sampled_from(PREDICATES), variables
)
objects = st.one_of(variables, variables, variables, st.sampled_from(VALUES))
# Oxigraph 0.5 fails where a variable in the subject of a triple term is bound to a literal.
quoted = st.builds(
    n.TripleTerm,
    st.sampled_from(NODES),
    st.sampled_from(PREDICATES),
    st.one_of(variables, st.sampled_from(VALUES)),
)
triples = st.builds(n.TriplePattern, subjects, predicates, objects)
basic = st.lists(triples, min_size=1, max_size=3).map(lambda each: n.Bgp(tuple(each)))
annotated = st.builds(
    lambda *each: n.Bgp(each), triples, st.builds(n.TriplePattern, subjects, predicates, quoted)
)


@cache
def paths(depth: int = 2) -> st.SearchStrategy[Any]:
    links = st.sampled_from(PREDICATES).map(n.Link)
    negated = st.builds(
        n.NegatedSet,
        st.lists(st.sampled_from(PREDICATES), max_size=1).map(tuple),
        st.lists(st.sampled_from(PREDICATES), max_size=1).map(tuple),
    ).filter(lambda each: bool(each.forward or each.inverse))
    if not depth:
        return links
    inner = paths(depth - 1)
    return st.one_of(
        links,
        st.builds(n.Inverse, inner),
        st.builds(n.Sequence, inner, inner),
        st.builds(n.Alternative, inner, inner),
        st.builds(n.ZeroOrMore, inner),
        st.builds(n.OneOrMore, inner),
        st.builds(n.ZeroOrOne, inner),
        negated,
    )


# A path of zero steps from a constant holds even in an empty graph, which the reference's graphs are not.
path_patterns = st.one_of(
    st.builds(n.Path, variables, paths(), variables),
    st.builds(
        n.Path,
        subjects,
        st.one_of(paths(0), st.builds(n.OneOrMore, paths(0)), st.builds(n.Sequence, paths(0), paths(0))),
        st.one_of(variables, st.sampled_from(NODES)),
    ),
)
values = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).flatmap(
    lambda names: st.lists(
        st.tuples(*(st.one_of(st.none(), st.sampled_from(VALUES)) for _ in names)), min_size=1, max_size=3
    ).map(lambda rows: n.Values(tuple(map(Var, names)), tuple(rows)))
)


@cache
def expressions(patterns: st.SearchStrategy[Algebra] | None) -> st.SearchStrategy[Expr]:
    leaves: st.SearchStrategy[Expr] = st.one_of(
        variables, st.sampled_from([each for each in VALUES if isinstance(each, Literal)]).map(n.Constant)
    )
    compared = st.builds(
        lambda name, a, b: n.Call(name, (a, b)),
        st.sampled_from(["=", "!=", "<", ">", "<=", "+", "-", "*", "/", "SAMETERM", "CONCAT"]),
        leaves,
        leaves,
    )
    bound = variables.map(lambda var: n.Call("BOUND", (var,)))
    of_one = st.builds(
        lambda name, a: n.Call(name, (a,)),
        st.sampled_from(["STR", "LANG", "DATATYPE", "ISIRI", "ISNUMERIC", "UNARY-", "ABS", "STRLEN", "YEAR"]),
        leaves,
    )
    of_three = st.builds(
        lambda name, *args: n.Call(name, args),
        st.sampled_from(["IF", "IN", "NOT IN"]),
        leaves,
        leaves,
        leaves,
    )
    simple: st.SearchStrategy[Expr] = st.one_of(compared, compared, bound, leaves, of_one, of_three)
    if patterns is not None:
        simple = st.one_of(simple, st.builds(n.Exists, patterns, st.booleans()))
    return st.one_of(
        simple,
        st.builds(
            lambda name, a, b: n.Call(name, (a, b)), st.sampled_from(["||", "&&", "COALESCE"]), simple, simple
        ),
        simple.map(lambda each: n.Call("!", (each,))),
    )


@cache
def blocks(depth: int) -> st.SearchStrategy[Algebra]:
    """What stands inside a window."""
    leaves: st.SearchStrategy[Algebra] = st.one_of(basic, basic, annotated, path_patterns, values)
    if not depth:
        return leaves
    inner = blocks(depth - 1)
    graph = st.one_of(st.sampled_from(GRAPHS), st.just(Var("g")))
    return st.one_of(
        leaves,
        st.builds(n.Join, inner, inner),
        st.builds(n.LeftJoin, inner, inner, st.one_of(st.none(), expressions(None))),
        st.builds(n.Union, inner, inner),
        st.builds(n.Minus, inner, inner),
        st.builds(n.Filter, expressions(inner), inner),
        st.builds(n.Graph, graph, inner),
        st.builds(n.Graph, graph, st.one_of(inner.flatmap(grouped), inner.flatmap(sliced))),
        inner.flatmap(lambda each: extended(each, expressions(None))),
    )


@cache
def windows(depth: int) -> st.SearchStrategy[Algebra]:
    name = st.one_of(st.sampled_from([W1, W1, W2]), st.sampled_from([W1, W2]), st.just(Var("w")))
    return st.builds(n.Window, name, blocks(depth))


@cache
def some_of(names: tuple[str, ...], least: int, most: int | None = None) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=least, max_size=most, unique=True)


@cache
def one_of(names: tuple[str, ...]) -> st.SearchStrategy[Var]:
    return st.sampled_from(names).map(Var)


def visible(node: Algebra) -> tuple[str, ...]:
    return tuple(sorted(name for name in in_scope(node) if not name.startswith("_:")))


aggregates = st.lists(
    st.one_of(
        st.builds(n.Aggregate, st.just("COUNT"), st.none(), st.booleans()),
        st.builds(
            n.Aggregate,
            st.sampled_from(["COUNT", *sorted(STANDARD - {"PERCENTILE"})]),
            st.one_of(variables, variables, expressions(None)),
            st.booleans(),
        ),
        st.builds(n.Aggregate, st.just("GROUP_CONCAT"), variables, st.booleans(), st.sampled_from(["", ","])),
        st.builds(
            lambda expr, distinct, share: n.Aggregate(
                "PERCENTILE", expr, distinct, None, n.Constant(number(share))
            ),
            variables,
            st.booleans(),
            st.sampled_from(["0", "25", "99"]),
        ),
    ),
    min_size=1,
    max_size=2,
)


def extended(node: Algebra, exprs: st.SearchStrategy[Expr]) -> st.SearchStrategy[Algebra]:
    free = tuple(name for name in (*NAMES, "e") if name not in in_scope(node))
    return st.builds(n.Extend, st.just(node), one_of(free), exprs) if free else st.just(node)


def grouped(node: Algebra) -> st.SearchStrategy[Algebra]:
    names = visible(node)
    fresh = [name for name in ("n0", "n1", "n2", "n3", "n4", "n5") if name not in names]
    return st.builds(
        lambda keys, each: n.Group(
            node, tuple(map(Var, keys)), tuple((Var(name), a) for name, a in zip(fresh, each, strict=False))
        ),
        some_of(names, 0, 2) if names else st.just([]),
        aggregates,
    )


def projected(node: Algebra) -> st.SearchStrategy[Algebra]:
    names = visible(node)
    if not names:
        return st.just(node)
    return some_of(names, 1).map(lambda kept: n.Project(node, tuple(map(Var, kept))))


@cache
def orders(names: tuple[str, ...], exists: st.SearchStrategy[Expr] | None) -> st.SearchStrategy[Any]:
    keys = one_of(names)
    order = keys if exists is None else st.one_of(keys, keys, keys, exists)
    return st.lists(st.builds(n.OrderCondition, order, st.booleans()), max_size=2)


offsets = st.integers(0, 2)
limits = st.one_of(st.none(), st.integers(0, 3))


def sliced(node: Algebra, exists: st.SearchStrategy[Expr] | None = None) -> st.SearchStrategy[Algebra]:
    names = visible(node)
    if not names:
        return st.just(node)
    return st.builds(
        lambda conditions, kept, distinct, offset, limit: n.Slice(
            n.Distinct(project(node, kept, conditions)) if distinct else project(node, kept, conditions),
            offset,
            limit,
        ),
        orders(names, exists),
        some_of(names, 1),
        st.booleans(),
        offsets,
        limits,
    )


def project(node: Algebra, kept: list[str], conditions: list[n.OrderCondition]) -> Algebra:
    inner: Algebra = n.OrderBy(node, tuple(conditions)) if conditions else node
    return n.Project(inner, tuple(map(Var, kept)))


@cache
def patterns(depth: int) -> st.SearchStrategy[Algebra]:
    """A group graph pattern with windows and static parts."""
    stored = st.builds(
        n.Graph,
        st.one_of(st.sampled_from(GRAPHS), st.sampled_from(["g", "a"]).map(Var)),
        st.one_of(basic, path_patterns, values, basic.flatmap(grouped), basic.flatmap(projected)),
    )
    background: st.SearchStrategy[Algebra] = st.one_of(basic, annotated, path_patterns, values, stored)
    leaves: st.SearchStrategy[Algebra] = st.one_of(windows(1), windows(1), windows(0), background)
    if not depth:
        return leaves
    inner = patterns(depth - 1)
    exists = st.builds(n.Exists, inner, st.booleans())
    return st.one_of(
        windows(2),
        st.builds(n.Join, inner, inner),
        st.builds(n.LeftJoin, inner, inner, st.one_of(st.none(), expressions(inner))),
        st.builds(n.Union, inner, inner),
        st.builds(n.Minus, inner, inner),
        st.builds(n.Filter, expressions(inner), inner),
        inner.flatmap(lambda each: extended(each, expressions(inner))),
        inner.flatmap(projected),
        inner.flatmap(grouped),
        inner.flatmap(lambda each: sliced(each, exists)),
        inner.flatmap(projected).map(lambda each: n.Distinct(each) if isinstance(each, n.Project) else each),
    )


def queries(depth: int = 2) -> st.SearchStrategy[ContinuousQuery]:
    root = st.one_of(patterns(depth), patterns(depth).flatmap(grouped), patterns(depth).flatmap(sliced))
    return root.filter(reads_a_window).map(query_of)


def reads_a_window(node: Algebra) -> bool:
    return any(isinstance(each, n.Window) for each in all_nodes(node))


def query_of(root: Algebra) -> ContinuousQuery:
    inner = root
    while isinstance(inner, n.Slice | n.Distinct | n.OrderBy):
        inner = inner.input
    if not isinstance(inner, n.Project):
        columns = tuple(map(Var, visible(root)))
        root = n.Project(root, columns)
    else:
        columns = inner.vars
    return ContinuousQuery("", "rspql", "select", root, columns, windows=WINDOWS)


# All quads there are to choose from: one choice is drawn much faster than one for each place.
quads = st.sampled_from(
    [
        Quad(*each)
        for each in product(
            [*NODES, BlankNode("b1")],
            PREDICATES,
            [*VALUES, *VALUES, *ODD_VALUES, NODES[2], BlankNode("b1")],
            [DefaultGraph(), DefaultGraph(), *GRAPHS],
        )
    ]
)
contents = st.sets(quads, max_size=7)
"""What a window holds at an instant."""

static_quads = st.sets(
    st.sampled_from(
        [
            Quad(*each)
            for each in product(
                NODES, PREDICATES, [*VALUES, *ODD_VALUES], [DefaultGraph(), DefaultGraph(), *GRAPHS]
            )
        ]
    ),
    max_size=5,
)
histories = st.lists(
    st.tuples(contents, contents, st.one_of(st.none(), static_quads)), min_size=1, max_size=5
)
"""Transactions: the two windows' contents and, at some, another background dataset."""


def has_minus_that_oxigraph_misreads(root: Algebra) -> bool:
    """True with a MINUS inside EXISTS whose sides may bind no variable in common.

    Oxigraph counts what the tested row binds as bound on both sides, and removes solutions that
    share nothing; SPARQL 1.1 section 8.3.3 keeps them.
    """
    return any(
        isinstance(each, n.Minus) and not certain(each.left) & certain(each.right)
        for node in all_nodes(root)
        for expr in expressions_of(node)
        for sub in sub_expressions(expr)
        if isinstance(sub, n.Exists)
        for each in all_nodes(sub.pattern)
    )
