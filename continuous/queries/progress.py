"""The progress of a query: its last evaluation, its place in a group, its failure."""

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
        step: the evaluation; None before the first one.
        version: the version of the store that the last evaluation read.
        evaluations: the number of evaluations, including the last.
        answer_id: the id of the last event of the evaluation; None if it emitted none. An evaluation that
            revises an earlier one and emits nothing keeps the earlier ``answer_id``.
        result: the last event that any evaluation emitted, as JSON for the API.
    """

    step: Evaluation | None = None
    version: int = 0
    evaluations: int = 0
    answer_id: int | None = None
    result: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class GroupMembership(Generic[Member]):
    """The relation of a query to the other queries with the same windows.

    Attributes:
        siblings: the queries that share the timeline, including this one; None if the query has its own
            timeline.
        count_offset: how many more elements were taken, late and behind for this query than the shared
            timeline has counted.
        plan_slot: the query's slot in a shared plan; None if the query is evaluated by itself.
        barred: True if the query joins no group, because its work exceeded a time slice.
    """

    siblings: Collection[Member] | None = None
    count_offset: tuple[int, int, int] = (0, 0, 0)
    plan_slot: PlanSlot | None = None
    barred: bool = False

    def counts(self, inputs: InputOrder) -> tuple[int, int, int]:
        """Return how many elements the query took, and how many were late or behind other streams."""
        taken, late, behind = self.count_offset
        return inputs.taken + taken, inputs.late + late, inputs.behind + behind

    def enter(self, siblings: Collection[Member], own: InputOrder, shared: InputOrder) -> None:
        """Share the timeline of ``siblings`` from now on; the query's counts of elements stay the same."""
        taken, late, behind = self.counts(own)
        self.count_offset = (taken - shared.taken, late - shared.late, behind - shared.behind)
        self.siblings = siblings

    def leave(self) -> None:
        """Stop sharing a timeline with sibling queries."""
        self.siblings, self.plan_slot, self.count_offset = None, None, (0, 0, 0)


@dataclass(slots=True, eq=False)
class QueryFailure:
    """The input at which a query failed, now or before a restart.

    Attributes:
        expected: in a replay, the number of evaluations after which the query failed before, and the error.
        at: the stream input at which the query failed; None if it failed at another task.
    """

    expected: tuple[int, BudgetError] | None = None
    at: StreamInput | None = None

    def check_at(self, evaluations: int, event: StreamInput | None) -> None:
        """In a replay, raise the query's earlier error after as many evaluations as before the restart."""
        if self.expected is not None and evaluations >= self.expected[0]:
            self.at = event
            raise self.expected[1]
