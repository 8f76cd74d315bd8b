"""The queue of tasks: each input gets its place in one order and its journal record under one lock.

    accepted --lock--> record in the journal, entry in the queue --> the sequencer executes tasks

A task is a value that describes work of the engine; `scheduler/sequencer.py` executes it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from quadrill.store.documents.subject_columns import SubjectColumns
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs.input_log import SPACE
from quadrill.store.logs.journal import Journal
from quadrill.store.quads.meters import Stages
from quadrill.store.quads.subscribers import Subscribers

from ..clock import Clock
from ..errors import BackPressureError, EngineStoppedError
from ..inputs import Element, StreamInput

_flat, _statements_of = chain.from_iterable, attrgetter("statements")
_MAX_DELAYED = 64


def weight_of(elements: Sequence[Element]) -> int:
    """Return the weight of elements in memory limits: 1 per element, or 1 per KiB if that is more.

    For memory limits, a quad counts for its text and about 256 bytes.
    """
    if not elements:
        return 0
    number, first = len(elements), elements[0].statements
    if number == 1 and type(first) is SubjectColumns:
        characters, quads = first.characters, len(first)
    else:
        texts: Sequence[str] = first[0] if number == len(first) == 1 else ()
        texts = texts or [*_flat(_flat(map(_statements_of, elements)))]
        # A statement is four texts, so the number of texts divided by four is the number of quads.
        characters, quads = len("".join(texts)), len(texts) >> 2
    kibibytes = (256 * quads + characters) >> 10
    return kibibytes if kibibytes > number else number


class RemainingWork(Protocol):
    """The jobs of a task that readers (queries or groups) still have to execute."""

    @property
    def jobs_left(self) -> int:
        """The number of remaining jobs, or of readers with jobs; 0 if the work of the task is done."""
        ...


class Task:
    """A task: an entry of the engine's input order.

    The base class `Task` itself only marks a place in the input order.
    """

    number: int = 0  # Number of the task's journal record; 0 without a journal.
    at: int = 0  # Wall-clock time of the task's enqueueing, which all effects of the task have.
    weight: int = 1  # Weight of the task's elements (`weight_of`); 1 for a task without elements.
    deferrable: bool = False  # True for a commit that affects no query: `put` may enqueue it later.
    since: float = 0.0  # Time by the performance counter at which the task was queued.
    done: bool = False  # True once the task was executed and its results are flushed.
    waiter: threading.Event | None = None  # The event is set when the task is done; None if no thread waits.
    # The jobs of the task that lagging readers still have; None if there are none.
    remaining_work: RemainingWork | None = None
    result: Any = None  # The result of the execution of the task.
    error: BaseException | None = None  # The error that the task's execution raised.


@dataclass(eq=False)
class InputTask(Task):
    """A task that delivers an input of a stream to the stream's readers."""

    event: StreamInput


AnyTask = TypeVar("AnyTask", bound=Task)


