"""Work that recurses deeply, in a thread of its own with a big stack."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STACK_BYTES = 512 * 1024 * 1024
"""Virtual memory only: pages that are not touched cost nothing."""

_stack_size_lock = threading.Lock()


def with_big_stack(work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread with a stack of `STACK_BYTES` and give back its result or its exception.

    Whatever Oxigraph iterator ``work`` creates must be drained inside: iterators never change threads.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    start_with_big_stack(run, "quadrill-deep").join()
    if errors:
        raise errors[0]
    return results[0]


def start_with_big_stack(work: Callable[[], None], name: str) -> threading.Thread:
    """A started daemon thread with a stack of `STACK_BYTES`."""
    with _stack_size_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread
