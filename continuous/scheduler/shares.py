"""Fair shares: readers whose work takes longer than a slice go on later, each from a backlog of its own.

    do    -> a reader is done within its slice                         (nothing is kept)
          -> it is suspended in a fiber, its later jobs queue behind   -> serve, a slice each, in turn

A job belongs to a task, and the jobs of one reader are done in the order of tasks, with the number, time and
version of theirs. A reader of a derived stream does no job of a task before the stream's query has done its
jobs of all earlier tasks. So what a query emits does not depend on how the time was shared.
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
    """Runs the work of readers in slices. Everything is called in the engine's thread.

    Attributes:
        frontier: the engine's: version and place of the task at work.
        place: where the task at work is; made by `here`.
        abandoned: readers had jobs left when the engine stopped: memory lacks what those would have done.
        slice_s: the seconds of a slice; 0 suspends at every point where that can be; None: without slices.
        producers: by stream, the query that derives it; ``readers`` those who take its inputs.
        behind: the readers with a backlog, the one that is served next first.
        after: called behind each slice, at its place; ``fell`` when a reader has begun to have a backlog,
            ``caught`` when it has none any more, ``broke`` when its work raised an error.
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
    _thread: int = 0  # of the spare fibers: a start works in another one
    # Another one for members of the group at work.
    _idle_member_fiber: Fiber | None = None

    # --- tasks ----------------------------------------------------------------------------------

    def current_place(self) -> TaskPlace:
        """The place of the task at work."""
        if self.place is None:
            tasks = self._tasks
            self.place = TaskPlace(self.frontier.place, tasks.number, tasks.at, tasks.version)
        return self.place

    def backlog_figures(self, running: RunningQuery) -> dict[str, int] | None:
        """How far a query, or its group, is behind; None when it is not. Called in any thread."""
        backlog = self.backlogs.get(self.backlog_owner(running))
        return None if backlog is None else backlog.describe()

    def lag(self, iri: str) -> int:
        """The weight of elements that all readers of a stream have still to take; called in any thread."""
        backlogs = [self.backlogs.get(self.backlog_owner(each)) for each in list(self.readers.get(iri, ()))]
        return min([0 if each is None else each.weight for each in backlogs], default=0)

    def barrier(self) -> Barrier:
        """The end of everything up to the task at work."""
        return Barrier(self.backlogs, self.frontier.place)

    def backlog_owner(self, reader: Reader) -> Reader:
        """Whose backlog the work of a reader goes to: its group's while that has one."""
        if not self.backlogs or reader in self.backlogs or isinstance(reader, QueryGroup):
            return reader
        group = self.group_of(reader)
        return reader if group is None or group not in self.backlogs else group

    def run_work(self, work: Work, given: Iterable[tuple[Reader, Any]], now: int) -> None:
        """Do some work for each reader, behind what it has not done yet."""
        if self.slice_s is None:
            for reader, inputs in given:
                began = time.thread_time()
                work(reader, inputs, now)
                reader.spent += time.thread_time() - began
            return
        if self.backlogs:
            given = self._enqueue_blocked(work, given, now)
        if self._thread != (thread := get_ident()):
            self._idle_fiber, self._idle_member_fiber, self._thread = None, None, thread
        jobs = iter(given)
        here = getcurrent()
        while True:
            fiber, self._idle_fiber = self._idle_fiber or Fiber(self._run), None
            fiber.parent = here
            try:
                suspended = fiber.switch(work, jobs, now)
            finally:
                SLICE.until = inf
            if suspended is None:
                self._idle_fiber = fiber
                return
            self._fall_behind(fiber, work, now)

    def run_member_work(self, work: Work, given: Sequence[tuple[RunningQuery, Any]], now: int) -> None:
        """Do some work for members of the group at work, each in a slice and with a backlog of its own."""
        here = getcurrent()
        if not isinstance(here, Fiber):
            for running, inputs in given:
                work(running, inputs, now)
            return
        backlogs, free = self.backlogs, given
        if backlogs:
            free = [each for each in given if each[0] not in backlogs]
            for running, inputs in given:
                if running in backlogs:
                    backlogs[running].add(Job(self.current_place(), work, running, inputs, now, 1))
        jobs, before = iter(free), here.until
        while True:
            fiber, self._idle_member_fiber = self._idle_member_fiber or Fiber(self._run), None
            fiber.parent = here
            suspended = fiber.switch(work, jobs, now)
            if suspended is None:
                self._idle_member_fiber = fiber
                break
            self._fall_behind(fiber, work, now, own=True)
            # The time was that of another one.
            before = here.until = time.monotonic() + (self.slice_s or 0.0)
        SLICE.until = here.hurry_from if here.waiting is not None else before

    def _run(self, work: Work, jobs: Iterator[tuple[Reader, Any]], now: int) -> None:
        """In a fiber: do jobs until one of them has been suspended, which is then the fiber's last."""
        me, clock, cpu_clock, slice_s = getcurrent(), time.monotonic, time.thread_time, self.slice_s
        assert isinstance(me, Fiber) and slice_s is not None
        while True:
            me.began = cpu_clock()
            for reader, inputs in jobs:
                me.job = reader, inputs
                me.until = SLICE.until = clock() + slice_s
                work(reader, inputs, now)
                if me.suspended:
                    return
                ended = cpu_clock()
                reader.spent += ended - me.began
                me.began = ended
            assert me.parent is not None
            work, jobs, now = me.parent.switch(None)

    def _fall_behind(self, fiber: Fiber, work: Work, now: int, *, own: bool = False) -> None:
        """The slice of a reader is over before its work is."""
        reader, inputs = fiber.job
        assert self.slice_s is not None
        fiber.suspended = True
        reader.spent += time.thread_time() - fiber.began
        backlog = self._open_backlog(reader if own else self.backlog_owner(reader))
        backlog.add(Job(self.current_place(), work, reader, inputs, now, weight_of(inputs)))
        backlog.fiber = fiber
        self.on_lag(reader)

    def _open_backlog(self, reader: Reader) -> Backlog:
        found = self.backlogs.get(reader)
        if found is None:
            here = self.current_place()
            found = self.backlogs[reader] = Backlog(reader, Frontier(here.version, place=here.serial))
            self._move_frontier(found, found.task)
            self._tasks.lag = self.lag
            self.on_lag(reader)
        return found

    def _enqueue_blocked(
        self, work: Work, given: Iterable[tuple[Reader, Any]], now: int
    ) -> list[tuple[Reader, Any]]:
        """The readers that may do this now; the others get a job."""
        free, here = list[tuple[Reader, Any]](), self.current_place()
        for reader, inputs in given:
            owner = self.backlog_owner(reader)
            if owner in self.backlogs or self.must_wait(owner, here.serial):
                self._open_backlog(owner).add(Job(here, work, reader, inputs, now, weight_of(inputs)))
            else:
                free.append((reader, inputs))
        return free

    def hand_over(
        self, group: QueryGroup, running: RunningQuery, alone: Callable[[Job, RunningQuery], Job | None]
    ) -> None:
        """A member has left a group that is behind: it has yet to do by itself what waits for the group."""
        backlog = self.backlogs[group]
        # The first job is the one at work, in which it left.
        for job in backlog.jobs[backlog.fiber is not None :]:
            own = alone(job, running)
            if own is not None:
                self._open_backlog(running).add(own)
            if job.reader is running:
                backlog.remove(job)

    def must_wait(self, reader: Reader, serial: int) -> bool:
        """True while others have jobs of tasks before a place: its group, or who derives what it reads."""
        group = None if isinstance(reader, QueryGroup) else self.group_of(reader)
        found = None if group is None else self.backlogs.get(group)
        if found is not None and found.jobs and found.jobs[0].place.serial < serial:
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
        """Give a slice to the next reader that is behind and need not wait for others."""
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
        """Give a slice to a reader that is behind; in a ``hurry`` it is short while tasks wait."""
        reader, seconds, serial = backlog.reader, self.slice_s or 0.0, self.frontier.place
        waiting = self._tasks.waiting if hurry and self.slice_s else None
        until = time.monotonic() + seconds
        try:
            while backlog.jobs and self.backlogs.get(reader) is backlog:
                job, fiber = backlog.jobs[0], backlog.fiber
                if fiber is None and self.must_wait(reader, job.place.serial):
                    break
                with self.at_place(job.place):
                    over = self._resume(backlog, job, until - time.monotonic(), waiting)
                    self.after_slice(reader)
                if not over or time.monotonic() >= until or (waiting is not None and not waiting.empty()):
                    break
        finally:
            assert self.frontier.place == serial
            if not backlog.jobs and self.backlogs.get(reader) is backlog:
                self._catch_up(backlog)

    def _resume(self, backlog: Backlog, job: Job, seconds: float, waiting: Any) -> bool:
        """Go on with the first job of a backlog for some seconds; True when it is done."""
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
            over = bool(fiber.dead)
            if over and backlog.fiber is fiber:
                backlog.fiber = None
                backlog.finish_first()
                for running in members_of(backlog.reader):
                    if running.static.statics is not None:
                        running.static.statics.rejoin()
        return over

    def keep_rows_of_suspended(self, tables: Sequence[Table]) -> None:
        """Let evaluations that are suspended over some tables keep the rows they see: these change now."""
        inside = [each for each in self.backlogs.values() if each.fiber is not None and each.fiber.inside]
        if not inside or not tables:
            return
        members = [each.static.statics for backlog in inside for each in members_of(backlog.reader)]
        views = [view for each in members if each is not None for view in each.shared_by(tables)]
        for table in tables if views else ():
            table.set_apart([view for view in views if view.shared is table])

    def _catch_up(self, backlog: Backlog) -> None:
        """A reader has done everything."""
        self._close_backlog(backlog.reader)
        self._move_frontier(backlog, self.frontier)
        self.on_caught_up(backlog.reader)

    def _close_backlog(self, reader: Reader) -> Backlog | None:
        """A reader has no backlog any more; the one that it had."""
        backlog = self.backlogs.pop(reader, None)
        if not self.backlogs:
            self._tasks.lag = None
        return backlog

    @contextmanager
    def at_place(self, place: TaskPlace) -> Iterator[None]:
        """Do something at the place of an earlier task: its number, time and version are the present ones."""
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

    # --- the end of a reader --------------------------------------------------------------------

    def discard(self, reader: Reader) -> None:
        """A reader has ended: what it has not done is not done any more."""
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
        """Have the work of a reader raise an error where it is suspended; False where none is."""
        backlog = self.backlogs.get(reader)
        fiber = None if backlog is None else backlog.fiber
        if backlog is None or fiber is None:
            return False
        fiber.parent = getcurrent()
        with self.at_place(backlog.jobs[0].place):
            fiber.throw(error)
        return True

    def abandon(self) -> None:
        """The engine stops: what is not done is in the journal, and no checkpoint may be written any more."""
        self.abandoned = bool(self.backlogs)
        for reader in list(self.backlogs):
            self.discard(reader)
