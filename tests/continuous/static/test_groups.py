"""Parts that differ in constants alone: a commit is worked out once for all of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.app.describing.queries import describe, validate
from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.static import StaticPattern
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Registration
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static import commit_watch, table_registry
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.static.static_inputs import StaticInputs
from quadrill.continuous.static.table_registry import TableRegistry
from quadrill.continuous.static.trigger_index import TableGroup
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.threads import Threads
from tests.examples import examples

from ..engines import PREFIX, Bench, E, bench
from ..plan.random_queries import (
    GRAPHS,
    NODES,
    PREDICATES,
    VALUES,
    basic,
    blocks,
    expressions,
    grouped,
    projected,
)
from ..test_recovery import Life, comparable
from .test_following import quad, told
from .test_replay import update
from .test_tables import background, commits, usable

CONSTANTS = [*NODES, *VALUES, Literal("a"), Literal("b")]


def substituted(value: Any, names: dict[Any, Any]) -> Any:
    """The pattern with other constants, predicates apart."""
    if isinstance(value, n.TriplePattern):
        subject = substituted(value.subject, names)
        if isinstance(subject, Literal):
            subject = value.subject
        return replace(value, subject=subject, object=substituted(value.object, names))
    if isinstance(value, tuple):
        return tuple([substituted(each, names) for each in value])
    if isinstance(value, NamedNode | Literal):
        return names.get(value, value)
    if is_dataclass(value) and not isinstance(value, type) and not isinstance(value, n.Graph | n.Path):
        return replace(value, **{f.name: substituted(getattr(value, f.name), names) for f in fields(value)})
    if isinstance(value, n.Graph):
        return replace(value, input=substituted(value.input, names))
    return value


def asked(name: str, term: Any, inner: Algebra) -> Algebra:
    return n.Filter(n.Call("=", (Var(name), n.Constant(term))), inner)


named = st.builds(
    lambda p, q, term: n.Bgp((n.TriplePattern(Var("a"), p, Var("b")), n.TriplePattern(Var("a"), q, term))),
    st.sampled_from(PREDICATES),
    st.sampled_from(PREDICATES),
    st.sampled_from(CONSTANTS),
)
equal = st.builds(
    lambda p, q, term: asked(
        "b", term, n.Bgp((n.TriplePattern(Var("a"), p, Var("b")), n.TriplePattern(Var("b"), q, Var("c"))))
    ),
    st.sampled_from(PREDICATES),
    st.sampled_from(PREDICATES),
    st.sampled_from(CONSTANTS),
)
seeds = st.one_of(named, equal, basic)
shapes = st.one_of(
    seeds,
    st.builds(n.Join, seeds, st.one_of(seeds, blocks(1))),
    st.builds(n.LeftJoin, seeds, blocks(1), st.one_of(st.none(), expressions(None))),
    st.builds(n.Minus, seeds, blocks(1)),
    st.builds(n.Graph, st.one_of(st.sampled_from(GRAPHS), st.just(Var("g"))), seeds),
    st.builds(n.Filter, expressions(seeds), seeds),
)
patterns = st.one_of(
    shapes,
    shapes.flatmap(projected),
    shapes.flatmap(projected).map(n.Distinct),
    shapes.flatmap(grouped),
    st.builds(n.Join, shapes.flatmap(projected), seeds),
).map(usable)
mappings = st.lists(
    st.permutations(CONSTANTS).map(lambda each: dict(zip(CONSTANTS, each, strict=True))),
    min_size=2,
    max_size=5,
)


def groups(registry: TableRegistry) -> set[TableGroup]:
    """The groups of the tables."""
    return {registry.commits.index._groups[table.identity.kind] for table in registry.tables()}


class Members:
    """Parts of queries of their own over one catalogue."""

    def __init__(self, store: QuadStore, parts: list[StaticPattern]) -> None:
        self.catalogue = TableRegistry(store, EngineTerms(), threads=Threads(threaded=False))
        self.store, self.rows, self.held = store, [], []
        for place, part in enumerate(parts):
            self.add(part, f"q{place}")

    def add(self, part: StaticPattern, name: str) -> None:
        """A query more."""
        options = EvaluationOptions(name=name)
        rows = StaticInputs(
            options, [part], lambda: background(self.store), self.catalogue.terms, self.catalogue
        )
        rows.open()
        assert rows.known()
        self.rows.append(rows)
        changes = rows.begin()
        self.held.append(Counter({rows.decoded(r): w for r, w in changes[0].delta.items()}))

    def step(self, version: int) -> None:
        """The turn of a commit; each change leads from the rows before to those behind."""
        self.catalogue.advance(version)
        for rows, held in zip(self.rows, self.held, strict=True):
            for step in rows.steps.ready():
                for row, weight in step.changes[0].delta.items():
                    held[rows.decoded(row)] += weight
            if rows.version != version:
                # Only a part that Oxigraph cannot evaluate keeps its rows: this raises then.
                background(self.store).evaluate(rows.parts)
            assert rows.version == version
            assert min(held.values(), default=0) >= 0

    def close(self) -> None:
        for rows in self.rows:
            rows.close()
        self.catalogue.close()


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(patterns, mappings, commits, st.data())
def test_the_rows_of_members_are_those_of_a_fresh_evaluation_after_every_commit(
    pattern: Algebra, names: list[dict[Any, Any]], history: list[set[Quad]], data: st.DataObject
) -> None:
    scope = sorted(name for name in in_scope(pattern) if not name.startswith("_:"))
    columns = tuple(map(Var, data.draw(st.lists(st.sampled_from(scope), unique=True)) if scope else []))
    parts = [StaticPattern("0", substituted(pattern, each), columns) for each in ({}, *names)]
    late = data.draw(st.integers(0, len(parts)))
    store = QuadStore.open(None)
    state: set[Quad] = set()
    try:
        members = Members(store, parts[:late])
        for number, quads in enumerate(history):
            store.writer.apply(add=quads - state, remove=state - quads)
            state = quads
            members.step(store.reader.version)
            if number == 0:
                for place, part in enumerate(parts[late:]):
                    members.add(part, f"late{place}")
            for rows, held in zip(members.rows, members.held, strict=True):
                _, (fresh,) = background(store).evaluate(rows.parts)
                assert Counter(rows.rows(0)) == Counter(fresh)
                assert +held == Counter(fresh)
    except ReportedError:
        assume(False)
    event(f"groups of {sorted(len(each.tables) for each in groups(members.catalogue))}")
    members.close()
    assert not members.catalogue.tables()
    store.close()


def near(place: str) -> str:
    return f"SELECT ?x ?l WHERE {{ STREAM :s [RANGE 1h] {{ ?x :seen ?v }} ?x :label ?l . ?x :in :{place} }}"


def asked_for(label: str) -> str:
    return f'SELECT ?x WHERE {{ STREAM :s [RANGE 1h] {{ ?x :seen ?v }} ?x :name ?n FILTER(?n = "{label}") }}'


def located(name: str, place: str) -> Quad:
    return Quad(NamedNode(E + name), NamedNode(E + "in"), NamedNode(E + place), quad(name, place).graph_name)


def populate(one: Bench) -> None:
    one.store.writer.apply(
        add=[
            each
            for k, name in enumerate("abcdef")
            for each in (quad(name, f"l{k}"), located(name, f"p{k % 4}"))
        ]
    )


def test_a_commit_is_worked_out_once_for_all_queries_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    rows_with = commit_watch.rows_with

    def counted(*given: Any) -> Any:
        asked.append(1)
        return rows_with(*given)

    monkeypatch.setattr(commit_watch, "rows_with", counted)
    with bench() as one:
        populate(one)
        for place in range(4):
            one.register(f"q{place}", near(f"p{place}"))
        one.register("same", near("p3"))
        statics = one.engine.parts.statics
        assert sorted(table.count for table in statics.tables()) == [1, 1, 2, 2]
        (group,) = groups(statics)
        assert len(group.tables) == 4
        assert describe(one.engine, "q0")["static_parts"][0]["shared_with"] == []
        assert describe(one.engine, "q3")["static_parts"][0]["shared_with"] == ["same"]
        one.push(1, *"abcdef")
        assert [told(one.engine, f"q{k}") for k in range(4)] == [
            [("insert", 1, ["l0", "l4"])],
            [("insert", 1, ["l1", "l5"])],
            [("insert", 1, ["l2"])],
            [("insert", 1, ["l3"])],
        ]
        one.store.writer.apply(add=[located("a", "p1")], remove=[located("a", "p0")])
        assert len(asked) == 2, "once before and once behind"
        assert told(one.engine, "q1")[1:] == [("insert", 2, ["l0"])]
        assert [len(told(one.engine, f"q{k}")) for k in (0, 2, 3)] == [1, 1, 1]
        one.store.writer.apply(add=[located("a", "p9")])
        assert len(asked) == 2, "no query names the place"
        for name in ("q0", "q1", "q2", "q3", "same"):
            one.engine.queries.drop(name)
        assert statics.tables() == []


def test_tables_go_with_the_last_query_that_reads_them_though_nothing_else_happens() -> None:
    with bench() as one:
        populate(one)
        statics = one.engine.parts.statics
        one.register("looked-up", near("p0"), static_tables="lookup")
        for name in ("p1", "p2", "p3"):
            one.register(name, near(name))
        one.register("ordered", "SELECT ?x ?l WHERE { ?x :label ?l } ORDER BY ?l")
        other = Registration.from_json({"query": PREFIX + near("p1")}, name="p3")
        one.engine.queries.register(other, replace=True)
        assert len(statics.tables()) == 4
        one.engine.queries.drop("looked-up")
        assert sorted(len(each.tables) for each in groups(statics)) == [1, 2]
        for name in ("p1", "p2", "p3", "ordered"):
            one.engine.queries.drop(name)
        assert statics.tables() == []
        assert groups(statics) == set()
        validate(one.engine, Registration.from_json({"query": PREFIX + near("p0")}))
        assert statics.tables() == []


def test_parts_that_are_looked_up_share_their_delta_too() -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        populate(one)
        for place in range(3):
            for how in ("table", "lookup"):
                one.register(f"{how}{place}", near(f"p{place}"), output="changes", static_tables=how)
        assert sorted(len(each.tables) for each in groups(one.engine.parts.statics)) == [3, 3]
        one.push(1, *"abcdef")
        one.store.writer.apply(add=[located("a", "p1")], remove=[located("a", "p0")])
        one.store.writer.apply(add=[located(name, "p2") for name in "abde"], remove=[located("c", "p2")])
        one.store.writer.apply(remove=[located("b", "p1")])
        one.push(2, "a", "c")
        for place in range(3):
            found = told(one.engine, f"lookup{place}")
            assert found == told(one.engine, f"table{place}")
            assert len(found) > 1


def test_equalities_that_a_filter_asks_for_are_constants_too() -> None:
    with bench() as one:
        for name, label in (("a", "x"), ("b", "y"), ("c", "z")):
            one.store.writer.update(f'{PREFIX} INSERT DATA {{ :{name} :name "{label}" }}')
        for label in "xyz":
            one.register(label, asked_for(label))
        one.register("w", asked_for("w"))
        assert len(groups(one.engine.parts.statics)) == 1
        one.push(1, "a", "b", "c", "d")
        one.store.writer.update(f'{PREFIX} INSERT DATA {{ :d :name "w" . :a :name "y" }}')
        assert [[rows for _, _, rows in told(one.engine, k)] for k in "xyzw"] == [
            [["a"]],
            [["b"], ["a"]],
            [["c"]],
            [["d"]],
        ]


def test_a_constant_that_all_have_in_common_stays_one() -> None:
    with bench() as one:
        populate(one)
        for place in range(2):
            one.register(f"q{place}", near(f"p{place}").replace("?x :label", "?x :kind :person ; :label"))
        (group,) = groups(one.engine.parts.statics)
        assert str(group.part.pattern).count("person") == 1
        assert len(group.part.vars) == len(next(iter(group.tables)).part.vars) + 1


def test_a_large_commit_has_all_tables_of_a_kind_read_anew_at_one_version() -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        populate(one)
        for place in range(4):
            one.register(f"q{place}", near(f"p{place}"), output="changes")
        one.push(1, *"abcdef")
        one.store.writer.apply(add=[located(name, f"p{place}") for name in "abc" for place in range(4)])
        one.store.writer.apply(remove=[located("d", "p3")])
        assert [told(one.engine, f"q{k}")[1:] for k in range(4)] == [
            [("insert", 2, ["l1", "l2"])],
            [("insert", 2, ["l0", "l2"])],
            [("insert", 2, ["l0", "l1"])],
            [("insert", 2, ["l0", "l1", "l2"]), ("delete", 3, ["l3"])],
        ]


@pytest.mark.always("2")
@pytest.mark.parametrize("limit", [2, 2_000])
def test_members_tell_after_crashes_what_they_tell_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    def run(folder: Path, crashes: frozenset[int]) -> dict[str, Any]:
        chance = random.Random(limit)
        life = Life(folder, ManualClock(0), static_limits=StaticLimits(keys=limit))
        for step in range(36):
            match chance.randrange(6):
                case 0 | 1:
                    life.push(1_000 + 500 * step, *chance.sample("abcd", 2))
                case 2 | 3:
                    triples = " ".join(
                        f":{chance.choice('abcd')} :in :p{chance.randrange(4)} ; "
                        f":label {chance.randrange(5)} ."
                        for _ in range(chance.choice((1, 1, 4)))
                    )
                    update(life, f"INSERT DATA {{ {triples} }}")
                case 4:
                    update(life, f"DELETE WHERE {{ :{chance.choice('abcd')} :in ?n }}")
                case 5 if step < 25:
                    place = chance.randrange(4)
                    life.register(f"q{step}", near(f"p{place}"), output="changes")
            if chance.randrange(8) == 0:
                life.checkpoint()
            if step in crashes:
                life = life.crash()
        told = comparable(life.told())
        life.stop()
        return told

    undisturbed = run(tmp_path / "u", frozenset())
    assert sum(map(len, undisturbed.values())) > 10
    assert run(tmp_path / "c", frozenset((9, 17, 28))) == undisturbed
    if limit > 2:
        monkeypatch.setattr(table_registry, "lifted", lambda form: None)
        assert run(tmp_path / "a", frozenset()) == undisturbed
