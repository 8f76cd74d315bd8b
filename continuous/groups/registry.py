"""Which queries have windows that are the same, and when they join a group.

A query begins alone. What it has not seen is of no account any more when event time has passed its start by
the width of its windows; from then on they hold what the windows of all such queries of the same shape hold,
and it joins these. Queries that were given the same from the beginning join at their first evaluation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from itertools import count

from ..evaluate.native import NativeEvaluator
from ..inputs import NEVER
from ..output.feed import Outbox
from ..queries.running import RunningQuery
from .common_plan import Failures
from .group import Group


class GroupRegistry:
    """The groups of one engine, and the queries that wait for joining one. Used in the loop only.

    Attributes:
        failures: the queries that failed in groups, of which they are no members any more, until somebody
            takes them from here.
        waiting: by stream the queries that wait, with the watermark at which the next of them may join.
    """

    def __init__(self, outbox: Outbox, *, common_plans: bool = True) -> None:
        """Make an empty registry; without ``common_plans`` every query has a plan of its own."""
        self._outbox = outbox
        self._common_plans = common_plans
        # By the shape of their windows: a group, or the query that others of its shape may join.
        self._first: dict[Hashable, Group | RunningQuery] = {}
        self._shapes: dict[RunningQuery, Hashable] = {}
        self.failures: Failures = []
        self.waiting: dict[str, list[tuple[int, int, RunningQuery]]] = {}
        self._count = count()

    def enter(self, running: RunningQuery) -> None:
        """A query takes inputs by itself and may join others of its shape."""
        shape = _shape(running)
        if shape is None or running in self._shapes:
            return
        self._shapes[running] = shape
        if self._first.setdefault(shape, running) is not running:
            # Looked at behind the next input.
            self._wait(NEVER, running)

    def leave(self, running: RunningQuery, *, ended: bool) -> Group | None:
        """A query is not to be with others: it takes inputs by itself, if it has not ended.

        Returns:
            The group that it was in when nobody is left there.
        """
        group = self._group_of(running)
        shape = self._shapes.pop(running, None)
        if group is not None:
            group.remove(running, ended=ended)
            if group.members:
                return None
        elif self._first.get(shape) is not running:
            return None
        del self._first[shape]
        return group

    def set_apart(self, running: RunningQuery) -> None:
        """A query gets a plan of its own, for something that is not for others."""
        group = self._group_of(running)
        if group is not None:
            group.set_apart(running)

    def take_steps(self, moved: Sequence[RunningQuery], now_ms: int) -> list[RunningQuery]:
        """Static parts have moved on: members of common plans take their steps; gives the other queries."""
        alone: list[RunningQuery] = []
        members: dict[Group, list[RunningQuery]] = {}
        for running in moved:
            group = None if running.seat is None else self._group_of(running)
            (alone if group is None else members.setdefault(group, [])).append(running)
        for group, theirs in members.items():
            group.take_steps(theirs, now_ms)
        return alone

    def join(self, stream: str, mark: int) -> list[tuple[Group, list[RunningQuery]]]:
        """Behind an input that moved a stream's watermark: the groups that queries have joined."""
        waiting, later = self.waiting[stream], []
        joining: dict[Hashable, list[RunningQuery]] = {}
        while waiting and waiting[0][0] <= mark:
            _, _, running = heappop(waiting)
            at = self._joins_at(running, mark)
            if at is not None and at <= mark:
                joining.setdefault(self._shapes[running], []).append(running)
            elif at is not None:
                later.append((at, running))
        for at, running in later:
            self._wait(at, running)
        return [self._gather(shape, members) for shape, members in joining.items()]

    def _group_of(self, running: RunningQuery) -> Group | None:
        group = None if running.companions is None else self._first[self._shapes[running]]
        assert not isinstance(group, RunningQuery), "its group comes first"
        return group

    def _wait(self, at: int, running: RunningQuery) -> None:
        stream = running.timeline.inputs.streams[0]
        heappush(self.waiting.setdefault(stream, []), (at, next(self._count), running))

    def _joins_at(self, running: RunningQuery, mark: int) -> int | None:
        """The watermark at which a query may join the first of its shape; None when it need not wait."""
        shape = self._shapes.get(running)
        if shape is None or running.companions is not None:
            return None
        first = self._first.setdefault(shape, running)
        if first is running:
            return None
        mine, its = running.timeline, first.timeline
        if running.last_step is None or mine.inputs.first is None or its.inputs.first is None:
            return mark + 1
        if mine.inputs.first.place is not None and mine.inputs.first.place == its.inputs.first.place:
            return mark
        known = [each.complete_from() for each in (mine, its)]
        if None in known or mine.instant is None:
            return None
        at = max(each for each in known if each is not None)
        return mark if at <= mine.instant == its.instant else max(at, mark + 1)

    def _gather(self, shape: Hashable, joining: list[RunningQuery]) -> tuple[Group, list[RunningQuery]]:
        first, joined = self._first[shape], joining
        if isinstance(first, RunningQuery):
            joined = [first, *joining]
            first = self._first[shape] = Group(
                first, self._outbox, self.failures, common_plans=self._common_plans
            )
        first.add(joining)
        return first, joined


def _shape(running: RunningQuery) -> Hashable | None:
    """Equal for queries whose timelines can be one; None for one that stays alone."""
    prepared = running.prepared
    if (
        not isinstance(running.evaluator, NativeEvaluator)
        or running.state != "running"
        or prepared.registration.memory is not None
        or prepared.made_stream is not None
    ):
        return None
    return running.timeline.shape()
