"""Thread that serves all long-lived pushes, so that they share each sync of the input log."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque

from quadrill.continuous.durable.tasks import TaskQueue

from .live_push import EndingError, LivePush

log = logging.getLogger("quadrill.server")

LOOK_SECONDS = 1.0


class PushLoop:
    """Loop of all long-lived pushes: read, process, wait for the input log, acknowledge.

    Attributes:
        pushes: the long-lived pushes that the loop serves.
    """

    def __init__(self, tasks: TaskQueue) -> None:
        self._tasks = tasks
        self.pushes: set[LivePush] = set()
        self._new: deque[LivePush] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._ending = False
        self._watched: dict[LivePush, int] = {}
        self._paused: set[LivePush] = set()

    def adopt(self, push: LivePush) -> bool:
        """Add a long-lived push to the loop; return False if the server is stopping."""
        with self._lock:
            if self._ending:
                return False
            self._new.append(push)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="quadrill-pushes", daemon=True)
                self._thread.start()
        self._rouse()
        return True

    def close(self) -> None:
        """Stop reading pushes, acknowledge all accepted messages, then end every long-lived push."""
        with self._lock:
            self._ending = True
            thread = self._thread
        if thread is not None:
            self._rouse()
            thread.join(3.0)
        for each in (self._wake, self._woken):
            each.close()

    def _rouse(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ, None)
            next_look = time.monotonic() + LOOK_SECONDS
            while not self._ending:
                try:
                    self._round(selector)
                    now = time.monotonic()
                    if now >= next_look:
                        next_look = now + LOOK_SECONDS
                        for push in list(self.pushes):
                            push.check_timeouts(now)
                            self._complete_round(selector, [push])
                except Exception:
                    log.exception("the thread of long-lived pushes met an error")
                    time.sleep(0.05)
            for push in list(self.pushes):
                push.fail(EndingError())
                self._complete_round(selector, [push])
                self._forget(selector, push)
                push.return_connection()

    def _round(self, selector: selectors.BaseSelector) -> None:
        """Process the messages of all ready connections, which share one wait for the input log."""
        busy: list[LivePush] = []
        ready = selector.select(self._pause())
        now = time.monotonic()
        for key, events in ready:
            push: LivePush | None = key.data
            if push is None:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            if events & selectors.EVENT_READ:
                push.read(now)
            busy.append(push)
        while self._new:
            push = self._new.popleft()
            self.pushes.add(push)
            push.open(now)
            busy.append(push)
        for push in [each for each in self._paused if each.resumes <= now]:
            push.work(now)
            busy.append(push)
        self._complete_round(selector, busy)

    def _pause(self) -> float:
        until = min((push.resumes for push in self._paused), default=0.0)
        return max(0.0, until - time.monotonic()) if until else LOOK_SECONDS

    def _complete_round(self, selector: selectors.BaseSelector, busy: list[LivePush]) -> None:
        """Wait until messages are durable in the input log, then acknowledge them to the clients."""
        number = max((push.number for push in busy), default=0)
        failure = None
        if number:
            try:
                self._tasks.wait_durable(number)
            except Exception as error:
                failure = error
        for push in busy:
            if failure is not None and push.number:
                push.fail(failure)
            push.acknowledge()
            push.send()
            if push.resumes:
                self._paused.add(push)
            else:
                self._paused.discard(push)
            if push.ended and not push.unsent and not push.resumes:
                self._forget(selector, push)
                push.return_connection()
            else:
                self._watch(selector, push)

    def _watch(self, selector: selectors.BaseSelector, push: LivePush) -> None:
        events = (selectors.EVENT_READ if push.reads else 0) | (selectors.EVENT_WRITE if push.unsent else 0)
        before = self._watched.get(push, 0)
        if events == before:
            return
        if not before:
            selector.register(push.connection.socket, events, push)
        elif events:
            selector.modify(push.connection.socket, events, push)
        else:
            selector.unregister(push.connection.socket)
        self._watched[push] = events

    def _forget(self, selector: selectors.BaseSelector, push: LivePush) -> None:
        self.pushes.discard(push)
        self._paused.discard(push)
        if self._watched.pop(push, 0):
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(push.connection.socket)
