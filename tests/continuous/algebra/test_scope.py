"""FILTER and BIND that leave their window or GRAPH block, before and after."""

from __future__ import annotations

import pytest
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.rewrites import move_outward
from quadrill.store.errors import QueryTextError

W, G, P, Q = (NamedNode(f"urn:{letter}") for letter in "wgpq")
ONE = n.Constant(Literal("1"))


def bgp(subject: str, object_: str, predicate: NamedNode = P) -> n.Bgp:
    return n.Bgp((n.TriplePattern(Var(subject), predicate, Var(object_)),))


def greater(left: str, right: str) -> n.Call:
    return n.Call(">", (Var(left), Var(right)))


LIMITS, VALUES = bgp("x", "limit"), bgp("x", "v", Q)
ABOVE = greater("v", "limit")


def test_a_filter_moves_to_the_group_that_binds_its_variable() -> None:
    before = n.Join(LIMITS, n.Window(W, n.Filter(ABOVE, VALUES)))
    assert move_outward(before) == n.Filter(ABOVE, n.Join(LIMITS, n.Window(W, VALUES)))


def test_it_moves_out_of_graph_and_window_at_once() -> None:
    before = n.Join(LIMITS, n.Window(W, n.Graph(G, n.Filter(ABOVE, VALUES))))
    assert move_outward(before) == n.Filter(ABOVE, n.Join(LIMITS, n.Window(W, n.Graph(G, VALUES))))


def test_it_stops_at_the_nearest_group_that_binds_the_variable() -> None:
    before = n.Window(W, n.Join(LIMITS, n.Graph(G, n.Filter(ABOVE, VALUES))))
    assert move_outward(before) == n.Window(W, n.Filter(ABOVE, n.Join(LIMITS, n.Graph(G, VALUES))))


def test_a_filter_whose_variables_are_all_bound_in_its_block_stays() -> None:
    before = n.Join(LIMITS, n.Window(W, n.Filter(greater("v", "x"), VALUES)))
    assert move_outward(before) == before


def test_a_variable_bound_nowhere_stays_and_fails_the_row_there() -> None:
    before = n.Window(W, n.Filter(greater("v", "nowhere"), VALUES))
    assert move_outward(before) == before


def test_a_plain_group_keeps_sparqls_scope() -> None:
    before = n.Join(LIMITS, n.Join(bgp("a", "b"), n.Filter(ABOVE, VALUES)))
    assert move_outward(before) == before


def test_the_name_of_a_graph_is_bound_outside_its_block() -> None:
    block = n.Graph(Var("g"), n.Filter(n.Call("=", (Var("g"), ONE)), VALUES))
    assert move_outward(block) == n.Filter(n.Call("=", (Var("g"), ONE)), n.Graph(Var("g"), VALUES))


def test_inside_optional_it_becomes_the_left_joins_condition() -> None:
    before = n.LeftJoin(LIMITS, n.Window(W, n.Filter(ABOVE, VALUES)), None)
    assert move_outward(before) == n.LeftJoin(LIMITS, n.Window(W, VALUES), ABOVE)


def test_it_joins_a_condition_that_is_there() -> None:
    other = greater("x", "limit")
    before = n.LeftJoin(LIMITS, n.Window(W, n.Filter(ABOVE, VALUES)), other)
    assert move_outward(before) == n.LeftJoin(LIMITS, n.Window(W, VALUES), n.Call("&&", (other, ABOVE)))


def test_on_the_left_of_optional_it_moves_above_it() -> None:
    before = n.LeftJoin(n.Window(W, n.Filter(ABOVE, VALUES)), LIMITS, None)
    assert move_outward(before) == n.Filter(ABOVE, n.LeftJoin(n.Window(W, VALUES), LIMITS, None))


@pytest.mark.parametrize(
    "barrier",
    [
        lambda inner: n.Minus(LIMITS, inner),
        lambda inner: n.Join(LIMITS, n.Union(inner, bgp("x", "other"))),
        lambda inner: n.Join(LIMITS, n.Distinct(n.Project(inner, (Var("x"),)))),
        lambda inner: n.Filter(n.Exists(inner), bgp("x", "unrelated")),
    ],
    ids=["minus", "union", "sub-query", "exists"],
)
def test_nothing_moves_out_of(barrier: object) -> None:
    before = barrier(n.Window(W, n.Filter(ABOVE, VALUES)))  # type: ignore[operator]
    assert move_outward(before) == before


def test_inside_exists_the_outer_variables_are_substituted_where_the_filter_stands() -> None:
    before = n.Filter(n.Exists(n.Window(W, n.Filter(ABOVE, VALUES)), negated=True), LIMITS)
    assert move_outward(before) == before


def test_a_bind_moves_below_what_uses_its_variable() -> None:
    total = n.Call("+", (Var("v"), Var("limit")))
    before = n.Filter(greater("sum", "x"), n.Join(LIMITS, n.Window(W, n.Extend(VALUES, Var("sum"), total))))
    moved = n.Extend(n.Join(LIMITS, n.Window(W, VALUES)), Var("sum"), total)
    assert move_outward(before) == n.Filter(greater("sum", "x"), moved)


def test_patterns_that_use_the_binds_variable_are_joined_after_it() -> None:
    total = n.Call("+", (Var("v"), Var("limit")))
    uses = n.Values((Var("sum"),), ((Literal("1"),),))
    before = n.Join(n.Join(n.Window(W, n.Extend(VALUES, Var("sum"), total)), uses), LIMITS)
    moved = n.Extend(n.Join(n.Window(W, VALUES), LIMITS), Var("sum"), total)
    assert move_outward(before) == n.Join(moved, uses)


def test_a_bind_that_is_used_in_its_block_is_an_error_that_says_so() -> None:
    total = n.Call("+", (Var("v"), Var("limit")))
    block = n.Window(W, n.Filter(greater("sum", "v"), n.Extend(VALUES, Var("sum"), total)))
    with pytest.raises(QueryTextError, match=r"\?sum is used in it") as raised:
        move_outward(n.Join(LIMITS, block))
    assert "?limit" in raised.value.message
    assert raised.value.hint


def test_a_bind_in_optional_is_evaluated_for_the_rows_that_matched() -> None:
    total = n.Call("+", (Var("v"), Var("limit")))
    moved = move_outward(n.LeftJoin(LIMITS, n.Window(W, n.Extend(VALUES, Var("sum"), total)), None))
    assert isinstance(moved, n.Extend) and moved.var == Var("sum")
    assert isinstance(moved.input, n.LeftJoin)
    assert isinstance(moved.expr, n.Call) and moved.expr.name == "IF"


def test_exists_in_a_filter_that_moves_keeps_its_dataset() -> None:
    condition = n.Call("||", (ABOVE, n.Exists(bgp("x", "z"))))
    moved = move_outward(n.Join(LIMITS, n.Window(W, n.Filter(condition, VALUES))))
    assert isinstance(moved, n.Filter)
    assert moved.condition == n.Call("||", (ABOVE, n.Exists(n.Window(W, bgp("x", "z")))))
