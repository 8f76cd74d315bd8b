"""Threads: with a big stack for work that recurses deeply, for work that nobody waits for, or none."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

STACK_BYTES = 512 * 1024 * 1024
"""Virtual memory only: pages that are not touched cost nothing."""

_stack_size_lock = threading.Lock()


def with_big_stack(work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread with a stack of `STACK_BYTES` and give back its result or its exception.

    Whatever Oxigraph iterator ``work`` creates must be drained inside: iterators never change threads.
    """
    return start_with_big_stack(work, "quadrill-deep").result()


def start_with_big_stack(work: Callable[[], T], name: str) -> Future[T]:
    """What ``work`` gives in a daemon with a stack of `STACK_BYTES`: a process that ends does not wait."""
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
    """Where work is done: ``threaded`` those who ask for it, who may wait for it, or at once by them."""

    def __init__(self, *, threaded: bool) -> None:
        self.threaded = threaded

    def start(self, work: Callable[[], T], name: str) -> Future[T]:
        """Begin some work in a thread of its own, see `start_with_big_stack`."""
        if self.threaded:
            return start_with_big_stack(work, name)
        given: Future[T] = Future()
        _fulfil(work, given)
        return given

    def background(self, name: str) -> Background:
        """A thread that does one work after the other."""
        return Background(ThreadPoolExecutor(1, name) if self.threaded else None)


class Background:
    """Does what nobody waits for, one work after the other; without a pool at once."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def do(self, work: Callable[..., None], *arguments: Any) -> Future[None] | None:
        """Begin some work; nothing once it is closed. None where it is done already."""
        if self._pool is None:
            work(*arguments)
            return None
        with contextlib.suppress(RuntimeError):
            return self._pool.submit(work, *arguments)
        return None

    def do_later(self, seconds: float, work: Callable[..., None], *arguments: Any) -> bool:
        """Begin some work after a while; False without a thread, where that will never be."""
        if self._pool is not None:
            timer = threading.Timer(seconds, self.do, (work, *arguments))
            timer.daemon = True
            timer.start()
        return self._pool is not None

    def close(self, *, wait: bool = True) -> None:
        """Finish what was begun, and begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=True)
