"""An endpoint that hangs, fails, answers nonsense or too much, goes away and returns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quadrill.app.describing.queries import describe_all
from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings
from quadrill.continuous.remote.settings import RemoteSettings
from quadrill.store.hosts import AllowedHosts
from quadrill.store.remote import FetchError, RemoteClient

from ..engines import Bench
from .bench import Remote
from .endpoint import JSON_RESULTS, Endpoint, Handle

QUERY = "SELECT ?x ?l {{ STREAM :s [RANGE 1h] {{ ?x :seen ?v }} SERVICE <{url}sparql> {{ ?x :label ?l }} }}"


def register(bench: Bench, far: Endpoint, name: str = "q", **options: object) -> None:
    bench.register(name, QUERY.format(url=far.url), **options)


NO_TAG = b"""{"head":{"vars":["x","l"]},"results":{"bindings":[{"l":{"type":"literal","value":"v",
    "datatype":"http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"}}]}}"""


def trouble(far: Endpoint, kind: str) -> Handle:
    many = b",".join(b'{"x":{"type":"uri","value":"http://e/%d"}}' % number for number in range(200))
    return {
        "an error": far.always(500, b"sorry"),
        "garbage": far.always(200, b"}{ no results", Content_Type=JSON_RESULTS),
        "a cut answer": far.always(200, b'{"head":{"vars":["x"]},"results":{"bi', Content_Type=JSON_RESULTS),
        "a boolean": far.always(200, b'{"head":{},"boolean":true}', Content_Type=JSON_RESULTS),
        "no tag": far.always(200, NO_TAG, Content_Type=JSON_RESULTS),
        "another type": far.always(200, b"<html>log in</html>", Content_Type="text/html"),
        "no type": far.always(200, b"{}"),
        "too many rows": far.always(
            200,
            b'{"head":{"vars":["x","l"]},"results":{"bindings":[' + many + b"]}}",
            Content_Type=JSON_RESULTS,
        ),
        "too many bytes": far.always(200, b" " * 60_000, Content_Type=JSON_RESULTS),
        "a loop": far.always(302, Location="/again"),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("an error", "status 500"),
        ("garbage", "malformed SPARQL result"),
        ("a cut answer", "malformed SPARQL result"),
        ("no tag", "has no language tag"),
        ("a boolean", "a boolean where solutions were asked for"),
        ("another type", "the media type text/html, which is no SPARQL result"),
        ("no type", "the media type none"),
        ("too many rows", "more than 100 rows"),
        ("too many bytes", "longer than the limit of 50,000 bytes"),
        ("a loop", "redirects more than 5 times"),
    ],
)
def test_trouble_marks_the_rows_as_stale_and_keeps_them_until_it_is_over(
    far: Endpoint, kind: str, reason: str
) -> None:
    bench = Remote(far, max_rows=100, max_bytes=50_000)
    bench.engine.start()
    register(bench, far)
    bench.push(1, "a")
    far.handle = trouble(far, kind)
    bench.wait(70_000)
    source = bench.source("q")
    assert source["stale"] is True and reason in source["stale_reason"]
    assert source["stale_since"] == bench.clock.now_ms()
    assert bench.rows("q") == ["a 1"], "the last good rows stay"
    bench.push(2, "b")
    assert bench.rows("q") == ["a 1", "b 2"], "and go on serving"
    assert bench.heads("q")[-1]["sources"][0]["stale"] is True
    far.handle = far.sparql
    far.update("INSERT DATA { :a :label 9 }")
    bench.wait(10_000)
    source = bench.source("q")
    assert source["stale"] is False and source["stale_reason"] is None and source["failures"] == 0
    assert bench.rows("q") == ["a 1", "a 9", "b 2"]
    assert "stale" not in bench.heads("q")[-1]["sources"][0]
    bench.engine.stop()
    bench.store.close()


def test_attempts_after_failures_come_soon_and_then_ever_later(bench: Remote, far: Endpoint) -> None:
    register(bench, far)
    far.handle = far.always(503)
    waits = []
    for _ in range(12):
        due = bench.source("q")["next_refresh"]
        waits.append(due - bench.clock.now_ms())
        bench.wait(waits[-1])
    assert len(far.asked) == 13
    assert 54_000 <= waits[0] <= 66_000, "the period first, with some jitter"
    expected = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000, 600_000, 600_000, 600_000]
    assert all(0.9 * plan <= wait <= 1.1 * plan for plan, wait in zip(expected, waits[1:], strict=True))
    assert bench.source("q")["failures"] == 12
    far.handle = far.sparql
    bench.engine.queries.refresh("q")
    assert bench.source("q")["failures"] == 0, "by hand it is tried at once"
    assert 54_000 <= bench.source("q")["next_refresh"] - bench.clock.now_ms() <= 66_000


def test_a_server_that_is_gone_is_trouble_too(bench: Remote, far: Endpoint) -> None:
    register(bench, far)
    bench.push(1, "a")
    far._server.server_close()
    bench.wait(70_000)
    assert "could not be fetched" in bench.source("q")["stale_reason"]
    assert bench.rows("q") == ["a 1"]


LONG_MS = 20_000
"""A time-out that no test waits for: what ends before it has not waited for the endpoint."""
SOON_S = 15.0
"""What a machine that is busy needs at most, and less than the long time-out."""


@contextmanager
def threaded(far: Endpoint, **remote: int) -> Iterator[Remote]:
    """A bench whose engine has its thread and the clock of the wall; nothing hangs when it stops."""
    bench = Remote(far)
    settings = EngineSettings(remote=RemoteSettings(**remote), stop_wait_ms=LONG_MS)
    bench.engine = Engine(bench.store, None, clock=Clock(), settings=settings)
    bench.engine.start()
    try:
        yield bench
    finally:
        bench.engine.stop()
        bench.store.close()


def await_stale(bench: Remote, stale: bool) -> None:
    """Return when the source of q is stale, or fresh."""
    deadline = time.monotonic() + 60
    while bench.source("q")["stale"] is not stale:
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def begin_to_hang(far: Endpoint) -> None:
    """Return when a request hangs; whoever asked before has had an answer."""
    far.hanging.clear()
    far.handle = far.hang
    assert far.hanging.wait(30), "the timer asks again by itself"


def test_an_endpoint_that_hangs_stalls_nothing(far: Endpoint) -> None:
    with threaded(far, timeout_ms=LONG_MS, every_ms=50) as bench:
        register(bench, far)
        begin_to_hang(far)
        began = time.monotonic()
        bench.push(1, "a", wait=True)
        assert bench.rows("q") == ["a 1"]
        bench.register("other", "SELECT ?s { ?s :in ?r }")
        bench.store.writer.update("INSERT DATA { <http://e/x> <http://example.org/in> 1 }")
        bench.engine.sync()
        assert bench.rows("other") == ["x"]
        bench.engine.stop()
        assert time.monotonic() - began < SOON_S, "stopping does not wait for an endpoint either"


def test_an_endpoint_that_hangs_ends_at_its_time_out_and_is_asked_again(far: Endpoint) -> None:
    with threaded(far, timeout_ms=2_500, every_ms=50, retry_ms=50, longest_retry_ms=50) as bench:
        register(bench, far)
        begin_to_hang(far)
        await_stale(bench, True)
        far.handle = far.sparql
        await_stale(bench, False)


def test_a_registration_whose_endpoint_hangs_holds_up_no_other_one(far: Endpoint) -> None:
    with threaded(far, timeout_ms=LONG_MS) as bench:
        far.handle = far.hang
        slow = threading.Thread(target=register, args=(bench, far))
        slow.start()
        assert far.hanging.wait(30)
        began = time.monotonic()
        bench.register("other", "SELECT ?s { ?s :in ?r }")
        bench.push(1, "a", wait=True)
        assert time.monotonic() - began < SOON_S
        assert [each["name"] for each in describe_all(bench.engine)] == ["other"]
        far.go_on.set()
        slow.join(30)
        assert sorted(each["name"] for each in describe_all(bench.engine)) == ["other", "q"]


def test_several_sources_of_a_query_take_the_time_of_the_slowest(far: Endpoint) -> None:
    with threaded(far, timeout_ms=1_500) as bench:
        far.handle = far.hang
        calls = " ".join(f"SERVICE <{far.url}{number}> {{ ?x :label ?l }}" for number in range(5))
        began = time.monotonic()
        with pytest.raises(FetchError, match="could not be fetched"):
            bench.register("q", f"SELECT ?x {{ {calls} }}")
        assert 1.4 < time.monotonic() - began < 6.0, "not five times as long"
        assert bench.engine.parts.sources.figures() == (0, 0), "nothing is left of it"


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_silence_and_a_slow_drip_both_end_at_the_time_out(far: Endpoint, kind: str) -> None:
    # While it drips no silence of a busy machine may be as long as the time-out.
    client = RemoteClient(AllowedHosts([far.host]), timeout_s=0.3 if kind == "hang" else 2.0)
    far.handle = far.hang if kind == "hang" else far.drip
    # The endpoint goes on for twenty seconds, or for ever.
    began = time.monotonic()
    with pytest.raises(FetchError, match="could not be fetched" if kind == "hang" else "took longer"):
        client.query(far.url, "ASK {}")
    assert time.monotonic() - began < SOON_S
