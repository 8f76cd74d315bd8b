"""Live data frames: equal to the current answer at each event, over cut connections and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.client import Answer, AsyncClient, Client, FeedEvent, QuadrillError
from quadrill.client.async_sender import AsyncSender
from quadrill.client.live import LiveFrame
from quadrill.client.live_answer import LiveAnswer, refusal
from tests.app.conftest import LiveServer, Start, start_server
from tests.app.forwarder import forwarding

__all__ = ["start_server"]

S = "http://e/s"
JOIN = """SELECT ?room ?v ?label { STREAM <http://e/s> [RANGE 20s] { ?sensor <urn:v> ?v }
    ?sensor <urn:in> ?room OPTIONAL { ?room <urn:label> ?label } }"""
NODES = "SELECT ?sensor ?v { STREAM <http://e/s> [RANGE 20s] { ?sensor <urn:v> ?v } }"
GRID = """SELECT ?v (COUNT(*) AS ?n) { STREAM <http://e/s> [RANGE 10s SLIDE 5s] { ?sensor <urn:v> ?v } }
    GROUP BY ?v"""
COUNT = "SELECT (COUNT(*) AS ?n) { STREAM <http://e/s> [RANGE 10s SLIDE 5s] { ?sensor <urn:v> ?v } }"


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server()


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url) as found:
        yield found


def rows(answer: Answer) -> Counter[str]:
    """The rows of an answer as a multiset."""
    return Counter(json.dumps(each, sort_keys=True) for each in answer.bindings)


class Changes:
    """Random changes of a stream with static data, as calls of a client."""

    def __init__(self, client: Client, seed: str) -> None:
        self._client, self._random = client, Random(seed)
        self._at = 0

    def make(self) -> None:
        """Push some elements, advance the time or change the static data."""
        random = self._random
        kind = random.random()
        if kind < 0.7:
            self._at += random.choice([0, 0, 500, 3_000, 9_000])
            triples = [
                f"{self._sensor()} <urn:v> {random.randrange(3)} ." for _ in range(random.randrange(1, 4))
            ]
            self._client.push(S, " ".join(triples), media_type="text/turtle", at=self._at, wait=True)
        elif kind < 0.8:
            self._at += random.choice([1_000, 30_000, 10_000_000])
            self._client.request(
                "POST", "streams:heartbeat", params={"iri": S, "at": self._at, "wait": "true"}
            )
        else:
            subject, object_ = f"<urn:s{random.randrange(4)}>", f"<urn:r{random.randrange(2)}>"
            triple = random.choice(
                [f"{subject} <urn:in> {object_}", f"{object_} <urn:label> {random.randrange(2)}"]
            )
            self._client.update(f"{random.choice(['INSERT', 'DELETE'])} DATA {{ {triple} }}")

    def _sensor(self) -> str:
        return "[]" if self._random.random() < 0.1 else f"<urn:s{self._random.randrange(4)}>"


def settled(client: Client, name: str) -> tuple[int, Counter[str]]:
    """The newest event's id with the answer of that moment, as the server has them."""
    while True:
        before = client.describe(name)["feed"]["last_id"]
        found = rows(client.current(name))
        if client.describe(name)["feed"]["last_id"] == before:
            return before, found


def until(condition: Any, what: str) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (JOIN, {"output": "changes"}),
        (NODES, {"output": "changes"}),
        (JOIN, {"output": "rstream"}),
        (GRID, {"output": "rstream", "report": "on-window-close"}),
        (COUNT, {"output": "rstream", "report": "on-window-close"}),
        (GRID, {"output": "changes", "report": "on-window-close"}),
    ],
)
def test_the_frame_equals_the_current_answer_over_cut_connections(
    server: LiveServer, client: Client, text: str, options: dict[str, Any]
) -> None:
    """Over 1,000 random changes (250 for each further query), also at every moment between two changes."""
    number = 1_000 if (text, options["output"]) == (JOIN, "changes") else 250
    client.update("INSERT DATA { <urn:s0> <urn:in> <urn:r0> . <urn:s1> <urn:in> <urn:r0> }")
    client.register(text, name="q", **options)
    changes, known = Changes(client, f"{text} {options}"), dict[int, list[Counter[str]]]()
    sampled: list[tuple[int, Counter[str]]] = []
    done = threading.Event()
    with forwarding() as proxy:
        proxy.lead_to(server.url)
        with Client(proxy.url) as far, far.live("q") as live:

            def sample() -> None:
                while not done.wait(0.003):
                    before, found = live.last_id, rows(live.answer)
                    if live.last_id == before:
                        sampled.append((before, found))

            sampler = threading.Thread(target=sample)
            sampler.start()
            for count in range(1, number + 1):
                changes.make()
                last, found = settled(client, "q")
                known.setdefault(last, []).append(found)
                if count % 100 == 50:
                    proxy.cut()
                if count % 25 == 0:
                    assert live.wait(last)
                    # A run of reports of empty windows has no id for which one could wait.
                    until(
                        lambda: (live.last_id, rows(live.answer)) == settled(client, "q"), f"change {count}"
                    )
            done.set()
            sampler.join()
            assert live.frame.shape == client.current("q").to_pandas().shape
    # An answer between two settled ones has an id of its own, or is one of those with the same id.
    compared = [(last, found) for last, found in sampled if last in known]
    assert len(compared) > number / 10
    assert not [last for last, found in compared if found not in known[last]]


