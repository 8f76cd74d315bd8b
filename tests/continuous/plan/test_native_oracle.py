"""The native evaluator gives the reference's answer after every transaction."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from benchmarks.policies import POLICIES, Policy, by_operators, replanned, routed
from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import (
    all_nodes,
    map_expression,
    operands,
    with_expressions,
    with_operands,
)
from quadrill.continuous.algebra.build import expressions as own_expressions
from quadrill.continuous.algebra.nodes import Algebra, Call, Constant, Expr, Path, Var
from quadrill.continuous.algebra.query import ContinuousQuery, WindowDeclaration, WindowSpec
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.static.static_evaluator import EvaluationOptions, StaticEvaluator
from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, move_to, recomputed, refresh
from tests.examples import examples

from ..engines import all_held_is_known, sweep_always
from .random_queries import (
    W1,
    W2,
    basic,
    blocks,
    contents,
    expressions,
    extended,
    grouped,
    has_minus_that_oxigraph_misreads,
    histories,
    path_patterns,
    queries,
    query_of,
    sliced,
    values,
)

History = list[tuple[set[Quad], set[Quad], set[Quad] | None]]


def both(
    query: ContinuousQuery, store: QuadStore, **options: Any
) -> tuple[NativeEvaluator, ReferenceEvaluator]:
    if has_minus_that_oxigraph_misreads(query.root):
        assume(False)
    chosen = EvaluationOptions(
        name="q",
        window_default_graph=options.get("window_default_graph", "union"),
        uncertain_filters=options.get("uncertain_filters", "early"),
    )
    try:
        reference = ReferenceEvaluator(query, store, chosen)
    except (UnsupportedError, QueryTextError):
        assume(False)
    try:
        native = routed(NativeEvaluator(query, store, chosen), options.get("order"))
        native = replanned(native) if options.get("replan") else native
    except UnsupportedError as error:
        event(f"falls back: {error.construct}")
        assume(False)
    return native, reference


def has_zero_steps(root: Algebra) -> bool:
    return any(isinstance(each, Path) and "ZeroOr" in repr(each.path) for each in all_nodes(root))


def without_literals(quads: set[Quad] | None) -> set[Quad] | None:
    return quads and {quad for quad in quads if not isinstance(quad.object, Literal)}


def agree_throughout(query: ContinuousQuery, history: History, **options: Any) -> None:
    store = QuadStore.open(None)
    native, reference = both(query, store, **options)
    twin = by_operators(routed(NativeEvaluator(query, store, native.options), options.get("order")))
    if has_zero_steps(query.root):
        # Oxigraph's optimizer takes the subject of a path for no literal, which zero steps from one disprove.
        history = [tuple(without_literals(each) for each in states) for states in history]  # type: ignore[misc]
    before: Counter[Any] = Counter()
    held: set[Quad] = set()
    for number, (first, second, static) in enumerate(history):
        at = 500 * number
        if static is not None:
            store.writer.apply(add=static - held, remove=held - static)
            held = static
            assert refresh(native) == refresh(reference) == refresh(twin)
            statics = reference.statics
            _, fresh = StaticEvaluator(query, store, native.options).evaluate(statics.parts)
            assert [Counter(rows) for rows in fresh] == [
                Counter(statics.rows(place)) for place in range(len(fresh))
            ], "parts that are not read again are those that have not changed"
        contents = {W1: dict.fromkeys(first, at), W2: dict.fromkeys(second, at)}
        expected = recomputed(reference, at, contents)
        change = move_to(native, at, contents)
        by_twin = move_to(twin, at, contents)
        assert native.vars == expected.vars
        assert Counter(change.rows) == Counter(expected.rows)
        if native.ordered and expected.ordered:
            assert change.rows == expected.rows
        after = Counter(expected.rows)
        assert Counter(change.inserted) == after - before
        assert Counter(change.deleted) == before - after
        assert Counter(by_twin.inserted) == Counter(change.inserted)
        assert Counter(by_twin.deleted) == Counter(change.deleted)
        all_held_is_known(native.terms.dictionary)
        before = after
    native.close()


@settings(max_examples=examples(250), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories, st.sampled_from(["union", "default"]))
def test_random_queries_agree_with_the_reference(
    query: ContinuousQuery, history: History, graphs: str
) -> None:
    agree_throughout(query, history, window_default_graph=graphs)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories, st.sampled_from([1, 5, 30]))
def test_terms_that_are_forgotten_in_slices_change_nothing(
    query: ContinuousQuery, history: History, ids: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        sweep_always(patch, ids)
        agree_throughout(query, history)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(1), histories, st.sampled_from([each for each in POLICIES.values() if each is not None]))
def test_the_routing_policies_of_the_papers_change_nothing(
    query: ContinuousQuery, history: History, policy: Policy
) -> None:
    agree_throughout(query, history, order=policy, replan=True)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_the_order_of_look_ups_changes_nothing(order: list[int]) -> None:
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(queries(1), histories)
    def law(query: ContinuousQuery, history: History) -> None:
        agree_throughout(query, history, order=order)

    law()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(blocks(2), blocks(1).flatmap(grouped)), histories)
def test_queries_without_windows_agree(node: Algebra, history: History) -> None:
    agree_throughout(replace(query_of(node), windows=()), history)


def by_graph(depth: int) -> st.SearchStrategy[Algebra]:
    """Blocks that count or cut rows, follow paths or ask for absence graph by graph."""
    inner = blocks(depth)
    return st.one_of(
        inner.flatmap(grouped),
        inner.flatmap(sliced),
        path_patterns,
        values,
        st.builds(n.Join, inner, inner.flatmap(grouped)),
        st.builds(n.LeftJoin, inner, inner, st.one_of(st.none(), expressions(inner))),
        st.builds(n.Minus, inner, inner),
        st.builds(n.Filter, expressions(inner), inner),
        inner.flatmap(lambda each: extended(each, expressions(inner))),
    )


graph_blocks = st.builds(n.Graph, st.sampled_from([Var("g"), Var("g"), Var("a")]), by_graph(1))


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.builds(n.Window, st.sampled_from([W1, W1, Var("w")]), graph_blocks).map(query_of),
    histories,
    st.sampled_from(["union", "default"]),
)
def test_blocks_are_evaluated_graph_by_graph(query: ContinuousQuery, history: History, graphs: str) -> None:
    agree_throughout(query, history, window_default_graph=graphs)


STREAMS = [NamedNode("http://e/s1"), NamedNode("http://e/s2")]
ANY_STREAM = WindowDeclaration(W1, Var("s"), WindowSpec("now"))


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(by_graph(1), graph_blocks, blocks(1)),
    st.one_of(st.none(), basic),
    st.lists(st.tuples(contents, contents), min_size=1, max_size=5),
)
def test_blocks_are_evaluated_stream_by_stream(
    node: Algebra, threaded: Algebra | None, history: list[tuple[set[Quad], set[Quad]]]
) -> None:
    block: Algebra = n.Window(W1, node, Var("s"))
    root = block if threaded is None else n.Join(block, n.Window(W1, threaded, Var("s")))
    query = replace(query_of(root), windows=(ANY_STREAM,))
    store = QuadStore.open(None)
    native, reference = both(query, store)
    plain = has_zero_steps(query.root)
    for number, states in enumerate(history):
        given_ = [(without_literals(each) or set()) if plain else each for each in states]
        streams = {s: dict.fromkeys(each, number) for s, each in zip(STREAMS, given_, strict=True)}
        expected = recomputed(reference, number, {W1: streams})
        assert Counter(answer_of(native, number, {W1: streams}).rows) == Counter(expected.rows)
    native.close()


def seconds_of_now(expr: Expr) -> Expr | None:
    """``SECONDS(NOW())`` for a number."""
    if isinstance(expr, Constant) and isinstance(expr.term, Literal) and expr.term.value in ("1", "2", "1.5"):
        return Call("SECONDS", (Call("NOW", ()),))
    return None


def with_now(node: Algebra) -> Algebra:
    node = with_expressions(node, [map_expression(each, seconds_of_now) for each in own_expressions(node)])
    return with_operands(node, [with_now(each) for each in operands(node)])


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories)
def test_queries_that_ask_for_the_instant_agree(query: ContinuousQuery, history: History) -> None:
    root = with_now(query.root)
    assume(root != query.root)
    agree_throughout(replace(query, root=root), history)
