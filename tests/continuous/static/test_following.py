"""Queries over shared tables: what a commit costs and tells, large changes, and what is told of it all."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, describe_all, explain
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.plan.plan import source_key
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static import commit_watch, keyed_rows
from quadrill.continuous.static.static_evaluator import StaticEvaluator
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.changes.commit import NetChange
from quadrill.store.quads.committer import Committer
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

from ...store.test_concurrency import telling
from ..engines import PREFIX, Bench, E, bench

LABELLED = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :label ?l }"
BOTH = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :label ?l OPTIONAL { ?x :also ?m } }"
RENAMED = "SELECT ?a ?b WHERE { ?a :label ?b . STREAM :s [NOW] { ?a :seen ?z } }"


@pytest.fixture
def one() -> Iterator[Bench]:
    with bench() as made:
        yield made


def quad(name: str, label: str) -> Quad:
    return Quad(NamedNode(E + name), NamedNode(E + "label"), NamedNode(E + label), DefaultGraph())


def told(engine: Engine, name: str) -> list[tuple[str, int, list[str]]]:
    """Kind, version and the second columns of the rows of every event."""
    found = []
    for event in engine.queries.feed(name).subscribe(0).take():
        document = json.loads(event.data)
        columns = document["head"]["vars"]
        rows = [row[columns[-1]]["value"].rpartition("/")[2] for row in document["results"]["bindings"]]
        found.append((event.kind, document["version"], sorted(rows)))
    return found


def test_parts_that_are_equal_up_to_names_are_one_table(one: Bench) -> None:
    one.store.writer.apply(add=[quad("a", "1")])
    one.register("p", LABELLED)
    one.register("q", RENAMED)
    one.register("r", "SELECT ?x WHERE { STREAM :s [NOW] { ?x :seen ?v } ?x :other ?l }")
    statics = one.engine.parts.statics
    assert len(statics.tables()) == 2
    (part,) = describe(one.engine, "p")["static_parts"]
    assert (part["rows"], part["shared_with"], part["follows"]) == (1, ["q"], True)
    assert "shared with q" in explain_text(explain(one.engine, "p"))
    one.push(1, "a")
    assert [rows for _, _, rows in told(one.engine, "q")] == [["1"]]
    one.engine.queries.drop("p")
    one.engine.queries.drop("r")
    one.store.writer.apply(add=[quad("a", "2")])
    assert [table.count for table in statics.tables()] == [2]
    assert describe(one.engine, "q")["static_parts"][0]["shared_with"] == []


def test_a_commit_that_matches_no_pattern_evaluates_nothing(
    one: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.register("q", LABELLED)
    one.push(1, "a")

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("evaluated")

    monkeypatch.setattr(commit_watch, "rows_with", never)
    version = one.store.writer.apply(
        add=[
            Quad(NamedNode(E + "a"), NamedNode(E + "other"), NamedNode(E + "b"), DefaultGraph()),
            Quad(NamedNode(E + "a"), NamedNode(E + "label"), NamedNode(E + "b"), NamedNode(E + "g")),
        ]
    ).version
    assert describe(one.engine, "q")["version"] == version
    assert describe(one.engine, "q")["counters"]["refreshes"] == 1


def test_a_large_commit_is_read_anew_and_told_as_one_transaction() -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        one.register("q", LABELLED, output="changes")
        one.push(1, "a")
        one.store.writer.apply(add=[quad("a", str(n)) for n in range(10)])
        one.store.writer.apply(add=[quad("a", "x")], remove=[quad("a", "3")])
        assert told(one.engine, "q") == [
            ("insert", 1, sorted(str(n) for n in range(10))),
            ("delete", 2, ["3"]),
            ("insert", 2, ["x"]),
        ]
        (part,) = describe(one.engine, "q")["static_parts"]
        assert (part["rows"], part["behind_since"], part["version"]) == (10, None, 2)
        assert part["anew_because"] == "version 1 changed 10 keys, the limit is 3"
        assert f"last full read because: {part['anew_because']}" in explain_text(explain(one.engine, "q"))


def test_keys_over_the_limit_are_not_looked_for_and_those_of_other_parts_are() -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        one.register("q", LABELLED, output="changes")
        one.register("few", LABELLED.replace("?x :label ?l", "?x :label ?l . ?x :also ?m"), output="changes")
        one.register("last", LABELLED.replace(":label", ":also"), output="changes")
        one.push(1, "z")
        also = Quad(NamedNode(E + "z"), NamedNode(E + "also"), NamedNode(E + "m"), DefaultGraph())
        one.store.writer.apply(add=[*(quad(f"a{n}", str(n)) for n in range(3000)), quad("z", "1"), also])
        assert told(one.engine, "q") == [("insert", 1, ["1"])]
        assert told(one.engine, "few") == [("insert", 1, ["1"])]
        assert told(one.engine, "last") == [("insert", 1, ["m"])]
        parts = [
            describe(one.engine, name)["static_parts"][0]["anew_because"] for name in ("q", "few", "last")
        ]
        assert parts == ["version 1 changed more than 1000 keys, the limit is 3"] * 2 + [None]


def test_keys_that_reach_too_many_rows_make_a_commit_large() -> None:
    with bench(static_limits=StaticLimits(rows=2)) as one:
        one.store.writer.apply(add=[quad("hub", str(n)) for n in range(9)])
        counted = "SELECT ?x (COUNT(*) AS ?n) { ?x :label ?l . ?x :label ?m } GROUP BY ?x"
        one.register("q", f"SELECT ?x ?n WHERE {{ STREAM :s [RANGE 1h] {{ ?x :seen ?v }} {{ {counted} }} }}")
        one.push(1, "hub")
        one.store.writer.apply(add=[quad("hub", "9")])
        assert [rows for _, _, rows in told(one.engine, "q")] == [["81"], ["100"]]


def test_versions_of_a_thread_of_writers_are_told_one_by_one() -> None:
    with QuadStore.open(None) as store:
        engine = Engine(store, None, clock=Clock(), settings=EngineSettings())
        engine.start()
        try:
            document = {"query": PREFIX + LABELLED, "output": "changes"}
            engine.queries.register(Registration.from_json(document, name="q"))
            line = f'<{E}a> <{E}seen> "x" .'.encode()
            engine.streams.push(PushCall(E + "s", "application/n-triples", at=1), line)
            for n in range(200):
                store.writer.apply(add=[quad("a", str(n))], remove=[quad("a", str(n - 1))])
            engine.sync()
            versions = [version for kind, version, _ in told(engine, "q") if kind == "insert"]
            assert versions == list(range(1, 201))
            assert all(rows == [str(v - 1)] for k, v, rows in told(engine, "q") if k == "insert")
        finally:
            engine.stop()


def test_while_a_table_is_read_anew_the_old_rows_serve_and_later_changes_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with QuadStore.open(None) as store:
        engine = Engine(
            store, None, clock=Clock(), settings=EngineSettings(static_limits=StaticLimits(keys=3))
        )
        engine.start()
        try:
            statics = engine.parts.statics
            held: list[Any] = []
            released = statics.recomputer.ask
            monkeypatch.setattr(statics.recomputer, "ask", held.append)
            document = {"query": PREFIX + LABELLED, "output": "changes"}
            engine.queries.register(Registration.from_json(document, name="q"))
            for at, name in ((1, "a"), (2, "b")):
                line = f'<{E}{name}> <{E}seen> "x" .'.encode()
                engine.streams.push(PushCall(E + "s", "application/n-triples", at=at), line)
            store.writer.apply(add=[quad("a", str(n)) for n in range(10)])
            store.writer.apply(add=[quad("b", "z")])
            engine.sync()
            assert told(engine, "q") == []
            (part,) = describe(engine, "q")["static_parts"]
            assert (part["behind_since"], part["version"]) == (1, 0)
            assert any("old rows are in use" in reason.text for reason in waiting_for(describe(engine, "q")))
            released(held[0])
            statics.wait_for_reloads(10)
            engine.sync()
            assert told(engine, "q") == [("insert", 2, sorted([*map(str, range(10)), "z"]))]
        finally:
            engine.stop()


def test_rows_of_a_blank_node_are_found_by_the_other_columns(one: Bench) -> None:
    one.register("q", LABELLED, output="changes")
    one.push(1, "a")
    one.store.writer.update(PREFIX + "INSERT DATA { :a :label [] . :a :label :l }")
    one.store.writer.update(PREFIX + "DELETE WHERE { :a :label ?l }")
    kinds = [(kind, version, len(rows)) for kind, version, rows in told(one.engine, "q")]
    assert kinds == [("insert", 1, 2), ("delete", 2, 2)]


def test_a_part_refreshed_by_hand_stays_until_it_is_asked(one: Bench) -> None:
    one.register("q", LABELLED, refresh="manual", output="changes")
    one.push(1, "a")
    one.store.writer.apply(add=[quad("a", "1")])
    one.store.writer.apply(add=[quad("a", "2")], remove=[quad("a", "1")])
    assert told(one.engine, "q") == []
    (part,) = describe(one.engine, "q")["static_parts"]
    assert (part["version"], part["rows"], part["follows"]) == (0, 0, False)
    one.engine.queries.refresh("q")
    assert told(one.engine, "q") == [("insert", 2, ["2"])]
    (part,) = describe(one.engine, "q")["static_parts"]
    assert (part["version"], part["rows"]) == (2, 1)


def test_many_keys_are_asked_for_in_several_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "AT_ONCE", 2)
    with bench() as one:
        one.register("q", LABELLED)
        one.push(1, "a", "b", "c")
        one.store.writer.apply(add=[quad(name, "l" + name) for name in "abcde"])
        assert told(one.engine, "q") == [("insert", 1, ["la", "lb", "lc"])]


def test_commits_do_not_wait_for_rows_that_oxigraph_groups_first(monkeypatch: pytest.MonkeyPatch) -> None:
    store = QuadStore.open(None)
    engine = Engine(store, None, clock=Clock(), settings=EngineSettings())
    engine.start()
    store.writer.apply(add=[quad("a", "1")])
    begin = StaticEvaluator.whole
    tries: list[int] = []

    def slow(self: StaticEvaluator, reader: Any, part: Any, *check: Any) -> Any:
        """While the query begins another thread writes, and is done before the query has begun."""
        found = begin(self, reader, part, *check)
        tries.append(store.reader.version)
        if len(tries) < 3:
            writer = threading.Thread(target=lambda: store.writer.apply(add=[quad("b", str(len(tries)))]))
            writer.start()
            writer.join(10)
            assert not writer.is_alive(), "the writer waits for the query"
        return found

    monkeypatch.setattr(StaticEvaluator, "whole", slow)
    counted = "{ SELECT ?x (COUNT(?l) AS ?n) WHERE { ?x :label ?l } GROUP BY ?x }"
    text = f"{PREFIX}SELECT ?x ?n WHERE {{ STREAM :s [NOW] {{ ?x :seen ?v }} {counted} }}"
    engine.queries.register(Registration.from_json({"query": text}, name="q"))
    assert len(tries) == 3
    assert describe(engine, "q")["version"] == store.reader.version == 3
    body = f"<{E}b> <{E}seen> 1 ."
    engine.streams.push(PushCall(E + "s", "text/turtle", at=1, wait=True), body.encode())
    (event,) = engine.queries.feed("q").subscribe(0).take()
    assert json.loads(event.data)["results"]["bindings"][0]["n"]["value"] == "2"
    engine.stop()
    store.close()


def test_a_query_that_begins_while_its_rows_are_read_anew_begins_when_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        one.register("p", LABELLED, output="changes")
        asked: list[Any] = []
        ask = one.engine.parts.statics.recomputer.ask
        monkeypatch.setattr(one.engine.parts.statics.recomputer, "ask", asked.append)
        make = one.engine.parts.make_evaluator

        def overtaken(*given: Any) -> Any:
            """A large commit takes its turn between the reading of the tables and the turn of the query."""
            made = make(*given)
            one.store.writer.apply(add=[quad("a", str(n)) for n in range(10)])
            return made

        monkeypatch.setattr(one.engine.parts, "make_evaluator", overtaken)
        one.register("q", BOTH, output="changes")
        description = describe(one.engine, "q")
        assert description["state"] == "materialising"
        one.push(1, "a")
        one.store.writer.apply(add=[quad("a", "x")])
        assert told(one.engine, "q") == []
        ask(asked[0])
        one.engine.sync()
        assert describe(one.engine, "q")["state"] == "running"
        assert (
            told(one.engine, "p")
            == told(one.engine, "q")
            == [("insert", 2, sorted([*map(str, range(10)), "x"]))]
        )


def test_a_query_that_waits_for_rows_that_are_read_anew_can_be_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        asked: list[Any] = []
        ask = one.engine.parts.statics.recomputer.ask
        monkeypatch.setattr(one.engine.parts.statics.recomputer, "ask", asked.append)
        make = one.engine.parts.make_evaluator

        def overtaken(*given: Any) -> Any:
            made = make(*given)
            one.store.writer.apply(add=[quad("a", str(n)) for n in range(10)])
            return made

        monkeypatch.setattr(one.engine.parts, "make_evaluator", overtaken)
        one.register("q", LABELLED)
        assert describe(one.engine, "q")["state"] == "materialising"
        one.engine.queries.drop("q")
        ask(asked[0])
        one.engine.sync()
        assert describe_all(one.engine) == []
        one.store.writer.apply(add=[quad("a", "x")])
        assert one.engine.parts.statics.tables() == []


def test_commits_before_the_first_event_reach_every_query_of_a_table(one: Bench) -> None:
    """What waits for the first step of a query that holds them are all rows: copied at most once."""
    one.store.writer.apply(add=[quad("a", "1"), quad("b", "1")])
    held = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } OPTIONAL { ?x :label ?l } }"
    for name in "pqr":
        one.register(name, held)
    running = one.engine.parts.catalogue.get("p").running
    assert running is not None and isinstance(running.evaluator, NativeEvaluator)
    part = running.evaluator.statics.parts[0].name
    plan = running.plan_state
    one.store.writer.apply(add=[quad("a", "2")], remove=[quad("b", "1")])
    waiting = plan._pending[source_key("table", part)]
    one.store.writer.apply(add=[quad("a", "3")])
    one.store.writer.apply(add=[quad("b", "4")], remove=[quad("a", "1")])
    assert plan._pending[source_key("table", part)] is waiting and len(waiting) == 3
    one.push(1, "a")
    one.store.writer.apply(remove=[quad("a", "3")])
    one.push(2, "b")
    for name in "pqr":
        assert [rows for _, _, rows in told(one.engine, name)] == [["2", "3"], ["4"]]


TWO = (
    "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } { SELECT ?x ?l { ?x :label ?l } } "
    "OPTIONAL { SELECT ?x (COUNT(*) AS ?n) { ?x :kind ?k } GROUP BY ?x } }"
)
OVERTAKEN = {
    "one": LABELLED,
    "two": TWO,
    "beside-looked-up": "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :label ?l ; :kind ?k }",
    "plain": "SELECT ?x ?l WHERE { ?x :label ?l }",
    "ordered": "SELECT ?x ?l WHERE { ?x :label ?l } ORDER BY ?l LIMIT 1000",
}


@pytest.mark.parametrize("kind", OVERTAKEN)
def test_a_query_begins_although_a_large_commit_comes_in_each_reading(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    number = 0
    labels_at: dict[int, set[str]] = {0: set()}
    committing = threading.Lock()
    with bench(static_limits=StaticLimits(keys=3, quick_s=0), threaded=True) as one:
        recomputer = one.engine.parts.statics.recomputer
        read = recomputer.read

        def commit(labels: int) -> None:
            with committing:
                version = one.store.reader.version
                new = [f"{version}-{each}" for each in range(labels)]
                labels_at[version + 1] = labels_at[version].union(new)
                quads = [quad("a", each) for each in new]
                kinds = [Quad(each.subject, NamedNode(E + "kind"), each.object) for each in quads]
                one.store.writer.apply(add=quads + kinds)

        def overtaken(*given: Any, **options: Any) -> Any:
            """A writer commits something large while the rows are read."""
            nonlocal number
            swap = read(*given, **options)
            if number < 40:
                number += 1
                commit(10)
            return swap

        monkeypatch.setattr(recomputer, "read", overtaken)
        commit(1)
        one.register("q", OVERTAKEN[kind], output="changes")
        waited = time.monotonic() + 10
        while describe(one.engine, "q")["state"] != "running":
            assert number < 40 and time.monotonic() < waited, "it does not wait for the writer to end"
            time.sleep(0.001)
        one.push(1, "a")
        commit(1)
        number = 40
        one.engine.parts.statics.wait_for_reloads(10)
        one.engine.sync()
        changes = told(one.engine, "q")
        versions = [version for _, version, _ in changes]
        assert versions == sorted(versions)
        rows: Counter[str] = Counter()
        for place, (sign, version, found) in enumerate(changes):
            rows.update(found) if sign == "insert" else rows.subtract(found)
            if versions[place + 1 : place + 2] != [version]:
                # The law: all rows are those of the version that the event carries.
                assert set(+rows) == labels_at[version] and len(set((+rows).values())) == 1
        assert versions[-1] == one.store.reader.version


def test_a_group_of_commits_is_made_as_one_where_no_table_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = Committer._apply

    def noting(self: Committer, change: NetChange, version: int) -> None:
        made.append(version)
        make(self, change, version)

    monkeypatch.setattr(Committer, "_apply", noting)

    def together(store: QuadStore, *texts: str) -> list[int]:
        made.clear()
        line = [store.writer.enqueue_update(PREFIX + text) for text in texts]
        assert len({finish().version for finish in line}) == len(texts)
        return [version - store.reader.version for version in made]

    with QuadStore.open(tmp_path / "data", StoreOptions(durable=False)) as store, bench(store=store) as one:
        one.register("q", LABELLED)
        one.push(1, "a", "b")
        others = [f"INSERT DATA {{ :a :other {number} }}" for number in range(3)]
        assert together(store, *others, "DELETE DATA { :a :other 1 }") == [0]
        assert len(store.reader.solutions(PREFIX + "SELECT ?o { :a :other ?o }")[1]) == 2
        assert told(one.engine, "q") == []
        swap = "DELETE DATA { :a :label :x } ; INSERT DATA { :a :label :y }"
        label = "INSERT DATA { :a :label :x }"
        assert together(store, label, "INSERT DATA { :b :other 1 }", swap) == [-2, -1, 0]
        assert told(one.engine, "q") == [("insert", 5, ["x"]), ("insert", 7, ["y"])]
        assert together(store, others[1], "INSERT DATA { :b :label :z }") == [-1, 0]
        assert told(one.engine, "q")[2:] == [("insert", 9, ["z"])]
        one.engine.queries.drop("q")
        back = "DELETE DATA { :b :label :z }"
        assert together(store, back, "DELETE DATA { :a :other 1 }", "CLEAR ALL") == [0]
        assert store.reader.quad_count == 0


def _pushed(one: Bench) -> None:
    one.push(1, "a")


def _registered(one: Bench) -> None:
    one.register("r", LABELLED, start={"from": 0})


def _replayed(one: Bench) -> None:
    one.engine.queries.replay("q")


def _retried(one: Bench) -> None:
    (letter,) = one.engine.streams.dead_letters("s")
    one.engine.streams.retry_dead_letter("s", letter["id"])


@pytest.mark.parametrize(
    ("before", "action", "name"),
    [([], _pushed, "q"), ([1], _registered, "r"), ([1], _replayed, "q"), ([10_000, 1], _retried, "q")],
)
def test_what_comes_behind_an_answered_commit_finds_it_though_another_thread_still_tells_of_it(
    before: list[int], action: Callable[[Bench], None], name: str
) -> None:
    with bench() as one:
        one.engine.streams.declare(E + "s", late="drop")
        one.store.writer.apply(add=[quad("a", "0")])
        one.register("q", LABELLED)
        for at in before:
            one.push(at, "a" if at == 1 else "b")
        one.engine.sync()
        # A query that is replayed has a new history.
        known = len(told(one.engine, name)) if name == "q" and action is not _replayed else 0
        with telling(one.store) as go_on:
            swap = "DELETE { :a :label ?o } INSERT { :a :label :1 } WHERE { :a :label ?o }"
            version = one.store.writer.update(PREFIX + swap).version
            acting = threading.Thread(target=action, args=(one,))
            acting.start()
            acting.join(0.05)
            go_on()
            acting.join(20)
        one.engine.sync()
        events = [each for each in told(one.engine, name)[known:] if each[0] != "reset"]
        assert {each[2][0] for each in events} == {"1"}, events
        assert {each[1] for each in events} == {version}
