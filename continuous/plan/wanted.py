"""Which predicates a plan asks for: windows keep nothing else."""

from __future__ import annotations

from ..operators.merge import Merge, TimedMerge
from ..operators.scan import Scan, Select
from ..operators.star import Star
from ..windows.encoded import Predicates
from .plan import Plan, PlanNode, SourceKey


def wanted_predicates(plan: Plan) -> dict[SourceKey, Predicates]:
    """For each window input of a plan the ids of the predicates that can make a difference; None for all."""
    found: dict[SourceKey, Predicates] = {}
    for place, node in enumerate(plan.nodes):
        if node.source is not None and not node.source.startswith("table "):
            found[node.source] = _asked(plan, place)
    return found


def _asked(plan: Plan, place: int) -> Predicates:
    asked: frozenset[int] = frozenset()
    for node in plan.nodes:
        if place not in node.inputs:
            continue
        own = _of_operator(plan, node)
        if own is None:
            return None
        asked |= own
    # The answer itself, where nothing stands between.
    return None if plan.root == place else asked


def _of_operator(plan: Plan, node: PlanNode) -> Predicates:
    operator = node.operator
    if isinstance(operator, Scan):
        constants = [term_id for column, term_id in operator.constants if column == 1]
        return frozenset(constants) if constants else None
    if isinstance(operator, Star):
        return frozenset(operator.places)
    if isinstance(operator, Select) and operator.schema.vars[:3] == ("s", "p", "o"):
        return _asked(plan, plan.nodes.index(node))
    if isinstance(operator, Merge | TimedMerge):
        return _asked(plan, plan.nodes.index(node))
    return None