def test_deleted_and_inserted_rows_of_one_evaluation_change_together(client: Client) -> None:
    """A count always has one row, though its feed deletes the old row before it inserts the new one."""
    client.register(COUNT.replace(" SLIDE 5s", ""), name="q", output="changes")
    seen, done = set[int](), threading.Event()
    with client.live("q") as live:
        client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=0, wait=True)
        assert live.wait()

        def sample() -> None:
            while not done.is_set():
                seen.add(len(live.answer))

        sampler = threading.Thread(target=sample)
        sampler.start()
        for number in range(200):
            client.push(S, f"<urn:a{number}> <urn:v> 1 .", media_type="text/turtle", at=number, wait=True)
        done.set()
        sampler.join()
        assert live.wait() and live.frame["n"].tolist() == [201]
    assert seen == {1}


def test_an_answer_follows_a_restarted_server(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with forwarding() as proxy:
        with running.serve(Settings(data=data, port=0)) as first, Client(first.url) as client:
            proxy.lead_to(first.url)
            client.register(NODES, name="q", output="changes")
            client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=1_000, wait=True)
            live = Client(proxy.url).live("q")
            assert live.frame.to_dict("records") == [{"sensor": "urn:a", "v": 1}]
            proxy.lead_to(None)
        until(lambda: proxy.refused > 0, "the live frame finds the server away")
        with running.serve(Settings(data=data, port=0)) as second, Client(second.url) as client, live:
            proxy.lead_to(second.url)
            client.push(S, "<urn:b> <urn:v> 2 .", media_type="text/turtle", at=30_000, wait=True)
            last = client.describe("q")["feed"]["last_id"]
            assert live.wait(last, timeout=30) and live.last_id == last
            assert live.frame.to_dict("records") == [{"sensor": "urn:b", "v": 2}]
    assert live.ended and len(live.frame) == 1
    assert not [each for each in threading.enumerate() if each.name == "live q"]


def test_a_run_of_empty_reports_during_a_cut_is_not_missed(server: LiveServer, client: Client) -> None:
    """The run has no event with an id, so a feed that is resumed after an id has nothing of it."""
    client.register(GRID, name="q", output="rstream", report="on-window-close")
    with forwarding() as proxy:
        proxy.lead_to(server.url)
        with Client(proxy.url) as far, far.live("q") as live:
            client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=1_000, wait=True)
            client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=9_000, wait=True)
            client.heartbeat(S, 15_000)
            until(lambda: client.describe("q")["feed"]["last_id"] == 3, "the last report with a row")
            assert live.wait() and len(live.frame) == 1
            proxy.lead_to(None)
            proxy.cut()
            client.heartbeat(S, 10_000_000)
            until(lambda: rows(client.current("q")) == Counter(), "the windows are empty")
            until(lambda: proxy.refused > 0, "the live frame finds the server away")
            assert len(live.frame) == 1
            proxy.lead_to(server.url)
            until(lambda: len(live.frame) == 0, "the live frame is empty")
            assert live.last_id == client.describe("q")["feed"]["last_id"]


