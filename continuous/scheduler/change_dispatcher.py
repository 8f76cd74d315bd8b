"""What moves queries besides inputs of streams: commits, steps of static parts, refreshes."""

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
    """What the router does for these."""

    shares: FairShares
    commit_readers: set[RunningQuery]

    def leave_shared_plan(self, running: RunningQuery) -> None:
        """Set a query apart from its common plan."""
        ...

    def fail_members(self) -> None:
        """What failed in a group stops alone."""
        ...

    def apply_to_query(
        self, running: RunningQuery, work: Callable[[RunningQuery, int], object], now: int
    ) -> None:
        """Something moves a query."""
        ...

    def deliver_derived(self) -> None:
        """Give what queries derived to its readers."""
        ...


@dataclass(slots=True, eq=False)
class ChangeDispatcher:
    """Moves queries. Everything is called in the loop, in a task."""

    _router: ChangeRouter
    _tasks: TaskQueue
    _groups: GroupRegistry
    _attached: Mapping[str, RunningQuery]
    _positions: Mapping[str, int]

    def commit(self, commit: Commit, moved: Sequence[str]) -> None:
        """A new version of the store is an input: of the queries, by name, whose tables it ``moved``."""
        if moved or self._router.commit_readers:
            queries = self._outside_plans(moved, self._router.commit_readers)
            self._apply(queries, lambda running, now: running.commit(commit, now))

    def sources_changed(self, key: str) -> None:
        """What was fetched from elsewhere is another content: an input of the queries that read it."""
        specs_of = {running: running.prepared.source_specs for running in self._attached.values()}
        read = [running for running, specs in specs_of.items() if any(spec.key == key for spec in specs)]
        self._apply(read, RunningQuery.sources_changed)

    def tables_advanced(self, moved: Iterable[str]) -> None:
        """Tables have moved on without a commit taking its turn."""
        self._apply(self._outside_plans(moved, ()), RunningQuery.apply_static_steps)

    def _outside_plans(self, names: Iterable[str], others: Iterable[RunningQuery]) -> list[RunningQuery]:
        """The queries of these names and the others, in the order of registration.

        Groups take the steps of members of common plans: these are not among them.
        """
        named = (self._attached.get(name) for name in names)
        moved = list({*others, *(running for running in named if running is not None)})
        if len(moved) > 1:
            moved.sort(key=lambda running: self._positions[running.name])
        seated, alone = self._groups.seated(moved)
        if seated:
            self._router.shares.run_work(self._apply_group_steps, seated.items(), self._tasks.at)
        return alone

    def _apply_group_steps(self, group: QueryGroup, members: Sequence[RunningQuery], now: int) -> None:
        group.take_steps(members, now)
        self._router.fail_members()

    def job_after_leaving(self, job: Job, running: RunningQuery) -> Job | None:
        """What a job of a group, or of a member, is for a member that has left it; None: nothing."""
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
        """Refresh a query's static parts and tell what follows; nothing once it has ended."""
        running = self._attached.get(name)
        if running is not None:
            self._apply([running], lambda running, now: self._refresh(running, now, cause))

    def _refresh(self, running: RunningQuery, now: int, cause: str) -> None:
        self._router.leave_shared_plan(running)
        running.refresh(now, cause, now)

    def _apply(self, queries: Iterable[RunningQuery], work: Callable[[RunningQuery, int], object]) -> None:
        """Something moves queries, and what they derive their readers."""
        self._router.shares.run_work(
            self._router.apply_to_query, [(running, work) for running in queries], self._tasks.at
        )
        self._router.deliver_derived()
