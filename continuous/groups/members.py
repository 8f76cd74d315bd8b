"""Properties of the members of groups and shared plans: templates, static parts and budgets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..algebra.nodes import Var
from ..algebra.reports import Evaluation
from ..evaluate.native import NativeEvaluator
from ..queries.running import RunningQuery
from ..rows import Budget, Delta, QueryLimits

Failures = list[tuple[RunningQuery, Exception]]
"""The queries that failed in a group, with their errors; the scheduler then ends these queries."""


_SUMMED = 8
"""Row budget of a shared plan in multiples of one member's budget, so that memory is bounded."""
_LONGEST_MS = 500
"""Time limit in milliseconds of one evaluation of a shared plan, unless the plan has more members.

After the time limit of a shared plan, each member is evaluated alone. With more members, the time limit of a
shared plan is 1 ms per member.
"""


class EvaluationRecord(NamedTuple):
    """The newest evaluation of a shared plan.

    Attributes:
        number: the number of evaluations so far.
        step: the step of the newest evaluation; None before the first evaluation.
        passed: the version of the store that the engine had reached at the plan's evaluation.
        reported: the number of the newest evaluation that was no correction.
    """

    number: int
    step: Evaluation | None
    passed: int
    reported: int = 0


def native_of(running: RunningQuery) -> NativeEvaluator:
    """Return the native evaluator of a query; only queries with a native evaluator can be in groups."""
    assert isinstance(running.evaluator, NativeEvaluator)
    return running.evaluator


def tables_of(native: NativeEvaluator) -> list[tuple[Hashable, tuple[Var, ...]]]:
    """Return the tables of a query's static parts with their columns; equal entries mean equal rows."""
    statics = native.statics
    return [(table, part.vars) for table, part in zip(statics.tables, statics.parts, strict=True)]


def template_of(running: RunningQuery) -> Hashable | None:
    """Return a key that is equal for queries that differ only in constants; None if not shareable."""
    prepared, template = running.prepared, native_of(running).template
    if (
        template is None
        or running.view is not None
        or prepared.sources is not None
        or prepared.query.form not in ("select", "ask")
        or prepared.refresh != "trigger"
    ):
        return None
    # ONCE PER decides row by row what is emitted, so its queries share no generated loop with others.
    once = prepared.query.emission.once_per is not None
    return template, prepared.output, prepared.report.non_empty, prepared.limits, once


def in_common(running: RunningQuery) -> Hashable:
    """Return a key that is equal for queries of one template that can form a shared plan now."""
    native = native_of(running)
    # The static parts whose rows must be equal for all members of a shared plan.
    parts = [
        table
        for part, table in zip(native.statics.parts, tables_of(native), strict=True)
        if part.name not in native.analysis.skeleton.tables
    ]
    return running.evaluated_at, tuple(parts)


def differing(sample: NativeEvaluator, members: Sequence[RunningQuery]) -> set[int]:
    """Return the positions of the constants in which some of ``members`` differ from the query ``sample``."""
    mine = sample.analysis.skeleton.constants
    others = [native_of(running).analysis.skeleton.constants for running in members]
    return {place for place, term in enumerate(mine) if any(each[place] != term for each in others)}


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The static parts of the members of one shared plan, by position.

    Attributes:
        names: the name of each part.
        columns: the names of each part's columns in the plan, in order.
        common: the positions of parts whose rows are stored once for all members.
        labelled: the positions of all other parts, whose rows have the member's label as the last column.
    """

    names: list[str]
    columns: list[list[str]]
    common: set[int]
    labelled: set[int]

    @classmethod
    def of(cls, members: Sequence[NativeEvaluator]) -> MemberParts:
        """Return the static parts of the given members; the first one determines names and columns."""
        parts = members[0].statics.parts
        first, *others = map(tables_of, members)
        common = {at for at in range(len(first)) if all(other[at] == first[at] for other in others)}
        columns = [sorted(var.name for var in part.vars) for part in parts]
        return cls([part.name for part in parts], columns, common, set(range(len(first))) - common)

    def rows_of(self, native: NativeEvaluator, label: int, place: int, delta: Delta) -> Delta:
        """Return rows of a member's static part in the plan's column order, with the member's label added."""
        names = [var.name for var in native.statics.parts[place].vars]
        order = [names.index(name) for name in self.columns[place]]
        if order == list(range(len(names))):
            return {(*row, label): weight for row, weight in delta.items()}
        return {(*[row[each] for each in order], label): weight for row, weight in delta.items()}


class SharedBudget(Budget):
    """The budget of one evaluation of all members of a shared plan."""

    __slots__ = ("_many", "_one")

    def __init__(self, limits: QueryLimits) -> None:
        super().__init__(limits)
        # The current limits of a shared plan follow from one member's limits and the number of members.
        self._one, self._many = limits, 0

    def share(self, one: QueryLimits, many: int) -> None:
        """Set the limits of a shared plan's evaluation for ``many`` members with the limits ``one`` each.

        The rows of a shared plan are bounded by `_SUMMED` members' limits, and time by `_LONGEST_MS` or 1 ms
        per member.
        """
        if self._one is not one or self._many != many:
            self._one, self._many = one, many
            longest = max(_LONGEST_MS, many)
            rows, ms = one.rows * min(many, _SUMMED), min(one.ms or longest, longest)
            self.limit(replace(one, rows=rows, ms=ms))
