"""The engine's queue and thread: inputs are worked off one after the other, in the order of acceptance."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..errors import EngineStoppedError
from ..meters import Stages

log = logging.getLogger("quadrill.continuous")

T = TypeVar("T")


class Ticket(Generic[T]):
    """The promise of one item's result."""

    def __init__(self) -> None:
        # Held until the item is worked off; a lock costs a fraction of an event.
        self._pending = threading.Lock()
        self._pending.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None

    def resolve(self, result: T | None = None, error: BaseException | None = None) -> None:
        """The item was worked off."""
        self._result, self._error = result, error
        self._pending.release()

    def wait(self, timeout: float | None = None) -> T:
        """The result, or the exception that the work raised.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        if not self._pending.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError(f"the engine did not get to it within {timeout} s")
        self._pending.release()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # None is the result of work without one


@dataclass(slots=True)
class Item:
    """One unit of work that came at ``since``; ``weight`` counts its elements, 1 when it has none."""

    work: Callable[[], Any]
    weight: int
    since: float
    ticket: Ticket[Any] = field(default_factory=Ticket)


class WorkLoop:
    """A first-in first-out queue worked off by one thread, or by whoever submits when not threaded.

    ``pause`` keeps the loop between two items, so that other threads can look at a settled state.
    """

    def __init__(
        self,
        *,
        threaded: bool,
        tick: Callable[[], float],
        settle: Callable[[], None] = lambda: None,
        stages: Stages | None = None,
    ) -> None:
        """Make a loop.

        Args:
            threaded: False works items off in the submitting thread.
            tick: called by the thread when it has nothing to do; gives the seconds until its next call.
            settle: called after some items, before their tickets are resolved.
            stages: told how long items wait and take.
        """
        self._threaded = threaded
        self._tick = tick
        self._settle = settle
        self._stages = stages or Stages()
        self._done: list[tuple[Ticket[Any], Any, BaseException | None]] = []
        self._items: deque[Item] = deque()
        self._ready = threading.Condition()
        self._working = threading.RLock()
        self._busy = False
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._weight = 0

    @property
    def weight(self) -> int:
        """Elements that wait, and one for each input without any."""
        return self._weight

    @property
    def waiting(self) -> int:
        """Inputs that wait."""
        return len(self._items)

    def start(self) -> None:
        """Begin to work."""
        if self._threaded and self._thread is None:
            self._stopping = False
            self._thread = threading.Thread(target=self._run, name="quadrill-engine", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Work off what waits, then end the thread."""
        thread = self._thread
        with self._ready:
            self._stopping = True
            self._ready.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._thread = None

    @property
    def alive(self) -> bool:
        """True while items are worked off."""
        if self._stopping or not self._threaded:
            return not self._stopping
        return self._thread is not None and self._thread.is_alive()

    def submit(self, work: Callable[[], T], *, weight: int = 1) -> Ticket[T]:
        """Queue some work.

        Args:
            work: called in the loop; its exception goes to the ticket.
            weight: elements in it, 1 for an input without any.

        Raises:
            EngineStoppedError: the loop was stopped.
        """
        item = Item(work, weight, time.perf_counter())
        with self._ready:
            if self._stopping:
                raise EngineStoppedError("the engine is stopped")
            self._items.append(item)
            self._weight += weight
            self._ready.notify_all()
        if not self._threaded:
            self.drain()
        return item.ticket

    def call(self, work: Callable[[], T], timeout: float | None = None) -> T:
        """Do some work in its turn and wait for it; at once when the caller is the loop itself."""
        if self.inside:
            return work()
        return self.submit(work).wait(timeout)

    @property
    def threaded(self) -> bool:
        """False when whoever submits works off."""
        return self._threaded

    @property
    def inside(self) -> bool:
        """True when the caller is the loop itself."""
        return threading.current_thread() is self._thread if self._threaded else self._busy

    def drain(self) -> None:
        """Not threaded: work off everything that waits."""
        with self._working:
            if self._busy:
                return
            self._busy = True
            try:
                while (item := self._next()) is not None:
                    self._work_off(item)
                    self._resolve()
            finally:
                self._busy = False

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Keep the loop between two items while the caller looks."""
        with self._working:
            yield

    def _next(self) -> Item | None:
        with self._ready:
            if not self._items:
                return None
            item = self._items.popleft()
            self._weight -= item.weight
            return item

    def _work_off(self, item: Item) -> None:
        began = time.perf_counter()
        self._stages.queue.observe(began - item.since)
        try:
            result = item.work()
        except Exception as error:
            self._done.append((item.ticket, None, error))
        else:
            self._done.append((item.ticket, result, None))
        self._stages.process.observe(time.perf_counter() - began)

    def _resolve(self) -> None:
        """What the items caused is settled, then those who wait for them go on."""
        failure: BaseException | None = None
        try:
            self._settle()
        except Exception as error:
            failure = error
            log.warning("what was worked off could not be settled: %s", error)
        done, self._done = self._done, []
        for ticket, result, raised in done:
            ticket.resolve(result, raised or failure)

    def _run(self) -> None:
        while True:
            try:
                with self._working:
                    wait = self._tick()
            except Exception:
                log.exception("a tick of the engine failed")
                wait = 1.0
            with self._ready:
                if not self._items and not self._stopping:
                    self._ready.wait(wait)
                if not self._items and self._stopping:
                    return
            # A bounded number of items between two ticks, so that time goes on under load.
            for _ in range(64):
                item = self._next()
                if item is None:
                    break
                with self._working:
                    self._work_off(item)
            self._resolve()
