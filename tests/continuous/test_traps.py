"""Traps of docs/semantics.md, section 7, that need the inside of the engine.

The others are tested over HTTP in tests/acceptance/test_traps.py, the queries of 2015 in
tests/continuous/papers. What the papers say about routing is compared with what the joins here do.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from benchmarks.policies import (
    Policy,
    fewest_intermediate,
    physical_cost,
    right_cardinality,
    route,
)
from quadrill.app.describing.queries import describe
from quadrill.continuous.operators.join import DeltaJoin
from quadrill.continuous.rows import Delta, Schema, merge
from quadrill.continuous.streams.push_call import PushCall

from .engines import bench

# Example 1 of ISWC 2011: Γ1 (?p1 ?l1) by [NOW], Γ2 (?p2 ?l2) by [RANGE 2], Γ4 (?l1 ?l2), the connections.
R1, R2, R3 = 101, 102, 103
PLAN: Delta = {(R1, R2): 1, (R1, R3): 1, (R2, R1): 1, (R3, R1): 1}
SCHEMAS = [Schema(names, frozenset(names)) for names in (("p1", "l1"), ("p2", "l2"), ("l1", "l2"))]
NOW, RANGE, CONN = range(3)


def localisation(order: Sequence[int] | None = None) -> tuple[DeltaJoin, list[Delta]]:
    """The join of Example 1 and its changes: the connections, then m0@r1, m1@r2, m2@r1, m3@r2 at 0 to 3."""
    seen = {0: (1, R1), 1: (2, R2), 2: (3, R1), 3: (4, R2)}
    join = DeltaJoin(SCHEMAS) if order is None else route(DeltaJoin(SCHEMAS), order)
    answers = [join.step({}, {}, dict(PLAN))]
    for at in range(4):
        now: Delta = {seen[at]: 1}
        last: Delta = {seen[at]: 1}
        if at:
            now[seen[at - 1]] = -1
        if at == 3:
            last[seen[0]] = -1
        answers.append(join.step(now, last, {}))
    return join, answers


def routed(join: DeltaJoin, start: int) -> list[int]:
    return [probe.input for probe in join.routes[start]]


@pytest.mark.parametrize("order", [None, *itertools.permutations(range(3))])
def test_example_1_has_one_answer_by_every_flow_products_included(order: Sequence[int] | None) -> None:
    _, answers = localisation(order)
    assert answers == [
        {},
        {},
        {(2, R2, 1, R1): 1},
        {(2, R2, 1, R1): -1, (3, R1, 2, R2): 1},
        # The element of 0 left the range in this step; m3 meets m2 only, the earlier m1 is in its own room.
        {(3, R1, 2, R2): -1, (4, R2, 3, R1): 1},
    ]


def test_example_1_is_routed_by_the_connections_and_never_by_a_product() -> None:
    # D2 at both instants. The paper's cost policy takes D1, the product of Γ1 and Γ2, at t = 0 to save one
    # intermediate row; here a look-up with a key always goes before a product.
    join, _ = localisation()
    assert routed(join, NOW) == [CONN, RANGE]
    join.replan()
    assert routed(join, NOW) == [CONN, RANGE]


def _example_1_by(policy: Policy) -> list[list[int]]:
    """The routes of the latest detection at t = 0 and t = 1."""
    join = route(DeltaJoin(SCHEMAS), policy)
    join.step({}, {}, dict(PLAN))
    routes = []
    for at, seen in enumerate([(1, R1), (2, R2)]):
        gone: Delta = {(1, R1): -1} if at else {}
        join.step({seen: 1} | gone, {seen: 1}, {})
        join.arrangements[NOW].recent.clear()
        join.arrangements[NOW].recent.append(seen)
        join.replan()
        routes.append(routed(join, NOW))
    return routes


def test_the_cost_policy_of_2011_takes_d1_and_then_d2_in_example_1() -> None:
    """|Γ3(0)| = 1 and |Γ5(0)| = 2, then |Γ3(1)| = 2 and |Γ5(1)| = 1."""
    assert _example_1_by(fewest_intermediate) == [[RANGE, CONN], [CONN, RANGE]]


def test_algorithm_2_of_2011_stays_with_d1_in_example_1() -> None:
    """The range holds one and then two rows, the plan four."""
    assert _example_1_by(right_cardinality) == [[RANGE, CONN], [RANGE, CONN]]


def test_the_cost_of_the_report_takes_a_small_nested_loop_before_a_look_up() -> None:
    """A nested loop over one row costs 1, a look-up in four rows 2."""
    assert _example_1_by(physical_cost)[0] == [RANGE, CONN]


@pytest.mark.parametrize("policy", [right_cardinality, fewest_intermediate, physical_cost])
def test_every_policy_leaves_a_route_whose_cost_rises(policy: Policy) -> None:
    names = (("a", "b"), ("b", "c"), ("b", "d"))
    join = route(DeltaJoin([Schema(each, frozenset(each)) for each in names]), policy)
    few: Delta = {(b, b): 1 for b in range(1, 11)}
    many: Delta = {(b, d): 1 for b in range(1, 11) for d in range(1, 6)}
    more: Delta = {(b, c): 1 for b in range(1, 11) for c in range(20, 40)}
    join.step({}, few, many)
    join.replan()
    assert routed(join, 0) == [1, 2]
    join.step({}, more, {})
    assert join.replan()
    assert routed(join, 0) == [2, 1], "the second input has more rows now"
    join.step({}, {row: -1 for row in more}, {})
    assert join.replan()
    assert routed(join, 0) == [1, 2], "and fewer again"


def test_a_route_is_left_when_its_cost_rises() -> None:
    # Figure 4 of the report, as printed, keeps the least cost ever seen. Here costs are read anew.
    names = (("a", "b"), ("b", "c"), ("b", "d"))
    join = DeltaJoin([Schema(each, frozenset(each)) for each in names])
    state: list[Delta] = [{}, {}, {}]

    def grow(place: int, change: Delta) -> Delta:
        merge(state[place], change)
        return join.step(*(change if each == place else {} for each in range(3)))

    grow(1, {(b, b): 1 for b in range(1, 11)})
    grow(2, {(b, d): 1 for b in range(1, 11) for d in range(1, 6)})
    join.replan()
    assert routed(join, 0) == [1, 2], "one row by the first, five by the second"
    grow(1, {(b, c): 1 for b in range(1, 11) for c in range(20, 40)})
    assert join.replan()
    assert routed(join, 0) == [2, 1], "21 rows by the first now"
    grow(1, {(b, c): -1 for b in range(1, 11) for c in range(20, 40)})
    assert join.replan()
    assert routed(join, 0) == [1, 2], "and back when it falls"
    assert grow(0, {(7, 3): 1}) == {(7, 3, 3, d): 1 for d in range(1, 6)}


DATA = (":a :p 5 ; :q 5", ":b :p 5", ":c :p 1 ; :q 9", ":d :p 1 ; :q 1")
DISJUNCTION = {
    "FILTER(R1 || R2)": "{ ?x :p ?v OPTIONAL { ?x :q ?y } FILTER(?y > 3 || ?v > 3) }",
    "FILTER R1 UNION FILTER R2": (
        "{ { ?x :p ?v OPTIONAL { ?x :q ?y } FILTER(?y > 3) } UNION "
        "{ ?x :p ?v OPTIONAL { ?x :q ?y } FILTER(?v > 3) } }"
    ),
    "corrected": (
        "{ { ?x :p ?v OPTIONAL { ?x :q ?y } FILTER(?y > 3) } UNION "
        "{ ?x :p ?v OPTIONAL { ?x :q ?y } FILTER(!COALESCE(?y > 3, false) && ?v > 3) } }"
    ),
}


def _answer_of(pattern: str) -> Counter[str]:
    turtle = "@prefix : <http://example.org/> . " + " . ".join(DATA) + " ."
    with bench() as one:
        one.register("q", f"SELECT ?x WHERE {{ STREAM :s [RANGE 10s] {pattern} }}")
        assert describe(one.engine, "q")["engine"] == "native"
        one.engine.streams.push(PushCall("http://example.org/s", "text/turtle", at=0), turtle.encode())
        return Counter("".join(names for _, _, names in one.told("q")))


def test_filter_decomposition_of_a_disjunction_needs_the_negation_of_the_first() -> None:
    # FDecompII of the RSP-QL* paper doubles :a, which satisfies both.
    whole = _answer_of(DISJUNCTION["FILTER(R1 || R2)"])
    assert whole == {"a": 1, "b": 1, "c": 1}
    assert _answer_of(DISJUNCTION["corrected"]) == whole
    assert _answer_of(DISJUNCTION["FILTER R1 UNION FILTER R2"]) == {"a": 2, "b": 1, "c": 1}
