"""Lagging readers: their limits, their failures, and the streams for which they keep inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from ..durable.tasks import TaskQueue
from ..errors import BudgetError
from ..groups.registry import GroupRegistry
from ..queries.costs import check_costs
from ..queries.running import RunningQuery
from .backlog import Backlog, Reader, members_of
from .shares import FairShares


class LaggingRouter(Protocol):
    """The methods of the router that the supervision of lagging readers calls."""

    def index(self, running: RunningQuery, *, everywhere: bool = False) -> None:
        """Register a query as a reader of its streams; with ``everywhere``, of all streams."""
        ...

    def drop_unread_streams(self, running: RunningQuery) -> None:
        """Unregister a query as a reader of streams that it has no window on."""
        ...

    def fail(self, running: RunningQuery, error: Exception) -> None:
        """Mark one query as failed without affecting others."""
        ...

    def fail_members(self) -> None:
        """Mark the group members that failed during a group's work as failed queries."""
        ...

    def deliver_derived(self) -> None:
        """Deliver the elements that queries derived to the readers of the derived streams."""
        ...


@dataclass(slots=True, eq=False)
class LaggingReaders:
    """Supervises lagging readers: registers them for streams, and fails those over a limit.

    Only the engine's thread calls methods of this supervisor, except `is_behind`.
    """

    _router: LaggingRouter
    _shares: FairShares
    _groups: GroupRegistry
    _tasks: TaskQueue
    _max_elements: int

    def __post_init__(self) -> None:
        shares = self._shares
        shares.after_slice, shares.on_lag = self._after_slice, self._fell_behind
        shares.on_caught_up, shares.on_error = self._caught_up, self._work_failed

    def is_behind(self, running: RunningQuery) -> bool:
        """Return True if a query or its group has a backlog. Any thread may ask whether a query lags."""
        behind = self._shares.backlogs
        return bool(behind) and self._shares.backlog_owner(running) in behind

    def _fell_behind(self, reader: Reader) -> None:
        """Bar a new laggard from groups; register it for all streams that it may come to read."""
        if isinstance(reader, RunningQuery):
            reader.group.barred = self._shares.slice_s != 0
            self._router.index(reader, everywhere=True)

    def _after_slice(self, reader: Reader) -> None:
        """After a reader's slice, deliver its derived elements and fail queries that exceed a limit."""
        self._router.fail_members()
        self._router.deliver_derived()
        backlog = self._shares.backlogs.get(reader)
        if backlog is None:
            return
        for running in list(members_of(reader)):
            try:
                check_costs(running, self._tasks.at)
                backlog.check(self._max_elements)
            except BudgetError as error:
                self._fail(running, backlog, error)

    def end_oldest(self, reason: str, limit: int) -> None:
        """Fail the queries of the longest-lagging reader, with ``reason`` and ``limit`` in the error."""
        backlog = min(self._shares.backlogs.values(), key=lambda each: each.began)
        seconds = time.monotonic() - backlog.began
        error = BudgetError(
            f"the query has been behind its input for {seconds:.0f} s, {reason}", again=False, limit=limit
        )
        with self._shares.at_place(backlog.jobs[0].place):
            for running in list(members_of(backlog.reader)):
                self._fail(running, backlog, error)

    def _fail(self, running: RunningQuery, backlog: Backlog, error: BudgetError) -> None:
        """Fail a lagging query and discard its backlog."""
        event = backlog.first_input
        if backlog.reader is not running or not self._shares.interrupt(running, error):
            self.stop(running)
        if running.state != "failed":
            running.failure.at = running.failure.at or event
            self._router.fail(running, error)

    def _work_failed(self, reader: Reader, error: Exception) -> None:
        """Fail the queries of a reader whose work raised an unexpected error."""
        for running in list(members_of(reader)):
            if running.state != "failed":
                self._router.fail(running, error)

    def _caught_up(self, reader: Reader) -> None:
        """Unregister a query that has no backlog any more for streams that it does not read."""
        if isinstance(reader, RunningQuery):
            self._router.drop_unread_streams(reader)

    def cancel(self, name: str) -> None:
        """In a replay, fail a lagging query that a client has paused or dropped."""
        for running in [each for reader in self._shares.backlogs for each in members_of(reader)]:
            if running.name == name and running.state != "failed":
                message = f"the query {name} was paused or dropped while it was behind"
                self._router.fail(running, BudgetError(message, again=False, code="cancelled"))

    def stop(self, running: RunningQuery) -> None:
        """Stop a lagging query: at once, or after the running job of its group."""
        shares, group = self._shares, self._groups.group_of(running)
        shares.discard(running)
        backlog = None if group is None else shares.backlogs.get(group)
        if group is None or backlog is None or backlog.is_between_jobs or running not in group.members:
            return
        group.leaving.append(running)
        while (
            backlog.fiber is not None and running in group.members and shares.backlogs.get(group) is backlog
        ):
            shares.serve_one(backlog, hurry=False)
