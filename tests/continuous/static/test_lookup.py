"""A part that is looked up gives what a table gives: at every version, ahead of it, with any size of memo."""

from __future__ import annotations

import gc
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, NamedNode, Quad

from benchmarks.policies import by_operators, replanned
from quadrill.app.describing.figures import engine_figures
from quadrill.app.describing.plan_text import explain_text
from quadrill.app.describing.queries import describe, explain
from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.static.table_registry import TableRegistry
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.errors import LimitError, QueryTextError, StoreUnwritableError, UnsupportedError
from quadrill.store.formats import rdf_format
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads
from tests.continuous.whole_contents import move_to, recomputed, refresh
from tests.examples import examples

from ..engines import PREFIX, Bench, E, bench
from ..plan.random_queries import PREDICATES, W1, W2, basic, blocks, contents, grouped, query_of
from ..plan.test_native_oracle import History, has_zero_steps
from ..test_recovery import Life, P, comparable

LABELLED = "SELECT ?x ?l WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :label ?l }"


joined = st.builds(
    lambda a, b, static, more: n.Join(
        n.Join(n.Window(W1, n.Bgp((n.TriplePattern(Var("a"), a, Var("b")),))), static),
        n.Join(n.Window(W2, n.Bgp((n.TriplePattern(Var("c"), b, Var("d")),))), more),
    ),
    st.sampled_from(PREDICATES),
    st.sampled_from(PREDICATES),
    st.one_of(basic, blocks(1)),
    st.one_of(basic, blocks(1), st.just(n.Bgp(()))),
)
single = st.builds(
    lambda a, static: n.Join(n.Window(W1, n.Bgp((n.TriplePattern(Var("a"), a, Var("b")),))), static),
    st.sampled_from(PREDICATES),
    st.one_of(basic, blocks(1), blocks(2)),
)
shapes = st.one_of(
    single,
    joined,
    st.builds(n.Union, single, single),
    st.builds(n.LeftJoin, single, single, st.none()),
    single.flatmap(grouped),
)
tasks = st.lists(
    st.tuples(contents, contents, st.one_of(st.none(), contents, contents)), min_size=2, max_size=6
)
"""What the windows hold, and the dataset where a commit makes it another."""


class Follower:
    """A native evaluator whose static parts follow the store, in turns of its own."""

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        how: str | None,
        limits: StaticLimits,
        *,
        is_compiled: bool = True,
    ) -> None:
        terms = EngineTerms()
        self.catalogue = TableRegistry(store, terms, limits=limits, threads=Threads(threaded=False))
        options = EvaluationOptions(name="q", static_tables=how)  # type: ignore[arg-type]
        self.native = NativeEvaluator(query, store, options, terms, statics=self.catalogue)
        replanned(self.native) if is_compiled else by_operators(self.native)
        self.native.take(self.native.statics.begin())

    def task(self, version: int) -> None:
        self.catalogue.advance(version)
        for step in self.native.statics.steps.ready():
            self.native.take(step.changes)

    def step(self, at: int, contents: Any) -> tuple[Any, Any, Any]:
        change = move_to(self.native, at, contents)
        return Counter(change.rows), Counter(change.inserted), Counter(change.deleted)

    def close(self) -> None:
        self.native.close()
        self.catalogue.close()


def agree(
    query: ContinuousQuery, history: History, late: list[bool], loads: list[bool], limits: StaticLimits
) -> None:
    assume(not has_zero_steps(query.root))
    store = QuadStore.open(None)
    options = EvaluationOptions(name="q")
    try:
        reference = ReferenceEvaluator(query, store, options)
        table = Follower(query, store, "table", limits)
    except (UnsupportedError, QueryTextError):
        assume(False)
    looked = [Follower(query, store, "lookup", limits, is_compiled=each) for each in (True, False)]
    event(f"looked up: {len(looked[0].native.statics.looked_up)} of {len(table.native.statics.parts)}")
    assume(looked[0].native.statics.looked_up)
    held: set[Quad] = set()
    for number, (first, second, static) in enumerate(history):
        at = 500 * number
        if static is not None:
            if loads[number % len(loads)]:
                store.writer.apply(remove=held - static)
                store.writer.bulk_extend(static - held)
            else:
                store.writer.apply(add=static - held, remove=held - static)
            held = static
        if not late[number % len(late)]:
            for version in range(table.catalogue.task.version + 1, store.reader.version + 1):
                for each in (table, *looked):
                    each.task(version)
        held_now = {W1: dict.fromkeys(first, at), W2: dict.fromkeys(second, at)}
        expected = table.step(at, held_now)
        assert [each.step(at, held_now) for each in looked] == [expected, expected]
        if table.catalogue.task.version == store.reader.version:
            refresh(reference)
            assert expected[0] == Counter(recomputed(reference, at, held_now).rows)
    for each in (table, *looked):
        each.close()


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shapes.map(query_of),
    tasks,
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([0, 1, 2_000]),
)
def test_a_look_up_gives_what_a_table_gives_also_when_the_store_is_ahead(
    query: ContinuousQuery,
    history: History,
    late: list[bool],
    loads: list[bool],
    small: bool,
    most_keys: int,
) -> None:
    agree(query, history, late, loads, StaticLimits(keys=most_keys, remembered=3 if small else 100_000))


