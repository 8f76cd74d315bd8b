"""How far a query is: its last evaluation, its place in a group, its failure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..algebra.reports import Evaluation
from ..errors import BudgetError
from ..evaluate.evaluator import PlanSlot
from ..inputs import StreamInput
from ..windows.query_streams import InputOrder

Member = TypeVar("Member")


@dataclass(slots=True, eq=False)
class LastEvaluation:
    """The last evaluation of a query.

    Attributes:
        step: the evaluation; None before the first.
        version: the version of the dataset that it reflected.
        evaluations: how many there were, this one included.
        answer_id: the id of the last event that it gave, None where it gave none.
        result: the last event that any evaluation gave, as the API shows it.
    """

    step: Evaluation | None = None
    version: int = 0
    evaluations: int = 0
    answer_id: int | None = None
    result: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class GroupMembership(Generic[Member]):
    """The place of a query among those with the same windows.

    Attributes:
        siblings: the queries that share its timeline, itself included; None where none does.
        count_offset: how many elements more it has taken, had late and had behind than that timeline counts.
        plan_slot: its plan slot in a plan of some of these, while that evaluates it.
        barred: it stays out of groups, because it has taken longer than a slice.
    """

    siblings: Collection[Member] | None = None
    count_offset: tuple[int, int, int] = (0, 0, 0)
    plan_slot: PlanSlot | None = None
    barred: bool = False

    def counts(self, inputs: InputOrder) -> tuple[int, int, int]:
        """Elements taken, late, and behind other streams since the query began, by its timeline's inputs."""
        taken, late, behind = self.count_offset
        return inputs.taken + taken, inputs.late + late, inputs.behind + behind

    def enter(self, siblings: Collection[Member], own: InputOrder, shared: InputOrder) -> None:
        """Share the timeline of others from now on; the query's counts stay what they are."""
        taken, late, behind = self.counts(own)
        self.count_offset = (taken - shared.taken, late - shared.late, behind - shared.behind)
        self.siblings = siblings

    def leave(self) -> None:
        """Share no timeline from now on."""
        self.siblings, self.plan_slot, self.count_offset = None, None, (0, 0, 0)


@dataclass(slots=True, eq=False)
class QueryFailure:
    """At which input a query failed, or failed before.

    Attributes:
        expected: in a replay: after how many evaluations it failed before, and why.
        at: the input at which it failed; None where that was none of a stream.
    """

    expected: tuple[int, BudgetError] | None = None
    at: StreamInput | None = None

    def check_at(self, evaluations: int, event: StreamInput | None) -> None:
        """Raise the error of a replayed query that failed before after as many evaluations, at ``event``."""
        if self.expected is not None and evaluations >= self.expected[0]:
            self.at = event
            raise self.expected[1]
