"""Random files of one source, written while it reads: each line enters once, none of them late."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.declaration import read_members
from quadrill.app.connectors.kinds.file_source import FileSource
from quadrill.app.connectors.runner import Runner, source_runner
from quadrill.app.connectors.source import SOURCE_MEMBERS, SourceContext
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.partitions import Partitions
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.hosts import AllowedHosts
from tests.app.test_feed_streams import until


class Stream:
    """A stream whose elements are lines ``<time> <file>``, in place of an engine; nothing becomes idle."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.late: list[str] = []
        self.position: str | None = None
        self.seen: int | None = None
        self.partitions: Partitions | None = None

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        lines = body.decode().splitlines()
        for line in lines:
            at = int(line.split()[0])
            if self.seen is not None and at < self.seen:
                self.late.append(line)
        times = [int(line.split()[0]) for line in lines]
        if times and self.partitions is not None:
            self.seen = self.partitions.move(call.partition, max(times), self.seen)
        elif times:
            self.seen = max(max(times), self.seen or 0)
        self.lines += lines
        self.position = call.position[1]
        return {"accepted": len(lines)}

    def knows(self, name: str) -> bool:
        """Whether a file is a partition."""
        times = {} if self.partitions is None else self.partitions.times
        return any(each.endswith(f"/{name}") for each in list(times))

    def source_position(self, _stream: str, _source: str) -> str | None:
        return self.position

    def declare_partitions(
        self, _stream: str, source: str, waiting: Mapping[str, bool]
    ) -> Mapping[str, int | None] | None:
        if self.partitions is None and len(waiting) < 2:
            return None
        if self.partitions is None:
            self.partitions = Partitions(self.seen)
        named = {f"{source}/{name}": unread for name, unread in waiting.items()}
        self.partitions.declare(f"{source}/", named, 0)
        return self.partitions.times_of(f"{source}/")


class Writer:
    """Files with ascending times that are appended to, begun and rotated at random.

    Later times are written only when the source knows all names: what it reads before counts as seen.
    """

    def __init__(self, folder: Path, chance: random.Random, stream: Stream) -> None:
        self.folder, self.chance, self.written, self.now = folder, chance, list[str](), 0
        self.stream = stream
        self.names: list[str] = []
        for _ in range(chance.randrange(2, 5)):
            self.begin(0)

    def begin(self, first: int) -> None:
        """A new file whose times begin at one."""
        name = f"{self.chance.randrange(100):02}-{len(self.names)}.log"
        self.names.append(name)
        self.append(name, first)

    def append(self, name: str, first: int) -> None:
        """Up to 60 lines more, with or without the end of the last one."""
        times = sorted(self.chance.randrange(first, first + 1_000) for _ in range(self.chance.randrange(60)))
        lines = [f"{at} {name}" for at in times]
        with (self.folder / name).open("a") as file:
            file.writelines(f"{each}\n" for each in lines)
        self.written += lines
        self.now = max([self.now, *times])

    def step(self) -> None:
        """One change."""
        until(lambda: all(map(self.stream.knows, self.names)))
        name = self.chance.choice(self.names)
        kind = self.chance.random()
        if kind < 0.7:
            self.append(name, self.now)
        elif kind < 0.85 and len(self.names) < 12:
            self.begin(self.now)
        else:
            (self.folder / name).rename(self.folder / f"{name}.{time.time_ns()}")
            self.append(name, self.now)


def check(folder: Path, seed: int) -> None:
    chance, declared_ms = random.Random(seed), time.time_ns() // 1_000_000 - 1
    stream, letters = Stream(), DeadLetterFile(None)
    writer = Writer(folder, chance, stream)
    given = read_members(
        "a source",
        (*SOURCE_MEMBERS, *FileSource.members),
        {
            "kind": "file",
            "stream": "urn:s",
            "path": f"{folder}/*.log",
            "format": "application/x-ndjson",
            "every": "10ms",
            "batch": chance.choice([1, 7, 1_000]),
        },
    )
    streams, folders = cast(StreamService, stream), [folder.resolve()]

    def start() -> Runner:
        context = SourceContext("s", "urn:s", streams, AllowedHosts(), folders, letters)
        context.created_ms = declared_ms
        source = FileSource(given, context)
        runner = source_runner(source)
        runner.start()
        return runner

    for _ in range(chance.randrange(1, 4)):
        runner = start()
        for _ in range(chance.randrange(12)):
            writer.step()
            time.sleep(chance.choice([0, 0, 0.002, 0.02]))
        if chance.random() < 0.5:
            until(lambda: len(stream.lines) >= len(writer.written))
        assert runner.stop()
    runner = start()
    try:
        until(lambda: len(stream.lines) >= len(writer.written))
    finally:
        assert runner.stop()
    assert sorted(stream.lines) == sorted(writer.written)
    assert (stream.late, letters.list()) == ([], [])


@pytest.mark.parametrize("seed", range(6))
def test_each_line_enters_once_and_in_time(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_each_line_of_many_files_enters_once_and_in_time(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)
