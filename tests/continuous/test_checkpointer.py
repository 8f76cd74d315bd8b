"""Checkpoints that a copy of the process writes: which moment they hold, and copies that do not end well."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.recovery.checkpoint import read_state
from quadrill.continuous.recovery.checkpointer import Checkpointer
from quadrill.continuous.recovery.state import EngineSnapshot
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.logs.journal import Journal
from quadrill.store.logs.process_copy import COPIES, ForkedTask
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry, default_url

E = "http://example.org/"
SEEN = f"PREFIX : <{E}> SELECT ?x ?v WHERE {{ STREAM :s [RANGE 10s] {{ ?x :seen ?v }} }}"

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not COPIES, reason="processes are copied on Linux only"),
]


class Server:
    """A threaded engine over a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points: dict[str, threading.Event] = {}
        folder.mkdir(exist_ok=True)
        self.store = QuadStore.open(folder)
        self.registry = Registry.open(default_url(folder))
        self.journal = Journal.open(folder / "engine", sync="off", copy_from=1, reached=self._reached)
        self.engine = Engine(
            self.store,
            self.registry,
            clock=ManualClock(1_000_000),
            settings=EngineSettings(checkpoint_ms=3_600_000),
            journal=self.journal,
        )
        self.engine.start()

    def _reached(self, point: str) -> None:
        if point in self.points:
            assert self.points[point].wait(30)

    @property
    def checkpoints(self) -> Checkpointer:
        assert self.engine.recovery is not None
        return self.engine.recovery.checkpoints

    def push(self, at: int, *names: str) -> None:
        body = "".join(f"<{E}{name}> <{E}seen> {at} .\n" for name in names)
        self.engine.streams.push(PushCall(E + "s", "text/turtle", at=at, wait=True), body.encode())

    def begin(self) -> None:
        """Begin a checkpoint in the engine's thread."""
        self.checkpoints._next_s = 0.0
        self.engine.parts.sequencer.call(self.checkpoints.write_if_due)

    def written(self, made: int) -> None:
        deadline = time.monotonic() + 30
        while self.checkpoints.made < made or self.checkpoints._copy_thread is not None:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def rows(self) -> list[str]:
        bindings = self.engine.queries.current_answer("seen")["results"]["bindings"]
        return sorted(row["x"]["value"].removeprefix(E) for row in bindings)

    def state(self) -> EngineSnapshot:
        state = read_state(self.folder / "engine" / "checkpoint")
        assert state is not None
        return state

    def stop(self) -> None:
        self.engine.stop()
        self.store.close()
        self.registry.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "d")
    started.engine.queries.register(Registration.from_json({"query": SEEN}, name="seen"))
    yield started
    for point in started.points.values():
        point.set()
    started.stop()


def copy_folder(server: Server, target: Path) -> Server:
    """A server over the folder as a crash would leave it."""
    server.store.backup(target)
    os.makedirs(target / "engine" / "input")
    for file in (server.folder / "engine").rglob("*"):
        if file.is_file():
            copied = target / "engine" / file.relative_to(server.folder / "engine")
            copied.write_bytes(file.read_bytes())
    for file in server.folder.glob("registry.sqlite*"):
        (target / file.name).write_bytes(file.read_bytes())
    return Server(target)


def test_a_copy_writes_the_moment_at_which_it_was_made(server: Server, tmp_path: Path) -> None:
    server.push(1_000, "a", "b")
    server.points["during-checkpoint"] = threading.Event()
    made = server.checkpoints.made
    server.begin()
    # The engine goes on while the checkpoint waits to be published.
    server.push(2_000, "c")
    assert server.rows() == ["a", "b", "c"]
    assert server.checkpoints.made == made
    server.points["during-checkpoint"].set()
    server.written(made + 1)
    state = server.state()
    assert state.processed == state.last == server.journal.log.last - 1
    recovered = copy_folder(server, tmp_path / "copy")
    try:
        assert recovered.engine.recovery is not None
        assert recovered.engine.recovery.report["records"] == 1
        assert recovered.rows() == ["a", "b", "c"]
        told = [event.data for event in recovered.engine.queries.feed("seen").subscribe(0).take()]
        assert told == [event.data for event in server.engine.queries.feed("seen").subscribe(0).take()]
        recovered.push(11_500, "d")
        assert recovered.rows() == ["c", "d"]
    finally:
        recovered.stop()


