"""Distributions and their functions, against hand-computed values and numeric integration."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Store

from quadrill.continuous.uncertainty import (
    DISTRIBUTION,
    NAMESPACE,
    Normal,
    Uniform,
    custom_aggregates,
    custom_functions,
    distribution_literal,
    parse_distribution,
)
from quadrill.continuous.uncertainty import probability as p
from quadrill.continuous.uncertainty.distributions import Distribution, certain

means = st.floats(-50, 50)
normals = st.builds(Normal, means, st.floats(0.01, 100))
uniforms = st.builds(lambda low, width: Uniform(low, low + width), means, st.floats(0.1, 40))
distributions = st.one_of(normals, uniforms)


def literal(text: str) -> Literal:
    return Literal(text, datatype=DISTRIBUTION)


def density(distribution: Distribution, x: float) -> float:
    if isinstance(distribution, Normal):
        return math.exp(-((x - distribution.mean) ** 2) / (2 * distribution.variance)) / math.sqrt(
            2 * math.pi * distribution.variance
        )
    return 1 / (distribution.high - distribution.low) if distribution.low <= x <= distribution.high else 0.0


def cumulative(distribution: Distribution, x: float) -> float:
    if isinstance(distribution, Normal):
        return 0.5 * (1 + math.erf((x - distribution.mean) / math.sqrt(2 * distribution.variance)))
    return min(1.0, max(0.0, (x - distribution.low) / (distribution.high - distribution.low)))


def greater_by_midpoints(left: Distribution, right: Distribution) -> float:
    """P(left > right) by 4,000 midpoints of the left side's range."""
    if isinstance(left, Normal):
        start, end = (left.mean + sign * 8 * math.sqrt(left.variance) for sign in (-1, 1))
    else:
        start, end = left.low, left.high
    step = (end - start) / 4000
    points = (start + (index + 0.5) * step for index in range(4000))
    return sum(density(left, x) * cumulative(right, x) * step for x in points)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N(19.7, 1)", Normal(19.7, 1.0)),
        ("U(18.7,20.7)", Uniform(18.7, 20.7)),
        (" N( -1e2 , .5 ) ", Normal(-100.0, 0.5)),
        ("N(3, 0)", Normal(3.0, 0.0)),
        ("U(2, 2)", Uniform(2.0, 2.0)),
    ],
)
def test_distribution_literals_are_read(text: str, value: Distribution) -> None:
    assert parse_distribution(literal(text)) == value


@pytest.mark.parametrize(
    "text", ["N(1, -1)", "U(2, 1)", "N(1)", "N(1, 2, 3)", "B(1, 2)", "N(a, b)", "n(1, 2)", "", "N(1, 1e999)"]
)
def test_malformed_literals_are_no_distributions(text: str) -> None:
    assert parse_distribution(literal(text)) is None


def test_the_datatype_decides() -> None:
    assert parse_distribution(Literal("N(1, 1)")) is None
    assert parse_distribution(NamedNode("urn:x")) is None


def test_literals_are_written_with_the_variance() -> None:
    assert distribution_literal(Normal(0.5, 2.0)) == literal("N(0.5, 2)")
    assert distribution_literal(Uniform(-1.0, 1e21)) == literal("U(-1, 1000000000000000000000)")
    assert distribution_literal(Normal(math.inf, 1.0)) is None


def test_sums_of_normals_add_means_and_variances() -> None:
    assert p.add(Normal(1, 2), Normal(3, 4)) == Normal(4, 6)
    assert p.subtract(Normal(1, 2), Normal(3, 4)) == Normal(-2, 6)


def test_a_number_shifts_a_distribution() -> None:
    assert p.add(Normal(1, 2), certain(3)) == Normal(4, 2)
    assert p.subtract(Uniform(1, 2), certain(3)) == Uniform(-2, -1)
    assert p.subtract(certain(3), Uniform(1, 2)) == Uniform(1, 2)


def test_a_sum_that_is_neither_normal_nor_uniform_is_missing() -> None:
    assert p.add(Uniform(0, 1), Uniform(0, 1)) is None
    assert p.add(Normal(0, 1), Uniform(0, 1)) is None


def test_a_normal_against_a_number() -> None:
    assert p.greater(Normal(0, 1), certain(0)) == 0.5
    assert p.greater(Normal(20, 4), certain(18)) == pytest.approx(0.8413447460685429, abs=1e-15)
    assert p.greater(certain(18), Normal(20, 4)) == pytest.approx(1 - 0.8413447460685429, abs=1e-15)


def test_the_far_tail_keeps_its_digits() -> None:
    assert p.greater(Normal(0, 1), certain(10)) == pytest.approx(7.61985302416053e-24, rel=1e-12)
    assert p.between(Normal(0, 1), certain(10), certain(11)) == pytest.approx(7.61966e-24, rel=1e-5)


