"""The engine with its thread: many pushers, registrations and commits at once."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.app.describing.queries import describe, describe_all, explain, validate
from quadrill.app.describing.streams import describe_stream, describe_streams
from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.queries.catalogue import PendingQuery, QueryEntry
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import NotFoundError
from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.quads.quad_store import QuadStore

from .engines import PREFIX, RANGE, Bench, E, S, bench


def together(*works: Callable[[], None]) -> None:
    """Run works in threads and raise what they raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def test_every_element_of_many_pushers_is_told_once() -> None:
    with bench(threaded=True) as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [ALL] { ?x :seen ?v } }")
        b.engine.streams.declare(S, stamping="arrival")

        def pusher(which: int) -> Callable[[], None]:
            return lambda: [b.push(None, f"x{which}-{n}") for n in range(25)] and None

        together(*(pusher(which) for which in range(4)))
        b.engine.sync()
        names = "".join(names for _, _, names in b.told("q"))
        assert names.count("x") == 100
        stream = describe_stream(b.engine, S)
        assert (stream["accepted"], stream["last_seq"]) == (100, 100)


def test_ids_are_contiguous_whatever_comes_together() -> None:
    text = "SELECT ?x ?r WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :in ?r }"
    with bench(threaded=True) as b:
        b.register("q", text, output="changes")
        b.engine.streams.declare(S, stamping="arrival")
        subscription = b.engine.queries.feed("q").subscribe()

        def push() -> None:
            for n in range(30):
                b.push(None, f"x{n % 5}")

        def commit() -> None:
            for n in range(30):
                verb = "INSERT" if n % 3 else "DELETE"
                b.store.writer.update(f"{verb} DATA {{ <{E}x{n % 5}> <{E}in> <{E}r{n % 2}> }}")

        def look() -> None:
            for _ in range(30):
                describe_all(b.engine)
                describe_streams(b.engine)
                b.engine.queries.current_answer("q")

        def register() -> None:
            for n in range(5):
                b.register(f"other{n}", RANGE)
                b.engine.queries.drop(f"other{n}")

        together(push, commit, look, register)
        b.engine.sync()
        events = subscription.take()
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        rows: dict[str, int] = {}
        for event in events:
            for row in json.loads(event.data)["results"]["bindings"]:
                key = json.dumps(row, sort_keys=True)
                rows[key] = rows.get(key, 0) + (1 if event.kind == "insert" else -1)
        assert all(count in (0, 1) for count in rows.values())
        answer = b.engine.queries.current_answer("q")
        assert sum(rows.values()) == len(answer["results"]["bindings"])
        assert answer["version"] == b.store.reader.version


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads take turns as often as they can, so that what lies between two reads is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("short_turns")
def test_queries_that_come_go_and_are_replaced_are_described_whole() -> None:
    """No description is half of one: a query that is there runs, or is not found."""
    with bench(threaded=True) as b:
        states: set[str] = set()
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                for document in describe_all(b.engine):
                    states.add(document["state"])
                    assert document["streams"]
                with suppress(NotFoundError):
                    states.add(describe(b.engine, "other")["state"])
                    explain(b.engine, "other", analyze=True)

        def register() -> None:
            try:
                for n in range(15):
                    b.register("other", RANGE)
                    registration = Registration.from_json(
                        {"query": PREFIX + RANGE, "lateness": f"{n + 1}s"}, name="other"
                    )
                    b.engine.queries.register(registration, replace=True)
                    b.engine.queries.drop("other")
            finally:
                done.set()

        together(look, look, register)
        assert states == {"running"}


def test_a_query_that_is_dropped_while_it_is_looked_at_is_not_found() -> None:
    """What the look meets then is no fault; one that is there is told its faults."""
    with bench(threaded=True) as b:
        b.register("q", RANGE)
        admin, looks = b.engine.parts.admin, []

        def look(_entry: QueryEntry, _query: PendingQuery | RunningQuery | None) -> int:
            looks.append(threading.Thread(target=b.engine.queries.drop, args=("q",)))
            looks[-1].start()
            while admin.acquire(blocking=False):
                admin.release()
            raise IndexError("its tables are gone")

        with pytest.raises(NotFoundError):
            b.engine.queries.inspect("q", look)
        assert len(looks) == 1
        looks[0].join()

        def wrong(_entry: QueryEntry, _query: PendingQuery | RunningQuery | None) -> int:
            raise IndexError("a fault")

        b.register("r", RANGE)
        with pytest.raises(IndexError):
            b.engine.queries.inspect("r", wrong)


