"""Spark's rows are the store's, as multisets: chosen and random patterns over random data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store, Triple

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.columnar import Graphs
from quadrill.continuous.algebra.show import show
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.spark import SparkEngine, SparkTables, choose
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, PredicateFacts
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.spark.comparison import QuadsInMemory, by_spark, by_store
from tests.continuous.spark.random_patterns import (
    DATES,
    DOUBLES,
    GRAPHS,
    NODES,
    NUMBERS,
    PREDICATES,
    TIMES,
    VARS,
    Patterns,
    random_quads,
)

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")
MOST_ROWS = 20_000
A, B, C, D, _ = VARS


def triple(subject: Any, predicate: int, object_: Any) -> n.TriplePattern:
    return n.TriplePattern(subject, PREDICATES[predicate], object_)


def bgp(*patterns: n.TriplePattern) -> n.Bgp:
    return n.Bgp(patterns)


def compare(operator: str, left: Any, right: Any) -> n.Call:
    return n.Call(operator, tuple(x if isinstance(x, n.Var) else n.Constant(x) for x in (left, right)))


def grouped(name: str, **how: Any) -> n.Algebra:
    return n.Group(bgp(triple(A, 2, B)), (A,), ((n.Var("r"), n.Aggregate(name, B, **how)),))


ABSENT = NamedNode("http://ex.org/absent")
ANY, NUMERIC, MIXED = bgp(triple(A, 4, B)), bgp(triple(A, 1, B)), bgp(triple(A, 2, B))
CHOSEN: dict[str, n.Algebra] = {
    "numbers compared in the scan": n.Filter(compare(">=", B, NUMBERS[2]), NUMERIC),
    "numbers and doubles compared in the scan": n.Filter(compare("<", B, NUMBERS[3]), MIXED),
    "a decimal bound": n.Filter(compare("=", NUMBERS[5], B), MIXED),
    "a double bound": n.Filter(compare("<=", B, DOUBLES[0]), MIXED),
    "zoned times compared in the scan": n.Filter(compare("<", B, TIMES[2]), bgp(triple(A, 3, B))),
    "dates beside times": n.Filter(compare(">=", B, DATES[1]), bgp(triple(A, 3, B))),
    "every kind of literal": n.Filter(compare("<", B, NUMBERS[3]), ANY),
    "not equal to a number": n.Filter(compare("!=", B, NUMBERS[2]), ANY),
    "optional with a native condition": n.LeftJoin(
        bgp(triple(A, 0, B)), bgp(triple(A, 1, C)), n.Call("SAMETERM", (B, C))
    ),
    "optional with a computed condition": n.LeftJoin(NUMERIC, bgp(triple(C, 1, D)), compare("<", B, D)),
    "a join over variables that may be unbound": n.Join(
        n.LeftJoin(bgp(triple(A, 0, B)), bgp(triple(B, 0, C))), n.LeftJoin(ANY, bgp(triple(B, 0, C)))
    ),
    "minus over a variable that may be unbound": n.Minus(
        n.LeftJoin(ANY, bgp(triple(B, 1, C))), bgp(triple(A, 0, D), triple(D, 1, C))
    ),
    "minus that shares nothing": n.Minus(bgp(triple(A, 0, B)), bgp(triple(C, 0, D))),
    "not exists with a condition on both sides": n.Filter(
        n.Exists(n.Filter(compare(">", D, B), bgp(triple(C, 1, D))), negated=True), NUMERIC
    ),
    "exists inside an expression": n.Filter(
        n.Call("||", (n.Exists(bgp(triple(B, 0, C))), compare("=", A, NODES[0]))), bgp(triple(A, 0, B))
    ),
    "bind and arithmetic with errors": n.Extend(MIXED, C, n.Call("+", (B, n.Constant(NUMBERS[2])))),
    "values with undef": n.Join(n.Values((A, B), ((NODES[0], None), (None, NUMBERS[2]))), ANY),
    "sum": grouped("SUM"),
    "sum distinct": grouped("SUM", distinct=True),
    "avg": grouped("AVG"),
    "min": grouped("MIN"),
    "max": grouped("MAX"),
    "sample": grouped("SAMPLE"),
    "group_concat": n.Group(
        bgp(triple(A, 0, B)),
        (),
        ((n.Var("r"), n.Aggregate("GROUP_CONCAT", n.Call("STR", (B,)), separator="|")),),
    ),
    "count distinct of rows": n.Group(
        n.LeftJoin(bgp(triple(A, 0, B)), bgp(triple(B, 0, C))),
        (A,),
        ((n.Var("r"), n.Aggregate("COUNT", None, distinct=True)),),
    ),
    "one group over nothing": n.Group(
        bgp(triple(A, 0, NODES[5]), triple(A, 1, NODES[5])),
        (),
        ((n.Var("r"), n.Aggregate("COUNT", None)), (n.Var("s"), n.Aggregate("SUM", A))),
    ),
    "having": n.Filter(
        compare(">", n.Var("r"), NUMBERS[2]),
        n.Group(ANY, (A,), ((n.Var("r"), n.Aggregate("COUNT", None)),)),
    ),
    "limit with ties": n.Slice(
        n.Project(n.OrderBy(ANY, (n.OrderCondition(B, True),)), (A, B)), offset=2, limit=5
    ),
    "limit without an order": n.Slice(n.Project(ANY, (A, B)), limit=4),
    "sequence and inverse": n.Path(A, n.Sequence(n.Link(PREDICATES[0]), n.Inverse(n.Link(PREDICATES[0]))), B),
    "alternative": n.Path(A, n.Alternative(n.Link(PREDICATES[0]), n.Link(PREDICATES[4])), B),
    "zero or one": n.Path(A, n.ZeroOrOne(n.Link(PREDICATES[0])), B),
    "one or more": n.Path(A, n.OneOrMore(n.Link(PREDICATES[0])), B),
    "zero or more from a term": n.Path(NODES[0], n.ZeroOrMore(n.Link(PREDICATES[0])), B),
    "zero or more from what is no node": n.Path(ABSENT, n.ZeroOrMore(n.Link(PREDICATES[0])), B),
    "zero or one to what is no node": n.Path(A, n.ZeroOrOne(n.Link(PREDICATES[0])), ABSENT),
    "two paths of length zero from a term": n.Path(
        NODES[0], n.Sequence(n.ZeroOrOne(n.Link(PREDICATES[0])), n.ZeroOrMore(n.Link(PREDICATES[4]))), B
    ),
    "negated set": n.Path(A, n.NegatedSet((PREDICATES[0],), (PREDICATES[1],)), B),
    "a path in every graph": n.Graph(n.Var("g"), n.Path(A, n.ZeroOrMore(n.Link(PREDICATES[0])), B)),
    "a graph's name as a subject": n.Graph(A, bgp(triple(A, 0, B))),
    "a subject that is its object": bgp(triple(A, 0, A)),
    "an unknown predicate": bgp(n.TriplePattern(A, NamedNode("http://ex.org/unknown"), B)),
    "a triple term": bgp(triple(A, 4, Triple(NODES[0], PREDICATES[0], Literal("q")))),
    "a number as a query writes it": bgp(
        triple(A, 1, Literal("01", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")))
    ),
    "variables that differ in case": bgp(triple(n.Var("x"), 0, n.Var("X"))),
}


QUICK = (
    "numbers and doubles compared in the scan",
    "zoned times compared in the scan",
    "optional with a computed condition",
    "minus over a variable that may be unbound",
    "exists inside an expression",
    "sum distinct",
    "limit with ties",
)


def columns_of(pattern: n.Algebra) -> tuple[n.Var, ...]:
    return tuple(n.Var(name) for name in sorted(in_scope(pattern)) if not name.startswith("_:"))


@pytest.fixture(scope="module")
def chosen_data(spark: Any) -> tuple[Store, QuadsInMemory]:
    store = Store()
    store.extend(random_quads(Random(8), 160))
    return store, QuadsInMemory(spark, store)


def compared(data: tuple[Store, QuadsInMemory], pattern: n.Algebra, dataset: Graphs | None = None) -> int:
    """Assert that both give the same rows; returns how many there are, -1 where they are too many."""
    store, quads = data
    columns = columns_of(pattern)
    expected = by_store(store, pattern, columns)
    if expected.total() > MOST_ROWS:
        return -1
    assert by_spark(quads, pattern, columns, dataset or Graphs(), None) == expected, show(pattern)
    return expected.total()


@pytest.mark.spark
@needs_spark
def test_patterns_of_many_kinds_give_the_rows_of_the_store(chosen_data: tuple[Store, QuadsInMemory]) -> None:
    for name in QUICK:
        assert compared(chosen_data, CHOSEN[name]) > 0, name


@pytest.mark.spark
@pytest.mark.slow
@needs_spark
@pytest.mark.parametrize("name", CHOSEN)
def test_a_chosen_pattern_gives_the_rows_of_the_store(
    chosen_data: tuple[Store, QuadsInMemory], name: str
) -> None:
    assert compared(chosen_data, CHOSEN[name]) >= 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@needs_spark
def test_random_patterns_give_the_rows_of_the_store(spark: Any) -> None:
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.lists(st.integers(0, 2**32), min_size=20, max_size=20))
    def differ(data_seed: int, seeds: list[int]) -> None:
        store = Store()
        store.extend(random_quads(Random(data_seed), 130))
        data = store, QuadsInMemory(spark, store)
        for seed in seeds:
            random = Random(seed)
            pattern = Patterns(random).pattern(random.randint(1, 4))
            try:
                compared(data, pattern)
            except UnsupportedError:
                continue
            except SyntaxError:
                continue  # a random text that SPARQL does not allow

    differ()


@pytest.mark.spark
@pytest.mark.slow
@needs_spark
def test_the_graphs_of_a_query_are_those_of_its_dataset_clause(
    chosen_data: tuple[Store, QuadsInMemory],
) -> None:
    store, quads = chosen_data
    pattern = n.Union(bgp(triple(A, 0, B)), n.Graph(n.Var("g"), bgp(triple(A, 1, B))))
    columns = columns_of(pattern)
    one = by_spark(quads, pattern, columns, Graphs((str(GRAPHS[1]),), (str(GRAPHS[0]),)), None)
    assert one == by_store(store, pattern, columns, default=GRAPHS[1:], named=GRAPHS[:1])
    assert one.total() > 0
    with pytest.raises(UnsupportedError, match="FROM several graphs"):
        by_spark(quads, pattern, columns, Graphs(tuple(map(str, GRAPHS)), ()), None)
    nothing = by_spark(quads, pattern, columns, Graphs((), ()), None)
    assert nothing.total() == 0


@pytest.mark.spark
@pytest.mark.slow
@needs_spark
@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (bgp(n.TriplePattern(A, PREDICATES[0], n.TripleTerm(B, C, D))), "a triple term with variables"),
        (n.Graph(n.Var("g"), n.Slice(ANY, limit=1)), "a sub-query, MINUS or inline data in GRAPH"),
        (n.Graph(GRAPHS[0], n.Bgp()), "GRAPH around an empty pattern"),
        (
            n.Graph(GRAPHS[0], n.Path(ABSENT, n.ZeroOrMore(n.Link(PREDICATES[0])), B)),
            "a path of length zero from a constant in GRAPH",
        ),
        (n.Service(NODES[0], ANY), "SERVICE"),
        (n.Extend(ANY, C, n.Call("RAND", ())), "RAND"),
        (n.Filter(n.Exists(n.Slice(ANY, limit=1)), ANY), "EXISTS over a pattern"),
    ],
)
def test_what_has_no_exact_form_is_refused_by_name(
    chosen_data: tuple[Store, QuadsInMemory], pattern: n.Algebra, construct: str
) -> None:
    with pytest.raises(UnsupportedError, match=construct):
        by_spark(chosen_data[1], pattern, columns_of(pattern), Graphs(), None)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_spark
def test_a_mirror_with_later_commits_gives_the_rows_of_the_store(tmp_path: Path) -> None:
    random = Random(8)
    store = QuadStore.open(None)
    # At first every object of the predicate is an IRI; a number comes only with a later commit.
    store.writer.apply(add=[quad for quad in random_quads(random, 200) if quad.predicate != PREDICATES[4]])
    store.writer.apply(add=[Quad(NODES[0], PREDICATES[4], NODES[1])])
    mirror = make_mirror(store, tmp_path / "mirror", memory="1g")
    before = store.reader.version
    store.writer.apply(
        add=random_quads(random, 40), remove=random.sample(store.reader.quads_for_pattern(), 40)
    )
    names = [name for name in CHOSEN if "path" not in name][:24]
    parts = [(CHOSEN[name], columns_of(CHOSEN[name])) for name in names]
    version, tables = SparkTables(mirror, memory="1g").tables(store, parts)
    assert version == store.reader.version
    now = Store()
    now.extend(store.reader.quads_for_pattern())
    for name, (pattern, columns), table in zip(names, parts, tables, strict=True):
        assert not isinstance(table, UnsupportedError), (name, table)
        assert Counter(table) == by_store(now, pattern, columns), name
    old, (rows,) = SparkTables(mirror, memory="1g").tables(
        store, [(bgp(triple(A, 4, B)), (A, B))], version=before
    )
    assert (old, rows) == (before, [(NODES[0], NODES[1])])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_spark
def test_a_mirror_that_is_swapped_while_it_is_read_gives_the_rows_of_the_store(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=[Quad(NODES[0], PREDICATES[0], NODES[1])])
    before = make_mirror(store, tmp_path / "mirror", memory="1g")
    store.writer.apply(add=[Quad(NODES[1], PREDICATES[0], NODES[2])])
    make_mirror(store, tmp_path / "mirror", memory="1g")
    # Whoever found the mirror before has changes that the new one has in its files.
    _, (rows,) = SparkTables(before, memory="1g").tables(store, [(bgp(triple(A, 0, B)), (A, B))])
    assert not isinstance(rows, UnsupportedError)
    assert sorted(rows, key=str) == [(NODES[0], NODES[1]), (NODES[1], NODES[2])]


def facts(rows: int) -> dict[str, PredicateFacts]:
    return {each.value: PredicateFacts(key, rows, rows, rows) for key, each in enumerate(PREDICATES)}


def test_the_rule_gives_spark_scans_and_self_joins_and_the_store_look_ups() -> None:
    scan = bgp(triple(A, 0, B))
    join = bgp(triple(A, 0, B), triple(A, 0, C))
    look_up = bgp(triple(A, 0, NODES[0]))
    assert choose(scan, None).engine == "oxigraph"
    assert choose(scan, facts(2_000_000)).engine == "oxigraph"
    assert choose(join, facts(2_000_000)).engine == "spark"
    assert "joins a predicate of 2,000,000 triples with itself" in choose(join, facts(2_000_000)).reason
    assert choose(scan, facts(9_000_000)).engine == "oxigraph"
    assert choose(scan, facts(30_000_000)).engine == "spark"
    assert choose(look_up, facts(9_000_000)).engine == "oxigraph"
    assert choose(look_up, facts(9_000_000), "spark").engine == "spark"
    assert choose(scan, facts(9_000_000), "oxigraph").engine == "oxigraph"
    assert choose(n.Service(NODES[0], scan), facts(9_000_000), "spark").engine == "oxigraph"


def test_spark_works_beside_the_mirror_and_removes_what_a_killed_process_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "spark-part-1-x"
    left.mkdir()
    seen: list[Path] = []

    def run(arguments: list[str], *_: Any, **__: Any) -> None:
        folder = Path(arguments[0])
        seen.append(folder)
        assert sorted(each.name for each in folder.iterdir()) == ["added.nq", "parts.pickle", "removed.nq"]
        (folder / "0.refused").write_text("a test")

    monkeypatch.setattr("quadrill.continuous.spark.evaluate.run_child", run)
    store = QuadStore.open(None)
    quads = tmp_path / "mirror" / "quads"
    quads.mkdir(parents=True)
    mirror = Mirror(quads.parent, quads, 0, {})
    _, (told,) = SparkTables(mirror).tables(store, [(n.Bgp(), ())])
    assert isinstance(told, UnsupportedError)
    # The workers of a cluster see the data folder, not the driver's folder of temporary files.
    assert [folder.parent for folder in seen] == [tmp_path]
    assert list(tmp_path.iterdir()) == [mirror.folder]


def test_a_stale_or_missing_mirror_is_refused(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    store.writer.bulk_extend([Quad(NODES[0], PREDICATES[0], NODES[1])])
    with pytest.raises(UnsupportedError, match="stale"):
        SparkTables(Mirror(tmp_path, tmp_path / "quads", 0, {})).tables(store, [(n.Bgp(), ())])
    engine = SparkEngine(tmp_path)
    assert engine.choose(bgp(triple(A, 0, B)), "spark").engine == "oxigraph"
    with pytest.raises(UnsupportedError, match="no mirror"):
        engine.rows(store, 1, n.Bgp(), (), Graphs(), None)
