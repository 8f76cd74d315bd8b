"""Memory that the C library keeps is returned to the system."""

from __future__ import annotations

import ctypes
import threading

import pytest

from quadrill.app.upkeep.freed_memory import FreedMemory, native_memory, return_freed
from tests.app.conftest import LiveServer
from tests.app.test_flood import figure
from tests.app.test_server import eventually

MOST_OF = 8 << 20


@pytest.fixture
def freed() -> None:
    """16 MB of small blocks of which all but a few were freed, so that glibc cannot shrink the heap."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(ctypes.c_size_t(4096)) for _ in range(4096)]
    kept = set(blocks[::64])
    for each in blocks:
        if each not in kept:
            libc.free(each)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


needs_glibc = pytest.mark.skipif(native_memory() is None, reason="the C library has no mallinfo2")


@needs_glibc
def test_freed_blocks_between_used_ones_are_returned(freed: None) -> None:
    figures = native_memory()
    assert figures is not None
    assert figures.free > MOST_OF
    before = resident()
    assert return_freed()
    assert resident() < before - MOST_OF // 2


@needs_glibc
def test_little_memory_is_left_alone() -> None:
    assert not return_freed(least=1 << 40)


@needs_glibc
def test_thread_returns_memory_until_it_is_stopped(freed: None) -> None:
    before = resident()
    upkeep = FreedMemory(seconds=0.01)
    upkeep.start()
    try:
        eventually(lambda: resident() < before - MOST_OF // 2)
    finally:
        upkeep.stop()
    assert "quadrill-freed" not in [each.name for each in threading.enumerate()]


@needs_glibc
def test_figures_of_native_memory(server: LiveServer) -> None:
    assert figure(server, "quadrill_native_used_bytes") > 0
    assert figure(server, "quadrill_native_free_bytes") >= 0
