"""Memory that the C library keeps after the database has freed it, returned to the system now and then.

RocksDB takes and frees small blocks in many threads. glibc keeps freed blocks in the arena of the thread.
Free pages in the middle of an arena stay with the process until ``malloc_trim``. Under steady updates this
memory grew by a megabyte for each thousand of them.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

from .periodic import Periodic

CHECK_SECONDS = 60.0
LEAST_FREE_BYTES = 4 << 20
"""Less than this is left to the C library, which needs it again at once."""
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
    """The allocator's figures now; None where the C library has none (glibc before 2.33, musl)."""
    if _MALLINFO is None:
        return None
    found = _MALLINFO()
    return NativeMemory(found.uordblks + found.hblkhd, found.fordblks)


def return_freed(least: int = LEAST_FREE_BYTES) -> bool:
    """Return freed memory to the system if it is ``least`` bytes or more; True when that was done."""
    figures = native_memory()
    if figures is None or _TRIM is None or figures.free < least:
        return False
    _TRIM(0)
    return True


class FreedMemory:
    """While started, returns freed memory to the system once a minute."""

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        """Begin with `start`; ``seconds`` between two checks."""
        self._thread = Periodic("quadrill-freed", return_freed, lambda: seconds)

    def start(self) -> None:
        """Begin, where the C library can."""
        if _MALLINFO is not None and _TRIM is not None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._thread.stop()
