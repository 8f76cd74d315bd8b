"""A thread that does one piece of upkeep again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("quadrill.app")


class Periodic:
    """Calls a function after each pause until it is stopped; an error of the function is logged."""

    def __init__(self, name: str, work: Callable[[], object], pause_s: Callable[[], float]) -> None:
        """Begin with `start`.

        Args:
            name: of the thread.
            work: what is done; it may `rest` in between.
            pause_s: gives the seconds before the next call, the first one included.
        """
        self._name = name
        self._work = work
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lives(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin, in a thread that does not keep the process alive."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, if it was started, and wait for its end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def rest(self, seconds: float) -> bool:
        """Wait within the work; True when it has to end."""
        return self._stopping.wait(seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            try:
                self._work()
            except Exception:
                log.exception("The thread %s met an error and goes on", self._name)