def test_a_uniform_against_a_number() -> None:
    assert p.greater(Uniform(0, 10), certain(4)) == 0.6
    assert p.greater(Uniform(0, 10), certain(12)) == 0.0
    assert p.greater(certain(4), Uniform(0, 10)) == 0.4


def test_uniform_against_uniform() -> None:
    assert p.greater(Uniform(0, 2), Uniform(1, 4)) == pytest.approx(1 / 12)
    assert p.greater(Uniform(0, 1), Uniform(0, 1)) == 0.5
    assert p.greater(Uniform(5, 6), Uniform(0, 1)) == 1.0


def test_certain_values_compare_exactly() -> None:
    assert p.greater(certain(2), certain(2)) == 0.0
    assert p.greater_or_equal(certain(2), certain(2)) == 1.0
    assert p.greater_or_equal(Uniform(2, 2), Normal(2, 0)) == 1.0
    assert p.between(certain(2), certain(2), certain(3)) == 0.0


@given(distributions, distributions)
def test_comparisons_agree_with_numeric_integration(left: Distribution, right: Distribution) -> None:
    assert p.greater(left, right) == pytest.approx(greater_by_midpoints(left, right), abs=2e-3)
    assert p.greater(left, right) + p.greater(right, left) == pytest.approx(1.0, abs=1e-9)


@given(distributions, means, st.floats(0, 20))
def test_between_numbers_is_the_integrated_density(value: Distribution, low: float, width: float) -> None:
    expected = cumulative(value, low + width) - cumulative(value, low)
    assert p.between(value, certain(low), certain(low + width)) == pytest.approx(max(0.0, expected), abs=1e-9)


@given(distributions, distributions, means)
def test_between_an_uncertain_bound_and_a_far_one_is_the_comparison(
    value: Distribution, bound: Distribution, far: float
) -> None:
    assert p.between(value, bound, certain(1e6 + far)) == pytest.approx(p.greater(value, bound), abs=1e-6)
    assert p.between(value, certain(-1e6 + far), bound) == pytest.approx(p.greater(bound, value), abs=1e-6)


def test_between_three_uncertain_values() -> None:
    same = Normal(0, 1)
    assert p.between(same, same, same) == pytest.approx(1 / 6, abs=1e-9)
    assert p.between(Uniform(0, 1), Uniform(0, 1), Uniform(0, 1)) == pytest.approx(1 / 6, abs=1e-9)


def call(expression: str) -> str | None:
    store = Store()
    text = f"PREFIX rspu: <{NAMESPACE}> SELECT ({expression} AS ?r) {{}}"
    row = next(
        iter(
            store.query(
                text,
                custom_functions=dict(custom_functions()),
                custom_aggregate_functions=dict(custom_aggregates()),
            )
        )
    )
    return None if row["r"] is None else row["r"].value


NORMAL = '"N(20, 4)"^^rspu:distribution'
UNIFORM = '"U(0, 10)"^^rspu:distribution'


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"rspu:add({NORMAL}, 0.5)", "N(20.5, 4)"),
        (f"rspu:add({NORMAL}, {NORMAL})", "N(40, 8)"),
        (f"rspu:subtract({UNIFORM}, 1)", "U(-1, 9)"),
        (f"rspu:greaterThan({UNIFORM}, 4)", "0.6"),
        (f"rspu:lessThan({UNIFORM}, 4)", "0.4"),
        (f"rspu:between({UNIFORM}, 2, 5e0)", "0.3"),
        (f"rspu:greaterThanOrEqual({NORMAL}, 20)", "0.5"),
        (f"rspu:lessThanOrEqual({NORMAL}, {NORMAL})", "0.5"),
        (f"rspu:add(1, {NORMAL})", None),
        (f"rspu:add({NORMAL}, 'text')", None),
        (f"rspu:add({NORMAL})", None),
        (f"rspu:greaterThan({NORMAL}, ?unbound)", None),
        (f"rspu:add({NORMAL}, {UNIFORM})", None),
    ],
)
def test_the_functions_in_sparql(expression: str, value: str | None) -> None:
    assert call(expression) == value


def test_the_statistical_aggregates_in_sparql() -> None:
    store = Store()
    row = next(
        iter(
            store.query(
                "SELECT (<urn:quadrill:aggregate:median>(?x) AS ?m)"
                " (<urn:quadrill:aggregate:percentile:75>(?x) AS ?p)"
                " (<urn:quadrill:aggregate:variance>(?x) AS ?v) { VALUES ?x { 1 3 5 } }",
                custom_aggregate_functions=dict(custom_aggregates()),
            )
        )
    )
    assert [row[name].value for name in "mpv"] == ["3", "4", "4"]
