"""Forked child processes, which work on a snapshot of the parent's memory and can be killed.

``fork`` gives the child the parent's whole memory by copying the page tables, which takes about 20 ms per
gigabyte; the system copies a memory page only when parent or child changes the page. A forked child has one
thread and must not wait for a lock. A forked child first closes all inherited files and sockets, so that it
keeps no client connection and no lock of the data folder open.
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
"""True on Linux, where this program may fork child processes.

On systems other than Linux, libraries may fail after a fork of a process with several threads.
"""

_NICE = 5
"""The increment of the nice value (lower CPU priority) of child processes that run for long."""
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if COPIES else None


class ChildLimits(NamedTuple):
    """The resource limits of a forked child process.

    Attributes:
        seconds: maximum running time, after which SIGALRM ends the child process; 0 is no limit.
        bytes: maximum data memory in addition to the memory of the parent; 0 is no limit.
        nice: the increment of the child's nice value, which lowers its CPU priority.
    """

    seconds: float = 0.0
    bytes: int = 0
    nice: int = 0


class ChildProcess:
    """A forked child process that executes one function and sends the result through a pipe.

    Attributes:
        pid: the process id of the child.
        pipe: the parent's end of the pipe, from which the parent reads; reading raises EOFError after the
            child has ended.
        status: the exit status of the child, as `os.waitpid` returns it; None before `end`.

    Raises:
        OSError: the system cannot create another process.
    """

    def __init__(self, work: Callable[[Connection], object], limits: ChildLimits | None = None) -> None:
        """Fork and call ``work`` in the child with the pipe's writing end; ``work`` must not use locks."""
        self.pipe, answer = Pipe(duplex=False)
        self.status: int | None = None
        self._cpu = 0.0
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                # Python 3.12 and newer warn when a process with several threads forks. The forked child takes
                # no lock, so Python's warning about threads does not apply.
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
            # The expression computes the id of the child's CPU clock, see clock_getcpuclockid(3).
            with contextlib.suppress(OSError):
                self._cpu = time.clock_gettime(~self.pid << 3 | 2)
        return self._cpu

    def step_back(self) -> None:
        """Lower the CPU priority of the child process below the priority of this process."""
        if self.status is None:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)

    def kill(self) -> None:
        """Kill the forked child process; the caller must still call `end`."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait until the child process ends and return its exit status; a second call does not wait."""
        if self.status is None:
            self.pipe.close()
            _, self.status, usage = os.wait4(self.pid, 0)
            self._cpu = usage.ru_utime + usage.ru_stime
        return self.status


class ForkedTask:
    """A forked child process that executes one function and returns an integer to the parent.

    Raises:
        OSError: the system cannot create another process.
    """

    def __init__(self, work: Callable[[], int]) -> None:
        """Fork and call ``work`` in the child; ``work`` returns the integer and must not wait for a lock."""
        self._child = ChildProcess(partial(_report, work), ChildLimits(nice=_NICE))

    def wait(self, seconds: float) -> int:
        """Wait for the forked child process and return the integer of its function.

        Raises:
            OSError: the function failed, or the child ended without a result or took longer than ``seconds``.
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
        """Kill the child process, so that `wait` raises OSError."""
        self._child.kill()


def _report(work: Callable[[], int], answer: Connection) -> None:
    """Call ``work`` in the child process; send its integer, or an error message, to the parent."""
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
    """Execute ``work`` in the forked child process and exit; never returns."""
    try:
        gc.disable()
        _set_up_child(answer.fileno(), parent, limits)
        work(answer)
    finally:
        os._exit(0)


def _set_up_child(answer: int, parent: int, limits: ChildLimits) -> None:
    """Prepare the child process: close files, set limits, and let the system kill the child with its parent.

    When memory is short, the Linux kernel kills the forked child process before other processes.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # The parent died before prctl, which asks for a signal at its death, took effect. A new server may
        # already use the data folder, so the child exits.
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
        import resource  # Windows has no module for this

        with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as file:
            most = int(file.read().split()[5]) * resource.getpagesize() + limits.bytes
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