def test_replaced_and_dropped_queries(client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    with client.live("q") as live:
        client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=1_000, wait=True)
        assert live.wait() and len(live.frame) == 1
        client.register(GRID, name="q", replace=True, output="changes")
        client.push(S, "<urn:a> <urn:v> 7 .", media_type="text/turtle", at=2_000, wait=True)
        client.push(S, "<urn:a> <urn:v> 7 .", media_type="text/turtle", at=9_000, wait=True)
        until(
            lambda: live.frame.to_dict("records") == client.current("q").to_pandas().to_dict("records"), "new"
        )
        assert list(live.frame.columns) == ["v", "n"] and not live.ended
        client.drop("q")
        until(lambda: live.ended, "the query was dropped")
        assert live.wait() and list(live.frame.columns) == ["v", "n"]
    client.register(NODES, name="q", output="changes")
    with client.live("q") as live:
        client.register(NODES, name="q", replace=True, output="istream")
        until(lambda: live.ended, "the output gives no answer")
        with pytest.raises(ValueError, match="its output istream does not say"):
            _ = live.frame


def test_a_failed_query_has_its_error_until_it_runs_again(client: Client) -> None:
    client.register(NODES, name="q", output="changes", max_rows=2)
    with client.live("q") as live:
        triples = " ".join(f"<urn:s{number}> <urn:v> 1 ." for number in range(3))
        client.push(S, triples, media_type="text/turtle", at=1_000, wait=True)
        with pytest.raises(QuadrillError, match="the query has failed: .*max_rows"):
            until(lambda: live.frame is None, "the query fails")
        client.register(NODES, name="q", replace=True, output="changes")
        client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=30_000, wait=True)

        def shown() -> bool:
            try:
                return len(live.frame) == 1
            except QuadrillError:
                return False

        until(shown, "the query runs again")


def test_a_query_that_had_failed_before_has_its_error_after_a_restart(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for start in range(2):
        with running.serve(Settings(data=data, port=0)) as found, Client(found.url) as client:
            if start == 0:
                client.register(NODES, name="q", output="changes", max_rows=1)
                triples = "<urn:a> <urn:v> 1 . <urn:b> <urn:v> 1 ."
                client.push(S, triples, media_type="text/turtle", at=1_000, wait=True)
                until(lambda client=client: client.describe("q")["state"] == "failed", "the query fails")
            with client.live("q") as live:
                assert not live.ended
                with pytest.raises(QuadrillError, match="the query has failed: .*max_rows"):
                    _ = live.frame


def test_a_deletion_right_before_the_end_is_applied(client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    with client.live("q") as live:
        client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=1_000, wait=True)
        assert live.wait() and len(live.frame) == 1
        client.heartbeat(S, 90_000)
        until(lambda: client.describe("q")["feed"]["last_id"] == 2, "the row leaves")
        client.drop("q")
        until(lambda: live.ended, "the query was dropped")
        assert (len(live.frame), live.last_id) == (0, 2)


def test_a_paused_query_has_an_empty_frame(client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    client.pause("q")
    with client.live("q") as live:
        assert len(live.frame) == 0 and not live.ended
        client.resume("q")
        client.push(S, "<urn:a> <urn:v> 1 .", media_type="text/turtle", at=1_000, wait=True)
        until(lambda: len(live.frame) == 1, "the query runs")


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (NODES, {"output": "istream"}, 'which rows leave its answer; register it with output="changes"'),
        (NODES, {"output": "dstream"}, 'which rows enter its answer; register it with output="changes"'),
        (NODES, {"output": "rstream", "non_empty": True}, "non_empty leaves empty answers out"),
        (NODES + " ONCE PER ?sensor", {"output": "changes"}, "ONCE PER leaves rows out of its feed"),
        (NODES.replace("SELECT ?sensor ?v", "ASK"), {}, "it is ASK, and only SELECT has rows"),
        (
            NODES.replace("SELECT ?sensor ?v", "CONSTRUCT { ?sensor <urn:w> ?v } WHERE"),
            {"output": "changes"},
            "it is CONSTRUCT, and only SELECT has rows",
        ),
    ],
)
def test_outputs_that_do_not_give_the_answer_are_refused(
    client: Client, text: str, options: dict[str, Any], reason: str
) -> None:
    client.register(text, name="q", **options)
    with pytest.raises(ValueError, match="the query q has no live data frame: .*" + reason):
        client.live("q")


def test_unknown_queries_and_servers_are_refused(client: Client) -> None:
    with pytest.raises(QuadrillError, match="no query named nothing"):
        client.live("nothing")
    with pytest.raises(QuadrillError, match="no server answers"):
        Client("http://127.0.0.1:1").live("q")


