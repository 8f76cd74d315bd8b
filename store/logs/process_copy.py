"""Writing the state of a moment beside the work that changes it: by a copy of the process.

``fork`` gives the copy the whole state of that moment at the price of the page tables, about 20 ms a
gigabyte; pages are copied only as either side changes them. The copy has one thread and waits for no lock; it
closes every file and socket at once, so that neither clients nor locks of the data folder hang on it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

COPIES = sys.platform.startswith("linux")
"""Whether processes are copied here. Elsewhere system libraries may not survive a fork among threads."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if COPIES else None


class Copy:
    """A copy of this process that does one piece of work.

    Raises:
        OSError: there is no room for another process.
    """

    def __init__(self, work: Callable[[], int]) -> None:
        """Begin some work in a copy; it gives a number to report, and may wait for no lock."""
        self._report, answer = Pipe(duplex=False)
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                # Newer Pythons warn of forks among threads; what the copy does is written with them in mind.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pid = os.fork()
        except OSError:
            self._report.close()
            answer.close()
            raise
        if self._pid == 0:
            _work_and_end(work, answer, parent)
        answer.close()

    def wait(self, seconds: float) -> int:
        """The number reported.

        Raises:
            OSError: the work failed, or the copy ended without a report or took longer than ``seconds``.
        """
        told: int | str = ""
        try:
            if not self._report.poll(seconds):
                self.stop()
                raise OSError(0, f"it took longer than {seconds:.0f} s")
            with contextlib.suppress(EOFError):
                told = self._report.recv()
        finally:
            self._report.close()
            _, status = os.waitpid(self._pid, 0)
        if isinstance(told, int):
            return told
        raise OSError(0, told or f"the process that wrote it ended early, with status {status}")

    def stop(self) -> None:
        """End the copy; `wait` then raises."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


def _work_and_end(work: Callable[[], int], answer: Connection, parent: int) -> None:
    """In the copy; never returns."""
    told: int | str = ""
    try:
        gc.disable()
        _settle_in(answer.fileno(), parent)
        told = work()
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) else None
        told = reason or f"{type(error).__name__}: {error}"
    finally:
        try:
            answer.send(told)
        finally:
            os._exit(0)


def _settle_in(answer: int, parent: int) -> None:
    """Become a quiet process of its own that ends with its parent; where memory is short it goes first."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It was killed before it could be followed: a server that comes after it may be reading the folder.
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.closerange(3, answer)
    os.closerange(answer + 1, os.sysconf("SC_OPEN_MAX"))
    os.nice(5)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
