"""Fair shares of the engine's time: work that exceeds its time slice continues later, from a backlog.

    run_work -> a reader finishes within its slice                             (nothing is stored)
             -> a reader is suspended in a fiber, its later jobs are queued    -> serve_next, one slice each

Each job of a reader belongs to one task. The jobs of one reader (a query or group) run in the order of tasks,
with the number, time and version of their task. A reader of a derived stream runs no job of a task before the
stream's query has run its jobs of all earlier tasks. Therefore the results of a query do not depend on how
the engine's time was shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from threading import get_ident
from typing import Any

from greenlet import GreenletExit, getcurrent

from ..durable.tasks import TaskQueue
from ..groups.group import QueryGroup
from ..queries.running import RunningQuery
from ..slices import SLICE, Fiber
from ..static.table import Table
from ..static.table import TableFrontier as Frontier
from .backlog import Backlog, Barrier, Job, Reader, TaskPlace, Work, members_of, weight_of


@dataclass(eq=False)
class FairShares:
    """Runs the work of readers (queries and groups) in time slices.

    Only the engine's thread calls methods of `FairShares`, unless the method says otherwise.

    Attributes:
        frontier: the engine's frontier: version and serial number of the running task.
        place: the place of the running task; None until `current_place` creates the object.
        abandoned: True if readers had jobs left when the engine stopped, so memory lacks the results of those
            jobs.
        slice_s: the seconds of a slice; 0 suspends at every possible point, None disables slices.
        producers: the query that derives each derived stream, by stream IRI.
        readers: the readers of each stream, by stream IRI.
        backlogs: the readers with a backlog; the first one is served next.
        after_slice: called after each slice of a lagging reader, at the place of its job.
        on_lag: called when a reader gets a backlog.
        on_caught_up: called when a reader has no backlog any more.
        on_error: called when the work of a lagging reader raised an error.
    """

    _tasks: TaskQueue
    frontier: Frontier
    slice_s: float | None
    producers: Mapping[str, RunningQuery]
    readers: Mapping[str, Mapping[Reader, None]]
    group_of: Callable[[RunningQuery], QueryGroup | None]
    backlogs: dict[Reader, Backlog] = field(default_factory=dict)
    after_slice: Callable[[Reader], None] = lambda _: None
    on_lag: Callable[[Reader], None] = lambda _: None
    on_caught_up: Callable[[Reader], None] = lambda _: None
    on_error: Callable[[Reader, Exception], None] = lambda *_: None
    place: TaskPlace | None = None
    abandoned: bool = False
    _idle_fiber: Fiber | None = None
    # The thread of the idle fibers: fibers cannot change threads, and the server's start runs in another
    # thread.
    _thread: int = 0
    # An idle fiber that is reused for members of the running group.
    _idle_member_fiber: Fiber | None = None

    # --- tasks ----------------------------------------------------------------------------------

    def current_place(self) -> TaskPlace:
        """Return the place of the running task in the order of tasks."""
        if self.place is None:
            tasks = self._tasks
            self.place = TaskPlace(self.frontier.place, tasks.number, tasks.at, tasks.version)
        return self.place

    def backlog_figures(self, running: RunningQuery) -> dict[str, int] | None:
        """Return how far a query or its group lags; None if it does not.

        Any thread may ask how far a query lags.
        """
        backlog = self.backlogs.get(self.backlog_owner(running))
        return None if backlog is None else backlog.describe()

    def lag(self, iri: str) -> int:
        """Return how many elements every reader of a stream still has to process, in any thread."""
        backlogs = [self.backlogs.get(self.backlog_owner(each)) for each in list(self.readers.get(iri, ()))]
        return min([0 if each is None else each.weight for each in backlogs], default=0)

    def barrier(self) -> Barrier:
        """Return a barrier for all jobs of the running task and of earlier tasks."""
        return Barrier(self.backlogs, self.frontier.place)

    def backlog_owner(self, reader: Reader) -> Reader:
        """Return a backlog's owner: a reader's group while this lags, else the reader; for any thread."""
        if not self.backlogs or reader in self.backlogs or isinstance(reader, QueryGroup):
            return reader
        group = self.group_of(reader)
        return reader if group is None or group not in self.backlogs else group

    def run_work(self, work: Work, inputs_of_readers: Iterable[tuple[Reader, Any]], now: int) -> None:
        """Run some work for each reader; for a lagging reader, queue a job in its backlog instead."""
        if self.slice_s is None:
            for reader, inputs in inputs_of_readers:
                began = time.thread_time()
                work(reader, inputs, now)
                reader.spent += time.thread_time() - began
            return
        if self.backlogs:
            inputs_of_readers = self._enqueue_blocked(work, inputs_of_readers, now)
        if self._thread != (thread := get_ident()):
            self._idle_fiber, self._idle_member_fiber, self._thread = None, None, thread
        jobs = iter(inputs_of_readers)
        engine = getcurrent()
        while True:
            fiber, self._idle_fiber = self._idle_fiber or Fiber(self._run), None
            fiber.parent = engine
            try:
                suspended = fiber.switch(work, jobs, now)
            finally:
                SLICE.until = inf
            if suspended is None:
                self._idle_fiber = fiber
                return
            self._fall_behind(fiber, work, now)

    def run_member_work(
        self, work: Work, inputs_of_members: Sequence[tuple[RunningQuery, Any]], now: int
    ) -> None:
        """Run some work for members of the running group, each in a time slice and with a private backlog."""
        group_fiber = getcurrent()
        if not isinstance(group_fiber, Fiber):
            for running, inputs in inputs_of_members:
                work(running, inputs, now)
            return
        backlogs, ready = self.backlogs, inputs_of_members
        if backlogs:
            ready = [each for each in inputs_of_members if each[0] not in backlogs]
            for running, inputs in inputs_of_members:
                if running in backlogs:
                    backlogs[running].add(Job(self.current_place(), work, running, inputs, now, 1))
        jobs, before = iter(ready), group_fiber.until
        while True:
            fiber, self._idle_member_fiber = self._idle_member_fiber or Fiber(self._run), None
            fiber.parent = group_fiber
            suspended = fiber.switch(work, jobs, now)
            if suspended is None:
                self._idle_member_fiber = fiber
                break
            self._fall_behind(fiber, work, now, own=True)
            # The slow member used up this time slice, so the group gets a new slice.
            before = group_fiber.until = time.monotonic() + (self.slice_s or 0.0)
        SLICE.until = group_fiber.hurry_from if group_fiber.waiting is not None else before

    def _run(self, work: Work, jobs: Iterator[tuple[Reader, Any]], now: int) -> None:
        """In a fiber, run jobs of readers until one is suspended, which then owns the fiber."""
        fiber, clock, cpu_clock, slice_s = getcurrent(), time.monotonic, time.thread_time, self.slice_s
        assert isinstance(fiber, Fiber) and slice_s is not None
        while True:
            fiber.began = cpu_clock()
            for reader, inputs in jobs:
                fiber.job = reader, inputs
                fiber.until = SLICE.until = clock() + slice_s
                work(reader, inputs, now)
                if fiber.suspended:
                    return
                ended = cpu_clock()
                reader.spent += ended - fiber.began
                fiber.began = ended
            assert fiber.parent is not None
            work, jobs, now = fiber.parent.switch(None)

    def _fall_behind(self, fiber: Fiber, work: Work, now: int, *, own: bool = False) -> None:
        """Give a backlog to a reader whose time slice ended before its work did."""
        reader, inputs = fiber.job
        assert self.slice_s is not None
        fiber.suspended = True
        reader.spent += time.thread_time() - fiber.began
        backlog = self._open_backlog(reader if own else self.backlog_owner(reader))
        backlog.add(Job(self.current_place(), work, reader, inputs, now, weight_of(inputs)))
        backlog.fiber = fiber
        self.on_lag(reader)

    def _open_backlog(self, reader: Reader) -> Backlog:
        backlog = self.backlogs.get(reader)
        if backlog is None:
            place = self.current_place()
            backlog = self.backlogs[reader] = Backlog(reader, Frontier(place.version, place=place.serial))
            self._move_frontier(backlog, backlog.task)
            self._tasks.lag = self.lag
            self.on_lag(reader)
        return backlog

    def _enqueue_blocked(
        self, work: Work, inputs_of_readers: Iterable[tuple[Reader, Any]], now: int
    ) -> list[tuple[Reader, Any]]:
        """Queue a job for each reader that has to wait; return the readers that may run now."""
        ready, place = list[tuple[Reader, Any]](), self.current_place()
        for reader, inputs in inputs_of_readers:
            owner = self.backlog_owner(reader)
            if owner in self.backlogs or self.must_wait(owner, place.serial):
                self._open_backlog(owner).add(Job(place, work, reader, inputs, now, weight_of(inputs)))
            else:
                ready.append((reader, inputs))
        return ready

    def hand_over(
        self, group: QueryGroup, running: RunningQuery, alone: Callable[[Job, RunningQuery], Job | None]
    ) -> None:
        """Give a member that has left a lagging group its part of the group's queued jobs."""
        backlog = self.backlogs[group]
        # The first job of the group's backlog is the running one, in which the member left the group.
        for job in backlog.jobs[backlog.fiber is not None :]:
            member_job = alone(job, running)
            if member_job is not None:
                self._open_backlog(running).add(member_job)
            if job.reader is running:
                backlog.remove(job)

    def must_wait(self, reader: Reader, serial: int) -> bool:
        """Return True if the reader's group or a query that derives its inputs has jobs of earlier tasks."""
        group = None if isinstance(reader, QueryGroup) else self.group_of(reader)
        group_backlog = None if group is None else self.backlogs.get(group)
        if group_backlog is not None and group_backlog.jobs and group_backlog.jobs[0].place.serial < serial:
            return True
        for iri in reader.timeline.inputs.views if self.producers else ():
            producer = self.producers.get(iri)
            if producer is not None and producer is not reader:
                backlog = self.backlogs.get(self.backlog_owner(producer))
                if backlog is not None and backlog.jobs and backlog.jobs[0].place.serial < serial:
                    return True
                if self.must_wait(producer, serial):
                    return True
        return False

    # --- backlogs -------------------------------------------------------------------------------

    def serve_next(self) -> None:
        """Run one slice of the next lagging reader that need not wait for other readers."""
        waiting: Backlog | None = None
        for reader, backlog in list(self.backlogs.items()):
            fiber = backlog.fiber
            if fiber is None and self.must_wait(reader, backlog.jobs[0].place.serial):
                continue
            if fiber is None or fiber.ready is None or fiber.ready():
                break
            waiting = waiting or backlog
        else:
            if waiting is None:
                return
            backlog = waiting
        del self.backlogs[backlog.reader]
        self.backlogs[backlog.reader] = backlog
        self.serve_one(backlog)

    def serve_one(self, backlog: Backlog, *, hurry: bool = True) -> None:
        """Run one slice of a lagging reader; with ``hurry`` a queued task ends the slice early."""
        reader, seconds, serial = backlog.reader, self.slice_s or 0.0, self.frontier.place
        waiting = self._tasks.waiting if hurry and self.slice_s else None
        until = time.monotonic() + seconds
        try:
            while backlog.jobs and self.backlogs.get(reader) is backlog:
                job, fiber = backlog.jobs[0], backlog.fiber
                if fiber is None and self.must_wait(reader, job.place.serial):
                    break
                with self.at_place(job.place):
                    is_done = self._resume(backlog, job, until - time.monotonic(), waiting)
                    self.after_slice(reader)
                if not is_done or time.monotonic() >= until or (waiting is not None and not waiting.empty()):
                    break
        finally:
            assert self.frontier.place == serial
            if not backlog.jobs and self.backlogs.get(reader) is backlog:
                self._catch_up(backlog)

    def _resume(self, backlog: Backlog, job: Job, seconds: float, waiting: Any) -> bool:
        """Continue a backlog's first job for about ``seconds``; return True if the job is done."""
        task, fiber = backlog.task, backlog.fiber
        if fiber is None:
            if (task.version, task.place) != (job.place.version, job.place.serial):
                task.version, task.place = job.place.version, job.place.serial
                self._move_frontier(backlog, task)
            fiber = backlog.fiber = Fiber(job.work)
            arguments: Sequence[Any] = (job.reader, job.argument, job.now)
        else:
            arguments = ()
        fiber.parent = getcurrent()
        began = time.thread_time()
        fiber.begin(max(seconds, 0.0) if self.slice_s else 0.0, waiting)
        try:
            fiber.switch(*arguments)
        except Exception as error:
            self.on_error(job.reader, error)
        finally:
            SLICE.until = inf
            backlog.reader.spent += time.thread_time() - began
            is_done = bool(fiber.dead)
            if is_done and backlog.fiber is fiber:
                backlog.fiber = None
                backlog.finish_first()
                for running in members_of(backlog.reader):
                    if running.static.statics is not None:
                        running.static.statics.rejoin()
        return is_done

    def keep_rows_of_suspended(self, tables: Sequence[Table]) -> None:
        """Before tables change, keep their current rows for suspended evaluations that read them."""
        inside = [each for each in self.backlogs.values() if each.fiber is not None and each.fiber.inside]
        if not inside or not tables:
            return
        members = [each.static.statics for backlog in inside for each in members_of(backlog.reader)]
        views = [view for each in members if each is not None for view in each.shared_by(tables)]
        for table in tables if views else ():
            table.set_apart([view for view in views if view.shared is table])

    def _catch_up(self, backlog: Backlog) -> None:
        """Close the empty backlog of a reader and move its static parts to the engine's frontier."""
        self._close_backlog(backlog.reader)
        self._move_frontier(backlog, self.frontier)
        self.on_caught_up(backlog.reader)

    def _close_backlog(self, reader: Reader) -> Backlog | None:
        """Remove and return the backlog of a reader; None if there is none."""
        backlog = self.backlogs.pop(reader, None)
        if not self.backlogs:
            self._tasks.lag = None
        return backlog

    @contextmanager
    def at_place(self, place: TaskPlace) -> Iterator[None]:
        """Run the block with the number, time and version of an earlier task."""
        tasks, before = self._tasks, self.place
        of_task = tasks.number, tasks.at, tasks.version
        self.place = place
        tasks.number, tasks.at, tasks.version = place.number, place.at, place.version
        try:
            yield
        finally:
            (tasks.number, tasks.at, tasks.version), self.place = of_task, before

    @staticmethod
    def _move_frontier(backlog: Backlog, task: Frontier) -> None:
        for running in members_of(backlog.reader):
            if running.static.statics is not None:
                running.static.statics.steps.move(task)

    # --- the end of a reader and of the engine --------------------------------------------------

    def discard(self, reader: Reader) -> None:
        """Discard the backlog of a reader that has ended, and end its suspended fiber."""
        backlog = self._close_backlog(reader)
        if backlog is None:
            return
        fiber, backlog.fiber = backlog.fiber, None
        if fiber is not None and not fiber.dead and fiber is not getcurrent():
            fiber.parent = getcurrent()
            fiber.throw(GreenletExit)
        while backlog.jobs:
            backlog.finish_first()
        self._move_frontier(backlog, self.frontier)

    def interrupt(self, reader: Reader, error: Exception) -> bool:
        """Raise an error in the suspended work of a reader; return False if no work of it is suspended."""
        backlog = self.backlogs.get(reader)
        fiber = None if backlog is None else backlog.fiber
        if backlog is None or fiber is None:
            return False
        fiber.parent = getcurrent()
        with self.at_place(backlog.jobs[0].place):
            fiber.throw(error)
        return True

    def abandon(self) -> None:
        """Discard all backlogs at a stop; the journal has their inputs, and no checkpoint may follow."""
        self.abandoned = bool(self.backlogs)
        for reader in list(self.backlogs):
            self.discard(reader)
