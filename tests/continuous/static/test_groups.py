"""Parts that differ in constants alone are one table: their queries see what each would see alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.static import StaticPattern
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.static import commit_delta as limits
from quadrill.continuous.static import groups, kept
from quadrill.continuous.static.base import BaseTable, MemberTable
from quadrill.continuous.static.static_inputs import StaticInputs
from quadrill.continuous.static.table_registry import TableRegistry
from quadrill.continuous.windows.engine_terms import EngineTerms
from quadrill.store.errors import QuadrillError
from quadrill.store.quads.quad_store import QuadStore

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


class Members:
    """Parts of queries of their own over one catalogue."""

    def __init__(self, store: QuadStore, parts: list[StaticPattern], factor: int) -> None:
        self.catalogue = TableRegistry(store, EngineTerms())
        self.catalogue.recomputer.threaded = False
        self.catalogue.groups.factor = factor
        self.store, self.rows, self.held = store, [], []
        for place, part in enumerate(parts):
            self.add(part, f"q{place}")

    def add(self, part: StaticPattern, name: str) -> None:
        """A query more."""
        rows = StaticInputs(
            name, [part], lambda: background(self.store), self.catalogue.terms, self.catalogue
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
            for step in rows.ready():
                for row, weight in step.changes[0].delta.items():
                    held[rows.decoded(row)] += weight
            assert rows.version == version
            assert min(held.values(), default=0) >= 0

    def close(self) -> None:
        for rows in self.rows:
            rows.close()
        # A base that nobody has come to read goes in the next turn.
        self.catalogue.advance(self.catalogue.version)
        self.catalogue.close()


@pytest.fixture
def two_are_enough() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "LEAST_MEMBERS", 2)
        yield


@pytest.mark.usefixtures("two_are_enough")
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
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
        members = Members(store, parts[:late], 1000)
        for number, quads in enumerate(history):
            store.apply(add=quads - state, remove=state - quads)
            state = quads
            members.step(store.version)
            if number == 0:
                for place, part in enumerate(parts[late:]):
                    members.add(part, f"late{place}")
            for rows, held in zip(members.rows, members.held, strict=True):
                _, (fresh,) = background(store).evaluate(rows.parts)
                assert Counter(rows.rows(0)) == Counter(fresh)
                assert +held == Counter(fresh)
    except QuadrillError:
        assume(False)
    count = sum(isinstance(rows.tables[0], MemberTable) for rows in members.rows)
    event("members" if count else "alone")
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
    one.store.apply(
        add=[
            each
            for k, name in enumerate("abcdef")
            for each in (quad(name, f"l{k}"), located(name, f"p{k % 4}"))
        ]
    )


def test_the_third_query_of_a_kind_makes_one_table_of_all() -> None:
    with bench() as one:
        populate(one)
        for place in range(3):
            one.register(f"q{place}", near(f"p{place}"))
        one.register("q3", near("p3"))
        one.register("same", near("p3"))
        (table,) = one.engine.parts.statics.tables()
        assert (table.count, len(table.members)) == (6, 4)  # type: ignore[attr-defined]
        facts = one.engine.describe("q0")["static_parts"][0]
        assert facts["group"] == {"name": table.name, "members": 4, "rows": 6, "reason": None}
        assert (facts["rows"], facts["shared_with"]) == (2, [])
        assert one.engine.describe("q3")["static_parts"][0]["shared_with"] == ["same"]
        assert "1 of 4 selections of one table of 6 rows" in str(one.engine.explain("q0"))
        one.push(1, *"abcdef")
        assert [told(one.engine, f"q{k}") for k in range(4)] == [
            [("insert", 1, ["l0", "l4"])],
            [("insert", 1, ["l1", "l5"])],
            [("insert", 1, ["l2"])],
            [("insert", 1, ["l3"])],
        ]
        one.store.apply(add=[located("a", "p1")], remove=[located("a", "p0")])
        assert told(one.engine, "q1")[1:] == [("insert", 2, ["l0"])]
        assert [len(told(one.engine, f"q{k}")) for k in (0, 2, 3)] == [1, 1, 1]
        for name in ("q0", "q1", "q2", "q3", "same"):
            one.engine.drop(name)
        one.store.apply(add=[located("a", "p2")])
        assert one.engine.parts.statics.tables() == []


def test_equalities_that_a_filter_asks_for_are_constants_too() -> None:
    with bench() as one:
        for name, label in (("a", "x"), ("b", "y"), ("c", "z")):
            one.store.update(f'{PREFIX} INSERT DATA {{ :{name} :name "{label}" }}')
        for label in "xyz":
            one.register(label, asked_for(label))
        one.register("w", asked_for("w"))
        assert len(one.engine.parts.statics.tables()) == 1
        one.push(1, "a", "b", "c", "d")
        one.store.update(f'{PREFIX} INSERT DATA {{ :d :name "w" . :a :name "y" }}')
        assert [[rows for _, _, rows in told(one.engine, k)] for k in "xyzw"] == [
            [["a"]],
            [["b"], ["a"]],
            [["c"]],
            [["d"]],
        ]


def test_a_table_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "FREE_ROWS", 0)
    monkeypatch.setattr(groups, "ROWS_A_MEMBER", 0)
    with bench() as one:
        one.store.apply(add=[located(f"x{k}", f"z{k}") for k in range(60)])
        one.store.apply(add=[quad(f"x{k}", "l") for k in range(60)])
        populate(one)
        for place in range(3):
            one.register(f"q{place}", near(f"p{place}"))
        statics = one.engine.parts.statics
        assert [type(each).__name__ for each in statics.tables()] == ["SharedTable"] * 3
        reason = one.engine.describe("q0")["static_parts"][0]["group"]["reason"]
        assert reason == "a table of all would have more than 40 rows"
        # Another attempt is made when there may be half as many more.
        one.store.apply(
            add=[located(f"y{k}", "p1") for k in range(9)] + [quad(f"y{k}", "l") for k in range(9)]
        )
        one.register("q3", near("p3"))
        one.register("own", near("z1"), static_tables="own")
        one.store.apply(add=[located("a", "p1")])
        assert sorted(type(each).__name__ for each in statics.tables()) == ["BaseTable", "SharedTable"]


def test_a_large_commit_is_read_anew_once_for_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_KEYS", 3)
    with bench() as one:
        populate(one)
        for place in range(4):
            one.register(f"q{place}", near(f"p{place}"), output="changes")
        one.push(1, *"abcdef")
        one.store.apply(add=[located(name, f"p{place}") for name in "abc" for place in range(4)])
        one.store.apply(remove=[located("d", "p3")])
        assert [told(one.engine, f"q{k}")[1:] for k in range(4)] == [
            [("insert", 2, ["l1", "l2"])],
            [("insert", 2, ["l0", "l2"])],
            [("insert", 2, ["l0", "l1"])],
            [("insert", 2, ["l0", "l1", "l2"]), ("delete", 3, ["l3"])],
        ]


@pytest.mark.parametrize("limit", [2, 2_000])
def test_members_tell_after_crashes_what_they_tell_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(limits, "MOST_KEYS", limit)

    def run(folder: Path, crashes: frozenset[int], factor: int) -> dict[str, Any]:
        chance = random.Random(limit)
        life = Life(folder, ManualClock(0), static_group_factor=factor)
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

    with_groups = run(tmp_path / "u", frozenset(), 1000)
    assert sum(map(len, with_groups.values())) > 10
    assert run(tmp_path / "c", frozenset((9, 17, 28)), 1000) == with_groups
    if limit > 2:
        assert run(tmp_path / "a", frozenset(), 0) == with_groups


def test_after_a_crash_the_table_of_a_group_is_taken_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "WORTH_S", 0)
    life = Life(tmp_path / "a", ManualClock(0))
    update(life, "INSERT DATA { :a :in :p0 ; :label 1 . :b :in :p1 ; :label 2 . :c :in :p2 ; :label 3 }")
    for place in range(4):
        life.register(f"q{place}", near(f"p{place}"), output="changes")
    life.push(1_000, "a", "b", "c")
    update(life, "INSERT DATA { :a :in :p3 }")
    life.checkpoint()
    life = life.crash()
    assert isinstance(life.engine.parts.statics.tables()[-1], BaseTable)
    update(life, "INSERT DATA { :b :in :p3 }")
    (table,) = life.engine.parts.statics.tables()
    assert (table.count, len(table.told)) == (5, 4)
    (part,) = life.engine.describe("q3")["static_parts"]
    assert (part["origin"], part["rows"]) == ("read from disk at version 2", 2)
    assert [data for _, _, data in life.told()["q3"]][-1].count('"value"') == 2
    life.stop()
