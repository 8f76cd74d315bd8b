"""The segmented log: numbers, group commit, broken tails, no space, forgetting."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.store.errors import StoreFormatError, StoreUnwritableError
from quadrill.store.logs import input_log, marks
from quadrill.store.logs.input_log import SegmentedLog
from quadrill.store.logs.segments import damage_of, record_of


def filled(folder: Path, number: int, **options: Any) -> SegmentedLog:
    log = SegmentedLog(folder, **options)
    for _ in range(number):
        log.append(b"payload %d" % (log.last + 1))
    log.wait(log.last)
    return log


def numbers(log: SegmentedLog, after: int = 0) -> list[int]:
    found = list(log.read(after))
    assert all(payload == b"payload %d" % number for number, payload in found)
    return [number for number, _ in found]


def test_records_are_read_back_in_order_over_files_and_restarts(tmp_path: Path) -> None:
    for start in (0, 40, 80):
        log = filled(tmp_path, 0, segment_bytes=200)
        assert log.last == start
        for _ in range(40):
            log.append(b"payload %d" % (log.last + 1))
            log.wait(log.last)
        assert numbers(log) == list(range(1, start + 41))
        assert numbers(log, after=start + 7) == list(range(start + 8, start + 41))
        log.close()
    assert len(list(tmp_path.glob("*.log"))) > 5


def test_what_is_not_durable_is_not_read(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    log.append(b"payload 4")
    assert numbers(log) == [1, 2, 3]
    log.close()
    assert numbers(SegmentedLog(tmp_path)) == [1, 2, 3, 4]


@pytest.mark.parametrize("cut", range(1, 34))
def test_a_tail_cut_off_anywhere_loses_that_record_only(tmp_path: Path, cut: int) -> None:
    filled(tmp_path, 5).close()
    file = next(tmp_path.glob("*.log"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    log = SegmentedLog(tmp_path)
    left = 4 if cut <= 25 else 3
    assert (log.last, numbers(log)) == (left, list(range(1, left + 1)))
    assert log.cut_bytes == (25 - cut) % 25
    log.append(b"payload %d" % (left + 1))
    log.close()
    assert numbers(SegmentedLog(tmp_path)) == list(range(1, left + 2))


def test_a_flipped_bit_at_the_end_is_cut_away_and_one_before_the_end_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path, 60, segment_bytes=200).close()
    filled(tmp_path, 60, segment_bytes=200).close()
    files = sorted(tmp_path.glob("*.log"))
    assert len(files) > 1
    data = bytearray(files[0].read_bytes())
    data[40] ^= 4
    files[0].write_bytes(data)
    log = SegmentedLog(tmp_path)
    with pytest.raises(StoreFormatError, match="damaged behind record"):
        list(log.read())


def flip(path: Path, place: int) -> bytes:
    """Damage 16 bytes of a file; what it was."""
    data = path.read_bytes()
    path.write_bytes(
        data[:place] + bytes(byte ^ 0x5A for byte in data[place : place + 16]) + data[place + 16 :]
    )
    return data


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("place", [0, 3, 24, 25, 390, 740])
def test_a_damaged_middle_is_refused_and_nothing_is_overwritten(
    tmp_path: Path, marked: bool, place: int
) -> None:
    folder = tmp_path / "input"
    filled(folder, 60, marked=marked).close()
    file = next(folder.glob("*.log"))
    flip(file, place)
    before = file.read_bytes()
    ends = [sum(16 + len(b"payload %d" % each) for each in range(1, number + 1)) for number in range(61)]
    whole = sum(end <= place for end in ends) - 1
    torn = 2 if place + 16 > ends[whole + 1] else 1
    with pytest.raises(StoreFormatError, match=f"damaged behind record {whole}, at byte") as caught:
        SegmentedLog(folder, marked=marked)
    assert f"{60 - whole - torn} records behind that are readable" in caught.value.message
    assert "quadrill repair --drop-damaged" in str(caught.value.hint)
    assert file.read_bytes() == before and not (folder / "damaged").exists()


def test_records_behind_damage_are_found_over_zeros_and_other_damage(tmp_path: Path) -> None:
    filled(tmp_path, 600).close()
    file = next(tmp_path.glob("*.log"))
    data = file.read_bytes()
    file.write_bytes(data[:1000] + bytes(5_000_000) + data[1000:5000] + b"\xff" * 40 + data[5040:])
    damage = damage_of(file)
    assert damage is not None
    assert (damage.number, damage.next, damage.last) == (39, 40, 600)
    assert damage.behind == 600 - 39 - 2


def test_a_torn_tail_is_cut_away_and_a_copy_of_it_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    filled(folder, 5, marked=True).close()
    file = next(folder.glob("*.log"))
    whole, group = file.read_bytes(), b"".join(record_of(number, b"x" * 40) for number in (6, 7, 8))
    # Power was lost within a group: the disk has a part of it only, and not the first.
    torn = bytes(20) + group[20:]
    file.write_bytes(whole + torn)
    log = SegmentedLog(folder, marked=True, aside=tmp_path / "damaged")
    assert (log.last, log.cut_bytes) == (5, len(torn))
    assert [kept.read_bytes() for kept in (tmp_path / "damaged").iterdir()] == [torn]
    assert file.read_bytes() == whole
    log.close()


def test_a_log_that_lacks_what_was_durable_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    log = filled(folder, 0, marked=True, segment_bytes=200)
    for _ in range(60):
        log.wait(log.append(b"payload %d" % (log.last + 1)))
    log.trim(before=20)
    earliest = log.earliest
    log.close()
    assert earliest > 8
    files = sorted(folder.glob("*.log"))
    SegmentedLog(folder, marked=True).close()
    for gone, told in (
        (files[0], f"lacks its records {earliest} to"),
        (files[-1], "to 60, which were durable"),
    ):
        data = gone.read_bytes()
        gone.unlink()
        with pytest.raises(StoreFormatError, match=told):
            SegmentedLog(folder, marked=True)
        gone.write_bytes(data)
    # A file of the middle is missed when it is read.
    files[3].unlink()
    log = SegmentedLog(folder, marked=True)
    with pytest.raises(StoreFormatError, match="lacks its records"):
        list(log.read())
    log.close()


@pytest.mark.parametrize("cut", [1, 26, 30])
def test_a_tail_that_was_durable_is_not_cut_away(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "input"
    log = filled(folder, 50, marked=True)
    file = next(folder.glob("*.log"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with pytest.raises(StoreFormatError, match="damaged behind record|lacks its records 50 to 50"):
        SegmentedLog(folder, marked=True)
    assert file.read_bytes() == whole[:-cut]
    file.write_bytes(whole)
    (tmp_path / "input.mark").write_bytes(b"damaged, says nothing")
    SegmentedLog(folder, marked=True).close()
    log.close()


def test_without_syncs_nothing_is_marked(tmp_path: Path) -> None:
    folder = tmp_path / "input"
    filled(folder, 3, marked=True).close()
    assert (tmp_path / "input.mark").exists()
    filled(folder, 3, marked=True, sync="off").close()
    assert not (tmp_path / "input.mark").exists()


def test_many_threads_share_syncs_and_each_waits_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = [0]
    original = os.fdatasync

    def counted(file: int) -> None:
        syncs[0] += 1
        time.sleep(0.002)  # as a disk takes; one in memory is through before anybody else comes
        original(file)

    monkeypatch.setattr(input_log.os, "fdatasync", counted)
    log = SegmentedLog(tmp_path, sync="interval", interval_ms=5)

    def work() -> None:
        for _ in range(25):
            number = log.append(b"x")
            log.wait(number)
            assert log.durable >= number

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.last == log.durable == 200
    assert syncs[0] < 120, "eight threads that wait share a sync"
    log.close()


def test_without_space_nothing_is_torn_and_it_goes_on_when_there_is_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 3)
    original = os.write
    full = [True]

    def write(file: int, data: Any) -> int:
        if not full[0]:
            return original(file, data)
        if len(data) > 10:
            return original(file, bytes(data[:10]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(input_log.os, "write", write)
    number = log.append(b"payload 4")
    with pytest.raises(StoreUnwritableError, match="No space left"):
        log.wait(number)
    assert log.failure is not None and "No space left" in log.failure
    assert numbers(SegmentedLog(tmp_path)) == [1, 2, 3]
    full[0] = False
    log.wait(number)
    assert log.failure is None
    log.close()
    assert numbers(SegmentedLog(tmp_path)) == [1, 2, 3, 4]


def test_forgetting_deletes_whole_files_and_never_what_is_needed(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path, segment_bytes=100)
    for number in range(1, 41):
        log.append(b"payload %d" % number)
        log.wait(number)
    log.trim(before=20)
    assert 1 < log.earliest <= 20
    assert set(range(20, 41)) <= set(numbers(log))
    log.trim_to_size(0, before=30)
    assert 20 < log.earliest <= 30
    log.close()
    again = SegmentedLog(tmp_path)
    assert (again.last, numbers(again)[-1]) == (40, 40)
    again.close()


def test_a_file_stays_while_the_mark_cannot_say_that_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "input"
    log = SegmentedLog(folder, segment_bytes=100, marked=True)
    for number in range(1, 21):
        log.append(b"payload %d" % number)
        log.wait(number)
    before = sorted(folder.glob("*.log"))

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(input_log.os, "pwrite", full)
        log.trim(before=20)
        log.trim_to_size(0, before=20)
        assert sorted(folder.glob("*.log")) == before and log.earliest == 1
        again = SegmentedLog(folder, marked=True)
        assert numbers(again) == list(range(1, 21))
        again.close()
    log.trim(before=20)
    assert len(sorted(folder.glob("*.log"))) < len(before)
    log.close()
    again = SegmentedLog(folder, marked=True)
    assert numbers(again)[-1] == 20
    again.close()


def test_a_file_stays_while_the_mark_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "input"
    log = SegmentedLog(folder, segment_bytes=100, marked=True)
    for number in range(1, 21):
        log.append(b"payload %d" % number)
        log.wait(number)
    before = sorted(folder.glob("*.log"))

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(marks.os, "fsync", broken)
        assert not log.trim(before=20)
    assert sorted(folder.glob("*.log")) == before and log.earliest == 1
    assert "the mark of the input log cannot be written" in caplog.text
    again = SegmentedLog(folder, marked=True)
    assert numbers(again) == list(range(1, 21)), "the mark does not say that anything is gone"
    again.close()
    assert log.trim(before=20) and len(sorted(folder.glob("*.log"))) < len(before)
    log.close()