def test_while_one_is_written_no_other_begins(server: Server) -> None:
    server.push(1_000, "a")
    server.points["during-checkpoint"] = threading.Event()
    made = server.checkpoints.made
    server.begin()
    waiting = server.checkpoints._copy_thread
    server.push(1_500, "b")
    server.begin()
    server.engine.parts.sequencer.call(server.checkpoints.write_if_changed)
    assert server.checkpoints._copy_thread is waiting is not None
    server.points["during-checkpoint"].set()
    server.written(made + 1)
    server.begin()
    server.written(made + 2)
    assert server.state().processed == server.journal.log.last


def test_a_copy_that_dies_leaves_the_old_checkpoint_and_the_next_succeeds(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.push(1_000, "a")
    server.begin()
    server.written(server.checkpoints.made)
    before = server.state().processed
    server.points["during-checkpoint"] = threading.Event()
    server.push(2_000, "b")
    made = server.checkpoints.made
    server.begin()
    assert server.checkpoints._copy is not None
    os.kill(server.checkpoints._copy._child.pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        server.points["during-checkpoint"].set()
        server.written(made)
    if server.checkpoints.made == made:
        # It may have been quicker than the signal.
        assert "The checkpoint could not be written: the process that wrote it ended early" in caplog.text
        assert server.state().processed == before
    assert list((server.folder / "engine").glob("*.new")) == []
    server.push(3_000, "c")
    made = server.checkpoints.made
    server.begin()
    server.written(made + 1)
    assert server.state().processed == server.journal.log.last


def test_stopping_gives_up_the_copy_and_writes_the_last_state_itself(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.push(1_000, "a")
    server.points["during-checkpoint"] = threading.Event()
    server.begin()
    server.push(2_000, "b")
    threading.Timer(0.1, server.points["during-checkpoint"].set).start()
    with caplog.at_level(logging.WARNING):
        server.engine.stop()
    assert "checkpoint could not be written" not in caplog.text
    assert server.state().processed == server.journal.log.last
    assert list((server.folder / "engine").glob("*.new")) == []


def test_a_full_disk_is_told_and_the_logs_forget_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.push(1_000, "a")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    made, earliest = server.checkpoints.made, server.journal.log.earliest
    with caplog.at_level(logging.WARNING):
        server.begin()
        server.written(made)
    assert "The checkpoint could not be written: No space left on device" in caplog.text
    assert (server.checkpoints.made, server.journal.log.earliest) == (made, earliest)


def test_drafts_of_a_killed_server_are_removed_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "d" / "engine").mkdir(parents=True)
    left = tmp_path / "d" / "engine" / "checkpoint.123.new"
    left.write_bytes(b"half")
    server = Server(tmp_path / "d")
    server.stop()
    assert not left.exists()


def test_a_copy_reports_its_number_and_holds_no_file_open(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("wb") as kept:
        number = kept.fileno()

        def look() -> int:
            return sum(1 for each in os.listdir("/proc/self/fd") if int(each) == number)

        assert ForkedTask(look).wait(30) == 0
        assert not kept.closed


def test_what_went_wrong_in_a_copy_is_told() -> None:
    def fail() -> int:
        raise ValueError("cannot be written")

    with pytest.raises(OSError) as caught:
        ForkedTask(fail).wait(30)
    assert caught.value.strerror == "ValueError: cannot be written"


def test_a_copy_that_takes_too_long_is_ended() -> None:
    def sleep() -> int:
        time.sleep(600)
        return 0

    with pytest.raises(OSError) as caught:
        ForkedTask(sleep).wait(0.05)
    assert "took longer" in str(caught.value)


def test_copies_are_made_beside_busy_threads() -> None:
    """Whatever locks other threads hold at that moment, the copy serialises and ends."""
    from pyoxigraph import NamedNode, Quad, RdfFormat, parse, serialize

    stop = threading.Event()
    line = b'<http://example.org/a> <http://example.org/b> "c" .\n' * 200
    logger = logging.getLogger("quadrill.test")

    def work() -> None:
        store = []
        while not stop.is_set():
            store = list(parse(line, RdfFormat.N_QUADS))
            serialize(store, format=RdfFormat.N_QUADS)
            logger.debug("%s", json.dumps({"n": len(store)}))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        quads = [Quad(NamedNode(E + str(n)), NamedNode(E), NamedNode(E)) for n in range(1_000)]
        for _ in range(20):
            written = ForkedTask(lambda: len(serialize(quads, format=RdfFormat.N_QUADS) or b"")).wait(30)
            assert written > 1_000
    finally:
        stop.set()
        for thread in threads:
            thread.join()
