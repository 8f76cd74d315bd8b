"""The folder as a crash leaves it: what runs over a copy of it goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.figures import journal_state
from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream, describe_streams
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.lifecycle import lifecycle as query_life
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import (
    ConflictError,
    IdempotencyError,
    ReportedError,
    StoreFormatError,
    StoreUnwritableError,
    UnsupportedError,
)
from quadrill.store.hosts import AllowedHosts
from quadrill.store.logs import input_log
from quadrill.store.logs.input_log import Sync
from quadrill.store.logs.journal import Journal
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry, default_url

from .engines import tick

E = "http://example.org/"
P = f"PREFIX : <{E}>\n"
QUERIES = {
    "seen": "SELECT ?x ?v WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }",
    "named": "SELECT ?x ?n WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :name ?n }",
    "again": "SELECT ?v WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }",
    "counts": "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [RANGE 4s] { ?x :seen ?v } }",
    "closes": "REGISTER RSTREAM <http://example.org/out/closes> AS "
    "SELECT ?x (COUNT(?v) AS ?n) FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 4s STEP 2s] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } } GROUP BY ?x",
    "last": "SELECT ?x WHERE { STREAM :s [TRIPLES 3] { ?x :seen ?v } }",
    "static": "SELECT ?x ?n WHERE { ?x :name ?n }",
    "made": "REGISTER STREAM <http://example.org/made> AS "
    "CONSTRUCT { ?x <http://example.org/again> ?v } "
    "FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 3s STEP 3s] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } }",
    "reads": "SELECT ?x ?v WHERE { STREAM :made [RANGE 6s] { ?x :again ?v } }",
    "times": "REGISTER QUERY times AS PREFIX : <http://example.org/> SELECT ?x ?n (timestamp(?w) AS ?t) "
    "FROM STREAM :s [RANGE 6s STEP 2s] FROM STREAM :made [RANGE 4s STEP 2s] "
    "WHERE { ?x :seen|:again ?v . ?x :seen ?w OPTIONAL { ?x :name ?n } }",
    "once": "SELECT ?x ?v { STREAM :s [RANGE 3s] { ?x :seen ?v } } ONCE PER ?x EVERY 7s",
    "onceever": "CONSTRUCT { ?x :first ?v } { STREAM :s [RANGE 3s] { ?x :seen ?v } } ONCE PER ?x ?v",
    "quads": "CONSTRUCT { ?x :is ?n . :all :are ?n } { ?x :name ?n }",
    "pairs": "CONSTRUCT { ?x :with ?y . :some :saw ?v . GRAPH ?x { ?y :at ?v } } "
    "{ STREAM :s [RANGE 5s] { ?x :seen ?v . ?y :seen ?v } }",
    "left": "CONSTRUCT { ?x :was ?v } { STREAM :s [RANGE 2s] { ?x :seen ?v } }",
    "oncequads": "CONSTRUCT { ?x :first ?n } { STREAM :s [RANGE 3s] { ?x :seen ?v } ?x :name ?n } "
    "ONCE PER ?x",
    "timed": "SELECT ?x ?v ?t { STREAM :s [RANGE 3s] { ?x :seen ?v } AT ?t ?x :name ?n }",
    "bounded": "SELECT ?x ?o ?c { STREAM :s [RANGE 3s SLIDE 2s BOUNDS ?o ?c] { ?x :seen ?v } }",
    "follows": "SELECT ?x ?o ?t { STREAM :s [RANGE 3s BOUNDS ?o ?c] { ?x :seen ?v } AT ?t ?x :name ?n }",
    "sessionends": "SELECT ?x ?o ?c { STREAM :s [SESSION 2s PARTITION BY ?x BOUNDS ?o ?c] "
    "{ ?x :seen ?v } AT ?t } EMIT ON CLOSE",
    "latesttimes": "SELECT ?x ?t { STREAM :s [LATEST 1 BY ?x WITHIN 4s] { ?x :seen ?v } AT ?t }",
    "gone": "SELECT ?x ?v { STREAM :s [RANGE 3s] { ?x :seen ?v } } ONCE PER ?x UNTIL GONE RESOLVED EVERY 5s",
    "goneordered": "SELECT ?x ?v { STREAM :s [RANGE 9s] { ?x :seen ?v } } ORDER BY DESC(?v) "
    "ONCE PER ?x UNTIL GONE EVERY 2s",
    "gonequads": "CONSTRUCT { ?x :alarm ?n } { STREAM :s [LATEST 1 BY ?x WITHIN 4s] { ?x :seen ?v } "
    "?x :name ?n } ONCE PER ?x UNTIL GONE RESOLVED EMIT EVERY 3s",
    "quiet": "SELECT ?x ?v { STREAM :s [RANGE 9s] { ?x :seen ?v } } AFTER 8s",
    "past": "SELECT ?x ?v { STREAM :s [RANGE 4s TO 1s] { ?x :seen ?v } }",
    "before": "SELECT ?x ?v { STREAM :s [RANGE 4s TO 2s SLIDE 1s] { ?x :seen ?v } }",
    "latest": "SELECT ?x ?v { STREAM :s [LATEST 2 BY ?x WITHIN 6s] { ?x :seen ?v } }",
    "session": "SELECT ?x (COUNT(?v) AS ?n) "
    "{ STREAM :s [SESSION 2s PARTITION BY ?x] { ?x :seen ?v } } GROUP BY ?x",
    "sessions": "SELECT ?x ?v { STREAM :s [SESSION 2s PARTITION BY ?x] { ?x :seen ?v } } EMIT ON CLOSE",
    "sequence": "SELECT ?x ?v ?w { SEQ { STREAM :s { ?x :seen ?v } ; NOT STREAM :made { ?x :again ?v } ; "
    "STREAM :s { ?x :seen ?w } } WITHIN 6s }",
    "missing": "SELECT ?x ?v { SEQ SKIP { STREAM :s { ?x :seen ?v } ; NOT STREAM :s { ?x :seen ?w } } "
    "WITHIN 4s }",
    "any": "ASK { STREAM :s [RANGE 3s] { :a :seen ?v } }",
}
CHANGES = (
    "last",
    "named",
    "again",
    "times",
    "once",
    "onceever",
    "quads",
    "pairs",
    "oncequads",
    "quiet",
    "timed",
    "bounded",
    "follows",
    "latesttimes",
)
OPTIONS: dict[str, dict[str, Any]] = {name: {"output": "changes"} for name in CHANGES} | {
    "left": {"output": "dstream"}
}


class Life:
    """A server's insides over a folder; `crash` copies the folder and goes on over the copy."""

    hosts: tuple[str, ...] = ()
    sync: Sync = "off"
    parting = False

    def __init__(self, folder: Path, clock: ManualClock, **settings: Any) -> None:
        self.folder, self.clock, self.settings = folder, clock, settings
        folder.mkdir(exist_ok=True)
        settings = {"threaded": False, "checkpoint_ms": 0, **settings}
        with contextlib.ExitStack() as undo:
            self.store = QuadStore.open(
                folder, StoreOptions(clock_ms=clock.now_ms, allowed_hosts=AllowedHosts(self.hosts))
            )
            undo.callback(self.store.close)
            if self.parting:
                self.store.begin_epoch_of_copy()
            self.registry = Registry.open(default_url(folder))
            undo.callback(self.registry.close)
            self.journal = Journal.open(folder / "engine", sync=self.sync, segment_bytes=4096)
            undo.callback(self.journal.close)
            self.engine = Engine(
                self.store,
                self.registry,
                clock=clock,
                settings=EngineSettings(**settings, **self.more_settings()),
                journal=self.journal,
            )
            undo.callback(self.engine.stop)
            self.engine.start()
            undo.pop_all()

    def more_settings(self) -> dict[str, Any]:
        """Settings that need the open store."""
        return {}

    def crash(self) -> Any:
        copy = self.copy(self.folder.with_name(self.folder.name + "x"))
        self.stop()
        return type(self)(copy, self.clock, **self.settings)

    def copy(self, copy: Path) -> Path:
        # The database as it is now; its files may change while they are copied.
        self.store.backup(copy)
        shutil.copytree(self.folder / "engine", copy / "engine")
        for file in self.folder.glob("registry.sqlite*"):
            shutil.copy(file, copy)
        return copy

    def stop(self) -> None:
        while not self.engine.stop():
            pass  # the turn at work needs the files
        self.store.close()
        self.registry.close()

    def register(self, name: str, text: str | None = None, **options: Any) -> None:
        text = text or QUERIES[name]
        text = text if "REGISTER" in text else P + text
        members = {"query": text, **OPTIONS.get(name, {}), **options}
        self.engine.queries.register(Registration.from_json(members, name=name))

    def push(self, at: int, *names: str, **options: Any) -> dict[str, Any]:
        body = "".join(f'<{E}{name}> <{E}seen> "{at}" .\n' for name in names)
        return self.engine.streams.push(
            PushCall(E + "s", "application/n-triples", at=at, **options), body.encode()
        )

    def checkpoint(self) -> None:
        assert self.engine.recovery is not None
        self.engine.recovery.checkpoints.checkpoint()

    def told(self) -> dict[str, list[tuple[Any, ...]]]:
        """All feeds: (id, kind, data)."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for entry in self.engine.parts.catalogue.entries():
            events = entry.feed.subscribe(0).take()
            found[entry.name] = [(event.id, event.kind, event.data) for event in events]
        return found

    def answers(self) -> dict[str, Any]:
        return {
            entry.name: ordered(self.engine.queries.current_answer(entry.name))
            for entry in self.engine.parts.catalogue.entries()
        }


def ordered(document: dict[str, Any]) -> dict[str, Any]:
    """An answer whose rows have an order, so that it can be compared."""
    document = json.loads(json.dumps(document))
    if "results" in document:
        document["results"]["bindings"].sort(key=lambda row: json.dumps(row, sort_keys=True))
    if "quads" in document:
        document["quads"] = "".join(sorted(document["quads"].splitlines(keepends=True)))
    return document


def comparable(told: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: [(number, kind, ordered(json.loads(data))) for number, kind, data in events]
        for name, events in told.items()
    }


def scenario(seed: int, length: int) -> list[tuple[Any, ...]]:
    """Steps: pushes, heartbeats, updates, registrations and what else may happen, from a seed."""
    chance = random.Random(seed)
    steps: list[tuple[Any, ...]] = [("register", name) for name in ("seen", "named", "closes")]
    at, versions = 1_000, 0
    names = list(QUERIES)
    for _ in range(length):
        match chance.choices(range(10), (12, 3, 4, 2, 1, 1, 1, 1, 1, 1))[0]:
            case 0 | 1:
                at += chance.choice((0, 100, 700, 2_500))
                late = -chance.choice((0, 0, 0, 300))
                steps.append(("push", at + late, chance.sample("abcd", chance.randint(1, 3))))
            case 2:
                versions += 1
                thing = chance.choice("abcd")
                verb = chance.choice(("INSERT DATA", "INSERT DATA", "DELETE DATA"))
                steps.append(("update", f'{verb} {{ :{thing} :name "{versions % 3}" }}'))
            case 3:
                steps.append(("register", chance.choice(names)))
            case 4:
                steps.append(("drop", chance.choice(names)))
            case 5:
                steps.append(("pause", chance.choice(names)))
            case 6:
                steps.append(("resume", chance.choice(names)))
            case 7:
                at += 1_500
                steps.append(("heartbeat", at))
            case 8:
                steps.append(("checkpoint",))
            case 9:
                steps.append(("replay", chance.choice(names), at - chance.choice((0, 3_000, 100_000))))
    return steps


def take(life: Life, step: tuple[Any, ...]) -> None:
    """One step; it may be one that is refused."""
    life.clock.advance(7)
    try:
        match step:
            case ("push", at, names):
                life.push(at, *names)
            case ("update", text):
                life.store.writer.update(P + text)
            case ("register", name):
                life.register(name)
            case ("drop", name):
                life.engine.queries.drop(name)
            case ("pause", name):
                life.engine.queries.patch(name, {"state": "paused"})
            case ("resume", name):
                life.engine.queries.patch(name, {"state": "running"})
            case ("heartbeat", at):
                life.engine.streams.heartbeat(E + "s", at)
            case ("replay", name, start):
                life.engine.queries.replay(name, start)
            case ("checkpoint",):
                life.checkpoint()
    except ReportedError:
        pass


def run(folder: Path, seed: int, length: int, crashes: int, **settings: Any) -> tuple[Any, Any, Any]:
    steps = scenario(seed, length)
    chance = random.Random(seed + 1)
    at = set(chance.sample(range(len(steps)), crashes))
    clock = ManualClock(10_000)
    life = Life(folder, clock, idle_timeout_ms=0, **settings)
    for place, step in enumerate(steps):
        take(life, step)
        if place in at:
            before = life.told()
            life = life.crash()
            assert life.told() == before, f"seed {seed}: after the crash behind step {place} {step}"
    result = comparable(life.told()), life.answers(), describe_streams(life.engine)
    life.stop()
    return result


@pytest.mark.always("2", "5")
@pytest.mark.parametrize("seed", range(6))
def test_a_run_with_crashes_tells_what_an_undisturbed_one_does(tmp_path: Path, seed: int) -> None:
    (tmp_path / "calm").mkdir()
    (tmp_path / "stormy").mkdir()
    calm = run(tmp_path / "calm" / "d", seed, 60, 0)
    stormy = run(tmp_path / "stormy" / "d", seed, 60, 8)
    assert stormy[0] == calm[0]
    assert stormy[1] == calm[1]
    for stream, undisturbed in zip(stormy[2], calm[2], strict=True):
        assert {k: v for k, v in stream.items() if k != "silent_ms" and undisturbed[k] != v} == {}


def test_windows_feeds_and_seqs_go_on(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen", output="changes")
    receipt = life.push(1_000, "a")
    assert (receipt["durable"], receipt["last_seq"]) == (True, 1)
    life.push(2_000, "b")
    before = life.told()["seen"]
    life = life.crash()
    assert life.told()["seen"] == before
    assert life.push(11_500, "c")["first_seq"] == 3
    after = life.told()["seen"][len(before) :]
    assert [(number, kind) for number, kind, _ in after] == [(3, "delete"), (4, "insert")]
    assert [row["x"]["value"] for row in json.loads(after[0][2])["results"]["bindings"]] == [E + "a"]
    life.stop()


def test_an_idempotency_key_is_known_after_a_crash(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    first = life.push(1_000, "a", idempotency_key="k")
    for checkpointed in (False, True):
        if checkpointed:
            life.checkpoint()
        life = life.crash()
        assert life.push(1_000, "a", idempotency_key="k") == first
        with pytest.raises(IdempotencyError):
            life.push(1_000, "b", idempotency_key="k")
    assert describe_stream(life.engine, E + "s")["accepted"] == 1
    life.stop()


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_crash_does_not_bring_back_the_keys_of_a_dropped_stream(tmp_path: Path, checkpointed: bool) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.push(1_000, "a", idempotency_key="k")
    if checkpointed:
        life.checkpoint()
    life.engine.streams.drop(E + "s")
    life.engine.streams.declare(E + "s")
    life = life.crash()
    life.push(1_000, "b", idempotency_key="k")
    assert describe_stream(life.engine, E + "s")["accepted"] == 1
    life.stop()


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_stream_in_the_place_of_a_dropped_one_goes_on_after_a_crash(
    tmp_path: Path, checkpointed: bool
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    for at in (1_000, 2_000, 3_000):
        life.push(at, "before")
    life.engine.streams.drop(E + "s")
    life.engine.streams.declare(E + "s")
    first = life.push(5_000, "a", idempotency_key="k", position=("source", "1"))
    life.push(4_000, "late")
    if checkpointed:
        life.checkpoint()
    for seq in (3, 4):
        life = life.crash()
        assert life.push(5_000, "a", idempotency_key="k") == first
        assert life.engine.streams.source_position(E + "s", "source") == "1"
        assert [letter["seq"] for letter in life.engine.streams.dead_letters(E + "s")] == [2]
        assert life.push(5_000 + seq, "b")["first_seq"] == seq
        kept = life.engine.parts.streams.newest(E + "s", 10)
        assert [each.seq for each in kept] == [each for each in (4, 3, 1) if each <= seq]
    assert describe_stream(life.engine, E + "s")["accepted"] == 4
    life.stop()


def test_a_dropped_query_stays_dropped_and_its_name_begins_anew(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.engine.queries.drop("seen")
    life = life.crash()
    with pytest.raises(FeedGoneError):
        life.engine.queries.feed("seen")
    life.register("seen")
    life.push(2_000, "b")
    life = life.crash()
    assert [number for number, _, _ in life.told()["seen"]] == [1]
    life.stop()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_stream_of_a_dropped_query_can_be_made_again_after_a_restart(
    tmp_path: Path, *, checkpoint: bool
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("made")
    life.push(1_000, "a")
    life.push(4_000, "b")
    if checkpoint:
        life.checkpoint()
    life.engine.queries.drop("made")
    life = life.crash()
    life.register("made")
    life.push(7_000, "c")
    life.push(10_000, "d")
    assert describe_stream(life.engine, E + "made")["accepted"] == 2
    life.engine.queries.drop("made")
    life.engine.streams.push(
        PushCall(E + "made", "application/n-triples", at=10_000), b"<urn:a> <urn:b> <urn:c> ."
    )
    life = life.crash()
    with pytest.raises(ConflictError, match="elements were pushed"):
        life.register("made")
    life.stop()


def test_the_journal_does_not_grow_for_ever(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), retention_ms=5_000)
    life.register("seen")
    for number in range(400):
        life.push(number * 1_000, f"a{number}")
        if number % 50 == 49:
            life.checkpoint()
    assert life.journal.log.size() < 40_000
    assert life.journal.log.earliest > 100
    before = life.told()
    life = life.crash()
    assert life.told() == before
    assert life.push(400_000, "b")["first_seq"] == 401
    life.register("late", QUERIES["seen"], start={"from": 397_000})
    assert len(life.told()["late"]) == 4, "what the stream retains is there after a crash"
    life.stop()


def test_a_damaged_checkpoint_is_told_and_no_id_is_given_twice(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), retention_ms=0)
    life.register("seen")
    for number in range(300):
        life.push(number * 1_000, f"a{number}")
    life.checkpoint()
    last = life.told()["seen"][-1][0]
    path = life.folder / "engine" / "checkpoint"
    life.stop()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    life = Life(life.folder, life.clock, retention_ms=0)
    assert life.engine.recovery is not None and "check sum" in life.engine.recovery.report["problem"]
    assert life.push(300_000, "z")["first_seq"] == 301
    assert life.told()["seen"][0][0] == last + 1
    life.stop()


def test_a_record_cut_off_by_a_power_failure_is_cut_away(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life = life.crash()
    life.stop()
    copy = life.folder
    newest = sorted((copy / "engine" / "input").glob("*.log"))[-1]
    newest.write_bytes(newest.read_bytes() + b"\x99\x00\x00\x00torn")
    life = Life(copy, life.clock)
    assert life.engine.recovery is not None and life.engine.recovery.report["cut_bytes"] == 8
    assert life.push(2_000, "b")["first_seq"] == 2
    assert [number for number, _, _ in life.told()["seen"]] == [1, 2]
    life.stop()


def test_events_that_are_out_of_history_are_not_missed(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), feed_history=5)
    for name in ("seen", "named", "again"):
        life.register(name)
    for number in range(20):
        life.push(number * 1_000, f"a{number}")
    life.checkpoint()
    life.engine.queries.drop("named")
    life.engine.queries.replay("again")
    for number in range(20, 40):
        life.push(number * 1_000, f"a{number}")
    before = life.told()
    life = life.crash()
    assert life.engine.recovery is not None and life.engine.recovery.report["problem"] is None
    assert life.told() == before
    life.stop()


def test_events_that_are_gone_are_told_and_who_resumes_is_reset(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    for number in range(20):
        life.push(number * 1_000, f"a{number}")
    life.checkpoint()
    life.stop()
    path = life.folder / "engine" / "results.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE events SET data = 'x' WHERE place = 7")
        database.commit()
    life = Life(life.folder, life.clock)
    assert life.engine.recovery is not None
    assert "events of the feed seen are lost" in life.engine.recovery.report["problem"]
    feed = life.engine.queries.feed("seen")
    assert [event.kind for event in feed.subscribe(3).take()][:1] == ["reset"]
    assert [event.id for event in feed.subscribe(10).take()] == list(range(11, feed.history.last_id + 1))
    life.stop()


def test_a_journal_that_lacks_what_the_checkpoint_needs_is_refused(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.checkpoint()
    life = life.crash()
    life.stop()
    files = sorted((life.folder / "engine" / "input").glob("*.log"))
    assert len(files) == 1
    data = files[0].read_bytes()
    for left in (b"", data[:40]):
        files[0].write_bytes(left)
        with pytest.raises(StoreFormatError, match="the checkpoint of the engine needs records"):
            Life(life.folder, life.clock)
        files[0].write_bytes(data)
    Life(life.folder, life.clock).stop()


def test_with_a_full_disk_pushes_are_refused_and_it_goes_on_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    full = [True]
    original = input_log.os.write

    def write(file: int, data: Any) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(file, data)

    monkeypatch.setattr(input_log.os, "write", write)
    with pytest.raises(StoreUnwritableError, match="No space left"):
        life.push(2_000, "b", idempotency_key="b")
    for refused in (
        lambda: life.push(3_000, "c"),
        lambda: life.register("last"),
        lambda: life.engine.queries.drop("seen"),
    ):
        with pytest.raises(StoreUnwritableError, match="No space left"):
            refused()
    assert journal_state(life.engine)["trouble"], "the state says so"  # type: ignore[index]
    assert len(life.told()["seen"]) == 1, "nobody sees a result whose input is not durable"
    full[0] = False
    tick(life.engine)
    assert journal_state(life.engine)["trouble"] is None  # type: ignore[index]
    life.push(2_000, "b", idempotency_key="b")
    assert life.push(3_000, "c")["first_seq"] == 3
    before = life.told()
    assert [number for number, _, _ in before["seen"]] == [1, 2, 3]
    life = life.crash()
    assert life.told() == before
    life.stop()


def test_a_full_disk_under_the_result_log_holds_results_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")

    def append(rows: Any, forget: Any = ()) -> None:
        raise StoreUnwritableError("the result log cannot be written: disk full")

    monkeypatch.setattr(life.journal.results, "append", append)
    life.push(1_000, "a")
    with pytest.raises(StoreUnwritableError, match="result log"):
        life.push(2_000, "b")
    assert life.told()["seen"] == []
    monkeypatch.undo()
    tick(life.engine)
    assert [number for number, _, _ in life.told()["seen"]] == [1]
    life.push(2_000, "b")
    life.stop()


def test_a_query_that_cannot_be_restored_is_shown_as_failed_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.register("counts")
    life.push(1_000, "a")
    life.checkpoint()
    original = query_life.prepare

    def prepare(registration: Registration, *rest: Any) -> Any:
        if registration.name == "counts":
            raise UnsupportedError("COUNT")
        return original(registration, *rest)

    monkeypatch.setattr(query_life, "prepare", prepare)
    before = life.told()
    life = life.crash()
    described = describe(life.engine, "counts")
    assert described["state"] == "failed" and "COUNT" in described["error"]
    assert life.told() == before
    life.push(2_000, "b")
    assert len(life.told()["seen"]) == 2
    assert life.told()["counts"] == before["counts"]
    monkeypatch.undo()
    life.engine.queries.patch("counts", {"state": "running"})
    life.push(3_000, "c")
    assert life.told()["counts"][0][0] == before["counts"][-1][0] + 1, "ids go on when it runs again"
    life.stop()


def test_a_timer_refresh_and_one_by_hand_are_replayed(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("named", refresh="manual", output="changes")
    life.register("static", refresh={"every": "10s"})
    life.push(1_000, "a")
    life.store.writer.update(P + 'INSERT DATA { :a :name "1" }')
    life.engine.sync()
    assert life.told()["named"] == []
    life = life.crash()
    assert life.told()["named"] == [], "what was not refreshed is not after a crash either"
    life.engine.queries.refresh("named")
    life.clock.advance(11_000)
    tick(life.engine)
    before = life.told()
    assert [kind for _, kind, _ in before["named"]] == ["insert"]
    assert before["static"]
    life = life.crash()
    assert life.told() == before
    life.store.writer.update(P + 'INSERT DATA { :a :name "2" }')
    life = life.crash()
    life.push(1_500, "a")
    document = json.loads(life.told()["named"][-1][2])
    assert document["version"] == 1, "the version that was read by hand, not the newest"
    assert [row["n"]["value"] for row in document["results"]["bindings"]] == ["1"]
    life.stop()
