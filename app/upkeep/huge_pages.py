"""Memory of a large process in pages of 2 MB, where the kernel has them: what lies far apart is met sooner.

Tables of millions of rows are met anywhere, and the processor remembers where 1,500 pages are. Python takes
memory in pieces of 1 MB, for which the kernel gives pages of 4 KB. Here a thread asks it to put together what
is in use, 2 MB at a time (``MADV_COLLAPSE``, Linux 6.1), and rests four times as long. What is together
already costs next to nothing. A copy of the process for a checkpoint is made sooner, too, as it copies one
entry for 512. Nothing happens in a small process, while memory is short, where the system's administrator has
turned such pages off, and on other systems.
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
"""A process that is smaller fits into what the processor remembers: nothing was gained."""
LOOK_SECONDS = 30.0
RESTS = 4.0
"""So many times as long as the kernel worked the thread rests."""
_PAGE = 2 << 20
_MOST_HOLES = 16
"""At most one part in so many of 2 MB may be unused: it becomes memory that is used."""
_SPENT_SECONDS = 0.005
_COLLAPSE = 25
_KERNEL = Path("/sys/kernel/mm/transparent_hugepage")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


class HugePages:
    """While started, looks at the memory of this process every half minute.

    Attributes:
        held: bytes in huge pages that the last look made or found.
    """

    def __init__(self, *, wanted: bool = True, least: int = LEAST_BYTES, rests: float = RESTS) -> None:
        """Nothing begins unless it is ``wanted``; ``least``: bytes of a process that is large."""
        self.held = 0
        self._wanted = wanted
        self._least = least
        self._rests = rests
        self._thread = Periodic("quadrill-pages", self.look, lambda: LOOK_SECONDS)

    def start(self) -> None:
        """Begin, where there are such pages."""
        if self._wanted and available():
            self._thread.start()

    def stop(self) -> None:
        """Look no more; what is together stays so."""
        self._thread.stop()

    def look(self) -> int:
        """Put together what is in use; the bytes that are in huge pages then."""
        held, spent = 0, 0.0
        if _resident() >= self._least and not _is_short():
            for place in _places(Path("/proc/self/maps").read_text("utf-8", "replace")):
                began = time.monotonic()
                fault = _put_together(place)
                if fault in (errno.ENOMEM, errno.EBUSY, errno.EPERM):  # there is none, here or in our limit
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
    """Whether the system lets programs ask for pages of 2 MB."""
    try:
        size = int((_KERNEL / "hpage_pmd_size").read_text("ascii"))
        return (
            _LIBC is not None and size == _PAGE and "[never]" not in (_KERNEL / "enabled").read_text("ascii")
        )
    except OSError:
        return False


def _places(maps: str) -> Iterator[int]:
    """Where a huge page may begin in private memory that is no file's, by ``/proc/self/maps``."""
    for line in maps.splitlines():
        addresses, rights, _, _, file, *name = line.split(maxsplit=5)
        if rights == "rw-p" and file == "0" and name in ([], ["[heap]"]):
            begin, end = (int(each, 16) for each in addresses.split("-"))
            yield from range(-(-begin // _PAGE) * _PAGE, end - _PAGE + 1, _PAGE)


def _put_together(place: int) -> int:
    """Make the 2 MB at an address one page, if they are in use; 0, or why they are not."""
    assert _LIBC is not None
    pages = _PAGE // os.sysconf("SC_PAGE_SIZE")
    used = (ctypes.c_char * pages)()
    address, length = ctypes.c_void_p(place), ctypes.c_size_t(_PAGE)
    if _LIBC.mincore(address, length, used) or used.raw.count(b"\1") < pages - pages // _MOST_HOLES:
        return errno.EAGAIN
    return ctypes.get_errno() if _LIBC.madvise(address, length, _COLLAPSE) else 0


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _is_short() -> bool:
    """Whether less than a sixteenth of the machine's memory is left."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    figures = {name: int(rest.split()[0]) for name, rest in (each.split(":") for each in lines)}
    return figures.get("MemAvailable", 0) < figures["MemTotal"] // 16