def label(one: Bench, *pairs: str, remove: bool = False) -> None:
    quads = [
        Quad(NamedNode(E + pair[0]), NamedNode(E + "label"), NamedNode(E + pair[1:]), DefaultGraph())
        for pair in pairs
    ]
    one.store.writer.apply(remove=quads) if remove else one.store.writer.apply(add=quads)


def told(one: Bench, name: str) -> list[tuple[str, int, list[str]]]:
    found = []
    for each in one.engine.queries.feed(name).subscribe(0).take():
        document = json.loads(each.data)
        rows = [row["l"]["value"].rpartition("/")[2] for row in document["results"]["bindings"]]
        found.append((each.kind, document["version"], sorted(rows)))
    return found


def test_commits_reach_a_query_that_looks_up_version_by_version() -> None:
    with bench() as one:
        label(one, "a1", "b1")
        for name, how in (("p", "lookup"), ("q", "table")):
            one.register(name, LABELLED, output="changes", static_tables=how)
        one.push(1, "a")
        label(one, "a2", "b2")
        label(one, "a1", remove=True)
        label(one, *(f"a{number}" for number in range(10, 40)))
        assert told(one, "p") == told(one, "q")
        assert [version for _, version, _ in told(one, "p")] == [1, 2, 3, 4]
        (part,) = describe(one.engine, "p")["static_parts"]
        assert part["lookup"] == {"keys": 1, "rows": 31, "asked": 1, "found": 0, "hit_rate": 0.0}
        assert part["version"] == 4
        assert describe(one.engine, "q")["static_parts"][0]["lookup"] is None
        assert "31 rows of 1 keys cached" in explain_text(explain(one.engine, "p"))
        assert engine_figures(one.engine).static_tables == (1, 33)


def test_a_change_that_no_key_tells_of_is_worked_out_at_the_commit() -> None:
    with bench() as one:
        one.register("p", LABELLED, output="changes", static_tables="lookup")
        one.push(1, "a")
        one.store.writer.update(PREFIX + "INSERT DATA { :a :label :1, :2 . _:x :label _:y }")
        label(one, "a3")
        assert [rows for _, _, rows in told(one, "p")] == [["1", "2"], ["3"]]


def lines(*pairs: str) -> bytes:
    return "".join(f"<{E}{pair[0]}> <{E}label> <{E}{pair[1:]}> .\n" for pair in pairs).encode()


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_bulk_load_is_one_version_for_what_is_looked_up(tmp_path: Path, on_disk: bool) -> None:
    kind = rdf_format("application/n-triples")
    assert kind is not None
    with QuadStore.open(tmp_path if on_disk else None) as store, bench(store=store) as one:
        label(one, "a1")
        for name, how in (("p", "lookup"), ("q", "table")):
            one.register(name, LABELLED, output="changes", static_tables=how)
        one.push(1, "a", "b")
        one.store.writer.bulk_load(lines("a2", "b1", "c1"), kind)
        label(one, "a1", remove=True)
        one.push(2, "c")
        one.store.writer.bulk_load(b"<http://e/x> <http://e/y> <http://e/z> .", kind)
        label(one, "c2")
        assert told(one, "p") == told(one, "q")
        assert [(version, rows) for _, version, rows in told(one, "p")] == [
            (1, ["1"]), (2, ["1", "2"]), (3, ["1"]), (3, ["1"]), (5, ["2"])
        ]  # fmt: skip
        gc.collect()
        assert not on_disk or list((tmp_path / "frozen").iterdir()) == []


