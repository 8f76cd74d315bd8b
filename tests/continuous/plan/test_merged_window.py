"""C-SPARQL's merged window and timestamp(): the native evaluator gives the reference's answer."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from benchmarks.policies import by_operators, routed
from quadrill.app.describing.operators import tree
from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import (
    children,
    expressions,
    map_expression,
    with_children,
    with_expressions,
)
from quadrill.continuous.algebra.nodes import Algebra, Expr
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.algebra.reify import REIFIES
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.language.patterns import over_merge
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.static.table_registry import TableRegistry
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, move_to, recomputed, refresh
from tests.examples import examples

from . import random_queries as r
from .test_native_oracle import has_zero_steps, without_literals

W1, W2 = r.W1, r.W2
Contents = dict[Quad, int]
History = list[tuple[Contents, Contents, set[Quad] | None]]


def patterns(depth: int) -> st.SearchStrategy[Algebra]:
    """What a C-SPARQL query may be made of, before its patterns read the merge."""
    leaves: st.SearchStrategy[Algebra] = st.one_of(r.basic, r.basic, r.basic, r.path_patterns, r.values)
    if not depth:
        return leaves
    inner = patterns(depth - 1)
    background = st.builds(n.Graph, st.sampled_from(r.GRAPHS), r.basic)
    return st.one_of(
        leaves,
        st.builds(n.Join, inner, st.one_of(inner, background)),
        st.builds(n.LeftJoin, inner, inner, st.one_of(st.none(), r.expressions(None))),
        st.builds(n.Union, inner, inner),
        st.builds(n.Minus, inner, inner),
        st.builds(n.Filter, r.expressions(inner), inner),
        inner.flatmap(lambda each: r.extended(each, r.expressions(inner))),
        inner.flatmap(r.projected),
        inner.flatmap(r.grouped),
        inner.flatmap(r.sliced),
    )


def merged(node: Algebra) -> ContinuousQuery:
    return replace(r.query_of(over_merge(node)), dialect="csparql")


queries = patterns(2).map(merged).filter(lambda each: r.reads_a_window(each.root))
timed = st.dictionaries(r.quads, st.integers(0, 4), max_size=7)
background = st.sets(
    st.builds(
        Quad,
        st.sampled_from(r.NODES),
        st.sampled_from(r.PREDICATES),
        st.sampled_from(r.VALUES),
        st.sampled_from([DefaultGraph(), DefaultGraph(), r.GRAPHS[0]]),
    ),
    max_size=6,
)
histories = st.lists(st.tuples(timed, timed, st.one_of(st.none(), background)), min_size=1, max_size=5)


def agree_throughout(query: ContinuousQuery, history: History, **options: Any) -> None:
    if r.has_minus_that_oxigraph_misreads(query.root):
        assume(False)
    store = QuadStore.open(None)
    chosen = EvaluationOptions(name="q", **options)
    try:
        reference = ReferenceEvaluator(query, store, chosen)
    except (UnsupportedError, QueryTextError):
        assume(False)
    try:
        native = NativeEvaluator(query, store, chosen)
    except UnsupportedError as error:
        event(f"falls back: {error.construct}")
        assume(False)
    twin = by_operators(routed(NativeEvaluator(query, store, chosen), [3, 2, 1, 0]))
    if has_zero_steps(query.root):
        history = [
            ({q: t for q, t in a.items() if not isinstance(q.object, Literal)},
             {q: t for q, t in b.items() if not isinstance(q.object, Literal)}, without_literals(c))
            for a, b, c in history
        ]  # fmt: skip
    before: Counter[Any] = Counter()
    held: set[Quad] = set()
    for number, (first, second, static) in enumerate(history):
        if static is not None:
            store.writer.apply(add=static - held, remove=held - static)
            held = static
            assert refresh(native) == refresh(reference) == refresh(twin)
        contents = {W1: first, W2: second}
        expected = recomputed(reference, number, contents)
        change = move_to(native, number, contents)
        operators = move_to(twin, number, contents)
        after = Counter(expected.rows)
        assert Counter(change.rows) == after
        if expected.ordered:
            assert change.rows == expected.rows
        assert Counter(change.inserted) == Counter(operators.inserted) == after - before
        assert Counter(change.deleted) == Counter(operators.deleted) == before - after
        before = after
    native.close()


def test_a_name_that_a_sub_query_hides_may_be_bound_again() -> None:
    """Two quads give one row twice: what the sub-query calls ?b is not what stands behind it."""
    a, b, p = n.Var("a"), n.Var("b"), r.PREDICATES[0]
    hidden = n.Project(n.Bgp((n.TriplePattern(a, p, b),)), (a,))
    again = n.Extend(hidden, b, n.Constant(Literal(1)))
    held = {Quad(r.NODES[0], p, value, DefaultGraph()): 0 for value in r.NODES[:2]}
    history: History = [({}, {}, None), ({}, held, None), ({}, dict(list(held.items())[:1]), None)]
    for query in (merged(again), r.query_of(n.Window(W2, again))):
        agree_throughout(query, history, window_default_graph="union")


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries, histories, st.sampled_from(["union", "default"]))
def test_patterns_over_the_merge_agree(query: ContinuousQuery, history: History, graphs: str) -> None:
    agree_throughout(query, history, window_default_graph=graphs)


def test_a_slice_of_a_sub_query_orders_nothing() -> None:
    """The rows of such a query have the fixed order of those without one, whoever evaluates it."""
    part = n.Join(
        n.Values((n.Var("a"), n.Var("b")), ((r.NODES[0], None), (None, None))),
        n.Bgp((n.TriplePattern(n.Var("c"), r.PREDICATES[0], n.Var("d")),)),
    )
    sliced = n.Slice(n.Project(part, (n.Var("b"), n.Var("a"))), 0, None)
    agree_throughout(
        merged(sliced),
        [({Quad(r.NODES[0], r.PREDICATES[0], r.NODES[1]): 0}, {}, None)],
        window_default_graph="union",
    )


def with_timestamps(node: Algebra) -> Algebra:
    """Numbers of expressions become timestamps of a variable."""

    def call(expr: Expr) -> Expr | None:
        if isinstance(expr, n.Constant) and isinstance(expr.term, Literal):
            name = "ab"[len(expr.term.value) % 2]
            return n.Call("TIMESTAMP", (n.Var(name),))
        return None

    node = with_children(node, [with_timestamps(each) for each in children(node)])
    return with_expressions(node, [map_expression(each, call) for each in expressions(node)])


beside_a_pattern = st.one_of(
    st.builds(n.Join, r.basic, patterns(1)),
    st.builds(n.LeftJoin, r.basic, patterns(1), st.one_of(st.none(), r.expressions(None))),
    st.builds(n.Filter, r.expressions(patterns(1)), r.basic),
    st.builds(n.Union, r.basic, patterns(1)),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(beside_a_pattern, st.sampled_from("ab"), histories, st.sampled_from(["union", "default"]))
def test_event_times_agree(node: Algebra, name: str, history: History, graphs: str) -> None:
    root = n.Extend(with_timestamps(node), n.Var("when"), n.Call("TIMESTAMP", (n.Var(name),)))
    query = merged(root)
    agree_throughout(query, history, window_default_graph=graphs)


BLANK = [BlankNode("r1"), BlankNode("r2")]
annotations = st.dictionaries(
    st.one_of(
        r.quads,
        st.builds(
            lambda node, subject, value: Quad(
                node, REIFIES, Triple(subject, r.PREDICATES[0], value), DefaultGraph()
            ),
            st.sampled_from(BLANK), st.sampled_from(r.NODES[:2]), st.sampled_from(r.VALUES[:3]),
        ),
        st.builds(Quad, st.sampled_from(BLANK), st.just(r.PREDICATES[1]), st.sampled_from(r.VALUES[:3])),
    ),
    st.integers(0, 4),
    max_size=6,
)  # fmt: skip
ANNOTATED = [
    "SELECT * { ?x ?p ?v }",
    "SELECT ?x ?v (timestamp(?x) AS ?t) (timestamp(?v) AS ?u) { ?x <http://e/q> ?v . ?x ?p ?w }",
    "SELECT * { << ?x <http://e/p> ?y >> <http://e/q> ?v FILTER(timestamp(?v) > 1) }",
]


@pytest.mark.parametrize("body", ANNOTATED)
def test_annotations_and_their_times_agree(body: str) -> None:
    select, where = body.split(" {", 1)
    text = (
        f"REGISTER QUERY q AS {select} FROM STREAM <http://e/s1> [RANGE 9s STEP 1s] "
        f"FROM STREAM <http://e/s2> [RANGE 5s STEP 1s] WHERE {{{where}"
    )
    query = parse(text)
    one, two = (each.name for each in query.windows)

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(annotations, annotations), min_size=1, max_size=5), st.booleans())
    def law(history: list[tuple[Contents, Contents]], asserted: bool) -> None:
        store = QuadStore.open(None)
        options = EvaluationOptions(name="q", quoted_asserted=asserted)
        native, reference = (each(query, store, options) for each in (NativeEvaluator, ReferenceEvaluator))
        for number, (first, second) in enumerate(history):
            contents = {one: first, two: second}
            assert Counter(answer_of(native, number, contents).rows) == Counter(
                recomputed(reference, number, contents).rows
            )

    law()


def test_the_merge_follows_the_store_and_says_that_it_is_native() -> None:
    query = parse(
        "PREFIX : <http://e/> REGISTER QUERY q AS SELECT ?x ?n (timestamp(?x) AS ?t) "
        "FROM STREAM :s1 [RANGE 9s STEP 1s] FROM STREAM :s2 [RANGE 5s STEP 1s] WHERE { ?x :p ?v . ?x :q ?n }"
    )
    store, terms = QuadStore.open(None), EngineTerms()
    catalogue = TableRegistry(store, terms)
    native = NativeEvaluator(query, store, EvaluationOptions(), terms, statics=catalogue)
    native.take(native.statics.begin())
    one, two = (each.name for each in query.windows)
    x, name = NamedNode("http://e/x"), Literal("n")
    seen = Quad(x, NamedNode("http://e/p"), Literal("1"))
    named = Quad(x, NamedNode("http://e/q"), name)
    number = Literal("7", datatype=NamedNode(r.XSD + "integer"))
    assert answer_of(native, 7, {one: {seen: 7}}).rows == []
    store.writer.apply(add=[named])
    catalogue.advance(store.reader.version)
    for step in native.statics.steps.ready():
        native.take(step.changes)
    assert answer_of(native, 7, {one: {seen: 7}}).rows == [(x, name, number)]
    assert answer_of(native, 8, {one: {seen: 7}, two: {named: 8}}).rows == [
        (x, name, Literal("8", datatype=number.datatype))
    ]
    store.writer.apply(remove=[named])
    catalogue.advance(store.reader.version)
    for step in native.statics.steps.ready():
        native.take(step.changes)
    assert answer_of(native, 9, {one: {seen: 7}, two: {named: 8}}).rows == [
        (x, name, Literal("8", datatype=number.datatype))
    ]
    assert native.engine == "native" and "merge of times" in tree(native.state.plan)  # type: ignore[union-attr]
    native.close()
    catalogue.close()
