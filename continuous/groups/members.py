"""What groups and common plans ask about their members, and what they tell of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..algebra.nodes import Var
from ..algebra.reports import Evaluation
from ..evaluate.native import NativeEvaluator
from ..queries.running import RunningQuery
from ..rows import Delta

Failures = list[tuple[RunningQuery, Exception]]
"""The queries that failed in a group; whoever works with groups ends them."""


class Record(NamedTuple):
    """A plan's newest evaluation: how many there were, its step, and the version whose turn had come.

    ``step`` is None before the first. ``told`` is the number of the newest that was no correction.
    """

    number: int
    step: Evaluation | None
    passed: int
    told: int = 0


def native_of(running: RunningQuery) -> NativeEvaluator:
    """The evaluator of a query that is in a group, or may be."""
    assert isinstance(running.evaluator, NativeEvaluator)
    return running.evaluator


def tables_of(native: NativeEvaluator) -> list[tuple[Hashable, tuple[Var, ...]]]:
    """The tables of the static parts with their columns: queries with equal ones have the same rows there."""
    statics = native.statics
    return [(table, part.vars) for table, part in zip(statics.tables, statics.parts, strict=True)]


def template_of(running: RunningQuery) -> Hashable | None:
    """Equal for members that differ in constants alone; None for one that is to have a plan of its own."""
    prepared, template = running.prepared, native_of(running).template
    if (
        template is None
        or running.view is not None
        or prepared.sources is not None
        or prepared.query.form not in ("select", "ask")
        or prepared.refresh != "trigger"
    ):
        return None
    return template, prepared.output, prepared.report.non_empty, prepared.limits


def in_common(running: RunningQuery) -> Hashable:
    """Equal for queries of a template that one plan can be made for just now."""
    native = native_of(running)
    # The static parts whose rows may not differ between members.
    parts = [
        table
        for part, table in zip(native.statics.parts, tables_of(native), strict=True)
        if part.name not in native.analysis.skeleton.tables
    ]
    return running.evaluated_at, tuple(parts)


def differing(sample: NativeEvaluator, members: Sequence[RunningQuery]) -> set[int]:
    """The places of constants in which some of these differ from one that is there."""
    mine = sample.analysis.skeleton.constants
    others = [native_of(running).analysis.skeleton.constants for running in members]
    return {place for place, term in enumerate(mine) if any(each[place] != term for each in others)}


def labelled(native: NativeEvaluator, label: int, place: int, columns: Sequence[str], delta: Delta) -> Delta:
    """Rows of the static part at a place in the order of these columns, with a member's label behind them."""
    names = [var.name for var in native.statics.parts[place].vars]
    order = [names.index(name) for name in columns]
    if order == list(range(len(names))):
        return {(*row, label): weight for row, weight in delta.items()}
    return {(*[row[each] for each in order], label): weight for row, weight in delta.items()}
