"""Which static parts a plan only looks into, so that it need not hold their rows, and which by keys alone."""

from __future__ import annotations

from collections.abc import Collection

from ..operators.join import Join
from .plan import Plan, source_key, static_nodes


def table_joins(plan: Plan, table: str) -> list[tuple[Join, int]] | None:
    """The joins that read a static part, with the number of the input; None when something else does, too."""
    key = source_key("table", table)
    places = {place for place, node in enumerate(plan.nodes) if node.source == key}
    found: list[tuple[Join, int]] = []
    for node in plan.nodes:
        for number, place in enumerate(node.inputs):
            if place in places:
                if not isinstance(node.operator, Join):
                    return None
                found.append((node.operator, number))
    return None if plan.root in places else found


def unshared(plan: Plan, table: str) -> str | None:
    """Why joins cannot look a part up in rows that others hold; None when they can.

    Such rows never enter as a change, so something else must bring rows to be joined with them.
    """
    joins = table_joins(plan, table)
    if joins is None:
        return "the plan reads all its rows"
    if not joins:
        return "the plan does not read it"
    static = static_nodes(plan.nodes)
    for node in plan.nodes:
        if any(each is node.operator for each, _ in joins) and all(place in static for place in node.inputs):
            return "it is joined with static parts alone"
    return None


def unkeyed(plan: Plan, table: str, others: Collection[str]) -> str | None:
    """Why a part cannot be looked up by keys, when others are looked up, too; None when it can."""
    reason = unshared(plan, table)
    if reason is not None:
        return reason
    joins = table_joins(plan, table) or []
    for node in plan.nodes:
        join = node.operator
        if not isinstance(join, Join) or all(each is not join for each, _ in joins):
            continue
        asked = {number for each, number in joins if each is join}
        for other in others:
            asked |= {number for each, number in table_joins(plan, other) or () if each is join}
        if not join.always_keyed(asked):
            return "the plan looks into it without a key"
    return None
