"""Which queries have windows that are the same, and when they join a group.

Queries of one shape that are registered between the same two inputs are given the same from the beginning:
they are a group at once. What a later one has not seen is of no account any more when event time has passed
its start by the width of its windows; from then on they hold what those of every such query of the shape
hold, and it joins the first, with its whole group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from quadrill.store.feeds.feed import Outbox

from ..evaluate.native import NativeEvaluator
from ..inputs import NEVER
from ..queries.running import RunningQuery
from .group import Cohort, QueryGroup
from .members import Failures
from .steps import Shares


class GroupJoin(NamedTuple):
    """A group takes inputs in the place of those who took them by themselves, or for others, so far."""

    group: QueryGroup
    instead_of: Sequence[Cohort]


class GroupRegistry:
    """The groups of one engine, and who waits for joining others. Used in the loop only.

    Attributes:
        failures: the queries that failed in groups, of which they are no members any more, until somebody
            takes them from here.
        waiting: by stream who waits, with the watermark at which the next of them may join.
    """

    def __init__(self, outbox: Outbox, *, common_plans: bool = True) -> None:
        """Make an empty registry; without ``common_plans`` every query has a plan of its own.

        ``shares``, once somebody sets it, lets members go on while one is slow.
        """
        self.shares: Shares | None = None
        self._outbox = outbox
        self._common_plans = common_plans
        # By the shape of their windows, in the order of their beginnings; all but the first wait for it.
        self._cohorts: dict[Hashable, dict[Cohort, None]] = {}
        # The shape of each query, and who takes its inputs.
        self._places: dict[RunningQuery, tuple[Hashable, Cohort]] = {}
        self.failures: Failures = []
        self.waiting: dict[str, list[tuple[int, int, Hashable, Cohort]]] = {}
        self._count = count()

    def enter(self, entering: Sequence[RunningQuery]) -> list[GroupJoin]:
        """Queries take inputs by themselves, and join those at once that stand where they do."""
        joining: dict[tuple[Hashable, Cohort], list[Cohort]] = {}
        for running in entering:
            shape = _shape(running)
            if shape is None or running in self._places:
                continue
            cohorts = self._cohorts.setdefault(shape, {})
            found = [next(iter(cohorts)), next(reversed(cohorts))] if cohorts else []
            behind = () if self.shares is None else self.shares.backlogs
            found = [each for each in found if each not in behind]
            same = next((each for each in found if _joins_at(running, each, 0) == 0), None)
            if same is not None:
                joining.setdefault((shape, same), []).append(running)
                continue
            cohorts[running] = None
            self._places[running] = shape, running
            if found:
                # Looked at behind the next input.
                self._wait(NEVER, shape, running)
        return [self._gather(shape, into, cohorts) for (shape, into), cohorts in joining.items()]

    def leave(self, running: RunningQuery, *, ended: bool) -> QueryGroup | None:
        """A query is not to be with others: it takes inputs by itself, if it has not ended.

        Returns:
            The group that it was in when nobody is left there.
        """
        shape, cohort = self._places.pop(running, (None, running))
        if isinstance(cohort, QueryGroup):
            # One that has failed there is no member any more.
            if running in cohort.members:
                cohort.remove(running, ended=ended)
            if cohort.members:
                return None
        cohorts = self._cohorts.get(shape, {})
        # Of members that failed in one step the first that leaves finds nobody else there.
        was_there = cohort in cohorts
        cohorts.pop(cohort, None)
        if not cohorts:
            self._cohorts.pop(shape, None)
        return cohort if was_there and isinstance(cohort, QueryGroup) else None

    def set_apart(self, running: RunningQuery) -> None:
        """A query gets a plan of its own, for something that is not for others."""
        group = self.group_of(running)
        if group is not None:
            group.set_apart(running)

    def seated(
        self, moved: Sequence[RunningQuery]
    ) -> tuple[dict[QueryGroup, list[RunningQuery]], list[RunningQuery]]:
        """The members of common plans among some queries, by group, and the other queries."""
        alone: list[RunningQuery] = []
        members: dict[QueryGroup, list[RunningQuery]] = {}
        for running in moved:
            group = None if running.group.plan_slot is None else self.group_of(running)
            (alone if group is None else members.setdefault(group, [])).append(running)
        return members, alone

    def join(self, stream: str, mark: int) -> list[GroupJoin]:
        """Behind an input that moved a stream's watermark: the groups that others have joined."""
        waiting = self.waiting[stream]
        later: list[tuple[int, Hashable, Cohort]] = []
        joining: dict[Hashable, list[Cohort]] = {}
        while waiting and waiting[0][0] <= mark:
            _, _, shape, cohort = heappop(waiting)
            cohorts = self._cohorts.get(shape, {})
            if cohort not in cohorts or cohort is next(iter(cohorts)):
                continue
            first = next(iter(cohorts))
            behind = () if self.shares is None else self.shares.backlogs
            # One that is behind is not where its timeline is.
            at = mark + 1 if cohort in behind or first in behind else _joins_at(cohort, first, mark)
            if at == mark:
                joining.setdefault(shape, []).append(cohort)
            elif at is not None:
                later.append((at, shape, cohort))
        for at, shape, cohort in later:
            self._wait(at, shape, cohort)
        firsts = {shape: next(iter(self._cohorts[shape])) for shape in joining}
        return [self._gather(shape, firsts[shape], each) for shape, each in joining.items()]

    def group_of(self, running: RunningQuery) -> QueryGroup | None:
        """The group of a query; None for one that takes inputs by itself."""
        _, cohort = self._places.get(running, (None, None))
        return cohort if isinstance(cohort, QueryGroup) else None

    def _wait(self, at: int, shape: Hashable, cohort: Cohort) -> None:
        stream = cohort.timeline.inputs.streams[0]
        heappush(self.waiting.setdefault(stream, []), (at, next(self._count), shape, cohort))

    def _gather(self, shape: Hashable, into: Cohort, joining: Sequence[Cohort]) -> GroupJoin:
        cohorts, instead_of = self._cohorts[shape], list(joining)
        if isinstance(into, RunningQuery):
            group = QueryGroup(
                into, self._outbox, self.failures, self.shares, common_plans=self._common_plans
            )
            instead_of.append(into)
            # It stands where its first member stood.
            self._cohorts[shape] = cohorts = {group if each is into else each: None for each in cohorts}
            self._places[into] = shape, group
            if group is not next(iter(cohorts)):
                self._wait(NEVER, shape, group)
        else:
            group = into
        for each in joining:
            cohorts.pop(each, None)
            for running in each.members if isinstance(each, QueryGroup) else (each,):
                self._places[running] = shape, group
        group.add(joining)
        return GroupJoin(group, instead_of)


