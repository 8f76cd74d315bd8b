"""The backlog of a lagging reader: the jobs that it has not executed, in the order of their tasks."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..errors import BudgetError
from ..groups.group import QueryGroup
from ..inputs import Advance, Arrival, Idle, StreamInput
from ..queries.running import RunningQuery
from ..slices import Fiber
from ..static.table import TableFrontier as Frontier

Reader: TypeAlias = RunningQuery | QueryGroup
Work: TypeAlias = Callable[[Any, Any, int], None]
"""A function that does work for a reader; its arguments are the reader, the job's argument and the task's
time."""


@dataclass(slots=True, eq=False)
class TaskPlace:
    """A task's place in the engine's order of tasks, with its journal record, time and store version.

    ``jobs_left`` counts the jobs of the task that are not done.
    """

    serial: int
    number: int
    at: int
    version: int
    jobs_left: int = 0


class Job(NamedTuple):
    """A job: the work of one reader (a query or group) for one task."""

    place: TaskPlace
    work: Work
    reader: Reader
    argument: Any
    now: int
    weight: int


@dataclass(slots=True, eq=False)
class Backlog:
    """The jobs that a reader has not executed; while ``fiber`` is set, the first job is running or suspended.

    Attributes:
        task: the frontier of the lagging reader's static parts: the store version and task that they may
            reflect.
        weight: the number of elements in the jobs.
        last_argument: the argument of the job that was completed last.
        began: the monotonic time at which the reader got a backlog.
    """

    reader: Reader
    task: Frontier
    jobs: list[Job] = field(default_factory=list)
    fiber: Fiber | None = None
    weight: int = 0
    last_argument: Any = None
    began: float = field(default_factory=time.monotonic)

    @property
    def is_between_jobs(self) -> bool:
        """True if no job of this backlog is running or suspended."""
        return self.fiber is None

    @property
    def first_input(self) -> StreamInput | None:
        """The last input of the first job, or if no job is left of the last completed one; None if none."""
        argument = self.jobs[0].argument if self.jobs else self.last_argument
        event = argument[-1] if isinstance(argument, (tuple, list)) and argument else None
        return event if isinstance(event, (Arrival, Advance, Idle)) else None

    def describe(self) -> dict[str, int]:
        """Return how far the reader lags: jobs, elements, and milliseconds of event time."""
        jobs = list(self.jobs)
        times = (
            [
                event.after.newest
                for job in (jobs[0], jobs[-1])
                if isinstance(job.argument, (tuple, list))
                for event in job.argument
                if isinstance(event, (Arrival, Advance, Idle))
            ]
            if jobs
            else []
        )
        lag_ms = max(times) - min(times) if times else 0
        return {"tasks": len(jobs), "elements": self.weight, "ms": lag_ms}

    def check(self, most: int) -> None:
        """Raise BudgetError if more than ``most`` elements are queued for the query."""
        if self.weight > most:
            raise BudgetError(
                f"{self.weight} elements wait for the query, which is too slow for them, "
                f"the limit (max_backlog_elements) is {most}",
                again=False,
                limit=most,
            )

    def add(self, job: Job) -> None:
        """Insert a job into the backlog after the jobs of the same and of earlier tasks."""
        at = bisect_right(self.jobs, job.place.serial, key=_serial_of)
        self.jobs.insert(at, job)
        self.weight += job.weight
        job.place.jobs_left += 1

    def finish_first(self) -> None:
        """Remove the first job of the backlog, because it is done."""
        if self.jobs:
            job = self.jobs.pop(0)
            self.last_argument = job.argument
            self.weight -= job.weight
            job.place.jobs_left -= 1

    def remove(self, job: Job) -> None:
        """Remove a queued job from the backlog, because another reader executes it."""
        self.jobs.remove(job)
        self.weight -= job.weight
        job.place.jobs_left -= 1


class Barrier:
    """A barrier: the completion of all jobs of one task and of earlier tasks, as a task's remaining work."""

    def __init__(self, behind: Mapping[Reader, Backlog], serial: int) -> None:
        self._behind = behind
        self._serial = serial

    @property
    def jobs_left(self) -> int:
        """The number of readers that still have jobs of this or of an earlier task."""
        return sum(each.jobs[0].place.serial <= self._serial for each in self._behind.values() if each.jobs)


def _serial_of(job: Job) -> int:
    return job.place.serial


def members_of(reader: Reader) -> Iterable[RunningQuery]:
    """Return the queries of a reader: the members of a group, or the single query."""
    return reader.members if isinstance(reader, QueryGroup) else (reader,)


def weight_of(inputs: Any) -> int:
    """Return the number of elements in a job's argument; an input without elements counts 1."""
    if type(inputs) not in (tuple, list):
        return 1
    return sum(len(each.elements) if type(each) is Arrival else 1 for each in inputs) or 1
