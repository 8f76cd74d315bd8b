"""File sources over rotations: no line is lost or entered twice, and what is gone is told."""

from __future__ import annotations

import gzip
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.declaration import read_members
from quadrill.app.connectors.kinds.file_marks import is_rotated, without_generations
from quadrill.app.connectors.kinds.file_source import FileSource
from quadrill.app.connectors.runner import Runner, source_runner
from quadrill.app.connectors.source import SOURCE_MEMBERS, SourceContext
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.hosts import AllowedHosts
from tests.app.test_feed_streams import until

from .processes import served

HEADER = "a,b\n"


class Following:
    """A file source whose stream keeps lines and position; each life goes on from the position."""

    def __init__(self, folder: Path, path: str, **members: Any) -> None:
        self.folder, self.lines, self.position = folder, list[str](), None
        self.letters = DeadLetterFile(None)
        self.given = read_members(
            "a source",
            (*SOURCE_MEMBERS, *FileSource.members),
            {"kind": "file", "stream": "urn:s", "path": f"{folder}/{path}", "every": "10ms", **members},
        )
        self.lost = 0
        self.runner: Runner | None = None
        self._lock = threading.Lock()

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        found = body.decode().splitlines()
        if call.media_type == "text/csv" and found:
            assert found[0] == HEADER.strip()
            found = found[1:]
        with self._lock:
            self.lines += found
            self.position = call.position[1]
        return {"accepted": len(found)}

    def source_position(self, _stream: str, _source: str) -> str | None:
        return self.position

    def start(self) -> None:
        folders = [self.folder.resolve()]
        calls = SimpleNamespace(
            push=self.push,
            source_position=self.source_position,
            declare_partitions=lambda stream, source, waiting: None,
        )
        streams = cast(StreamService, calls)
        self.context = SourceContext("s", "urn:s", streams, AllowedHosts(), folders, self.letters)
        source = FileSource(self.given, self.context)
        self.runner = source_runner(source)
        self.runner.start()

    def stop(self) -> None:
        if self.runner is not None:
            assert self.runner.stop()
            self.lost += self.context.figures.lost
            self.runner = None

    def wait_for(self, lines: list[str]) -> None:
        until(lambda: len(self.lines) >= len(lines))
        time.sleep(0.05)
        assert self.lines == lines


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Following]]:
    made: list[Following] = []

    def make(path: str = "log.csv", **members: Any) -> Following:
        made.append(Following(tmp_path, path, **members))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def text(lines: list[str]) -> str:
    return HEADER + "".join(f"{each}\n" for each in lines)


def numbered(first: int, last: int, width: int = 1) -> list[str]:
    return [f"{number:07},{'x' * width}" for number in range(first, last + 1)]