def test_a_feed_without_an_answer_is_given_up(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(_self: AsyncSender, _name: str, **_options: Any) -> AsyncGenerator[FeedEvent, None]:
        await asyncio.sleep(60)
        yield event("answer", 1, 0)

    monkeypatch.setattr(AsyncSender, "feed", silent)
    with Client(server.url, timeout=1.0) as client:
        client.register(NODES, name="q", output="changes")
        with pytest.raises(QuadrillError, match="the feed of q had no answer in 1 seconds"):
            client.live("q")
    until(lambda: not [each for each in threading.enumerate() if each.name == "live q"], "the thread")


def test_an_answer_over_the_limit_ends_with_the_reason(client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    with client.live("q", max_rows=2) as live:
        triples = " ".join(f"<urn:s{number}> <urn:v> 1 ." for number in range(3))
        client.push(S, triples, media_type="text/turtle", at=1_000, wait=True)
        until(lambda: live.ended, "the limit")
        with pytest.raises(QuadrillError, match=r"more than 2 rows \(max_rows\)"):
            _ = live.frame


def test_a_forgotten_frame_ends_its_thread(client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    live = client.live("q")
    assert [each for each in threading.enumerate() if each.name == "live q"]
    del live
    until(lambda: not [each for each in threading.enumerate() if each.name == "live q"], "the thread")


def test_a_notebook_shows_the_first_rows_and_the_moment(client: Client) -> None:
    client.register(
        "SELECT ?v { STREAM <http://e/s> [RANGE 20s] { ?s <urn:v> ?v } }", name="q", output="changes"
    )
    with client.live("q") as live:
        assert "<p>q, 0 rows</p>" in live._repr_html_()
        triples = " ".join(f'[] <urn:v> "<b>{number:02}</b>" .' for number in range(25))
        client.push(S, triples, media_type="text/turtle", at=1714564800000, wait=True)
        assert live.wait()
        shown = live._repr_html_()
        assert shown.count("<td>") == 20 and "&lt;b&gt;00&lt;/b&gt;" in shown and "<b>" not in shown
        assert "<p>q, 25 rows, event 1, at 2024-05-01 12:00:00 UTC, the first 20 are shown</p>" in shown


def test_the_client_of_an_event_loop_has_live_frames(server: LiveServer, client: Client) -> None:
    client.register(NODES, name="q", output="changes")
    live: LiveFrame = AsyncClient(server.url).live("q")
    with live:
        assert len(live.frame) == 0


def event(kind: str, number: int | None, at: int, *values: int, **members: Any) -> FeedEvent:
    bindings = [{"v": {"type": "literal", "value": str(value)}} for value in values]
    document: Mapping[str, Any] = {"head": {"vars": ["v"]}, "results": {"bindings": bindings}, "at": at}
    return FeedEvent(number, kind, Answer(members or document))


def test_the_rows_are_a_multiset() -> None:
    answer = LiveAnswer("q", 10)
    for kind, number, values in (("answer", None, (1, 1, 2)), ("delete", 1, (1,)), ("insert", 2, (2, 3))):
        answer.take(event(kind, number, 5, *values))
    assert sorted(each["v"] for each in answer.answer().rows()) == ["1", "2", "2", "3"]
    assert (answer.total, answer.last_id, answer.at, answer.columns) == (4, 2, 5, ["v"])
    with pytest.raises(QuadrillError, match="deletes a row that is not in the answer"):
        answer.take(event("delete", 3, 6, 9))


def test_a_run_of_empty_reports_empties_the_answer_unless_its_first_report_had_rows() -> None:
    answer = LiveAnswer("q", 10)
    answer.take(event("answer", 1, 5, 1))
    answer.take(event("progress", None, 0, **{"from": 5, "to": 90, "skipped": 17}))
    assert answer.total == 1
    answer.take(event("progress", None, 0, **{"from": 95, "to": 190, "skipped": 17}))
    assert (answer.total, answer.at, answer.last_id) == (0, 95, 1)


def test_a_query_whose_description_is_known_in_part_is_judged_by_it() -> None:
    assert refusal({"name": "q", "form": "select", "output": "changes", "once_per": None}) is None


def test_a_wait_ends_in_time(server: LiveServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.register(NODES, name="q", output="changes")
    with client.live("q") as live:
        assert live.wait(0) and not live.wait(1, timeout=0.05)
        pending = threading.Event()

        async def stuck(*_: Any) -> Any:
            pending.set()
            await asyncio.sleep(60)

        monkeypatch.setattr(AsyncSender, "json", stuck)
        assert not live.wait(timeout=0.05) and pending.is_set()
        monkeypatch.undo()
        client.drop("q")
        with contextlib.suppress(QuadrillError):
            live.wait()
        until(lambda: live.ended, "the query was dropped")
        assert live.wait()
