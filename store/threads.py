"""Threads with a large stack for deep recursion, and threads for background work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

STACK_BYTES = 512 * 1024 * 1024
"""Stack size in bytes of a thread for deep recursion; untouched pages use no physical memory."""

_stack_size_lock = threading.Lock()


def with_big_stack(work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread with a stack of `STACK_BYTES`; return its result or raise its error.

    ``work`` must exhaust every Oxigraph iterator that it creates, because iterators must not change threads.
    """
    return start_with_big_stack(work, "quadrill-deep").result()


def start_with_big_stack(work: Callable[[], T], name: str) -> Future[T]:
    """Run ``work`` in a daemon thread with a stack of `STACK_BYTES`; return a future of its result."""
    given: Future[T] = Future()
    with _stack_size_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=_fulfil, args=(work, given), name=name, daemon=True).start()
        finally:
            threading.stack_size(before)
    return given


def _fulfil(work: Callable[[], T], given: Future[T]) -> None:
    try:
        given.set_result(work())
    except BaseException as error:
        given.set_exception(error)


class Threads:
    """Runs pieces of work in separate threads or, if ``threaded`` is False, in the calling thread."""

    def __init__(self, *, threaded: bool) -> None:
        self.threaded = threaded

    def start(self, work: Callable[[], T], name: str) -> Future[T]:
        """Start work in a thread as `start_with_big_stack` does, or run it in the calling thread."""
        if self.threaded:
            return start_with_big_stack(work, name)
        given: Future[T] = Future()
        _fulfil(work, given)
        return given

    def background(self, name: str) -> Background:
        """Return a background thread that executes one piece of work after another."""
        return Background(ThreadPoolExecutor(1, name) if self.threaded else None)


class Background:
    """Executes background work in order, in a thread of a pool; without a pool, in the calling thread."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def do(self, work: Callable[..., None], *arguments: Any) -> Future[None] | None:
        """Enqueue work for the background thread and return its future; None if there is no open pool."""
        if self._pool is None:
            work(*arguments)
            return None
        with contextlib.suppress(RuntimeError):
            return self._pool.submit(work, *arguments)
        return None

    def do_later(self, seconds: float, work: Callable[..., None], *arguments: Any) -> bool:
        """Enqueue background work after ``seconds``; without a pool, do nothing and return False."""
        if self._pool is not None:
            timer = threading.Timer(seconds, self.do, (work, *arguments))
            timer.daemon = True
            timer.start()
        return self._pool is not None

    def close(self, *, wait: bool = True) -> None:
        """Cancel queued background work and, if ``wait``, wait for the running work."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=True)