def rename(path: Path, rest: list[str], new: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{each}\n" for each in rest)
    path.rename(path.with_name(path.name + ".1"))
    path.write_text(text(new))


def copy_and_truncate(path: Path, rest: list[str], new: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{each}\n" for each in rest)
    shutil.copyfile(path, path.with_name(path.name + ".1"))
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write(text(new))


def rename_twice(path: Path, rest: list[str], new: list[str]) -> None:
    half = len(new) // 2
    rename(path, rest, new[:half])
    path.with_name(path.name + ".1").rename(path.with_name(path.name + ".2"))
    time.sleep(0.01)
    rename(path, [], new[half:])


def rename_by_date(path: Path, rest: list[str], new: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{each}\n" for each in rest)
    path.rename(path.with_name(f"{path.stem}-20260501{path.suffix}"))
    path.write_text(text(new))


def rename_and_pack(path: Path, rest: list[str], new: list[str]) -> None:
    rename(path, rest, new)
    old = path.with_name(path.name + ".1")
    old.with_name(old.name + ".gz").write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()


@pytest.mark.parametrize("lines", [3, 2_000])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("rotate", [rename, copy_and_truncate, rename_twice, rename_by_date, rename_and_pack])
def test_rotated_file_enters_whole_and_in_order(
    follow: Callable[..., Following], tmp_path: Path, rotate: Any, down: bool, lines: int
) -> None:
    path, source = tmp_path / "log.csv", follow()
    old, rest, new = numbered(1, lines), numbered(100_001, 100_003), numbered(200_001, 200_000 + lines)
    path.write_text(text(old))
    source.start()
    source.wait_for(old)
    if down:
        source.stop()
    rotate(path, rest, new)
    if down:
        source.start()
    source.wait_for(old + rest + new)
    with path.open("a") as file:
        file.write("more,x\n")
    source.wait_for([*old, *rest, *new, "more,x"])
    source.stop()
    assert source.lost == 0
    assert source.letters.list() == []


def recreate(path: Path, new: list[str]) -> None:
    path.unlink()
    path.write_text(text(new))  # most file systems give it the same inode


def refill(path: Path, new: list[str]) -> None:
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write(text(new))


def rewrite(path: Path, new: list[str]) -> None:
    with path.open("rb+", buffering=0) as file:
        file.write(text(new).encode())


@pytest.mark.parametrize("lines", [3, 2_000])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("more", [0, 100])
@pytest.mark.parametrize("replace", [recreate, refill, rewrite])
def test_replaced_content_enters_whole_and_is_told(
    follow: Callable[..., Following], tmp_path: Path, replace: Any, more: int, down: bool, lines: int
) -> None:
    path, source = tmp_path / "log.csv", follow()
    old, new = numbered(1, lines), numbered(200_001, 200_000 + lines + more)
    path.write_text(text(old))
    source.start()
    source.wait_for(old)
    if down:
        source.stop()
    replace(path, new)
    if down:
        source.start()
    source.wait_for(old + new)
    source.stop()
    if replace is recreate and not down:
        assert source.lost == 0, "the deleted file was read to its end"
    else:
        assert source.lost == 1
        assert source.letters.list()[-1]["record"] == str(path)
        assert "lost" in source.letters.list()[-1]["error"]


def test_deleted_file_is_read_to_its_end(follow: Callable[..., Following], tmp_path: Path) -> None:
    path, source = tmp_path / "log.csv", follow(every="300ms")
    path.write_text(text(numbered(1, 10)))
    source.start()
    source.wait_for(numbered(1, 10))
    with path.open("a") as file:
        file.write("rest,x\n")
    path.unlink()
    path.write_text(text(["new,x"]))
    source.wait_for([*numbered(1, 10), "rest,x", "new,x"])


def test_writer_that_keeps_a_rotated_file_open_loses_nothing(
    follow: Callable[..., Following], tmp_path: Path
) -> None:
    path, source = tmp_path / "log.csv", follow()
    path.write_text(text(numbered(1, 10)))
    source.start()
    source.wait_for(numbered(1, 10))
    with path.open("a") as file:
        path.rename(tmp_path / "log.csv.1")
        path.write_text(text(["new,x"]))
        source.wait_for([*numbered(1, 10), "new,x"])
        file.write("late,x\nhalf")
        file.flush()
        source.wait_for([*numbered(1, 10), "new,x", "late,x"])
        file.write(",x")
    source.wait_for([*numbered(1, 10), "new,x", "late,x", "half,x"])


def test_rotations_while_nobody_reads_are_found_also_when_the_old_file_is_gone(
    follow: Callable[..., Following], tmp_path: Path
) -> None:
    path, source = tmp_path / "log.csv", follow()
    path.write_text(text(numbered(1, 10)))
    source.start()
    source.wait_for(numbered(1, 10))
    source.stop()
    time.sleep(0.01)
    path.unlink()
    for number in (3, 2, 1):
        (tmp_path / f"log.csv.{number}").write_text(text([f"{number},x"]))
        time.sleep(0.01)
    path.write_text(text(["0,x"]))
    source.start()
    source.wait_for([*numbered(1, 10), "3,x", "2,x", "1,x", "0,x"])
    source.stop()
    assert source.lost == 1


def test_rotated_files_of_a_pattern_are_not_read_twice(
    follow: Callable[..., Following], tmp_path: Path
) -> None:
    path, source = tmp_path / "log.csv", follow("log*", format="text/csv")
    (tmp_path / "log.csv.1").write_text(text(["0,x"]))
    time.sleep(0.01)
    path.write_text(text(numbered(1, 10)))
    source.start()
    source.wait_for(["0,x", *numbered(1, 10)])
    (tmp_path / "log.csv.1").rename(tmp_path / "log.csv.2")
    rename(path, ["rest,x"], ["new,x"])
    source.wait_for(["0,x", *numbered(1, 10), "rest,x", "new,x"])
    assert source.letters.list() == []


def test_link_that_leads_out_is_skipped_and_told_once(
    follow: Callable[..., Following], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text(text(["secret,x"]))
    (tmp_path / "1.csv").write_text(text(["1,x"]))
    (tmp_path / "2.csv").symlink_to(outside)
    (tmp_path / "3.csv").write_text(text(["3,x"]))
    source = follow("*.csv")
    source.start()
    source.wait_for(["1,x", "3,x"])
    (tmp_path / "4.csv").write_text(text(["4,x"]))
    source.wait_for(["1,x", "3,x", "4,x"])
    assert [each["record"] for each in source.letters.list()] == [str(tmp_path / "2.csv")]
    assert source.context.figures.state == "running"


@pytest.mark.parametrize(
    ("name", "rotated"),
    [
        ("/l/app.log.1", True), ("/l/app.log.2.gz", True), ("/l/app-2026-05-01.log", True),
        ("/l/app.log-20260501", True), ("/l/app.1.log.gz", True), ("/l/app.log.old", True),
        ("/l/application.log", False), ("/l/app2.log", False), ("/m/app.log.1", False),
    ],
)  # fmt: skip
def test_names_of_rotated_files(name: str, rotated: bool) -> None:
    assert is_rotated(name, "/l/app.log") is rotated


def test_rotated_names_in_a_listing() -> None:
    assert without_generations(["/l/a", "/l/a.1", "/l/a.1.gz", "/l/a-b", "/l/b.1"]) == [
        "/l/a", "/l/a-b", "/l/b.1",
    ]  # fmt: skip


LIVES = 3


@pytest.mark.chaos
@pytest.mark.process
def test_no_line_is_lost_or_doubled_over_kills_and_rotations(tmp_path: Path) -> None:
    path, data, ended = tmp_path / "log.nt", tmp_path / "data", threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not ended.is_set():
            with path.open("a") as file:
                until = time.monotonic() + 0.4
                while time.monotonic() < until:
                    written += 1
                    file.write(f"<urn:{written}> <urn:p> <urn:o> .\n")
                    file.flush()
                    time.sleep(0.001)
            path.rename(tmp_path / f"log.nt.{time.time_ns()}")

    path.write_text("")
    writer = threading.Thread(target=write)
    try:
        for life in range(LIVES):
            with served(data, source_folders=str(tmp_path)) as server:
                if life == 0:
                    members = {"kind": "file", "stream": "urn:s", "path": str(path), "every": "10ms"}
                    server.client.put("/streams", params={"iri": "urn:s"}, json={"retention": "1h"})
                    assert server.client.put("/sources/it", json=members).status_code == 201
                    writer.start()  # what was rotated before the source was declared is not read
                    until(lambda: server.accepted("urn:s") > 0)
                time.sleep(0.7)
        ended.set()
        writer.join()
        with served(data, source_folders=str(tmp_path)) as server:
            path.touch()
            until(lambda: server.accepted("urn:s") >= written, 120)
            time.sleep(0.2)
            assert server.accepted("urn:s") == written
            assert server.client.get("/sources/it").json()["lost"] == 0
    finally:
        ended.set()
        if writer.ident is not None:
            writer.join()
