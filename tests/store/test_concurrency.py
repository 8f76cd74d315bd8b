"""Many writers and readers at once: no update is lost, every commit is told once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadrill.store.changes.commit import Commit, NetChange
from quadrill.store.errors import UpdateError
from quadrill.store.quads import committer
from quadrill.store.quads.committer import ApplyError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.read_write_lock import ReadWriteLock
from quadrill.store.quads.subscribers import Subscribers

PREFIX = "PREFIX ex: <http://e/>\n"
INCREMENT = (
    PREFIX + "DELETE { ex:c ex:n ?o } INSERT { ex:c ex:n ?n } WHERE { ex:c ex:n ?o BIND(?o + 1 AS ?n) }"
)
LEAVE = "DELETE {{ ex:{0} ex:on 1 }} WHERE {{ ex:{0} ex:on 1 . ?d ex:on 1 FILTER(?d != ex:{0}) }}"


def run(*work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_no_increment_is_lost(tmp_path: Path, folder: str | None) -> None:
    with QuadStore.open(folder and tmp_path / folder) as store:
        told: list[Commit] = []
        store.subscribers.subscribe(told.append)
        store.writer.update(PREFIX + "INSERT DATA { ex:c ex:n 0 }")

        def count() -> None:
            for _ in range(40):
                store.writer.update(INCREMENT)

        run(*[count] * 6)
        assert store.reader.solutions(PREFIX + "SELECT ?n { ex:c ex:n ?n }")[1] == [(Literal(240),)]
        assert store.reader.version == 241 and store.subscribers.wait_delivered(241, 10)
        assert [commit.version for commit in told] == list(range(1, 242))
        assert [commit.added[0].object.value for commit in told] == [str(n) for n in range(241)]
        assert list(store.commits_after(0)) == told


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_there_is_no_write_skew(tmp_path: Path, folder: str | None) -> None:
    """Two doctors may go off duty only while another stays: each update reads what the other writes."""
    with QuadStore.open(folder and tmp_path / folder, StoreOptions(durable=False)) as store:
        for _ in range(15):
            store.writer.update(
                PREFIX + "DELETE WHERE { ?d ex:on ?x } ; INSERT DATA { ex:a ex:on 1 . ex:b ex:on 1 }"
            )
            run(*[lambda who=who: store.writer.update(PREFIX + LEAVE.format(who)) for who in "ab"])
            assert len(store.reader.solutions(PREFIX + "SELECT ?d { ?d ex:on 1 }")[1]) == 1


def test_a_failing_request_does_not_disturb_its_group(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        failed: list[UpdateError] = []

        def good(name: str) -> None:
            for number in range(30):
                store.writer.update(PREFIX + f"INSERT DATA {{ ex:{name} ex:n {number} }}")

        def bad() -> None:
            for _ in range(30):
                try:
                    store.writer.update(PREFIX + "INSERT DATA { ex:bad ex:n 1 } ; DROP GRAPH ex:none")
                except UpdateError as error:
                    failed.append(error)

        run(lambda: good("x"), bad, lambda: good("y"), bad)
        assert (store.reader.version, store.reader.quad_count, len(failed)) == (60, 60, 60)
        assert [commit.version for commit in store.commits_after(0)] == list(range(1, 61))


def test_readers_see_whole_commits_only(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data", StoreOptions(durable=False)) as store:
        done = threading.Event()

        def write() -> None:
            for number in range(120):
                store.writer.update(
                    PREFIX
                    + "DELETE WHERE { ?s ex:v ?o } ; "
                    + f"INSERT DATA {{ ex:a ex:v {number} . ex:b ex:v {number} }}"
                )
            done.set()

        def read() -> None:
            while not done.is_set():
                rows = store.reader.solutions(PREFIX + "SELECT ?s ?o { ?s ex:v ?o }")[1]
                assert len(rows) in (0, 2) and len({row[1] for row in rows}) <= 1
                with store.reader.snapshot_read() as snapshot:
                    one = snapshot.solutions(PREFIX + "SELECT ?o { ex:a ex:v ?o }")[1]
                    two = snapshot.solutions(PREFIX + "SELECT ?o { ex:b ex:v ?o }")[1]
                    assert one == two and snapshot.version == store.reader.version

        run(write, read, read)


def test_writers_share_the_fsync_of_a_group(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        sizes: list[int] = []
        append = store.log.append

        def counting(commits: object, counts: object) -> None:
            sizes.append(len(commits))  # type: ignore[arg-type]
            append(commits, counts)  # type: ignore[arg-type]

        store.log.append = counting  # type: ignore[method-assign, assignment]
        with store.committer.lock:  # a commit that takes its time
            threads = [
                threading.Thread(
                    target=store.writer.apply,
                    kwargs={"add": [Quad(NamedNode("http://e/a"), NamedNode("http://e/p"), Literal(number))]},
                )
                for number in range(8)
            ]
            for thread in threads:
                thread.start()
            while len(store.queue._queue) < 8:
                pass
        for thread in threads:
            thread.join(10)
        assert sizes == [8] and store.reader.version == 8


def test_a_waiting_writer_goes_before_new_readers() -> None:
    gate = ReadWriteLock()
    order: list[str] = []
    reading = threading.Event()
    writer_waits = threading.Event()

    def read_long() -> None:
        with gate.reading():
            reading.set()
            assert writer_waits.wait(5)
            with gate.reading():  # again in the same thread: not behind the writer
                order.append("nested")

    def write() -> None:
        assert reading.wait(5)
        with gate.writing():
            order.append("writer")

    def read_late() -> None:
        assert reading.wait(5)
        while not gate._writers_waiting:
            pass
        writer_waits.set()
        with gate.reading():
            order.append("late")

    run(read_long, write, read_late)
    assert order == ["nested", "writer", "late"]


class Watching:
    """An observer that looks at every commit by itself."""

    @contextmanager
    def around_commit(self, commit: Commit) -> Iterator[None]:
        yield

    @contextmanager
    def around_commits(self, commits: Sequence[Commit]) -> Iterator[bool]:
        yield False

    @contextmanager
    def around_bulk_load(self) -> Iterator[None]:
        yield


def test_every_commit_of_a_group_is_told_where_one_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = committer.apply_change
    calls = count(1)

    def broken(store: Store, change: NetChange) -> None:
        if next(calls) == 2:
            raise OSError("no space")
        made(store, change)

    monkeypatch.setattr(committer, "apply_change", broken)
    with QuadStore.open(tmp_path / "data", StoreOptions(durable=False)) as store:
        told: list[int] = []
        store.subscribers.subscribe(lambda commit: told.append(commit.version))
        store.committer.observe(Watching())
        line = [
            store.writer.enqueue_update(PREFIX + f"INSERT DATA {{ ex:a ex:n {number} }}")
            for number in range(3)
        ]
        for finish in line:
            with pytest.raises(ApplyError):
                finish()
        assert told == [1]
        store.writer.update(PREFIX + "INSERT DATA { ex:b ex:n 1 }")
        assert told == [1, 2, 3, 4] and store.reader.quad_count == 4


def test_who_waits_for_a_commit_is_woken_though_further_ones_are_handed_over() -> None:
    subscribers = Subscribers()
    waiting, goes_on = threading.Event(), threading.Event()
    first, second = (Commit(version, 0) for version in (1, 2))

    def take(commit: Commit) -> None:
        if commit is first:
            subscribers.enqueue([second])
            waiting.wait(10)
        else:
            goes_on.wait(10)

    subscribers.subscribe(take)
    subscribers.enqueue([first])
    found: list[bool] = []

    def wait() -> None:
        with subscribers._state:
            waiting.set()
            found.append(subscribers.wait_delivered(1, 60))

    threads = [threading.Thread(target=each) for each in (wait, subscribers.drain)]
    for thread in threads:
        thread.start()
    threads[0].join(10)
    assert found == [True], "while the second is handed over"
    goes_on.set()
    threads[1].join(10)
    assert subscribers.wait_delivered(2, 0)


@contextmanager
def telling(store: QuadStore) -> Iterator[Callable[[], None]]:
    """Another thread is at telling a commit until what is given is called, or to the end."""
    inside, go_on = threading.Event(), threading.Event()

    def hear(commit: Commit) -> None:
        inside.set()
        assert go_on.wait(20)

    end_subscription = store.subscribers.subscribe(hear)
    teller = threading.Thread(target=store.writer.update, args=(PREFIX + "INSERT DATA { ex:first ex:n 1 }",))
    teller.start()
    assert inside.wait(20)
    try:
        yield go_on.set
    finally:
        go_on.set()
        teller.join(20)
        end_subscription()


@pytest.mark.parametrize("bulk", [False, True])
def test_who_needs_the_order_waits_for_the_thread_that_tells(bulk: bool) -> None:
    with QuadStore.open(None) as store:
        heard: list[int] = []
        store.subscribers.subscribe(lambda commit: heard.append(commit.version))
        with telling(store) as go_on:
            quad = Quad(NamedNode("http://e/a"), NamedNode("http://e/n"), Literal("2"))
            if bulk:
                store.writer.bulk_extend([quad])
            else:
                store.writer.apply(add=[quad])
            assert store.subscribers.acknowledged == 2 and heard == [1]
            waiter = threading.Thread(target=store.subscribers.catch_up)
            waiter.start()
            waiter.join(0.05)
            assert waiter.is_alive()
            go_on()
            waiter.join(20)
            assert heard == [1, 2]
        store.subscribers.catch_up()


def test_who_waits_in_vain_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with QuadStore.open(None) as store, telling(store):
        store.writer.update(PREFIX + "INSERT DATA { ex:a ex:n 2 }")
        store.subscribers.catch_up(0.01)
        assert "behind commit 2" in caplog.text


def test_a_subscriber_may_ask_for_the_order_itself() -> None:
    with QuadStore.open(None) as store:
        heard: list[int] = []

        def hear(commit: Commit) -> None:
            if commit.version == 1:
                store.writer.update(PREFIX + "INSERT DATA { ex:a ex:n 2 }")
            store.subscribers.catch_up()
            heard.append(commit.version)

        store.subscribers.subscribe(hear)
        store.writer.update(PREFIX + "INSERT DATA { ex:a ex:n 1 }")
        assert heard == [1, 2]


def test_nobody_waits_for_what_nobody_is_at() -> None:
    """As where an observer failed between a commit and its place in the line."""
    with QuadStore.open(None) as store:
        store.subscribers.acknowledge(1)
        began = time.monotonic()
        store.subscribers.catch_up()
        assert time.monotonic() - began < 5
