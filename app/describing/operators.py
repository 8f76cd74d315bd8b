"""Operators of a query plan: their counts and times, and the tree that EXPLAIN shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadrill.continuous.plan.plan import Plan


def measured(plan: Plan) -> dict[str, Any]:
    """Return row counts and times of a plan's operators since the start of its query.

    ``steps`` is the number of executed steps, ``timed_steps`` the number of steps whose time was measured,
    and ``operators`` has one object per operator, the root last; docs/http-api.md explains its members.
    """
    figures = plan.figures
    timed = figures.timed_steps
    operators = [
        {
            "number": place,
            "operator": node.label,
            "detail": node.explanation,
            "inputs": list(node.inputs),
            "columns": list(node.schema.vars),
            "rows_in": sum(map(figures.rows_out, node.inputs)),
            "rows_out": figures.rows_out(place),
            "state_rows": node.size or 0,
            "microseconds": round(spent / timed / 1000, 2) if timed and head == place else None,
            "timed_with": head,
        }
        for place, (node, head, spent) in enumerate(
            zip(plan.nodes, figures.timed_with, figures.spent, strict=True)
        )
    ]
    return {"operators": operators, "steps": figures.steps, "timed_steps": timed}


def tree(plan: Plan, *, analyze: bool = False) -> str:
    """Return the operators of a plan as an indented text tree, root first.

    An operator whose rows several operators read is expanded once in the tree. ``analyze`` adds the measured
    row counts and times.
    """
    shown: set[int] = set()
    lines: list[str] = []
    figures = (
        [_figures_text(each) for each in measured(plan)["operators"]] if analyze else [""] * len(plan.nodes)
    )

    def visit(place: int, depth: int) -> None:
        node = plan.nodes[place]
        again = place in shown and node.operator is not None
        shown.add(place)
        size = "" if node.size is None else f" [{node.size}]"
        text = f"{node.label} {node.explanation}".rstrip()
        columns = " ".join(f"?{name}" for name in node.schema.vars)
        end = " (above)" if again else figures[place]
        lines.append(f"{'  ' * depth}#{place} {text}{size} -> ({columns}){end}")
        if not again:
            for below in node.inputs:
                visit(below, depth + 1)

    visit(plan.root, 0)
    return "\n".join(lines)


def _figures_text(operator: Mapping[str, Any]) -> str:
    """Format the measured row counts and times of one operator as text."""
    rows = f"{operator['rows_out']} rows"
    if operator["inputs"]:
        rows = f"{operator['rows_in']} rows in, {operator['rows_out']} out"
    mean = operator["microseconds"]
    if operator["timed_with"] != operator["number"]:
        return f"  | {rows}, timed with #{operator['timed_with']}"
    return f"  | {rows}" + ("" if mean is None else f", {mean:.1f} µs")
