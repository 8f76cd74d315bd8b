"""Other ways of running a query, to be compared with the product's own: routing and operators.

The papers' routing policies are other ways than a join's own to choose the order of its look-ups. A policy
reads sizes and gives, for the changes of one input, the order in which the other inputs are looked up: one of
the left-deep flows that start at that input, products included. No policy changes an answer, since a join
keeps no intermediate result. The join's own way is the fewest expected rows next and products last
(`benchmarks/routing.py`, docs/decisions/0090).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.operators.join import DeltaJoin
from quadrill.continuous.plan.compiled import CompiledPlan
from quadrill.continuous.plan.plan import SourceKey
from quadrill.continuous.rows import Delta

Policy = Callable[[DeltaJoin, int], Sequence[int]]
"""The order of the other inputs for the changes of one."""

Price = Callable[[float, int, float, bool], float]
"""The cost of one look-up step: rows that come to it, rows of the input looked into, rows that leave it, and
whether the look-up has a key."""

_MOST_INPUTS = 12


def right_cardinality(join: DeltaJoin, start: int) -> Sequence[int]:
    """The input with the fewest rows next, whatever it has to do with the rows so far.

    Source: ISWC 2011, Algorithm 2 (findNextOp). Filters, which go first there, are placed by the planner.
    """
    others = [place for place in range(len(join.inputs)) if place != start]
    return sorted(others, key=lambda place: len(join.arrangements[place]))


def fewest_intermediate(join: DeltaJoin, start: int) -> Sequence[int]:
    """The flow with the fewest intermediate rows: all flows are compared as wholes.

    Source: ISWC 2011, section 3.3, the cost-based policy of Example 1. The rows of the answer are the same by
    every flow and are not counted.
    """
    return _cheapest(join, start, lambda rows, size, found, keyed: found, count_last=False)


def physical_cost(join: DeltaJoin, start: int) -> Sequence[int]:
    """The flow of least Ψ: index joins cost |Ω1|·log2|Ω2|, nested loops |Ω1|·|Ω2|, all minima computed anew.

    Source: report of 2010, section 5. Its Figure 4, as printed, only ever lowers Ψ(P), so that a plan whose
    cost rose is never left; here the minimum is taken over the present sizes. Inputs that are one pattern or
    static cost nothing by themselves (Ψ = 0).
    """

    def price(rows: float, size: int, found: float, keyed: bool) -> float:
        return rows * math.log2(max(2, size)) if keyed else rows * size

    return _cheapest(join, start, price, count_last=True)


POLICIES: dict[str, Policy | None] = {
    "fewest rows next": None,
    "right cardinality": right_cardinality,
    "fewest intermediate": fewest_intermediate,
    "physical cost": physical_cost,
}


def _cheapest(join: DeltaJoin, start: int, price: Price, *, count_last: bool) -> Sequence[int]:
    """Dynamic programming over the sets of inputs joined so far; the cheapest left-deep flow.

    Joins of more than twelve inputs take the inputs by size.
    """
    width = len(join.inputs)
    if width > _MOST_INPUTS:
        return right_cardinality(join, start)
    # For each set of inputs: the cost so far, the rows expected and the order that gave them.
    best: dict[int, tuple[float, float, tuple[int, ...]]] = {1 << start: (0.0, 1.0, ())}
    for step in range(1, width):
        following: dict[int, tuple[float, float, tuple[int, ...]]] = {}
        for joined, (cost, rows, order) in best.items():
            for place in range(width):
                if joined >> place & 1:
                    continue
                each, keyed = _expected(join, start, place, (start, *order))
                found = rows * each
                paid = cost
                if count_last or step < width - 1:
                    paid += price(rows, len(join.arrangements[place]), found, keyed)
                key = joined | 1 << place
                if key not in following or paid < following[key][0]:
                    following[key] = (paid, found, (*order, place))
        best = following
    ((_, _, order),) = best.values()
    return order


def _expected(join: DeltaJoin, start: int, place: int, over: Sequence[int]) -> tuple[float, bool]:
    """How many rows of an input a row over some others is expected to find, and if by a key."""
    sure = set().union(*(join.inputs[each].certain for each in over))
    rows, _ = join.cost(start, place, sure)
    keyed = not math.isinf(rows)
    return (rows if keyed else float(len(join.arrangements[place]))), keyed


def route(join: DeltaJoin, order: Sequence[int] | Policy) -> DeltaJoin:
    """Let a join look its inputs up by a policy, or always in one order; before its first step."""

    def always(start: int) -> list[int]:
        assert not callable(order)
        return [place for place in order if place != start]

    join.order = partial(order, join) if callable(order) else always  # type: ignore[method-assign,assignment]
    join.replan()
    return join


def routed(evaluator: NativeEvaluator, order: Sequence[int] | Policy | None) -> NativeEvaluator:
    """The evaluator with its joins routed otherwise; ``order`` gives the rank of each input, or a policy."""
    if order is None:
        return evaluator
    running = evaluator.state
    assert running is not None
    for node in running.plan.nodes:
        if isinstance(node.operator, DeltaJoin):
            places = range(len(node.operator.inputs))
            ranks = order if callable(order) else sorted(places, key=lambda each: order[each % len(order)])
            route(node.operator, ranks)
    running.compiled.outdate()
    return evaluator


class _Operators(CompiledPlan):
    """Lets the operators take the steps."""

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        return self.plan.step(changes)


def by_operators(evaluator: NativeEvaluator) -> NativeEvaluator:
    """The evaluator without generated code: its operators run one by one."""
    state = evaluator.state
    assert state is not None
    state.compiled = _Operators(state.plan, state.compiled.context)
    return evaluator


def replanned(evaluator: NativeEvaluator) -> NativeEvaluator:
    """The evaluator with routes that are chosen anew at every second step."""
    state = evaluator.state
    assert state is not None
    state.compiled = CompiledPlan(state.plan, state.compiled.context, replan=2, replan_most=2)
    return evaluator
