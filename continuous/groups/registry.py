"""Which queries have windows that are the same, and when they join a group.

A query begins alone. What it has not seen is of no account any more when event time has passed its start by
the width of its windows; from then on they hold what the windows of all such queries of the same shape hold,
and it joins these. Queries that were given the same from the beginning join at their first evaluation.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count

from ..inputs import NEVER
from ..output.feed import Outbox
from .group import Group
from .membership import Failures, Member


class GroupRegistry:
    """The groups of one engine, and the queries that wait for joining one. Used in the loop only."""

    def __init__(self, outbox: Outbox | None, *, common_plans: bool = True) -> None:
        """Make an empty registry.

        Args:
            outbox: where results wait until they are durable; None where they need not be.
            common_plans: False lets every query have a plan of its own.
        """
        self._outbox = outbox
        self._common_plans = common_plans
        # By the shape of their windows: a group, or the query that others of its shape may join.
        self._first: dict[Hashable, Group | Member] = {}
        self._shapes: dict[Member, Hashable] = {}
        # By stream: the queries that wait, with the watermark at which the next of them may join.
        self.waiting: dict[str, list[tuple[int, int, Member]]] = {}
        self._count = count()

    def enter(self, running: Member) -> None:
        """A query takes inputs by itself and may join others of its shape."""
        shape = running.shape
        if shape is None or running in self._shapes:
            return
        self._shapes[running] = shape
        if self._first.setdefault(shape, running) is not running:
            # Looked at behind the next input.
            self._wait(NEVER, running)

    def leave(self, running: Member, *, ended: bool) -> tuple[Group | None, Failures]:
        """A query is not to be with others: it takes inputs by itself, if it has not ended.

        Returns:
            The group that it was in when nobody is left there, and whose plans failed.
        """
        shape = self._shapes.pop(running, None)
        first = self._first.get(shape)
        if first is running:
            del self._first[shape]
        if running.membership is None:
            return None, []
        assert isinstance(first, Group)
        failures = first.remove(running, ended=ended)
        if first.members:
            return None, failures
        del self._first[shape]
        return first, failures

    def join(self, stream: str, mark: int) -> list[tuple[Group, list[Member], Failures]]:
        """Behind an input that moved a stream's watermark: the groups that queries have joined."""
        waiting, later = self.waiting[stream], []
        joining: dict[Hashable, list[Member]] = {}
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

    def _wait(self, at: int, running: Member) -> None:
        stream = running.timeline.inputs.streams[0]
        heappush(self.waiting.setdefault(stream, []), (at, next(self._count), running))

    def _joins_at(self, running: Member, mark: int) -> int | None:
        """The watermark at which a query may join the first of its shape; None when it need not wait."""
        shape = self._shapes.get(running)
        if shape is None or running.membership is not None:
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

    def _gather(self, shape: Hashable, joining: list[Member]) -> tuple[Group, list[Member], Failures]:
        first = self._first[shape]
        if isinstance(first, Group):
            return first, joining, first.add(joining)
        group = self._first[shape] = Group(first, self._outbox, common_plans=self._common_plans)
        return group, [first, *joining], group.add(joining)
