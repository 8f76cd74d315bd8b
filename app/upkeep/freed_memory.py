"""Periodic return of freed memory from the C library to the system.

RocksDB takes and frees small blocks in many threads. glibc keeps freed blocks in the arena of the thread.
Free pages in the middle of an arena stay with the process until ``malloc_trim``. Without the periodic
``malloc_trim``, such free memory grew by a megabyte per thousand updates.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

from .periodic import Periodic

CHECK_SECONDS = 60.0
LEAST_FREE_BYTES = 4 << 20
"""Minimum free bytes that are returned to the system; the C library soon needs smaller amounts again."""
_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)


_MALLINFO, _TRIM = _function("mallinfo2"), _function("malloc_trim")
if _MALLINFO is not None:
    _MALLINFO.restype = _MallInfo


class NativeMemory(NamedTuple):
    """Bytes of the C library's allocator: in use, and free in its arenas (whole pages may be returned)."""

    used: int
    free: int


def native_memory() -> NativeMemory | None:
    """Return the C library's bytes in use and free; None if it reports none (glibc before 2.33, musl)."""
    if _MALLINFO is None:
        return None
    found = _MALLINFO()
    return NativeMemory(found.uordblks + found.hblkhd, found.fordblks)


def return_freed(least: int = LEAST_FREE_BYTES) -> bool:
    """Return freed memory to the system if at least ``least`` bytes are free; return True if so."""
    figures = native_memory()
    if figures is None or _TRIM is None or figures.free < least:
        return False
    _TRIM(0)
    return True


class FreedMemory:
    """Upkeep that, while started, returns the C library's freed memory to the system once a minute."""

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        """Create the upkeep without starting it; ``seconds`` is the time between two checks."""
        self._thread = Periodic("quadrill-freed", return_freed, lambda: seconds)

    def start(self) -> None:
        """Start the thread that returns freed memory, if the C library can return memory."""
        if _MALLINFO is not None and _TRIM is not None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread that returns freed memory to the system."""
        self._thread.stop()
