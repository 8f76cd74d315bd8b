"""What groups and common plans ask about their members, and what they tell of them."""

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
"""The queries that failed in a group; whoever works with groups ends them."""


_SUMMED = 8
"""The rows that so many members may make each are what all may make together, so that memory is bounded."""
_LONGEST_MS = 500
"""Most milliseconds that all members wait for one of them, or one for each; then each is evaluated alone."""


class EvaluationRecord(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The static parts of the members of one common plan, by their places.

    Attributes:
        names: the name of each part.
        columns: the names of its columns in the plan, in order.
        common: the places of parts whose rows are there once for all members.
        labelled: the places of the others, whose rows have the label of a member as the last column.
    """

    names: list[str]
    columns: list[list[str]]
    common: set[int]
    labelled: set[int]

    @classmethod
    def of(cls, members: Sequence[NativeEvaluator]) -> MemberParts:
        """The parts of these members, of which the first one stands for all."""
        parts = members[0].statics.parts
        first, *others = map(tables_of, members)
        common = {at for at in range(len(first)) if all(other[at] == first[at] for other in others)}
        columns = [sorted(var.name for var in part.vars) for part in parts]
        return cls([part.name for part in parts], columns, common, set(range(len(first))) - common)

    def rows_of(self, native: NativeEvaluator, label: int, place: int, delta: Delta) -> Delta:
        """Rows of a member's part in the order of the plan's columns, with the member's label after them."""
        names = [var.name for var in native.statics.parts[place].vars]
        order = [names.index(name) for name in self.columns[place]]
        if order == list(range(len(names))):
            return {(*row, label): weight for row, weight in delta.items()}
        return {(*[row[each] for each in order], label): weight for row, weight in delta.items()}


class SharedBudget(Budget):
    """What one evaluation of all members of a common plan may cost."""

    __slots__ = ("_many", "_one")

    def __init__(self, limits: QueryLimits) -> None:
        super().__init__(limits)
        # What the present limits were made from: those of one member, and the number of members.
        self._one, self._many = limits, 0

    def share(self, one: QueryLimits, many: int) -> None:
        """Let an evaluation cost what ``many`` members may, but not hold them all for long."""
        if self._one is not one or self._many != many:
            self._one, self._many = one, many
            longest = max(_LONGEST_MS, many)
            rows, ms = one.rows * min(many, _SUMMED), min(one.ms or longest, longest)
            self.limit(replace(one, rows=rows, ms=ms))
