"""Registry of groups: finds queries with equal windows and joins them into groups.

Queries with windows of one shape that are registered between the same two inputs get the same inputs from the
beginning, so they form a group immediately. A query that is registered later than others of the same shape
has missed earlier elements. The elements that a later query has missed have left its windows once event time
has passed the query's start by the width of its windows; then the query's windows equal those of the older
queries of the shape, and the query, or its whole group, joins the oldest group.
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
    """A group that now receives inputs instead of the queries and groups that joined it."""

    group: QueryGroup
    instead_of: Sequence[Cohort]


class GroupRegistry:
    """The groups of one engine, and the queries that wait to join a group.

    Only the engine's thread changes the group registry; any thread may call `group_of`.

    Attributes:
        shares: gives slow members a backlog, so that other members do not wait; None until the scheduler sets
            it.
        failures: queries that failed in groups and were removed from them; the scheduler empties the list.
        waiting: by stream, the queries and groups that wait to join, ordered by the watermark of their next
            try.
    """

    def __init__(self, outbox: Outbox, *, shared_plans: bool = True) -> None:
        """Create an empty registry of groups; without ``shared_plans`` every query has a private plan."""
        self.shares: Shares | None = None
        self._outbox = outbox
        self._shared_plans = shared_plans
        # Queries and groups by the shape of their windows, oldest first; all but the oldest wait to join the
        # oldest one.
        self._cohorts: dict[Hashable, dict[Cohort, None]] = {}
        # For each query the shape of its windows, and the query or group that receives the query's inputs.
        self._places: dict[RunningQuery, tuple[Hashable, Cohort]] = {}
        self.failures: Failures = []
        self.waiting: dict[str, list[tuple[int, int, Hashable, Cohort]]] = {}
        self._count = count()

    def enter(self, entering: Sequence[RunningQuery]) -> list[GroupJoin]:
        """Enter new queries; a query whose timeline equals that of a known query or group joins at once.

        Returns:
            The groups that were formed or extended.
        """
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
                # The query's timeline is compared again after the next input of its stream.
                self._wait(NEVER, shape, running)
        return [self._gather(shape, into, cohorts) for (shape, into), cohorts in joining.items()]

    def leave(self, running: RunningQuery, *, ended: bool) -> QueryGroup | None:
        """Remove a query from its group; unless it has ended, the query receives inputs alone from now on.

        Returns:
            The query's former group if the group has no members left, else None.
        """
        shape, cohort = self._places.pop(running, (None, running))
        if isinstance(cohort, QueryGroup):
            # A query that failed in its group has been removed from the group's members already.
            if running in cohort.members:
                cohort.remove(running, ended=ended)
            if cohort.members:
                return None
        cohorts = self._cohorts.get(shape, {})
        # If all members of a group failed in one step, the first one that leaves finds an empty group and
        # removes it.
        was_there = cohort in cohorts
        cohorts.pop(cohort, None)
        if not cohorts:
            self._cohorts.pop(shape, None)
        return cohort if was_there and isinstance(cohort, QueryGroup) else None

    def set_apart(self, running: RunningQuery) -> None:
        """Move a query from a shared plan to a private plan, for work that concerns this query only."""
        group = self.group_of(running)
        if group is not None:
            group.set_apart(running)

    def members_by_group(
        self, moved: Sequence[RunningQuery]
    ) -> tuple[dict[QueryGroup, list[RunningQuery]], list[RunningQuery]]:
        """Divide queries into members of shared plans, by group, and all other queries."""
        alone: list[RunningQuery] = []
        members: dict[QueryGroup, list[RunningQuery]] = {}
        for running in moved:
            group = None if running.group.plan_slot is None else self.group_of(running)
            (alone if group is None else members.setdefault(group, [])).append(running)
        return members, alone

    def join(self, stream: str, mark: int) -> list[GroupJoin]:
        """Let queries and groups of a stream that wait join groups, after its watermark reached ``mark``.

        Returns:
            The groups that queries or other groups have joined.
        """
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
            # A query with a backlog has not evaluated up to its timeline's instant, so it cannot join yet.
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
        """Return the group of a query; None for a query that receives inputs alone."""
        _, cohort = self._places.get(running, (None, None))
        return cohort if isinstance(cohort, QueryGroup) else None

    def _wait(self, at: int, shape: Hashable, cohort: Cohort) -> None:
        stream = cohort.timeline.inputs.streams[0]
        heappush(self.waiting.setdefault(stream, []), (at, next(self._count), shape, cohort))

    def _gather(self, shape: Hashable, into: Cohort, joining: Sequence[Cohort]) -> GroupJoin:
        cohorts, instead_of = self._cohorts[shape], list(joining)
        if isinstance(into, RunningQuery):
            group = QueryGroup(
                into, self._outbox, self.failures, self.shares, shared_plans=self._shared_plans
            )
            instead_of.append(into)
            # The new group takes its first member's place in the order of age.
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
    """Return the watermark at which `cohort` may join `first`: ``mark`` for now, None for never."""
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
    """Return a key that is equal for queries that can share a timeline; None for a query without groups."""
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
    # A timeline stops at every window close if a query may emit rows at unchanged closes (Rstream), so these
    # queries have another shape.
    return None if shape is None else (shape, bool(closes) and prepared.repeats)
