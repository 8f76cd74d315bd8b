"""Spark's tables are the store's, as multisets: chosen and random patterns over random data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.reference.background import static_text
from quadrill.continuous.spark import SparkTables, choose
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, PredicateFacts, make_mirror
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads import QuadStore

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")

PREDICATES = [NamedNode(f"http://ex.org/p{k}") for k in range(4)]
NODES = [NamedNode(f"http://ex.org/n{k}") for k in range(8)]
VARS = [n.Var(name) for name in "abcd"]
XSD = "http://www.w3.org/2001/XMLSchema#"


def triple(subject: Any, predicate: Any, object: Any) -> n.TriplePattern:
    return n.TriplePattern(subject, predicate, object)


def random_quads(random: Random, count: int) -> list[Quad]:
    objects = [
        *NODES,
        Literal('a "quoted"\n text'),
        Literal("1", datatype=NamedNode(f"{XSD}integer")),
        Literal("01.0", datatype=NamedNode(f"{XSD}decimal")),
        Literal("x", language="en"),
        BlankNode("b1"),
        Triple(NODES[0], PREDICATES[0], Literal("q")),
    ]
    graphs = [DefaultGraph(), DefaultGraph(), NamedNode("http://ex.org/g1"), NamedNode("http://ex.org/g2")]
    subjects = [*NODES, BlankNode("b1"), BlankNode("b2")]
    return [
        Quad(
            random.choice(subjects), random.choice(PREDICATES), random.choice(objects), random.choice(graphs)
        )
        for _ in range(count)
    ]


def random_bgp(random: Random) -> n.Algebra:
    def place(extra: list[Any]) -> Any:
        return random.choice(VARS) if random.random() < 0.8 else random.choice(extra)

    return n.Bgp(
        tuple(
            triple(place(NODES), random.choice([*PREDICATES, *PREDICATES, n.Var("p")]), place(NODES))
            for _ in range(random.randint(1, 3))
        )
    )


def random_pattern(random: Random, depth: int) -> n.Algebra:
    if depth == 0:
        return random_bgp(random)
    inner, other = random_pattern(random, depth - 1), random_bgp(random)
    names = sorted(name for name in in_scope(inner) if name in "abcd")
    variables = [n.Var(name) for name in names]
    match random.choice(["join", "left", "minus", "union", "filter", "distinct", "group", "graph", "having"]):
        case "join":
            return n.Join(inner, other)
        case "left":
            return n.LeftJoin(inner, other)
        case "minus":
            return n.Minus(inner, other)
        case "union":
            return n.Union(inner, other)
        case "filter" if variables:
            target: Any = random.choice([*variables, n.Constant(NODES[0])])
            name = random.choice(["=", "!="])
            return n.Filter(n.Call(name, (random.choice(variables), target)), inner)
        case "distinct" if variables:
            kept = tuple(random.sample(variables, random.randint(1, len(variables))))
            return n.Distinct(n.Project(inner, kept))
        case "group" | "having" as how if variables:
            key, counted = random.choice(variables), random.choice(variables)
            counts = (
                (n.Var("n"), n.Aggregate("COUNT", None)),
                (n.Var("m"), n.Aggregate("COUNT", counted, distinct=True)),
            )
            group: n.Algebra = n.Group(inner, (key,), counts)
            if how == "having":
                two = n.Constant(Literal("2", datatype=NamedNode(f"{XSD}integer")))
                group = n.Filter(n.Call(random.choice([">", "<=", "="]), (n.Var("n"), two)), group)
            return n.Project(group, (key, n.Var("n"), n.Var("m")))
        case "graph" if isinstance(inner, n.Bgp):
            return n.Graph(random.choice([NamedNode("http://ex.org/g1"), n.Var("g")]), inner)
    return inner


CHOSEN: list[n.Algebra] = [
    n.LeftJoin(
        n.Bgp((triple(VARS[0], PREDICATES[0], VARS[1]),)),
        n.Bgp((triple(VARS[0], PREDICATES[1], VARS[2]),)),
        n.Call("sameTerm", (VARS[1], VARS[2])),
    ),
    n.Path(VARS[0], n.Sequence(n.Link(PREDICATES[0]), n.Inverse(n.Link(PREDICATES[1]))), VARS[1]),
    n.Bgp((triple(VARS[0], PREDICATES[0], VARS[0]),)),
    n.Group(
        n.Bgp((triple(VARS[0], PREDICATES[0], NODES[7]),)), (), ((n.Var("n"), n.Aggregate("COUNT", None)),)
    ),
    n.Join(
        n.Values((VARS[0],), ((NODES[0],), (NODES[0],))), n.Bgp((triple(VARS[0], PREDICATES[0], VARS[1]),))
    ),
    n.Bgp((triple(VARS[0], NamedNode("http://ex.org/unknown"), VARS[1]),)),
    n.Graph(n.Var("a"), n.Bgp((triple(VARS[0], PREDICATES[0], VARS[1]),))),
    n.Bgp((triple(NODES[0], PREDICATES[0], Triple(NODES[0], PREDICATES[0], Literal("q"))),)),
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_spark
def test_spark_gives_the_rows_of_the_store(tmp_path: Path) -> None:
    random = Random(8)
    store = QuadStore.open(None)
    store.apply(add=random_quads(random, 300))
    mirror = make_mirror(store, tmp_path / "mirror", memory="1g")
    store.apply(add=random_quads(random, 40), remove=random.sample(store.quads_for_pattern(), 40))
    patterns = CHOSEN + [random_pattern(random, random.randint(0, 3)) for _ in range(9)]
    parts = [
        (pattern, tuple(n.Var(name) for name in sorted(in_scope(pattern)) if not name.startswith("_:")))
        for pattern in patterns
    ]
    version, tables = SparkTables(mirror, memory="1g").tables(store, parts)
    assert version == store.version
    compared = 0
    for (pattern, columns), table in zip(parts, tables, strict=True):
        if isinstance(table, UnsupportedError):
            assert pattern not in CHOSEN, table
            continue
        _, rows = store.solutions(static_text(pattern, columns, None))
        assert Counter(table) == Counter(row[: len(columns)] for row in rows), pattern
        compared += 1
    assert compared >= 13


def facts(rows: int) -> dict[str, PredicateFacts]:
    return {each.value: PredicateFacts(key, rows, rows, rows) for key, each in enumerate(PREDICATES)}


def test_the_rule_gives_spark_scans_and_self_joins_and_the_store_look_ups() -> None:
    scan = n.Bgp((triple(VARS[0], PREDICATES[0], VARS[1]),))
    join = n.Bgp((triple(VARS[0], PREDICATES[0], VARS[1]), triple(VARS[0], PREDICATES[0], VARS[2])))
    look_up = n.Bgp((triple(VARS[0], PREDICATES[0], NODES[0]),))
    assert choose(scan, None).engine == "oxigraph"
    assert choose(scan, facts(2_000_000)).engine == "oxigraph"
    assert choose(join, facts(2_000_000)).engine == "spark"
    assert "joins a predicate of 2,000,000 triples with itself" in choose(join, facts(2_000_000)).reason
    assert choose(scan, facts(9_000_000)).engine == "spark"
    assert choose(look_up, facts(9_000_000)).engine == "oxigraph"
    assert choose(look_up, facts(9_000_000), "spark").engine == "spark"
    assert choose(scan, facts(9_000_000), "oxigraph").engine == "oxigraph"


def test_a_stale_mirror_is_refused(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    store.bulk_extend([Quad(NODES[0], PREDICATES[0], NODES[1])])
    with pytest.raises(UnsupportedError, match="stale"):
        SparkTables(Mirror(tmp_path, 0, {})).tables(store, [(n.Bgp(), ())])
