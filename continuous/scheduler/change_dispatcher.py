"""Delivers commits, changed tables, remote sources and refreshes to queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from quadrill.store.changes.commit import Commit

from ..durable.tasks import TaskQueue
from ..groups.group import QueryGroup
from ..groups.registry import GroupRegistry
from ..queries.running import RunningQuery
from .backlog import Job
from .shares import FairShares


class ChangeRouter(Protocol):
    """The methods of the router that the change dispatcher calls."""

    shares: FairShares
    commit_readers: set[RunningQuery]

    def leave_shared_plan(self, running: RunningQuery) -> None:
        """Take a query out of its shared plan, so that the next work affects this query only."""
        ...

    def fail_members(self) -> None:
        """Mark the group members that failed during a group's work as failed queries."""
        ...

    def apply_to_query(
        self, running: RunningQuery, work: Callable[[RunningQuery, int], object], now: int
    ) -> None:
        """Run ``work`` for one query; the query fails if the work raises an error."""
        ...

    def deliver_derived(self) -> None:
        """Deliver the elements that queries derived to the readers of the derived streams."""
        ...


@dataclass(slots=True, eq=False)
class ChangeDispatcher:
    """Delivers commits, changed tables, remote sources and refreshes to queries, in the engine's thread."""

    _router: ChangeRouter
    _tasks: TaskQueue
    _groups: GroupRegistry
    _attached: Mapping[str, RunningQuery]
    _positions: Mapping[str, int]

    def commit(self, commit: Commit, moved: Sequence[str]) -> None:
        """Deliver a commit to queries whose tables it changed (``moved``) and to queries without tables."""
        if moved or self._router.commit_readers:
            queries = self._outside_plans(moved, self._router.commit_readers)
            self._apply(queries, lambda running, now: running.commit(commit, now))

    def sources_changed(self, key: str) -> None:
        """Deliver the new content of the remote source ``key`` to the queries that read the source."""
        specs_of = {running: running.prepared.source_specs for running in self._attached.values()}
        read = [running for running, specs in specs_of.items() if any(spec.key == key for spec in specs)]
        self._apply(read, RunningQuery.sources_changed)

    def tables_advanced(self, moved: Iterable[str]) -> None:
        """Deliver table changes that happened outside of a commit's task, for example after a reload."""
        self._apply(self._outside_plans(moved, ()), RunningQuery.apply_static_steps)

    def _outside_plans(self, names: Iterable[str], others: Iterable[RunningQuery]) -> list[RunningQuery]:
        """Deliver table changes to shared plans; return the other queries, in the order of registration.

        The queries are those in ``names``, whose tables changed, and those in ``others``. The group of each
        shared plan processes the table changes of its members.
        """
        named = (self._attached.get(name) for name in names)
        moved = list({*others, *(running for running in named if running is not None)})
        if len(moved) > 1:
            moved.sort(key=lambda running: self._positions[running.name])
        members_by_group, alone = self._groups.members_by_group(moved)
        if members_by_group:
            self._router.shares.run_work(self._apply_group_steps, members_by_group.items(), self._tasks.at)
        return alone

    def _apply_group_steps(self, group: QueryGroup, members: Sequence[RunningQuery], now: int) -> None:
        group.take_steps(members, now)
        self._router.fail_members()

    def job_after_leaving(self, job: Job, running: RunningQuery) -> Job | None:
        """Return a former group member's share of a queued job of its group; None if it has no share."""
        if not isinstance(job.reader, QueryGroup):
            return job if job.reader is running else None
        if job.work != self._apply_group_steps:
            return job._replace(reader=running)
        if running not in job.argument:
            return None
        return Job(
            job.place, self._router.apply_to_query, running, RunningQuery.apply_static_steps, job.now, 1
        )

    def refresh(self, name: str, cause: str) -> None:
        """Refresh the static parts of a query and emit the changes; do nothing if the query has ended."""
        running = self._attached.get(name)
        if running is not None:
            self._apply([running], lambda running, now: self._refresh(running, now, cause))

    def _refresh(self, running: RunningQuery, now: int, cause: str) -> None:
        self._router.leave_shared_plan(running)
        running.refresh(now, cause, now)

    def _apply(self, queries: Iterable[RunningQuery], work: Callable[[RunningQuery, int], object]) -> None:
        """Run ``work`` for each query, then deliver the elements that these queries derived."""
        self._router.shares.run_work(
            self._router.apply_to_query, [(running, work) for running in queries], self._tasks.at
        )
        self._router.deliver_derived()
