"""Use of 2 MB pages for the memory of a large process, which makes random accesses faster.

Tables of millions of rows are accessed at random, and the processor caches the addresses of some 1,500 pages.
Python allocates memory in pieces of 1 MB, for which the kernel provides pages of 4 KB. A thread asks the
kernel to combine used memory into huge pages, 2 MB at a time (``MADV_COLLAPSE``, Linux 6.1), and then sleeps
four times as long as the kernel worked. A request for memory that is a huge page already costs almost
nothing. Huge pages also make the fork for a checkpoint faster, because the kernel copies one page table entry
in place of 512. The thread that makes huge pages does nothing in a small process, while memory is short, if
the administrator has disabled huge pages, and on systems other than Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .periodic import Periodic

LEAST_BYTES = 256 << 20
"""Minimum bytes of a process for huge pages; measurements showed no gain for smaller processes."""
PASS_SECONDS = 30.0
PAUSE_RATIO = 4.0
"""Ratio of the thread's pause to the time for which the kernel worked to combine pages."""
_PAGE = 2 << 20
_MOST_HOLES = 16
"""At most 1/16 of a 2 MB range may be unused, because a huge page makes the unused part resident."""
_SPENT_SECONDS = 0.005
_COLLAPSE = 25
_KERNEL = Path("/sys/kernel/mm/transparent_hugepage")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


class HugePages:
    """Upkeep that, while started, combines memory of this process into huge pages every half minute.

    Attributes:
        held: bytes that were in huge pages after the last pass over the process's memory.
    """

    def __init__(self, *, wanted: bool = True, least: int = LEAST_BYTES, rests: float = PAUSE_RATIO) -> None:
        """Create the upkeep, off unless ``wanted``; huge pages need a process of ``least`` bytes."""
        self.held = 0
        self._wanted = wanted
        self._least = least
        self._rests = rests
        self._thread = Periodic("quadrill-pages", self.combine, lambda: PASS_SECONDS)

    def start(self) -> None:
        """Start the thread that combines memory, if the system has huge pages."""
        if self._wanted and available():
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread that combines memory; existing huge pages stay."""
        self._thread.stop()

    def combine(self) -> int:
        """Combine used memory into huge pages; return the bytes in huge pages."""
        held, spent = 0, 0.0
        if _resident() >= self._least and not _is_short():
            for place in _places(Path("/proc/self/maps").read_text("utf-8", "replace")):
                began = time.monotonic()
                fault = _collapse(place)
                if fault in (
                    errno.ENOMEM,
                    errno.EBUSY,
                    errno.EPERM,
                ):  # the system has no free huge page, or the process reached its memory limit
                    break
                held += 0 if fault else _PAGE
                spent += time.monotonic() - began
                if spent > _SPENT_SECONDS:
                    if self._thread.rest(spent * self._rests):
                        break
                    spent = 0.0
        self.held = held
        return held


def available() -> bool:
    """Return True if the system lets programs request 2 MB pages."""
    try:
        size = int((_KERNEL / "hpage_pmd_size").read_text("ascii"))
        return (
            _LIBC is not None and size == _PAGE and "[never]" not in (_KERNEL / "enabled").read_text("ascii")
        )
    except OSError:
        return False


def _places(maps: str) -> Iterator[int]:
    """Yield addresses in private anonymous memory where a huge page may start; ``maps`` as in /proc/self."""
    for line in maps.splitlines():
        addresses, rights, _, _, file, *name = line.split(maxsplit=5)
        if rights == "rw-p" and file == "0" and name in ([], ["[heap]"]):
            begin, end = (int(each, 16) for each in addresses.split("-"))
            yield from range(-(-begin // _PAGE) * _PAGE, end - _PAGE + 1, _PAGE)


def _collapse(place: int) -> int:
    """Make one huge page of the 2 MB at an address, if 15/16 are in use; return 0 or the error number."""
    assert _LIBC is not None
    pages = _PAGE // os.sysconf("SC_PAGE_SIZE")
    used = (ctypes.c_char * pages)()
    address, length = ctypes.c_void_p(place), ctypes.c_size_t(_PAGE)
    if _LIBC.mincore(address, length, used) or used.raw.count(b"\1") < pages - pages // _MOST_HOLES:
        return errno.EAGAIN
    return ctypes.get_errno() if _LIBC.madvise(address, length, _COLLAPSE) else 0


def _resident() -> int:
    """Return the resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _is_short() -> bool:
    """Return True if less than a sixteenth of the machine's memory is available."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    figures = {name: int(rest.split()[0]) for name, rest in (each.split(":") for each in lines)}
    return figures.get("MemAvailable", 0) < figures["MemTotal"] // 16
