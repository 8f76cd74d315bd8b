"""BINDs that may wait are evaluated behind the joins of their group, others stay where they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import all_nodes
from quadrill.continuous.algebra.lazy import defer_binds
from quadrill.continuous.algebra.nodes import Algebra
from quadrill.continuous.language import parse
from quadrill.continuous.language.analysis import Analysis
from tests.continuous.plan import random_queries as r
from tests.continuous.plan.test_native_oracle import agree_throughout
from tests.examples import examples

HEAVY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
WINDOW = "STREAM :s [NOW] { ?x :v ?v %s }"
OTHER = "STREAM :u [RANGE 10s] { ?y :w ?x ; :k ?k }"


def clocked(pattern: str, select: str = "*") -> Algebra:
    query = parse(f"PREFIX : <http://x/> SELECT {select} {{ {pattern} }}", dialect="cqels")
    return Analysis(query).clocked


def waits(root: Algebra, name: str = "d") -> bool:
    """True when no join stands above the BIND of a variable."""
    (bind,) = (each for each in all_nodes(root) if isinstance(each, n.Extend) and each.var.name == name)
    joins = [each for each in all_nodes(root) if isinstance(each, n.Join)]
    return bool(joins) and not any(bind in all_nodes(each) for each in joins)


@pytest.mark.parametrize(
    "pattern",
    [
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER,
        OTHER + WINDOW % "BIND(?v * 2 AS ?d)",
        WINDOW % "BIND(?v * 2 AS ?d) FILTER(?v > 3)" + OTHER,
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "FILTER(?v > ?k)",
        WINDOW % "BIND(?v * 2 AS ?c) BIND(?c + 1 AS ?d)" + OTHER,
        WINDOW % "BIND(?v * 2 AS ?d) OPTIONAL { ?x :o ?o }" + OTHER,
        WINDOW % "BIND(?v * 2 AS ?d)" + "?x :in ?r",
        "STREAM :s [NOW] { GRAPH ?g { ?x :v ?v BIND(?v * 2 AS ?d) } }" + OTHER,
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "MINUS { ?x :bad ?b }",
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "OPTIONAL { ?y :note ?d2 }",
        "{ SELECT ?x ?d { " + WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "} }",
    ],
)
def test_a_bind_that_nothing_uses_sooner_waits_for_the_joins(pattern: str) -> None:
    assert waits(clocked(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        # A join, a filter or a key uses its variable.
        WINDOW % "BIND(?v * 2 AS ?d)" + "STREAM :u [RANGE 10s] { ?x :w ?d }",
        WINDOW % "BIND(?v * 2 AS ?d) FILTER(?d > 3)" + OTHER,
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "FILTER(?d > ?k)",
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "FILTER NOT EXISTS { ?y :seen ?d }",
        WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "OPTIONAL { ?y :note ?o FILTER(?o > ?d) }",
        WINDOW % "BIND(?v * 2 AS ?d) BIND(?d + 1 AS ?e) FILTER(?e > 3)" + OTHER,
        # It has a value of its own for each evaluation or row, or sees another dataset elsewhere.
        WINDOW % "BIND(NOW() AS ?d)" + OTHER,
        WINDOW % "BIND(RAND() AS ?d)" + OTHER,
        WINDOW % "BIND(UUID() AS ?d)" + OTHER,
        WINDOW % "BIND(BNODE() AS ?d)" + OTHER,
        WINDOW % "BIND(EXISTS { ?x :w ?w } AS ?d)" + OTHER,
        # Another side of the join, or the graph's name, would give its variables a value.
        WINDOW % "OPTIONAL { ?x :o ?k } BIND(COALESCE(?k, 0) AS ?d)" + OTHER,
        # It is not there for each row.
        "{ " + WINDOW % "BIND(?v * 2 AS ?d)" + " } UNION { STREAM :s [NOW] { ?x :z ?z } } " + OTHER,
        "{ SELECT ?d ?x { " + WINDOW % "BIND(?v * 2 AS ?d)" + "} }" + OTHER,
        OTHER + "OPTIONAL { " + WINDOW % "BIND(?v * 2 AS ?d)" + "}" + "?y :in ?r",
    ],
)
def test_a_bind_that_could_get_another_value_or_is_used_sooner_stays(pattern: str) -> None:
    assert not waits(clocked(pattern))


def test_a_key_keeps_its_bind_in_the_window() -> None:
    grouped = WINDOW % "BIND(?v * 2 AS ?d)" + OTHER + "} GROUP BY ?d #"
    query = f"PREFIX : <http://x/> SELECT ?d (COUNT(*) AS ?n) {{ {grouped}\n"
    assert not waits(Analysis(parse(query, dialect="cqels")).clocked)


def test_a_bind_follows_the_bind_of_the_other_side_whose_variable_it_must_not_see() -> None:
    other = OTHER.replace("}", "BIND(?k + 1 AS ?e) }")
    root = clocked(other + WINDOW % "BIND(COALESCE(?e, ?v) AS ?d)")
    assert waits(root, "d")
    assert waits(root, "e")


joined = r.windows(1).flatmap(lambda each: r.extended(each, r.expressions(None)))


@settings(max_examples=examples(120), **HEAVY)
@given(r.patterns(1).flatmap(lambda left: joined.map(lambda right: n.Join(left, right))), r.histories)
def test_the_rows_are_those_of_the_binds_in_their_places(pattern: Algebra, history: Any) -> None:
    query = r.query_of(pattern)
    agree_throughout(query, history)
    assert defer_binds(defer_binds(pattern)) == defer_binds(pattern)
