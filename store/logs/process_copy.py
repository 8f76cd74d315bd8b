"""Copies of the process: work over the state of one moment that can be killed, next to work that changes it.

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
import time
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

COPIES = sys.platform.startswith("linux")
"""Whether processes are copied here. Elsewhere system libraries may not survive a fork among threads."""

_NICE = 5
"""By how much long work gives way to the process that it is a copy of."""
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if COPIES else None


class ChildLimits(NamedTuple):
    """What a child process may take before the system ends it; 0 is no limit.

    Attributes:
        seconds: of time, then it gets SIGALRM.
        bytes: of memory above that of the parent.
        nice: by how much it gives way to the parent.
    """

    seconds: float = 0.0
    bytes: int = 0
    nice: int = 0


class ChildProcess:
    """A copy of this process that does one piece of work and writes to a pipe.

    Attributes:
        pid: its number.
        pipe: the end to read from. It ends early when the child does.
        status: how it ended, as from `os.waitpid`; None before `end`.

    Raises:
        OSError: the system has no room for another process.
    """

    def __init__(self, work: Callable[[Connection], object], limits: ChildLimits | None = None) -> None:
        """Begin some work in a child. It gets the end to write to, and may not wait for a lock."""
        self.pipe, answer = Pipe(duplex=False)
        self.status: int | None = None
        self._cpu = 0.0
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                # Newer Pythons warn of forks among threads; what the copy does is written with them in mind.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
        except OSError:
            self.pipe.close()
            answer.close()
            raise
        if self.pid == 0:
            _work_and_end(work, answer, parent, limits or ChildLimits())
        answer.close()

    def cpu(self) -> float:
        """Return the seconds of CPU time that the child process has used."""
        if self.status is None and COPIES:
            # The number of the CPU clock of another process, see clock_getcpuclockid(3).
            with contextlib.suppress(OSError):
                self._cpu = time.clock_gettime(~self.pid << 3 | 2)
        return self._cpu

    def step_back(self) -> None:
        """Let it give way to this process from now on."""
        if self.status is None:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)

    def kill(self) -> None:
        """Kill the child process; the caller must still call `end`."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end and return its status; a second call does nothing."""
        if self.status is None:
            self.pipe.close()
            _, self.status, usage = os.wait4(self.pid, 0)
            self._cpu = usage.ru_utime + usage.ru_stime
        return self.status


class ForkedTask:
    """A child process that does one piece of work and reports a number.

    Raises:
        OSError: there is no room for another process.
    """

    def __init__(self, work: Callable[[], int]) -> None:
        """Begin some work in a copy; it gives a number to report, and may wait for no lock."""
        self._child = ChildProcess(partial(_report, work), ChildLimits(nice=_NICE))

    def wait(self, seconds: float) -> int:
        """The number reported.

        Raises:
            OSError: the work failed, or the copy ended without a report or took longer than ``seconds``.
        """
        report: int | str = ""
        child = self._child
        try:
            if not child.pipe.poll(seconds):
                self.stop()
                raise OSError(0, f"it took longer than {seconds:.0f} s")
            with contextlib.suppress(EOFError):
                report = child.pipe.recv()
        finally:
            status = child.end()
        if isinstance(report, int):
            return report
        raise OSError(0, report or f"the process that wrote it ended early, with status {status}")

    def stop(self) -> None:
        """End the copy; `wait` then raises."""
        self._child.kill()


def _report(work: Callable[[], int], answer: Connection) -> None:
    """In the child: send the number that some work gives, or why it failed."""
    report: int | str
    try:
        report = work()
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) else None
        report = reason or f"{type(error).__name__}: {error}"
    answer.send(report)


def _work_and_end(
    work: Callable[[Connection], object], answer: Connection, parent: int, limits: ChildLimits
) -> None:
    """Execute the work in the child process and exit; never returns."""
    try:
        gc.disable()
        _settle_in(answer.fileno(), parent, limits)
        work(answer)
    finally:
        os._exit(0)


def _settle_in(answer: int, parent: int, limits: ChildLimits) -> None:
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
    os.nice(limits.nice)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if limits.seconds:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    if limits.bytes:
        import resource  # not on Windows

        with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as file:
            most = int(file.read().split()[5]) * resource.getpagesize() + limits.bytes
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
