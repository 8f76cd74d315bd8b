"""A replay is a new registration that starts in the past: a new epoch of its feed."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.inputs import StreamInput
from quadrill.continuous.lifecycle.lifecycle import QueryLifecycle
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.streams.registry import StreamRegistry
from quadrill.store.errors import ReportedError
from tests.continuous.test_recovery import QUERIES, E, Life, comparable, ordered


@pytest.fixture
def life(tmp_path: Path) -> Any:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    yield life
    life.stop()


def without_ids(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Events as two feeds with other ids can be compared."""
    found = []
    for _, kind, data in events:
        document = ordered(json.loads(data))
        document.pop("revises", None)
        found.append((kind, document))
    return found


@pytest.mark.always("*-1")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["seen", "counts", "closes", "last", "any", "pairs"])
def test_a_replay_tells_what_a_query_told_that_saw_everything(tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register(name)
    at = 1_000
    for _ in range(25):
        at += chance.choice((0, 100, 700, 2_500))
        life.push(at, *chance.sample("abcd", chance.randint(1, 3)))
    before = life.told()[name]
    answer = life.engine.queries.current_answer(name)
    replayed = life.engine.queries.replay(name)
    after = life.told()[name]
    assert without_ids(after) == without_ids(before)
    assert [event[0] for event in after if event[0]] == list(
        range(replayed["first_id"], replayed["first_id"] + sum(1 for event in before if event[0]))
    )
    assert ordered(life.engine.queries.current_answer(name)) == ordered(answer)
    life.push(at + 1_000, "a")
    assert len(life.told()[name]) >= len(after), "it goes on with what comes"
    life.stop()


def test_a_replay_begins_at_the_time_it_is_told(life: Life) -> None:
    life.register("seen")
    for at in (1_000, 2_000, 3_000):
        life.push(at, "a")
    replayed = life.engine.queries.replay("seen", 2_000)
    assert (replayed["elements"], replayed["retained_from"], replayed["first_id"]) == (2, 1_000, 4)
    assert [json.loads(data)["at"] for _, _, data in life.told()["seen"]] == [2_000, 3_000]


def test_who_saw_the_last_event_before_a_replay_gets_a_reset(life: Life) -> None:
    life.register("seen")
    life.push(1_000, "a")
    open_feed = life.engine.queries.feed("seen").subscribe()
    life.engine.queries.replay("seen")
    assert [event.kind for event in open_feed.take()] == ["reset", "insert"]
    resumed = life.engine.queries.feed("seen").subscribe(1).take()
    assert [event.kind for event in resumed] == ["reset", "answer"], "the id is of the epoch before"
    assert [event.id for event in life.engine.queries.feed("seen").subscribe(0).take()] == [2]
    assert [event.kind for event in life.engine.queries.feed("seen").subscribe(2).take()] == []


def test_the_reset_is_still_told_after_a_restart(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.engine.queries.replay("seen")
    life = life.crash()
    assert [event.kind for event in life.engine.queries.feed("seen").subscribe(1).take()] == [
        "reset",
        "answer",
    ]
    life.stop()


def test_a_replay_reads_the_present_version_of_the_dataset(life: Life) -> None:
    life.register("named", output="istream")
    life.push(1_000, "a")
    assert life.told()["named"] == []
    life.store.writer.update('INSERT DATA { <http://example.org/a> <http://example.org/name> "A" }')
    life.engine.queries.replay("named")
    documents = [json.loads(data) for _, _, data in life.told()["named"]]
    assert [(document["at"], document["version"]) for document in documents] == [(1_000, 1)]


def test_a_stream_that_a_replayed_query_makes_gets_nothing_twice(life: Life) -> None:
    life.register("made")
    life.register("reads")
    for at in (1_000, 4_000, 7_000):
        life.push(at, "a")
    told, stream = life.told()["reads"], describe_stream(life.engine, "http://example.org/made")
    life.engine.queries.replay("made")
    assert life.told()["reads"] == told
    assert describe_stream(life.engine, "http://example.org/made")["accepted"] == stream["accepted"]
    life.push(10_000, "b")
    assert len(life.told()["reads"]) > len(told), "later instants are told"


def test_a_replay_that_breaks_off_repeats_the_past_no_more(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.register("made", "CONSTRUCT { ?x :again ?v } WHERE { STREAM :s [RANGE 3s] { ?x :seen ?v } }")
    made = describe(life.engine, "made")["result_stream"]
    life.register("reads", f"SELECT ?x ?v WHERE {{ STREAM <{made}> [RANGE 6s] {{ ?x :again ?v }} }}")
    for at in (1_000, 4_000):
        life.push(at, "a")
    told = life.told()["reads"]
    retained = StreamRegistry.retained

    def broken(*arguments: Any) -> Iterator[StreamInput]:
        yield next(retained(*arguments))
        raise ReportedError("it cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(StreamRegistry, "retained", broken)
        with pytest.raises(ReportedError):
            life.engine.queries.replay("made")
    life.push(4_000, "b")
    assert len(life.told()["reads"]) > len(told), "what is new is told, at an instant that was told, too"


def test_a_paused_query_runs_after_a_replay_and_a_paused_one_stays_so_over_a_restart(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.engine.queries.patch("seen", {"state": "paused"})
    life.push(2_000, "b")
    life = life.crash()
    assert describe(life.engine, "seen")["state"] == "paused"
    life.push(3_000, "c")
    assert len(life.told()["seen"]) == 1, "nothing is told while it is paused"
    life.engine.queries.patch("seen", {"state": "running"})
    assert len(json.loads(life.told()["seen"][-1][2])["results"]["bindings"]) == 2, "then what is new"
    life.engine.queries.patch("seen", {"state": "paused"})
    assert life.engine.queries.replay("seen")["state"] == "running"
    assert len(life.told()["seen"]) == 3
    life.stop()


def test_a_replay_waits_in_line_and_repeats_what_was_accepted_before_it(tmp_path: Path) -> None:
    """Elements that the engine has not got to yet are in the replay, once; later ones come after it."""
    life = Life(tmp_path / "d", ManualClock(1_000_000), threaded=True)
    life.register("counts")
    with life.engine.parts.sequencer.paused:
        for at in range(1_000, 1_010):
            life.push(at, "a")
        replay = threading.Thread(target=life.engine.queries.replay, args=("counts",))
        replay.start()
        while life.journal.log.last < 12:
            pass
        life.push(1_500, "b")
    replay.join()
    life.engine.sync()
    rows = [json.loads(data)["results"]["bindings"] for _, _, data in life.told()["counts"]]
    assert [row[0]["n"]["value"] for row in rows] == [str(number) for number in range(1, 12)]
    life.stop()


class Killed(BaseException):
    """The process ends here."""


def test_a_crash_in_the_middle_of_a_replay_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = Life(tmp_path / "u", ManualClock(1_000_000))
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    for each in (undisturbed, life):
        for name in ("closes", "seen", "made", "reads"):
            each.register(name)
        for at in range(1_000, 9_000, 500):
            each.push(at, "a", "b")
        each.checkpoint()
    undisturbed.engine.queries.replay("closes")
    handle, seen = RunningQuery.handle, [0]

    def dies(self: RunningQuery, *arguments: Any) -> None:
        seen[0] += 1
        if seen[0] == 8:
            life.journal.log.wait(life.journal.log.last)
            raise Killed
        handle(self, *arguments)

    monkeypatch.setattr(RunningQuery, "handle", dies)
    with pytest.raises(Killed):
        life.engine.queries.replay("closes")
    monkeypatch.undo()
    life = life.crash()
    for each in (undisturbed, life):
        each.push(9_500, "c")
    assert comparable(life.told()) == comparable(undisturbed.told())
    life.stop()
    undisturbed.stop()


def test_a_query_that_cannot_begin_anew_goes_on(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.register("seen")
    life.push(1_000, "a")

    def refuses(*_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(QueryLifecycle, "evaluator_maker", refuses)
    with pytest.raises(MemoryError):
        life.engine.queries.replay("seen")
    monkeypatch.undo()
    life.push(2_000, "b")
    assert [number for number, _, _ in life.told()["seen"]] == [1, 2]


def test_every_query_of_the_recovery_tests_can_be_replayed(life: Life) -> None:
    for name in QUERIES:
        life.register(name)
    for at in (1_000, 3_000, 6_000, 9_000):
        life.push(at, "a", "b")
    before = life.answers()
    for name in QUERIES:
        life.engine.queries.replay(name)
    assert life.answers().keys() == before.keys()
    for name in set(QUERIES) - {"made", "static"}:
        assert life.answers()[name] == before[name], name


def test_a_view_is_the_answer_again_after_a_replay(life: Life) -> None:
    life.register(
        "view", "CONSTRUCT { ?x :now ?v } INTO GRAPH :view WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"
    )
    life.push(1_000, "a")
    life.push(2_000, "b")
    graph = NamedNode(E + "view")
    before = set(life.store.reader.quads_for_pattern(graph=graph))
    assert len(before) == 2
    assert life.engine.queries.replay("view")["elements"] == 2
    assert set(life.store.reader.quads_for_pattern(graph=graph)) == before
    life.push(11_500, "c")
    assert len(set(life.store.reader.quads_for_pattern(graph=graph))) == 2, "one has left, one has come"


def test_what_the_files_have_forgotten_is_not_replayed_before_a_crash_either(tmp_path: Path) -> None:
    """Retention by bytes: the log deletes whole files, and memory follows it at the same checkpoint."""
    life = Life(tmp_path / "d", ManualClock(1_000_000), retention_ms=10_000_000)
    life.journal.keep_bytes = 12_000
    life.register("seen")
    for number in range(300):
        life.push(number * 10, f"a{number}")
    assert describe_stream(life.engine, E + "s")["retained"] == 300
    life.checkpoint()
    kept = describe_stream(life.engine, E + "s")["retained"]
    assert 10 < kept < 150 and life.journal.log.size() < 20_000
    life = life.crash()
    assert describe_stream(life.engine, E + "s")["retained"] == kept
    replayed = life.engine.queries.replay("seen")
    assert replayed["elements"] == kept
    assert replayed["retained_from"] == (300 - kept) * 10
    life.stop()


def test_retention_by_time_forgets_for_a_replay_too(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), retention_ms=500)
    life.register("seen")
    for number in range(100):
        life.push(number * 10, "a")
    assert life.engine.queries.replay("seen")["retained_from"] == 490
    life.engine.streams.declare(E + "s", retention="200ms")
    life.push(1_000, "a")
    assert life.engine.queries.replay("seen", 0) | {"first_id": 0} == {
        "name": "seen", "from": 0, "retained_from": 800, "elements": 21, "first_id": 0, "state": "running",
    }  # fmt: skip
    life.stop()


def test_a_checkpoint_that_began_before_a_replay_does_not_delete_what_the_replay_read(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), retention_ms=10_000_000)
    life.register("counts", "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :seen ?v } }")
    for number in range(300):
        life.push(number * 10, f"a{number}")
    assert life.engine.recovery is not None
    checkpoints = life.engine.recovery.checkpoints
    life.checkpoint()
    moment = checkpoints._cut()
    life.engine.queries.replay("counts")
    life.journal.log.wait(life.journal.log.last)
    life.journal.keep_bytes = 12_000
    checkpoints._trim_logs(moment)
    assert describe_stream(life.engine, E + "s")["retained"] == 300
    before = life.told()
    life = life.crash()
    assert life.told() == before
    life.push(3_000, "b")
    assert '"301"' in life.told()["counts"][-1][2]
    life.checkpoint()
    life.stop()
