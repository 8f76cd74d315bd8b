"""Memory that is in use comes into pages of 2 MB; its content stays, and holes are not filled."""

from __future__ import annotations

import errno
import mmap
import threading
from pathlib import Path

import pytest

from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep import huge_pages
from quadrill.app.upkeep.huge_pages import HugePages, available
from quadrill.app.wiring import open_services

MB = 1 << 20
MAPS = """\
55d000000000-55d000800000 rw-p 00000000 00:00 0                          [heap]
7f0000100000-7f0000700000 rw-p 00000000 00:00 0
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
7f0001000000-7f0001900000 r--p 00000000 00:00 0
7f0002000000-7f0002900000 rw-p 00000000 fe:00 1234                       /usr/lib/a library.so
7f0003000000-7f0003900000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7ffd00000000-7ffd00900000 rw-p 00000000 00:00 0                          [stack]
"""

needed = pytest.mark.skipif(not available(), reason="the kernel has no huge pages for programs")


def test_places_are_whole_pages_of_private_memory() -> None:
    found = [each // MB for each in huge_pages._places(MAPS)]
    heap, used = 0x55D000000000 // MB, 0x7F0000000000 // MB
    assert found == [*range(heap, heap + 8, 2), used + 2, used + 4, used + 8]


def in_huge_pages() -> int:
    """Bytes of this process in huge pages, as the kernel counts them."""
    (line,) = (
        each
        for each in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()
        if each.startswith("AnonHugePages")
    )
    return int(line.split()[1]) * 1024


@needed
def test_memory_in_use_comes_into_huge_pages_and_keeps_its_content() -> None:
    with mmap.mmap(-1, 34 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at : at + 8] = at.to_bytes(8, "big")
        before = in_huge_pages()
        pages = HugePages(least=0, rests=0)
        assert pages.combine() == pages.held >= 32 * MB
        assert in_huge_pages() - before >= 32 * MB
        again = pages.combine()
        assert again >= 32 * MB, "what is in huge pages already counts as well"
        for at in range(0, len(memory), mmap.PAGESIZE):
            assert memory[at : at + 8] == at.to_bytes(8, "big")


@needed
def test_memory_that_is_not_in_use_is_left_as_it_is() -> None:
    with mmap.mmap(-1, 64 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            if at // mmap.PAGESIZE % 8:
                memory[at] = 1
        pages = HugePages(least=0, rests=0)
        pages.combine()
        before = huge_pages._resident()
        pages.combine()
        assert huge_pages._resident() - before < 4 * MB


def test_a_small_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(huge_pages, "_collapse", lambda place: asked.append(place) or 0)
    pages = HugePages(least=1 << 50)
    assert pages.combine() == 0
    assert not asked


@needed
def test_a_look_ends_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_is_short", lambda: True)
    assert HugePages(least=0).combine() == 0


@needed
@pytest.mark.parametrize("fault", [errno.ENOMEM, errno.EBUSY, errno.EPERM])
def test_a_look_ends_where_there_is_no_huge_page(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    asked: list[int] = []

    def refuse(place: int) -> int:
        asked.append(place)
        return fault

    monkeypatch.setattr(huge_pages, "_collapse", refuse)
    assert HugePages(least=0).combine() == 0
    assert len(asked) == 1


def test_nothing_begins_where_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huge_pages, "_KERNEL", tmp_path)
    assert not available()
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    assert not available()
    pages = HugePages()
    pages.start()
    assert not pages._thread.lives
    pages.stop()


@needed
def test_a_server_looks_now_and_then_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "PASS_SECONDS", 0.01)
    looked = threading.Event()

    def look(pages: HugePages) -> int:
        pages.held = 12
        looked.set()
        return pages.held

    monkeypatch.setattr(HugePages, "combine", look)
    services = open_services(Settings(data=MEMORY, huge_pages=False))
    services.start()
    assert not services.pages._thread.lives
    services.close()
    services = open_services(Settings(data=MEMORY))
    services.start()
    try:
        assert looked.wait(30)
        assert b"\nquadrill_huge_pages_bytes 12.0\n" in services.metrics.text()
    finally:
        services.close()