class TaskQueue:
    """The queue of tasks in order, and the state of the running task.

    Attributes:
        lock: guards the streams and the order; an input is accepted and enqueued under this lock.
        order: the number of the newest input or record.
        open: True while inputs are accepted.
        closed: True once nothing can be enqueued any more.
        until: the monotonic time after which a closed queue hands out no more tasks; the journal has the
            rest.
        waiting: the queued tasks; a new task wakes the engine's thread.
        delayed: deferrable tasks, which are enqueued together with the next other task, or once there are
            more than 64.
        stages: statistics of the time that tasks wait and take.
        number: the journal record of the running task; 0 between tasks and without a journal.
        at: the time of the running or last task, in milliseconds.
        version: the newest store version whose commit task was executed.
        epoch: the number after which the ids of new feeds start.
        processed: the journal record up to which all tasks are executed.
        needed: the journal record up to which inputs must be durable before results become visible.
        write_error: the reason why results cannot be written now; None if they can.
        lag: while some query has a backlog, a function: how many elements of a stream all of its readers have
            still to process; else None.
        replayed_versions: in a replay, the store version that each query's refresh read in the running
            inputs; else None.
    """

    def __init__(self, clock: Clock, journal: Journal | None, commits: Subscribers) -> None:
        self.lock = threading.RLock()
        self._commits = commits
        self.clock = clock
        self.journal = journal
        self.stages = Stages()
        self.order = 0
        self.open = False
        self.number = 0
        self.at = 0
        self.version = self.epoch = 0
        self.processed = 0 if journal is None else journal.log.last
        self.needed = 0
        self.write_error: str | None = None
        self.lag: Callable[[str], int] | None = None
        self.replayed_versions: Mapping[str, int] | None = None
        self.waiting: SimpleQueue[Task] = SimpleQueue()
        self.delayed: list[Task] = []
        # Total weights of the tasks that were enqueued and that were dequeued.
        self._enqueued_weight = 0
        self._dequeued_weight = 0
        self.closed = False
        self.until = 0.0

    @property
    def weight(self) -> int:
        """The total weight of all queued tasks."""
        return self._enqueued_weight - self._dequeued_weight

    # --- enqueueing -----------------------------------------------------------------------------

    def note(self, kind: str, **members: Any) -> int:
        """Append a record other than a stream input to the journal; the caller holds the lock."""
        if self.journal is None:
            return 0
        self.order = self.journal.note(kind, members)
        return self.order

    def put(self, task: Task) -> None:
        """Enqueue a task that has its journal number already, if it needs one.

        Raises:
            EngineStoppedError: the queue of tasks is closed.
        """
        with self.lock:
            if self.closed:
                raise EngineStoppedError("the engine is stopped")
            self.delayed.append(task)
            if task.deferrable and len(self.delayed) <= _MAX_DELAYED:
                return
            for queued in self.delayed:
                queued.since = time.perf_counter()
                self._enqueued_weight += queued.weight
                self.waiting.put(queued)
            self.delayed.clear()

    def submit(self, task: AnyTask, kind: str, **members: Any) -> AnyTask:
        """Append a task's record to the journal and enqueue the task."""
        task.at = self.clock.now_ms()
        with self.lock:
            task.number = self.note(kind, now=task.at, **members)
            self.put(task)
        return task

    def require_open(self) -> None:
        """Raise EngineStoppedError if inputs are not accepted."""
        if not self.open:
            raise EngineStoppedError("the engine is not running")

    def require_ready(self) -> None:
        """Raise EngineStoppedError or StoreUnwritableError if inputs cannot be accepted; follow commits."""
        if not self.open or self.write_error is not None or (self.journal and self.journal.log.failure):
            self.require_open()
            self.require_writable()
        # These lines are `follow_commits` inlined, because each push executes them.
        if self._commits.acknowledged > self._commits.delivered:
            self._commits.catch_up()

    def follow_commits(self) -> None:
        """Wait at most ten seconds until acknowledged commits are enqueued; do not call this under `lock`."""
        if self._commits.acknowledged > self._commits.delivered:
            self._commits.catch_up()

    def require_writable(self) -> None:
        """Raise StoreUnwritableError if the journal or the results cannot be written."""
        trouble = self.write_error
        if self.journal is not None and trouble is None:
            trouble = self.journal.log.failure
        if trouble is not None:
            raise StoreUnwritableError(trouble, hint=SPACE)

    def require_room(self, number: int, most: int) -> None:
        """Raise BackPressureError if ``number`` elements on top of queued ones would exceed ``most``."""
        weight = self.weight
        if weight and weight + number > most:
            raise BackPressureError(f"{weight} elements wait for the engine, the limit is {most}")

    def require_pace(self, stream: str, number: int, most: int) -> None:
        """Raise BackPressureError if with ``number`` more elements all readers of a stream lag too far.

        The argument ``most`` limits the number of elements of the stream that wait for every reader. While
        some reader of the stream has no backlog, no BackPressureError is raised.
        """
        lag = self.lag
        weight = 0 if lag is None else lag(stream)
        if weight and weight + number > most:
            raise BackPressureError(
                f"{weight} elements of {stream} wait for its readers, the limit is {most}"
            )

    def wait_durable(self, number: int) -> None:
        """Wait until the journal is durable up to a record.

        Raises:
            StoreUnwritableError: the journal cannot be written now.
        """
        journal = self.journal
        if journal is not None:
            began = time.perf_counter()
            if journal.log.durable < number:
                journal.log.wait(number)
            self.stages.log.noted.append(time.perf_counter() - began)

    # --- the running task -----------------------------------------------------------------------

    def record_outcome(self, kind: str, **members: Any) -> None:
        """Append a journal record about the running task that a replay could not derive from the inputs."""
        if self.journal is not None and not self.journal.silent:
            with self.lock:
                self.needed = self.note(kind, **members)

    def version_to_read(self, name: str) -> int | None:
        """In a replay, return the version at which a query read static parts in the running task, or None."""
        return None if self.replayed_versions is None else self.replayed_versions.get(name, self.version)

    def after_refresh(self, name: str, version: int) -> None:
        """Record the version at which a query read its static parts, unless it is the last commit's."""
        if version != self.version:
            self.record_outcome("seen", turn=self.number, query=name, version=version)

    # --- methods of the task queue for the sequencer --------------------------------------------

    def dequeue(self, seconds: float = 0.0) -> Task | None:
        """Return the next task; None if none comes within ``seconds``, or after a closed queue's deadline."""
        if self.closed and time.monotonic() > self.until:
            self.reject_queued()
        try:
            task = self.waiting.get(seconds > 0, seconds)
        except Empty:
            return None
        self._dequeued_weight += task.weight
        return task

    def close(self, until: float) -> None:
        """Close the queue: accept no input, do not wait for disk space, hand out no tasks after ``until``."""
        with self.lock:
            if not self.closed:
                self.put(Task())  # An empty task wakes the engine's thread, so that it sees the closed queue.
                # Other threads read without the lock, so `until` is set before `closed`.
                self.until, self.closed = until, True

    def reject_queued(self) -> None:
        """Fail all queued tasks with EngineStoppedError; the next start replays them."""
        with suppress(Empty):
            while task := self.waiting.get_nowait():
                task.error, task.done = EngineStoppedError("the engine is stopped"), True
                if task.waiter is not None:
                    task.waiter.set()

    def is_done_within(self, task: Task, seconds: float) -> bool:
        """Wait for a task for at most ``seconds``; return False if the task is not done by then.

        Raises:
            Exception: the error of the task.
        """
        if not self._wait_until_done(task, seconds):
            return False
        if task.error is not None:
            raise task.error
        return True

    def _wait_until_done(self, task: Task, timeout: float | None) -> bool:
        if task.done:
            return True
        with self.lock:  # Several threads may wait for one task, so they share its event.
            waiter = task.waiter = task.waiter or threading.Event()
        return task.done or waiter.wait(timeout)

    def wait(self, task: Task, timeout: float | None = None) -> Any:
        """Wait until a task is done and return the task's result.

        Raises:
            TimeoutError: the wait took longer than ``timeout`` seconds.
            Exception: the error that the task raised.
        """
        if not self._wait_until_done(task, timeout):
            raise TimeoutError(f"the engine did not execute the task within {timeout} s")
        if task.error is not None:
            raise task.error
        return task.result
