"""Random queries over windows and background: the evaluator gives what one plain store gives.

The oracle knows nothing of static parts, tables and join orders: each window's content is a named graph
beside the background's, ``Window(w, P)`` is ``GRAPH <w> { P }``, and Oxigraph evaluates it all at once.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import operands, with_operands
from quadrill.continuous.algebra.nodes import Algebra, Expr, Var
from quadrill.continuous.algebra.query import ContinuousQuery, WindowDeclaration, WindowSpec
from quadrill.continuous.algebra.rewrites import drop_idle_minus
from quadrill.continuous.algebra.text import SparqlText
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from tests.continuous.whole_contents import recomputed
from tests.examples import examples

from .helpers import holding

NAMES = [NamedNode(f"urn:{letter}") for letter in "ab"]
PREDICATES = [NamedNode(f"urn:{letter}") for letter in "pq"]
NUMBERS = [
    Literal(str(number), datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")) for number in (1, 2)
]
W1, W2, G = NamedNode("urn:w1"), NamedNode("urn:w2"), NamedNode("urn:g")
VARIABLES = [Var(letter) for letter in "xyz"]
WINDOWS = (
    WindowDeclaration(W1, NamedNode("urn:s"), WindowSpec("now")),
    WindowDeclaration(W2, NamedNode("urn:t"), WindowSpec("range", width_ms=5000)),
)

variables = st.sampled_from(VARIABLES)
subjects = st.one_of(variables, variables, st.sampled_from(NAMES))
objects = st.one_of(variables, variables, st.sampled_from(NAMES + NUMBERS))
triples = st.builds(n.TriplePattern, subjects, st.sampled_from(PREDICATES), objects)
bgps = st.lists(triples, min_size=1, max_size=2).map(lambda each: n.Bgp(tuple(each)))


def constants() -> st.SearchStrategy[Expr]:
    return st.sampled_from([n.Constant(term) for term in NAMES[:1] + NUMBERS])


def comparisons() -> st.SearchStrategy[Expr]:
    operands = st.one_of(variables, constants())
    compare = st.builds(
        lambda name, left, right: n.Call(name, (left, right)),
        st.sampled_from(["=", "!=", "<"]),
        variables,
        operands,
    )
    bound = variables.map(lambda var: n.Call("BOUND", (var,)))
    return st.one_of(compare, bound, bound.map(lambda call: n.Call("!", (call,))))


def leaves() -> st.SearchStrategy[Algebra]:
    return st.one_of(
        bgps,
        st.builds(n.Graph, st.just(G), bgps),
        st.builds(n.Window, st.sampled_from([W1, W2]), bgps),
        st.builds(n.Window, st.sampled_from([W1, W2]), bgps),
    )


def grow(inner: st.SearchStrategy[Algebra]) -> st.SearchStrategy[Algebra]:
    conditions = st.one_of(comparisons(), st.builds(n.Exists, inner, st.booleans()))
    return st.one_of(
        st.builds(n.Join, inner, inner),
        st.builds(n.Join, inner, inner),
        st.builds(n.LeftJoin, inner, inner, st.one_of(st.none(), comparisons())),
        st.builds(n.Union, inner, inner),
        st.builds(n.Minus, inner, inner),
        st.builds(n.Filter, conditions, inner),
        st.builds(_bind, inner, comparisons()),
        st.builds(_values, inner, variables, st.sampled_from(NAMES)),
        st.builds(_sub_query, inner, st.sets(variables, min_size=1, max_size=2)),
        st.builds(_count, inner, variables),
    )


def _bind(inner: Algebra, expr: Expr) -> Algebra:
    free = next((var for var in map(Var, "uvt") if var.name not in in_scope(inner)), None)
    return inner if free is None else n.Extend(inner, free, expr)


def _values(inner: Algebra, var: Var, term: NamedNode) -> Algebra:
    return n.Join(inner, n.Values((var,), ((term,), (None,))))


def _sub_query(inner: Algebra, kept: set[Var]) -> Algebra:
    return n.Distinct(n.Project(inner, tuple(sorted(kept, key=lambda var: var.name))))


def _count(inner: Algebra, key: Var) -> Algebra:
    return n.Project(n.Group(inner, (key,), ((Var("n"), n.Aggregate("COUNT", None)),)), (key, Var("n")))


patterns = st.recursive(leaves(), grow, max_leaves=6)
triple_sets = st.sets(
    st.builds(Quad, st.sampled_from(NAMES), st.sampled_from(PREDICATES), st.sampled_from(NAMES + NUMBERS)),
    min_size=3,
    max_size=9,
)


def over_one_store(node: Algebra) -> Algebra:
    """The same pattern with each window as a graph."""
    if isinstance(node, n.Window):
        assert isinstance(node.name, NamedNode)
        return n.Graph(node.name, over_one_store(node.input))
    return with_operands(node, [over_one_store(each) for each in operands(node)])


def in_graph(quads: set[Quad], graph: NamedNode) -> list[Quad]:
    return [Quad(quad.subject, quad.predicate, quad.object, graph) for quad in quads]


def compare(node: Algebra, default: set[Quad], named: set[Quad], first: set[Quad], second: set[Quad]) -> None:
    columns = tuple(Var(name) for name in sorted(in_scope(node)))
    query = ContinuousQuery("", "sparql", "select", n.Project(node, columns), columns, windows=WINDOWS)
    whole = Store()
    whole.extend([*default, *in_graph(named, G), *in_graph(first, W1), *in_graph(second, W2)])
    for graph in (G, W1, W2):
        whole.add_graph(graph)
    found = whole.query(SparqlText(over_one_store(drop_idle_minus(query.root))).select())
    assert isinstance(found, QuerySolutions)
    expected = Counter(tuple(row[var.name] for var in columns) for row in found)
    with holding([*default, *in_graph(named, G)]) as store:
        evaluator = ReferenceEvaluator(query, store, EvaluationOptions())
        answer = recomputed(evaluator, 0, {W1: dict.fromkeys(first, 0), W2: dict.fromkeys(second, 0)})
    assert Counter(answer.rows) == expected


@given(patterns, triple_sets, triple_sets, triple_sets, triple_sets)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_evaluator_agrees_with_one_store(
    node: Algebra,
    default: set[Quad],
    named: set[Quad],
    first: set[Quad],
    second: set[Quad],
) -> None:
    compare(node, default, named, first, second)
