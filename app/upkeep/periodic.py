"""Thread that periodically runs a piece of the server's upkeep, such as returning freed memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("quadrill.app")


class Periodic:
    """A thread that calls a function after each pause until the thread is stopped; errors are logged."""

    def __init__(self, name: str, work: Callable[[], object], pause_s: Callable[[], float]) -> None:
        """Create a thread that calls ``work`` periodically, without starting it.

        Args:
            name: name of the thread that calls ``work``.
            work: the function to call periodically; it may call `rest` to sleep.
            pause_s: returns the seconds before the next call of ``work``, the first call included.
        """
        self._name = name
        self._work = work
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lives(self) -> bool:
        """True while the thread that calls ``work`` is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread that calls ``work``; as a daemon it does not keep the process alive."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread that calls ``work``, if it was started, and wait for its end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def rest(self, seconds: float) -> bool:
        """Sleep within a call of ``work``; return True if the thread has to stop."""
        return self._stopping.wait(seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            try:
                self._work()
            except Exception:
                log.exception("The thread %s met an error and continues", self._name)
