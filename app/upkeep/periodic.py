"""Thread that runs a piece of upkeep periodically."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("quadrill.app")


class Periodic:
    """Calls a function after each pause until it is stopped; an error of the function is logged."""

    def __init__(self, name: str, work: Callable[[], object], pause_s: Callable[[], float]) -> None:
        """Create the thread, started by `start`.

        Args:
            name: name of the thread.
            work: the function to call; it may call `rest`.
            pause_s: returns the seconds before the next call, the first call included.
        """
        self._name = name
        self._work = work
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lives(self) -> bool:
        """True while the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, which does not keep the process alive."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, if it was started, and wait for its end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def rest(self, seconds: float) -> bool:
        """Sleep within ``work``; return True if the thread has to stop."""
        return self._stopping.wait(seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            try:
                self._work()
            except Exception:
                log.exception("The thread %s met an error and continues", self._name)