def test_events_before_the_turn_of_a_load_see_the_dataset_from_before_it(tmp_path: Path) -> None:
    """The engine stands while a load and a commit are made: what was pushed before has its turn first."""
    kind = rdf_format("application/n-triples")
    assert kind is not None
    with QuadStore.open(tmp_path) as store, bench(store=store, threaded=True) as one:
        label(one, "a1")
        one.register("p", LABELLED, output="changes", static_tables="lookup")
        one.push(1, "z", wait=True)
        with one.engine.parts.sequencer.paused:
            one.push(2, "a", wait=False)
            one.store.writer.bulk_load(lines("a2", "b1"), kind)
            label(one, "a3")
            one.push(3, "b", wait=False)
        one.engine.sync()
        assert [(version, rows) for _, version, rows in told(one, "p")] == [
            (1, ["1"]), (2, ["2"]), (3, ["3"]), (3, ["1"])
        ]  # fmt: skip


def test_a_part_is_looked_up_once_the_load_that_runs_has_ended() -> None:
    with bench(threaded=True) as one:
        loading = one.engine.parts.statics.commits.around_bulk_load()
        loading.__enter__()
        one.register("p", LABELLED, static_tables="lookup")
        assert describe(one.engine, "p")["state"] == "materialising"
        loading.__exit__(None, None, None)
        label(one, "a1")
        one.push(1, "a", wait=True)
        assert [rows for _, _, rows in told(one, "p")] == [["1"]]


def test_a_load_for_which_there_is_no_copy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = rdf_format("application/n-triples")
    assert kind is not None

    def full(self: QuadStore, **_: Any) -> None:
        raise StoreUnwritableError("the disk is full")

    with bench() as one:
        one.register("p", LABELLED, static_tables="lookup")
        with monkeypatch.context() as patch:
            patch.setattr(QuadStore, "frozen", full)
            with pytest.raises(StoreUnwritableError):
                one.store.writer.bulk_load(lines("a1"), kind)
            assert one.store.reader.quad_count == 0
        one.store.writer.bulk_load(lines("a1"), kind)
        one.push(1, "a")
        assert [rows for _, _, rows in told(one, "p")] == [["1"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("STREAM :s [NOW] { ?x :seen ?v } OPTIONAL { ?x :label ?l }", "the plan reads all its rows"),
        ("STREAM :s [NOW] { ?x :seen ?v } ?y :label ?l", "the plan looks into it without a key"),
        (
            "STREAM :s [NOW] { ?x :seen ?v } { SELECT ?x (COUNT(?m) AS ?l) { ?x :label ?m } GROUP BY ?x }",
            "it has GROUP BY",
        ),
    ],
)
def test_a_part_that_cannot_be_looked_up_is_held_and_says_why(text: str, why: str) -> None:
    with bench() as one:
        one.register("q", f"SELECT ?x ?l WHERE {{ {text} }}", static_tables="lookup")
        (part,) = describe(one.engine, "q")["static_parts"]
        assert (part["lookup"], part["held_because"]) == (None, why)
        assert f"held, not looked up: {why}" in explain_text(explain(one.engine, "q"))


def test_a_part_over_the_limit_is_looked_up_unless_it_is_to_be_a_table() -> None:
    with bench(static_rows_per_query=3) as one:
        label(one, "a1", "a2", "b1", "b2")
        one.register("p", LABELLED)
        (part,) = describe(one.engine, "p")["static_parts"]
        assert part["lookup"] is not None
        with pytest.raises(LimitError):
            one.register("q", LABELLED, static_tables="table")
        one.push(1, "b")
        assert [rows for _, _, rows in told(one, "p")] == [["1", "2"]]
        assert engine_figures(one.engine).static_tables == (0, 0)
        one.engine.queries.drop("p")
        label(one, "b3")
        assert one.engine.parts.statics.tables() == []


@pytest.mark.always("0-True", "1-False")
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_crash_changes_nothing_that_is_told(tmp_path: Path, seed: int, checkpoints: bool) -> None:
    chance = random.Random(seed)
    life = Life(tmp_path / "a", ManualClock(0))
    twin = Life(tmp_path / "b", ManualClock(0))
    for each in (life, twin):
        each.register("p", LABELLED, output="changes", static_tables="lookup")
        each.register("q", LABELLED, output="changes", static_tables="table")
    for number in range(1, 25):
        subject, value, verb = chance.choice("abc"), chance.randrange(6), chance.choice(["INSERT", "DELETE"])
        for each in (life, twin):
            each.store.writer.update(P + f"{verb} DATA {{ :{subject} :label {value} }}")
            each.push(number, subject)
        if number % 8 == 0:
            if checkpoints:
                life.checkpoint()
            life.journal.log.sync()
            life = life.crash()
    assert comparable(life.told()) == comparable(twin.told())
    kinds = {
        name: [(kind, json.loads(data)["version"]) for _, kind, data in life.told()[name]] for name in "pq"
    }
    assert kinds["p"] == kinds["q"]
    assert len(kinds["p"]) > 10
    life.stop()
    twin.stop()
