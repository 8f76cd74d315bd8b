"""EXISTS sees its row by substitution: the native evaluator gives the reference's answer or refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import move_to, recomputed
from tests.examples import examples

from . import random_queries as r
from .random_queries import NODES, PREDICATES, W1, W2
from .test_native_oracle import History, agree_throughout

A, B = Var("a"), Var("b")
X, P = NODES[0], PREDICATES[0]
LOOP = n.Bgp((n.TriplePattern(A, P, A),))
ROW = n.Values((B,), ((X,),))
OPTIONS = EvaluationOptions(name="q", window_default_graph="union")
CONTENTS: Any = {W1: {Quad(X, P, X): 0}, W2: {}}


def asked(pattern: Algebra) -> ContinuousQuery:
    """``VALUES ?b { :x } BIND(EXISTS { pattern } AS ?e)``."""
    return r.query_of(n.Extend(ROW, Var("e"), n.Exists(pattern, False)))


def answer(query: ContinuousQuery) -> str:
    (row,) = recomputed(ReferenceEvaluator(query, QuadStore.open(None), OPTIONS), 0, CONTENTS).rows
    held = row[1]
    assert isinstance(held, Literal)
    return held.value


BIND_OF_THE_ROWS = n.Extend(LOOP, B, n.Call("=", (A, A)))
FILTER_BY_THE_ROW = n.Filter(n.Call("=", (A, B)), LOOP)


@pytest.mark.parametrize("name", [W1, Var("w")])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda each: each,
        lambda each: n.Join(ROW, each),
        lambda each: n.Project(each, (A, B)),
        lambda each: n.Union(each, each),
    ],
)
def test_a_bind_of_the_rows_own_variable_is_refused(name: Any, wrapped: Any) -> None:
    query = asked(wrapped(n.Window(name, BIND_OF_THE_ROWS)))
    with pytest.raises(UnsupportedError, match="the outer row is used"):
        NativeEvaluator(query, QuadStore.open(None), OPTIONS)


def test_the_reference_takes_such_a_bind_as_a_value_of_its_own() -> None:
    assert answer(asked(n.Window(Var("w"), BIND_OF_THE_ROWS))) == "true"


def test_a_filter_by_the_row_in_a_block_of_any_window_is_refused() -> None:
    query = asked(n.Window(Var("w"), FILTER_BY_THE_ROW))
    with pytest.raises(UnsupportedError, match="the outer row is used"):
        NativeEvaluator(query, QuadStore.open(None), OPTIONS)
    assert answer(query) == "true"


@pytest.mark.parametrize(
    "pattern",
    [
        n.Window(W1, FILTER_BY_THE_ROW),
        n.Window(Var("w"), n.Bgp((n.TriplePattern(A, P, B),))),
        n.Window(Var("w"), n.Extend(LOOP, Var("c"), n.Call("=", (A, A)))),
    ],
)
def test_what_only_joins_with_the_row_stays_native(pattern: Algebra) -> None:
    loop = {Quad(X, P, X)}
    agree_throughout(asked(pattern), [(loop, set(), None), (set(), loop, None), (set(), set(), None)])
    assert answer(asked(pattern)) == "true"


def test_minus_inside_exists_removes_nothing_where_no_variable_is_bound_on_both_sides() -> None:
    """SPARQL 1.1 section 8.3.3. The reference has Oxigraph's fault; random patterns leave it out."""
    unbound = n.Values((A,), ((None,),))
    query = asked(n.Minus(n.Window(W1, LOOP), unbound))
    assert r.has_minus_that_oxigraph_misreads(query.root)
    native = NativeEvaluator(query, QuadStore.open(None), OPTIONS)
    ((_, held),) = move_to(native, 0, CONTENTS).rows
    native.close()
    assert held == Literal("true", datatype=NamedNode(r.XSD + "boolean"))
    assert answer(query) == "false", "Oxigraph has mended it: the random patterns may have it, too"


HIDDEN_UNBOUND = n.Filter(n.Call("BOUND", (A,)), n.Window(W1, n.Values((A, B), ((None, X),))))
HIDDEN_VALUE = n.Filter(
    n.Call("=", (A, n.Constant(r.number("1")))), n.Window(W1, n.Values((A,), ((r.number("1", "double"),),)))
)
NOT_BOUND_THERE = n.Filter(
    n.Call("!", (n.Call("BOUND", (A,)),)), n.Window(W1, n.Bgp((n.TriplePattern(B, P, Var("c")),)))
)
COUNTED = n.Group(HIDDEN_UNBOUND, (B,), ((Var("n0"), n.Aggregate("COUNT", A)),))

FILTER_OF_ITS_OWN_GROUP = n.Join(
    n.Window(W1, n.Filter(n.Call("=", (A, B)), n.Bgp((n.TriplePattern(B, P, Var("c")),)))),
    n.Values((A,), ((X,),)),
)


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        (n.Project(HIDDEN_UNBOUND, (B,)), "false"),
        (n.Project(HIDDEN_VALUE, (B,)), "true"),
        (n.Project(NOT_BOUND_THERE, (B,)), "true"),
        (n.Project(FILTER_OF_ITS_OWN_GROUP, (B,)), "true"),
        (n.Project(COUNTED, (B, Var("n0"))), "false"),
        (COUNTED, "false"),
        (n.Project(n.Project(NOT_BOUND_THERE, (B,)), (B,)), "true"),
        (n.Join(n.Project(NOT_BOUND_THERE, (B,)), n.Values((A,), ((X,),))), "true"),
    ],
)
@pytest.mark.parametrize("row", [n.Values((B, A), ((None, X),)), n.Values((A,), ((X,),))])
def test_what_a_sub_query_does_not_show_is_its_own(row: Algebra, pattern: Algebra, holds: str) -> None:
    """Oxigraph takes what it knows of the row for knowledge of the variables of the same names inside."""
    query = r.query_of(n.Extend(row, Var("e"), n.Exists(pattern, False)))
    loop = {Quad(X, P, X)}
    agree_throughout(query, [(loop, set(), None), (set(), loop, None), (loop, set(), None)])
    (found,) = recomputed(ReferenceEvaluator(query, QuadStore.open(None), OPTIONS), 0, CONTENTS).rows
    assert isinstance(found[-1], Literal) and found[-1].value == holds


def extended(inner: Algebra) -> st.SearchStrategy[Algebra]:
    return r.extended(inner, r.expressions(None))


blocks = st.one_of(r.blocks(1), r.blocks(1).flatmap(extended), r.blocks(1).flatmap(r.projected))
windows = st.builds(n.Window, st.sampled_from([W1, W2, Var("w"), Var("w")]), blocks)
inner = st.one_of(
    windows,
    windows.flatmap(extended),
    windows.flatmap(r.projected),
    st.builds(n.Join, windows, r.values),
    st.builds(n.Minus, windows, windows),
    st.builds(n.Filter, st.builds(n.Exists, windows, st.booleans()), windows),
)
outer = st.one_of(r.values, r.windows(0), st.builds(n.LeftJoin, r.windows(0), r.values, st.none()))


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(outer, inner, st.booleans(), st.booleans(), r.histories)
def test_random_patterns_of_exists_agree_with_the_reference(
    row: Algebra, pattern: Algebra, negated: bool, marked: bool, history: History
) -> None:
    exists = n.Exists(pattern, negated)
    agree_throughout(
        r.query_of(n.Extend(row, Var("e"), exists) if marked else n.Filter(exists, row)), history
    )