def _joins_at(cohort: Cohort, first: Cohort, mark: int) -> int | None:
    """The watermark at which one may join another of its shape: ``mark`` when it may now; None for never."""
    mine, its = cohort.timeline, first.timeline
    if mine.inputs.is_fresh or its.inputs.is_fresh:
        return mark if mine.inputs.is_fresh and its.inputs.is_fresh else mark + 1
    begun = mine.inputs.first, its.inputs.first
    if begun[0] is None or begun[1] is None:
        return mark + 1
    if begun[0].place is None or begun[0].place != begun[1].place:
        known = mine.complete_from(), its.complete_from()
        if known[0] is None or known[1] is None or mine.instant is None:
            return None
        if max(known[0], known[1]) > mine.instant:
            return max(known[0], known[1], mark + 1)
    same = mine.instant == its.instant and cohort.evaluated_at == first.evaluated_at
    return mark if same and mine.windows.standing == its.windows.standing else mark + 1


def _shape(running: RunningQuery) -> Hashable | None:
    """Equal for queries whose timelines can be one; None for one that stays alone."""
    prepared = running.prepared
    if (
        not isinstance(running.evaluator, NativeEvaluator)
        or running.state != "running"
        or running.group.barred
        or prepared.registration.costs.of_minutes
        or prepared.registration.costs.memory is not None
        or prepared.made_stream is not None
    ):
        return None
    timeline = running.timeline
    shape, closes = timeline.shape(), timeline.report.kind == "periodic" or timeline.windows.grids
    # A timeline steps through every close where one of its queries emits something there.
    return None if shape is None else (shape, bool(closes) and prepared.repeats)