def test_a_refresh_behind_a_drop_leaves_nothing() -> None:
    """Its turn comes when the query is gone: the query reads no stream again."""
    with bench() as b:
        b.register("q", RANGE, refresh={"every": "10s"})
        b.engine.queries.drop("q")
        b.engine.parts.router.changes.refresh("q", "timer")
        assert b.engine.parts.router.readers(S) == []


def test_registrations_under_one_name_at_once_agree() -> None:
    with bench(threaded=True) as b:
        created: list[bool] = []
        registration = Registration.from_json({"query": PREFIX + RANGE}, name="q")
        together(*(lambda: created.append(b.engine.queries.register(registration)[1]) for _ in range(4)))
        assert sorted(created) == [False, False, False, True]


@pytest.mark.timeout(60)
def test_the_thread_looks_at_the_clock_by_itself() -> None:
    """An arrival-stamped [NOW] lets its elements go without any further input."""
    store = QuadStore.open(None)
    engine = Engine(store, None, clock=Clock(), settings=EngineSettings(tick_ms=50))
    engine.start()
    try:
        text = PREFIX + "SELECT ?x WHERE { STREAM :s [RANGE 20ms] { ?x :seen ?v } }"
        engine.queries.register(Registration.from_json({"query": text, "output": "changes"}, name="q"))
        subscription, woken = engine.queries.feed("q").subscribe(), threading.Event()
        subscription.listen(woken.set)
        engine.streams.push(PushCall(S, "application/n-triples"), f'<{E}a> <{E}seen> "x" .'.encode())
        told: list[StoredEvent] = []
        while len(told) < 2 and woken.wait(20):
            woken.clear()
            told += subscription.take()
        assert [event.kind for event in told] == ["insert", "delete"]
    finally:
        engine.stop()
        store.close()


def test_stopping_works_off_what_was_accepted() -> None:
    b_feed = None
    with bench(threaded=True) as b:
        b.register("q", RANGE)
        b_feed = b.engine.queries.feed("q")
        subscription = b_feed.subscribe()
        for at in range(1, 40):
            b.push(at, f"y{at}")
    assert b_feed.history.last_id == 39
    assert len(subscription.take()) == 39


def test_others_are_managed_while_a_replay_or_the_drop_of_a_graph_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, at_work = threading.Event(), threading.Event()

    def wait(*_: Any, **__: Any) -> None:
        at_work.set()
        assert go_on.wait(20)

    def managed(one: Bench, work: Callable[[], Any]) -> Any:
        at_work.clear()
        go_on.clear()
        with ThreadPoolExecutor(2) as pool:
            try:
                if work.__name__ == "replay":
                    pool.submit(one.engine.parts.sequencer.call, wait)
                done = pool.submit(work)
                assert at_work.wait(10)
                time.sleep(0.2)
                began = time.monotonic()
                validate(one.engine, Registration.from_json({"query": PREFIX + RANGE}))
                one.engine.queries.patch("other", {"max_rows": 7})
                assert time.monotonic() - began < 5 and not done.done()
            finally:
                go_on.set()
            return done.result(20)

    with bench(threaded=True) as one:
        one.register("q", RANGE)
        one.register("other", RANGE)
        one.register(
            "v", "CONSTRUCT { ?x a :Seen } WHERE { STREAM :s [NOW] { ?x :seen ?v } }", into_graph=E + "g"
        )
        one.push(1, "a")
        one.push(2, "b")

        def replay() -> Any:
            return one.engine.queries.replay("q")

        def drop() -> Any:
            one.engine.queries.drop("v", with_graph=True)

        found = managed(one, replay)
        assert (found["elements"], found["retained_from"], found["state"]) == (2, 1, "running")
        delete = one.store.writer.delete_graph

        def slowly(*given: Any, **options: Any) -> Any:
            wait()
            return delete(*given, **options)

        monkeypatch.setattr(one.store.writer, "delete_graph", slowly)
        managed(one, drop)
        assert not one.store.reader.graph_exists(NamedNode(E + "g"))
