"""The one order of everything that moves a query: each turn gets its place and its record under one lock.

    accepted --lock--> record in the journal, place in the queue --> the sequencer works turns off

A turn is a value that says what is to be done; `scheduler/sequencer.py` does it.
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

from quadrill.store.documents.one_subject import OneSubject
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
    """What elements count for where those in memory are limited: one each, or one for each KiB of all.

    A quad takes its text and 256 bytes, roughly.
    """
    if not elements:
        return 0
    number, first = len(elements), elements[0].statements
    if number == 1 and type(first) is OneSubject:
        characters, quads = first.characters, len(first)
    else:
        texts: Sequence[str] = first[0] if number == len(first) == 1 else ()
        texts = texts or [*_flat(_flat(map(_statements_of, elements)))]
        # A statement is four texts.
        characters, quads = len("".join(texts)), len(texts) >> 2
    kibibytes = (256 * quads + characters) >> 10
    return kibibytes if kibibytes > number else number


class RemainingWork(Protocol):
    """Work that readers have yet to do."""

    @property
    def jobs_left(self) -> int:
        """How much is left; 0 when all of it is done."""
        ...


class Task:
    """Something that moves queries, at its place in the order; this one only has a place."""

    number: int = 0  # its record in the journal; 0 without a journal
    at: int = 0  # by the wall clock when it got its place: within the turn time stands still
    weight: int = 1  # what its elements count for (`weight_of`), 1 for one without any
    deferrable: bool = False  # it moves no query: it may wait for the next turn
    since: float = 0.0  # when it came, by the performance counter
    done: bool = False  # it was worked off, and what it caused is durable and shown
    waiter: threading.Event | None = None  # set then, for the one who waits for it
    remaining_work: RemainingWork | None = None  # where some of its work is left to do
    result: Any = None  # what working it off gave
    error: BaseException | None = None  # what it raised


@dataclass(eq=False)
class InputTask(Task):
    """An input of a stream is given to its readers."""

    event: StreamInput


AnyTask = TypeVar("AnyTask", bound=Task)


class TaskQueue:
    """Turns in their order, and what is known of the one at work.

    Attributes:
        lock: guards streams and order: what is accepted under it is queued under it.
        order: the number given last.
        open: inputs are accepted.
        closed: nothing is queued any more.
        until: when it is closed, by the monotonic clock: what is in line then is left to the journal.
        waiting: the turns in line; putting one there wakes the engine's thread.
        delayed: patient turns that get there with the next one.
        stages: how long turns wait and take.
        number: the record of the turn at work; 0 between turns and without a journal.
        at: the time of the turn at work, or of the last one.
        version: the newest commit that took its turn.
        epoch: what ids of new feeds begin behind.
        processed: the record up to which everything is worked off.
        needed: the record up to which inputs must be durable before results are shown.
        trouble: why results cannot be written now.
        lag: while some query is behind: how many elements of a stream all its readers have still to take.
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
        # In a replay: the versions that refreshes of static parts read in the inputs in line, by query.
        self.replayed_versions: Mapping[str, int] | None = None
        self.waiting: SimpleQueue[Task] = SimpleQueue()
        self.delayed: list[Task] = []
        # Weights of all turns that came and of those that were taken.
        self._enqueued_weight = 0
        self._dequeued_weight = 0
        self.closed = False
        self.until = 0.0

    @property
    def weight(self) -> int:
        """Elements that wait, and one for each turn without any."""
        return self._enqueued_weight - self._dequeued_weight

    # --- getting a place ------------------------------------------------------------------------

    def note(self, kind: str, **members: Any) -> int:
        """Give something that is no input of a stream its record; called under the lock."""
        if self.journal is None:
            return 0
        self.order = self.journal.note(kind, members)
        return self.order

    def put(self, task: Task) -> None:
        """Queue a turn that has its number, if it is to have one.

        Raises:
            EngineStoppedError: nothing is worked off any more.
        """
        with self.lock:
            if self.closed:
                raise EngineStoppedError("the engine is stopped")
            self.delayed.append(task)
            if task.deferrable and len(self.delayed) <= _MAX_DELAYED:
                return
            for each in self.delayed:
                each.since = time.perf_counter()
                self._enqueued_weight += each.weight
                self.waiting.put(each)
            self.delayed.clear()

    def submit(self, task: AnyTask, kind: str, **members: Any) -> AnyTask:
        """Note a turn in the journal and queue it behind all that was accepted so far."""
        task.at = self.clock.now_ms()
        with self.lock:
            task.number = self.note(kind, now=task.at, **members)
            self.put(task)
        return task

    def require_open(self) -> None:
        """Raise EngineStoppedError while no inputs are accepted."""
        if not self.open:
            raise EngineStoppedError("the engine is not running")

    def require_ready(self) -> None:
        """Raise EngineStoppedError or StoreUnwritableError while no inputs can be accepted."""
        if not self.open or self.write_error is not None or (self.journal and self.journal.log.failure):
            self.require_open()
            self.require_writable()
        if self._commits.promised > self._commits.delivered:  # `follow_commits`, without a call per push
            self._commits.catch_up()

    def follow_commits(self) -> None:
        """Return when all commits that were answered have their places; called without the lock."""
        if self._commits.promised > self._commits.delivered:
            self._commits.catch_up()

    def require_writable(self) -> None:
        """Raise StoreUnwritableError while nothing can be made durable."""
        trouble = self.write_error
        if self.journal is not None and trouble is None:
            trouble = self.journal.log.failure
        if trouble is not None:
            raise StoreUnwritableError(trouble, hint=SPACE)

    def require_room(self, number: int, most: int) -> None:
        """Raise BackPressureError when so many further elements would be more than ``most`` in line."""
        weight = self.weight
        if weight and weight + number > most:
            raise BackPressureError(f"{weight} elements wait for the engine, the limit is {most}")

    def require_pace(self, stream: str, number: int, most: int) -> None:
        """Raise BackPressureError when all who read a stream are so many elements behind it."""
        lag = self.lag
        weight = 0 if lag is None else lag(stream)
        if weight and weight + number > most:
            raise BackPressureError(
                f"{weight} elements of {stream} wait for its readers, the limit is {most}"
            )

    def wait_durable(self, number: int) -> None:
        """Return when the journal has everything up to a record.

        Raises:
            StoreUnwritableError: not now.
        """
        journal = self.journal
        if journal is not None:
            began = time.perf_counter()
            if journal.log.durable < number:
                journal.log.wait(number)
            self.stages.log.noted.append(time.perf_counter() - began)

    # --- the turn at work -----------------------------------------------------------------------

    def record_outcome(self, kind: str, **members: Any) -> None:
        """Note what the turn at work has led to, where that does not follow from the order."""
        if self.journal is not None and not self.journal.silent:
            with self.lock:
                self.needed = self.note(kind, **members)

    def version_to_read(self, name: str) -> int | None:
        """In a replay the version that a query read its static parts at in this turn; else None."""
        return None if self.replayed_versions is None else self.replayed_versions.get(name, self.version)

    def after_refresh(self, name: str, version: int) -> None:
        """Note that a query has read its static parts at a version."""
        if version != self.version:
            self.record_outcome("seen", turn=self.number, query=name, version=version)

    # --- for the sequencer ----------------------------------------------------------------------

    def dequeue(self, seconds: float = 0.0) -> Task | None:
        """The next turn; None when none comes within so many seconds, or what is in line is left."""
        if self.closed and time.monotonic() > self.until:
            self.reject_queued()
        try:
            task = self.waiting.get(seconds > 0, seconds)
        except Empty:
            return None
        self._dequeued_weight += task.weight
        return task

    def close(self, until: float) -> None:
        """Accept nothing more, wait for the disk no longer, and from ``until`` on take no more turns."""
        with self.lock:
            if not self.closed:
                self.put(Task())  # wakes the engine's thread
                # Read without the lock: the time is there when it is closed.
                self.until, self.closed = until, True

    def reject_queued(self) -> None:
        """Leave what is in line to the next start, which finds it in the journal; who waits is told."""
        with suppress(Empty):
            while task := self.waiting.get_nowait():
                task.error, task.done = EngineStoppedError("the engine is stopped"), True
                if task.waiter is not None:
                    task.waiter.set()

    def is_done_within(self, task: Task, seconds: float) -> bool:
        """Wait for a turn that many seconds at most; False if it is not done by then.

        Raises:
            Exception: what working it off raised.
        """
        if not self._wait_until_done(task, seconds):
            return False
        if task.error is not None:
            raise task.error
        return True

    def _wait_until_done(self, task: Task, timeout: float | None) -> bool:
        if task.done:
            return True
        with self.lock:  # two may wait for one turn
            waiter = task.waiter = task.waiter or threading.Event()
        return task.done or waiter.wait(timeout)

    def wait(self, task: Task, timeout: float | None = None) -> Any:
        """Return when a turn is done; its result.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
            Exception: what working it off raised.
        """
        if not self._wait_until_done(task, timeout):
            raise TimeoutError(f"the engine did not get to it within {timeout} s")
        if task.error is not None:
            raise task.error
        return task.result
