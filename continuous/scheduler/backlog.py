"""What a reader has not done yet, in the order of tasks."""

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
"""What is done for a reader: called with it, with what it is given, and with the time of the task."""


@dataclass(slots=True, eq=False)
class TaskPlace:
    """The place of a task in the order of all tasks, and what holds for everything that is done there.

    ``left`` counts its jobs that are not done.
    """

    serial: int
    number: int
    at: int
    version: int
    jobs_left: int = 0


class Job(NamedTuple):
    """Work of one reader at one place."""

    place: TaskPlace
    work: Work
    reader: Reader
    argument: Any
    now: int
    weight: int


@dataclass(slots=True, eq=False)
class Backlog:
    """What a reader has not done yet; the first job is the one at work while there is a fiber.

    Attributes:
        task: the version and place that its static parts may have reached.
        weight: of the elements in its jobs.
        given: what the job that was done last was given.
        began: when the reader fell behind, by the monotonic clock.
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
        """True between two jobs."""
        return self.fiber is None

    @property
    def first_input(self) -> StreamInput | None:
        """The last input of the first job, or of the one that was done last; None where it has none."""
        given = self.jobs[0].argument if self.jobs else self.last_argument
        found = given[-1] if isinstance(given, (tuple, list)) and given else None
        return found if isinstance(found, (Arrival, Advance, Idle)) else None

    def describe(self) -> dict[str, int]:
        """How far the reader is behind: tasks, elements, and event time in milliseconds."""
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
        behind = max(times) - min(times) if times else 0
        return {"tasks": len(jobs), "elements": self.weight, "ms": behind}

    def check(self, most: int) -> None:
        """Raise BudgetError when the elements weigh too much."""
        if self.weight > most:
            raise BudgetError(
                f"{self.weight} elements wait for the query, which is too slow for them, "
                f"the limit (max_backlog_elements) is {most}",
                again=False,
                limit=most,
            )

    def add(self, job: Job) -> None:
        """Add a job behind those of its place and of earlier ones."""
        at = bisect_right(self.jobs, job.place.serial, key=_serial_of)
        self.jobs.insert(at, job)
        self.weight += job.weight
        job.place.jobs_left += 1

    def finish_first(self) -> None:
        """The first job is done."""
        if self.jobs:
            job = self.jobs.pop(0)
            self.last_argument = job.argument
            self.weight -= job.weight
            job.place.jobs_left -= 1

    def remove(self, job: Job) -> None:
        """Another one does a job that waits."""
        self.jobs.remove(job)
        self.weight -= job.weight
        job.place.jobs_left -= 1


class Barrier:
    """The end of everything up to a place, as `TaskPlace` has it."""

    def __init__(self, behind: Mapping[Reader, Backlog], serial: int) -> None:
        self._behind = behind
        self._serial = serial

    @property
    def jobs_left(self) -> int:
        """How many readers have jobs of this or an earlier place."""
        return sum(each.jobs[0].place.serial <= self._serial for each in self._behind.values() if each.jobs)


def _serial_of(job: Job) -> int:
    return job.place.serial


def members_of(reader: Reader) -> Iterable[RunningQuery]:
    """The queries of a reader."""
    return reader.members if isinstance(reader, QueryGroup) else (reader,)


def weight_of(inputs: Any) -> int:
    """The elements in what a reader is given, 1 for anything without."""
    if type(inputs) not in (tuple, list):
        return 1
    return sum(len(each.elements) if type(each) is Arrival else 1 for each in inputs) or 1
