"""Sinks on a disk that is full for a while: each event once, `taken` counts what was written, no traces."""

from __future__ import annotations

import builtins
import errno
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.connectors import dead_letters, runner
from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.kinds import file_sink
from tests.app.conftest import Start
from tests.app.test_feed_streams import until

from .test_sinks import begin, push, put, state


class Disk:
    """Files of the sink's module; once ``room`` bytes are written the disk is full."""

    room: float = float("inf")

    def open(self, path: Any, mode: str = "r", *rest: Any) -> Any:
        file = builtins.open(path, mode, *rest)
        return file if mode == "rb" else File(self, file)

    def take(self, size: int) -> int:
        """The number of bytes that still fit."""
        fits = int(min(size, self.room))
        self.room -= fits
        return fits


class File:
    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Any:
        return iter(self._file)

    def write(self, data: bytes) -> int:
        fits = self._disk.take(len(data))
        self._file.write(data[:fits])
        self._file.flush()
        if fits < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return fits


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(file_sink, "open", found.open, raising=False)
    monkeypatch.setattr(runner, "MOST_WAIT_S", 0.2)
    monkeypatch.setattr(runner, "LEAST_WAIT_S", 0.1)
    return found


def traces(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info]


@pytest.mark.always("ndjson-70", "parquet-1500", "parquet-0")
@pytest.mark.parametrize("room", [0, 70, 1_500])
@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_taken_counts_what_was_written(
    start_server: Start,
    tmp_path: Path,
    disk: Disk,
    caplog: pytest.LogCaptureFixture,
    form: str,
    room: int,
) -> None:
    pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    server = start_server(sink_folder=str(tmp_path))
    begin(server)
    put(server, kind="file", path="answers", format=form, max_bytes=1_000, **{"from": 0})
    push(server, *range(1, 5))
    until(lambda: state(server)["position"] == 4)
    disk.room = room
    push(server, *range(5, 31))
    until(lambda: state(server)["state"] == "waiting")
    found = state(server)
    assert "No space left" in found["error"]
    until(lambda: state(server)["taken"] == state(server)["position"] < 30)
    disk.room = float("inf")
    until(lambda: state(server)["position"] == 30)
    until(lambda: state(server)["taken"] == 30)
    assert traces(caplog) == []
    if form == "ndjson":
        server.client.post("/sinks/it:stop")
        files = [*sorted(tmp_path.glob("answers-*.ndjson")), *tmp_path.glob("answers-*.part")]
        lines = [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]
        assert lines == list(range(1, 31))


def test_taken_counts_events_whose_part_could_not_be_finished(
    start_server: Start,
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    write, full = file_sink._write_parquet, True

    def refusing(part: Path, made: Path) -> None:
        made.write_bytes(b"half")
        if full:
            raise OSError(
                errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device"
            )
        write(part, made)

    monkeypatch.setattr(file_sink, "_write_parquet", refusing)
    server = start_server(sink_folder=str(tmp_path))
    begin(server)
    put(server, kind="file", path="answers", format="parquet", max_bytes=1_000, **{"from": 0})
    push(server, *range(1, 21))
    until(lambda: state(server)["state"] == "waiting")
    for number in range(21, 31):
        push(server, number)
    until(lambda: state(server)["position"] == 30)
    assert state(server)["taken"] == 30
    assert list(tmp_path.glob("*.making")) == [], "no half file is left"
    full = False
    push(server, 31)
    until(lambda: len(list(tmp_path.glob("*.parquet"))) >= 1)
    assert state(server)["taken"] == 31
    rows = [
        row["id"]
        for file in sorted(tmp_path.glob("*.parquet"))
        for row in parquet.read_table(file).to_pylist()
    ]
    assert rows == sorted(set(rows)) and rows[0] == 1
    assert traces(caplog) == []


def test_dead_letter_is_kept_in_memory_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    letters = DeadLetterFile(tmp_path / "x.ndjson")

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters.Path, "open", refuse)
        letters.add("record", "it was wrong")
    assert [each["record"] for each in letters.list()] == ["record"]
    assert "No space left" in caplog.text and traces(caplog) == []
