"""File sources step by step: what happens between two looks at a folder, with an engine and no threads."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.declaration import read_members
from quadrill.app.connectors.errors import ConnectorError, StoppedError
from quadrill.app.connectors.kinds import file_tail
from quadrill.app.connectors.kinds.file_marks import OpenFile
from quadrill.app.connectors.kinds.file_source import FileSource
from quadrill.app.connectors.runner import Runner
from quadrill.app.connectors.source import SOURCE_MEMBERS, SourceContext
from quadrill.app.describing.streams import describe_stream
from quadrill.store.hosts import AllowedHosts
from tests.app.test_feed_streams import until
from tests.continuous.engines import Bench, S, bench, tick


class Steps(SourceContext):
    """The context of a source that does the next step whenever the source waits, and then ends."""

    steps: list[Callable[[], object]]
    killed: Callable[[], bool] = staticmethod(lambda: False)

    def _enter(self, *given: Any, **named: Any) -> dict[str, Any]:
        answer = super()._enter(*given, **named)
        if self.killed():
            raise StoppedError  # the source does not get to know that the push has entered
        return answer

    def sleep(self, seconds: float) -> None:
        if seconds and not self.steps:
            raise StoppedError
        if seconds:
            self.steps.pop(0)()


def run(
    one: Bench,
    folder: Path,
    *steps: Callable[[], object],
    path: str = "*",
    killed: Callable[[], bool] = lambda: False,
    **members: Any,
) -> Steps:
    """One life of a source."""
    given = {"kind": "file", "stream": S, "path": f"{folder}/{path}", "format": "application/x-ndjson"}
    letters = DeadLetterFile(None)
    context = Steps("it", S, one.engine.streams, AllowedHosts(), [folder.resolve()], letters)
    context.created_ms = 0
    context.steps, context.killed = list(steps), killed  # type: ignore[method-assign]
    values = read_members("a source", (*SOURCE_MEMBERS, *FileSource.members), given | members)
    with pytest.raises(StoppedError):
        FileSource(values, context).run()
    return context


def lines(times: Iterable[int], name: str = "a") -> str:
    data = f'<urn:{name}> <urn:p> "x" .'
    return "".join(json.dumps({"at": at, "data": data}) + "\n" for at in times)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def counts(one: Bench) -> tuple[int, int]:
    """How many elements have entered, and how many of them are late."""
    described = describe_stream(one.engine, S)
    return described["accepted"], described["late_counts"]["late"]


def refused(context: Steps) -> list[str]:
    return [each["record"] for each in context.letters.list()]


def test_files_that_grow_together_after_a_silence_lose_nothing(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with bench() as one:

        def silence() -> None:
            one.clock.advance(60_000)
            tick(one.engine)

        def burst() -> None:
            append(a, lines(range(2_000, 3_000)))
            append(b, lines(range(2_000, 3_000)))

        a.write_text(lines(range(1_000)))
        b.write_text(lines(range(1_000)))
        run(one, tmp_path, silence, burst, silence, batch=100)
        assert counts(one) == (4_000, 0)


@pytest.mark.parametrize("end", ["\n", ""])
def test_line_that_comes_before_a_file_makes_room_is_told_or_read(tmp_path: Path, end: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text(lines([1]))

    def write_more() -> None:
        append(a, lines([2]).strip() + end)
        os.utime(a, (1, 1))  # its writer has let it be for long

    with bench() as one:
        context = run(
            one, tmp_path,
            lambda: b.write_text(lines([3])),
            write_more,
            lambda: None,
            lambda: None,
            files=1,
        )  # fmt: skip
        assert counts(one)[0] + len(refused(context)) == 3


def test_file_that_is_damaged_holds_up_no_other(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(20_000)))
    packed[5_000:5_100] = bytes(range(100))
    packed[10] = 0xFF
    (tmp_path / "a.gz").write_bytes(packed)
    for name in "bc":
        (tmp_path / name).write_text(lines(range(10)))
    with bench() as one:
        context = run(one, tmp_path)
        assert counts(one) == (20, 0)
        assert refused(context) == [str(tmp_path / "a.gz")]


def test_line_that_is_too_long_holds_up_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 2_000_000)
    for name in "bc":
        (tmp_path / name).write_text(lines(range(10)))
    with bench() as one:
        run(one, tmp_path, max_line=1_000)
        assert counts(one) == (20, 0)


def test_file_whose_new_name_is_seen_alone_is_not_read_again(tmp_path: Path) -> None:
    live = tmp_path / "a.log"
    live.write_text(lines(range(10)))
    with bench() as one:
        run(
            one, tmp_path,
            lambda: live.rename(tmp_path / "a.log.1"),
            lambda: live.write_text(lines([20])),
            lambda: None,
        )  # fmt: skip
        assert counts(one) == (11, 0)


def test_rotated_file_that_is_read_under_its_own_name_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.log.1").write_text(lines(range(10)))
    with bench() as one:
        run(one, tmp_path, lambda: (tmp_path / "a.log").write_text(lines([20])), lambda: None)
        assert counts(one) == (11, 0)


def test_file_whose_name_is_no_text_is_read(tmp_path: Path) -> None:
    for name in (b"a\xff", b"b"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text(lines(range(10)))
    with bench() as one:
        run(one, tmp_path)
        assert counts(one) == (20, 0)
        named = [each["partition"] for each in describe_stream(one.engine, S)["partitions"]]
        assert [each.encode() for each in named] == [
            f"it/{tmp_path}/{name}".encode() for name in (r"a\xff", "b")
        ]


def test_file_that_could_not_be_opened_is_read_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_file(path: str, folders: Sequence[Path]) -> OpenFile:
        if path == str(tmp_path / "a"):
            raise PermissionError(path)
        return OpenFile(path, folders)

    (tmp_path / "a").write_text(lines(range(30, 40)))
    for name in "bcd":
        (tmp_path / name).write_text(lines(range(10)))
    with bench() as one:
        monkeypatch.setattr(file_tail, "OpenFile", open_file)
        run(one, tmp_path, lambda: None, files=2)
        assert counts(one)[0] == 30
        monkeypatch.undo()
        run(one, tmp_path, lambda: None, files=2)
        assert counts(one)[0] == 40


def test_source_that_is_stopped_between_two_tries_holds_nothing_back(tmp_path: Path) -> None:
    with bench() as one:
        context = SourceContext("it", S, one.engine.streams, AllowedHosts(), [tmp_path], DeadLetterFile(None))
        tried = threading.Event()

        def fail() -> None:
            context.declare_partitions({"a": True, "b": True})
            tried.set()
            raise ConnectorError("the broker is away")

        runner = Runner(context, fail, "source", at_end=context.release_partitions)
        runner.start()
        assert tried.wait(10)
        until(lambda: context.figures.state == "waiting")
        assert runner.stop()
        one.push(5_000, "a", partition="it/a")
        one.clock.advance(60_000)
        tick(one.engine)
        assert describe_stream(one.engine, S)["watermark"] == 5_000


class Writer:
    """Files whose times ascend from one look to the next, written to, begun and rotated at random."""

    def __init__(self, one: Bench, folder: Path, chance: random.Random) -> None:
        self.one, self.folder, self.chance = one, folder, chance
        self.now = self.number = self.rotations = 0
        self.names: list[str] = []
        self.newest: dict[str, int] = {}

    def write(self) -> None:
        """Some of the files get lines of the same hours."""
        if not self.names or (self.chance.random() < 0.3 and len(self.names) < 6):
            self.names.append(f"{self.chance.randrange(100):02}{len(self.names)}.log")
            self._append(self.names[-1])
        for name in self.chance.sample(self.names, self.chance.randrange(1, len(self.names) + 1)):
            self._append(name)
            if self.chance.random() < 0.2:
                self.rotations += 1
                (self.folder / name).rename(self.folder / f"{name}.{10_000 + self.rotations}")
                self._append(name)
        self.now += 2_000

    def _append(self, name: str) -> None:
        """Lines that are not older than those that the file has."""
        first, some = self.newest.get(name, 0), range(self.chance.randrange(1, 30))
        times = sorted(self.chance.randrange(max(first, self.now), self.now + 2_000) for _ in some)
        append(self.folder / name, lines(times))
        self.newest[name], self.number = times[-1], self.number + len(times)

    def be_silent(self) -> None:
        """All files become idle."""
        self.one.clock.advance(60_000)
        tick(self.one.engine)


def check(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    with bench() as one:
        writer = Writer(one, folder, chance)
        members = {"path": chance.choice(["*", "*.log"]), "batch": chance.choice([1, 7, 1_000])}
        writer.write()
        for life in range(chance.randrange(1, 5)):
            known = [writer.write, writer.write, writer.be_silent]
            steps = chance.choices(known, k=chance.randrange(12))
            chance_of_kill = 0.05 if life else 0.0
            context = run(one, folder, *steps, killed=lambda p=chance_of_kill: chance.random() < p, **members)
            assert refused(context) == []
        context = run(one, folder, **members)
        assert (counts(one), refused(context)) == ((writer.number, 0), [])


@pytest.mark.parametrize("seed", range(12))
def test_lines_of_files_that_grow_at_random_enter_once_and_in_time(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_lines_of_many_files_that_grow_at_random_enter_once_and_in_time(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)
